"""Processes that compile kernels beside this one, each with a lock of Python's own.

Triton's first stage is Python, in which the threads of one process take turns, and so do the passes that lower a
program. The helpers of a program start with its passes: they are copies of one process, which needs a fifth of a
second for Triton.
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

#: What the first process runs, given where modules are found (not in the present folder, but for that), the
#: architecture, and the helpers' ends of connections.
SERVE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); import oneflow.runtime.cuda.helpers as h; h.serve()"
#: For so many operations of a program there is a helper; where that makes fewer than so many, threads of this process
#: compile, since few kernels take no longer than loading Triton once more.
OPERATIONS, FEWEST = 32, 4

_counting = threading.Lock()
_taken = 0


def _take(count: int) -> bool:
    """Takes places for so many helpers, if programs that are compiled at the same time leave as many processors.

    Fewer than none are given back.
    """
    global _taken
    with _counting:
        free = _taken + count <= native.num_threads()
        _taken += count if free else 0
    return free


def turn(source: Source) -> tuple[bool, bool, int, str]:
    """Orders kernels: first what takes longest to compile, so that none is waited for at last. Products do, above all
    those of blocks without descriptors, whose loops ptxas unrolls.
    """
    product = "tl.dot(" in source.text
    unrolled = product and "make_tensor_descriptor" not in source.text
    return not unrolled, not product and source.language != GLUON, -len(source.text), source.name


@dataclass(frozen=True, order=True)
class _Waiting:
    """A kernel to compile in its `turn`."""

    turn: tuple[bool, bool, int, str]
    source: Source = field(compare=False)
    binary: Future[Binary] = field(default_factory=Future, compare=False)


class Helpers:
    """The helpers of one program, which end with the block that they are used in."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.process: subprocess.Popen[bytes] | None = None
        self._all: list[Connection] = []
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
        self._begun: dict[str, Future[Binary]] = {}
        self._waiting: queue.PriorityQueue[_Waiting] = queue.PriorityQueue()

    def __len__(self) -> int:
        return len(self._all)

    def __enter__(self) -> Helpers:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the helpers; they have nothing to finish but what was announced and is not wanted."""
        self.leave(())
        if self._pool is not None:
            self._pool.shutdown()
        for helper in self._all:
            with contextlib.suppress(OSError):
                helper.send(None)
            helper.close()
        if self.process is not None:
            self.process.wait()
            _take(-len(self._all))

    def start(self, operations: int) -> None:
        """Starts as many as a program of so many operations has use for, if the system lets us."""
        count = min(operations // OPERATIONS, native.num_threads())
        if operations < FEWEST * OPERATIONS or getattr(sys, "frozen", False) or not _take(count):
            return
        try:
            pairs = [Pipe() for _ in range(count)]
            self.process = _first(self.arch, [theirs for _, theirs in pairs])
        except OSError:
            _take(-count)
            return
        self._all = [ours for ours, _ in pairs]
        for helper in self._all:
            self._idle.put(helper)
        self._pool = ThreadPoolExecutor(count)

    def begin(self, source: Source) -> Future[Binary]:
        """What will be a kernel, compiled once, by whatever name it comes.

        Of those that wait an idle helper takes the one whose `turn` it is.
        """
        assert self._pool is not None, "there are no helpers"
        key = source.meaning
        if key not in self._begun:
            waiting = _Waiting(turn(source), source)
            self._begun[key] = waiting.binary
            self._waiting.put(waiting)
            self._pool.submit(self._next)
        return self._begun[key]

    def leave(self, wanted: Collection[Source]) -> None:
        """Leaves out what waits and is none of the kernels that are wanted."""
        kept = {source.meaning for source in wanted}
        for key in self._begun.keys() - kept:
            if self._begun[key].cancel():
                del self._begun[key]

    def _next(self) -> None:
        waiting = self._waiting.get()
        if not waiting.binary.set_running_or_notify_cancel():
            return
        try:
            waiting.binary.set_result(self.compile(waiting.source))
        except BaseException as error:
            waiting.binary.set_exception(error)

    def compile(self, source: Source) -> Binary:
        """A kernel compiled by a helper that is idle; here, should that process be gone.

        Raises:
            CompileError: Triton is missing or refuses it.
        """
        helper = self._idle.get()
        try:
            helper.send(source)
            found: Binary | CompileError | None = helper.recv()
        except (EOFError, OSError):
            found = None
        finally:
            self._idle.put(helper)
        if found is None:
            return compile_source(source, self.arch)
        if isinstance(found, CompileError):
            raise found
        return found


def _first(arch: str, ends: Sequence[Connection]) -> subprocess.Popen[bytes]:
    """The process that the helpers are copies of, each with one of the connections."""
    numbers = [end.fileno() for end in ends]
    # Python looks for modules in strings alone, whatever else is among them.
    places = json.dumps([place for place in sys.path if isinstance(place, str)])
    command = [sys.executable or "python", "-P", "-c", SERVE, places, arch, *map(str, numbers)]
    # Interrupts from the keyboard are not for them.
    process = subprocess.Popen(command, pass_fds=numbers, start_new_session=True)
    for end in ends:
        end.close()
    return process


def serve() -> None:
    """Becomes the helpers, and ends after them. What Triton prints goes to the standard error."""
    os.dup2(2, 1)
    with contextlib.suppress(CompileError):
        compile_source(FIRST, sys.argv[2])
    ends = [Connection(int(number)) for number in sys.argv[3:]]
    while ends:
        own = ends.pop()
        if os.fork() == 0:
            for other in ends:
                other.close()
            _answer_all(own, sys.argv[2])
            os._exit(0)
        own.close()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _answer_all(end: Connection, arch: str) -> None:
    """Compiles what comes, until nothing does."""
    with contextlib.suppress(EOFError, OSError):
        while (source := end.recv()) is not None:
            end.send(_answer(source, arch))


def _answer(source: Source, arch: str) -> Binary | CompileError:
    """What becomes of a kernel."""
    try:
        return compile_source(source, arch)
    except CompileError as error:
        return error
