"""The client of the fork server: `python -S -E -s fork_client.py SOCKET MODULE ARGUMENTS`.

The client hands its streams, folder and environment to the server, waits, and ends as the command did. Without a
server the client becomes the command itself.

A lit suite starts a client for each command, so that the client imports nothing but modules in C.
"""

import _socket
import os
import sys


def message(module: str, arguments: list[str]) -> bytes:
    """A request as fields that end with a zero byte: module, folder, number of arguments, arguments, environment."""
    environment = (f"{name}={value}" for name, value in os.environ.items())
    fields = (module, os.getcwd(), str(len(arguments)), *arguments, *environment)
    return b"".join(os.fsencode(field) + b"\0" for field in fields)


def ask(path: str, module: str, arguments: list[str]) -> int:
    """Runs a command on the server; returns its exit status, negative for a signal.

    Raises:
        OSError: the server does not run.
    """
    text = message(module, arguments)
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(path)
    connection.sendmsg([len(text).to_bytes(4, "little")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    connection.sendall(text)
    answer = connection.recv(4, _socket.MSG_WAITALL)
    if len(answer) < 4:
        raise ConnectionError("the server ended")
    return int.from_bytes(answer, "little", signed=True)


def main() -> None:
    """Runs a command and exits with its status; does not return."""
    path, module, *arguments = sys.argv[1:]
    try:
        status = ask(path, module, arguments)
    except (ConnectionRefusedError, FileNotFoundError):
        os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main()
