"""A fork server for the commands of a lit suite: a process with the commands loaded forks for each run.

`fork_client.py` asks the server. The commands import most of the compiler when a program needs it. The server loads
these modules while no client asks, since each forked process would load them again.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import select
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass

#: The packages that commands import from.
PACKAGES = [f"oneflow.{name}" for name in ("dialect", "passes", "lowering", "runtime", "tools")]


@dataclass(frozen=True)
class Request:
    """A command of a client."""

    module: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]

    @classmethod
    def read(cls, text: bytes) -> Request:
        """The request of a message; see `fork_client.message`."""
        module, folder, count, *rest = [os.fsdecode(field) for field in text.split(b"\0")[:-1]]
        pairs = (entry.partition("=") for entry in rest[int(count) :])
        return cls(module, rest[: int(count)], folder, {name: value for name, _, value in pairs})


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
        command = [sys.executable, __file__, str(listener.fileno()), str(alive), *modules]
        os.execve(sys.executable, command, environment)
    os.close(alive)
    listener.close()
    return held


def serve(listener: socket.socket, alive: int, modules: list[str]) -> None:
    """Forks for each connection until `alive` is closed at its other end."""
    for module in modules:
        __import__(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    names = _module_names()
    left = next(names, None)
    while True:
        sources: list[socket.socket | int] = [listener, alive]
        ready, _, _ = select.select(sources, [], [], None if left is None else 0)
        if alive in ready:
            return
        if left is not None and not ready:
            # A module may need a package that is not installed.
            with contextlib.suppress(ImportError):
                importlib.import_module(left)
            left = next(names, None)
            continue
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(connection)
            os._exit(0)
        connection.close()


def _module_names() -> Iterator[str]:
    """The names of all modules of `PACKAGES`."""
    for package in map(importlib.import_module, PACKAGES):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield found.name


def _answer(connection: socket.socket) -> None:
    """Runs a command in a forked process and sends its exit status to the client."""
    header, streams, _, _ = socket.recv_fds(connection, 4, 3)
    text = b""
    size = int.from_bytes(header, "little")
    while len(text) < size:
        text += connection.recv(size - len(text))
    child = os.fork()
    if child == 0:
        _become(Request.read(text), streams)
    for number in streams:
        os.close(number)
    _, status = os.waitpid(child, 0)
    connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))


def _become(request: Request, streams: list[int]) -> None:
    """Runs the command with the streams, folder and environment of the client; does not return."""
    for index, stream in enumerate(streams):
        os.dup2(stream, index)
    # Python's streams know whether the file that they were opened for can seek, which a pipe cannot.
    sys.stdin, sys.stdout = (os.fdopen(n, mode, encoding="utf-8", closefd=False) for n, mode in enumerate("rw"))
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    status = 1
    try:
        status = sys.modules[request.module].main(request.arguments)
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for output in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                output.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3:])
