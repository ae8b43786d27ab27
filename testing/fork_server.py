"""A fork server for the commands of a lit suite: a process with the commands loaded forks for each run.

The server's file is also its client: `python fork_server.py SOCKET MODULE ARGUMENTS` hands its streams, folder
and environment to the server, waits, and ends as the command did. Without a server it becomes the command
itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from typing import TypedDict


class Request(TypedDict):
    """A command of a client."""

    module: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]


def start(path: str, modules: list[str], environment: dict[str, str]) -> int:
    """Starts a server that listens at `path` with `modules` loaded.

    The server ends when the returned file descriptor and its copies are closed: with this process.
    """
    listener = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener.bind(path)
    listener.listen(64)
    alive, held = os.pipe()
    if os.fork() == 0:
        os.close(held)
        for number in (listener.fileno(), alive):
            os.set_inheritable(number, True)
        command = [sys.executable, __file__, "--serve", str(listener.fileno()), str(alive), *modules]
        os.execve(sys.executable, command, environment)
    os.close(alive)
    listener.close()
    return held


def serve(listener: socket.socket, alive: int, modules: list[str]) -> None:
    """Forks for each connection until `alive` is closed at its other end."""
    for module in modules:
        __import__(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        sources: list[socket.socket | int] = [listener, alive]
        ready, _, _ = select.select(sources, [], [])
        if alive in ready:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(connection)
            os._exit(0)
        connection.close()


def _answer(connection: socket.socket) -> None:
    """Runs a command in a forked process and sends its exit status to the client."""
    header, streams, _, _ = socket.recv_fds(connection, 4, 3)
    text = b""
    size = int.from_bytes(header, "little")
    while len(text) < size:
        text += connection.recv(size - len(text))
    child = os.fork()
    if child == 0:
        _become(json.loads(text), streams)
    for number in streams:
        os.close(number)
    _, status = os.waitpid(child, 0)
    connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))


def _become(request: Request, streams: list[int]) -> None:
    """Runs the command with the streams, folder and environment of the client; does not return."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    status = 1
    try:
        status = sys.modules[request["module"]].main(request["arguments"])
        sys.stdout.flush()
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(status)


def ask(path: str, module: str, arguments: list[str]) -> int:
    """Runs a command on the server; returns its exit status, negative for a signal.

    Raises:
        OSError: the server does not run.
    """
    request = {"module": module, "arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    text = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [len(text).to_bytes(4, "little")], [0, 1, 2])
        connection.sendall(text)
        answer = connection.recv(4, socket.MSG_WAITALL)
    if len(answer) < 4:
        raise ConnectionError("the server ended")
    return int.from_bytes(answer, "little", signed=True)


def _client(path: str, module: str, arguments: list[str]) -> None:
    """Runs a command and exits with its status; does not return."""
    try:
        status = ask(path, module, arguments)
    except (ConnectionRefusedError, FileNotFoundError):
        os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3]), sys.argv[4:])
    else:
        _client(sys.argv[1], sys.argv[2], sys.argv[3:])
