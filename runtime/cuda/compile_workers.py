"""Worker processes that compile kernels in parallel, each with its own interpreter lock.

Triton's first stage is Python, which the threads of one process run one at a time, as they do the passes that lower a
program. The workers of a program start together with its passes. The workers are forks of one process, which imports
Triton once for all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe

from oneflow.lowering.triton.source import GLUON, Source
from oneflow.runtime import native
from oneflow.runtime.cuda.compiler import FIRST, Binary, CompileError, compile_source

#: The program of the parent process of the workers. The arguments of the program are `sys.path` as JSON, the
#: architecture, and the file descriptors of the connections. `-P` keeps the current folder out of `sys.path`.
WORKER_MAIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    "import oneflow.runtime.cuda.compile_workers as workers; workers.serve()"
)
#: The number of operations of a program for each worker. With fewer workers than the minimum, threads of this
#: process compile: a few kernels take no longer than another import of Triton.
OPERATIONS_PER_WORKER, MIN_WORKERS = 32, 4

_reservations_lock = threading.Lock()
_reserved = 0


def _reserve(count: int) -> bool:
    """Reserves processors for `count` workers; False if programs that compile at the same time leave too few.

    A negative `count` returns processors.
    """
    global _reserved
    with _reservations_lock:
        fits = _reserved + count <= native.num_threads()
        _reserved += count if fits else 0
    return fits


def compile_priority(source: Source) -> tuple[bool, bool, int, str]:
    """The sort key of a kernel: kernels that take longest to compile come first, so that none is left for the end.

    Matrix products take longest, above all products without TMA descriptors, whose loops ptxas unrolls.
    """
    is_unrolled = source.has_dot and not source.descriptors
    return not is_unrolled, not source.has_dot and source.language != GLUON, -len(source.text), source.name


@dataclass(frozen=True, order=True)
class _Job:
    """A kernel to compile, ordered by `priority`."""

    priority: tuple[bool, bool, int, str]
    source: Source = field(compare=False)
    binary: Future[Binary] = field(default_factory=Future, compare=False)


class CompileWorkers:
    """The workers of one program; a context manager that stops them at its end."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.process: subprocess.Popen[bytes] | None = None
        self._connections: list[Connection] = []
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
        self._submitted: dict[str, Future[Binary]] = {}
        self._jobs: queue.PriorityQueue[_Job] = queue.PriorityQueue()

    def __len__(self) -> int:
        return len(self._connections)

    def __enter__(self) -> CompileWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the workers. Kernels that the workers still compile were announced early and are not needed."""
        self.cancel_except(())
        if self._pool is not None:
            self._pool.shutdown()
        for worker in self._connections:
            with contextlib.suppress(OSError):
                worker.send(None)
            worker.close()
        if self.process is not None:
            self.process.wait()
            _reserve(-len(self._connections))

    def start(self, operations: int) -> None:
        """Starts workers for a program of so many operations; none if the system refuses a process."""
        count = min(operations // OPERATIONS_PER_WORKER, native.num_threads())
        if operations < MIN_WORKERS * OPERATIONS_PER_WORKER or getattr(sys, "frozen", False) or not _reserve(count):
            return
        try:
            pairs = [Pipe() for _ in range(count)]
            self.process = _start_parent(self.arch, [child for _, child in pairs])
        except OSError:
            _reserve(-count)
            return
        self._connections = [ours for ours, _ in pairs]
        for worker in self._connections:
            self._idle.put(worker)
        self._pool = ThreadPoolExecutor(count)

    def submit(self, source: Source) -> Future[Binary]:
        """The future of a compiled kernel. Kernels that differ in their names alone are compiled once.

        An idle worker takes the waiting kernel of the highest `compile_priority`.
        """
        assert self._pool is not None, "expected started workers"
        key = source.binary_key
        if key not in self._submitted:
            waiting = _Job(compile_priority(source), source)
            self._submitted[key] = waiting.binary
            self._jobs.put(waiting)
            self._pool.submit(self._run_next)
        return self._submitted[key]

    def cancel_except(self, wanted: Collection[Source]) -> None:
        """Cancels waiting kernels that are not among the wanted kernels."""
        kept = {source.binary_key for source in wanted}
        for key in self._submitted.keys() - kept:
            if self._submitted[key].cancel():
                del self._submitted[key]

    def _run_next(self) -> None:
        waiting = self._jobs.get()
        if not waiting.binary.set_running_or_notify_cancel():
            return
        try:
            waiting.binary.set_result(self.compile(waiting.source))
        except BaseException as error:
            waiting.binary.set_exception(error)

    def compile(self, source: Source) -> Binary:
        """Compiles a kernel by an idle worker, or in this process if that worker is gone.

        Raises:
            CompileError: Triton is missing or refuses the kernel.
        """
        worker = self._idle.get()
        try:
            worker.send(source)
            result: Binary | CompileError | None = worker.recv()
        except (EOFError, OSError):
            result = None
        finally:
            self._idle.put(worker)
        if result is None:
            return compile_source(source, self.arch)
        if isinstance(result, CompileError):
            raise result
        return result


def _start_parent(arch: str, connections: Sequence[Connection]) -> subprocess.Popen[bytes]:
    """Starts the parent process, from which one worker is forked for each connection."""
    descriptors = [connection.fileno() for connection in connections]
    # Python ignores entries of `sys.path` that are not strings.
    paths = json.dumps([path for path in sys.path if isinstance(path, str)])
    command = [sys.executable or "python", "-P", "-c", WORKER_MAIN, paths, arch, *map(str, descriptors)]
    # A new session keeps interrupts from the keyboard away from the workers.
    process = subprocess.Popen(command, pass_fds=descriptors, start_new_session=True)
    for connection in connections:
        connection.close()
    return process


def serve() -> None:
    """Forks the workers and waits for them. The output of Triton is written to standard error."""
    os.dup2(2, 1)
    with contextlib.suppress(CompileError):
        compile_source(FIRST, sys.argv[2])
    connections = [Connection(int(descriptor)) for descriptor in sys.argv[3:]]
    while connections:
        own = connections.pop()
        if os.fork() == 0:
            for other in connections:
                other.close()
            _serve_connection(own, sys.argv[2])
            os._exit(0)
        own.close()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _serve_connection(connection: Connection, arch: str) -> None:
    """Compiles the kernels that arrive on a connection until it is closed."""
    with contextlib.suppress(EOFError, OSError):
        while (source := connection.recv()) is not None:
            connection.send(_result(source, arch))


def _result(source: Source, arch: str) -> Binary | CompileError:
    """The compiled kernel, or the error of the compilation."""
    try:
        return compile_source(source, arch)
    except CompileError as error:
        return error
