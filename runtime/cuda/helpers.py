"""Processes that compile kernels beside this one, each with a lock of Python's own.

Triton's first stage is Python, in which the threads of one process take turns, and so do the passes that lower a
program. A helper needs a fifth of a second to be ready: those of a program start with its passes. Imports `compiler`.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading

from oneflow.lowering.triton.source import Source
from oneflow.runtime.cuda.compiler import FIRST, Binary, CompileError, compile_source

#: What a helper runs, given where modules are found and the architecture.
SERVE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); import oneflow.runtime.cuda.helpers as h; h.serve()"
#: For so many operations of a program there is a helper: starting one takes as long as compiling a kernel or two.
#: Where that makes fewer than so many, threads of this process compile.
OPERATIONS, FEWEST = 32, 4


_counting = threading.Lock()
_taken = 0


def _take(count: int) -> bool:
    """Takes places for so many helpers, if programs that are compiled at the same time leave as many processors.

    Fewer than none are given back.
    """
    global _taken
    with _counting:
        free = _taken + count <= (os.cpu_count() or 1)
        _taken += count if free else 0
    return free


class Helper:
    """A process that compiles one kernel at a time."""

    def __init__(self, arch: str) -> None:
        command = [sys.executable or "python", "-c", SERVE, json.dumps(sys.path), arch]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def compile(self, source: Source, arch: str) -> Binary | CompileError:
        """What `compile_source` gives or raises there.

        Raises:
            EOFError: the process has ended.
            OSError: the process has ended.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        pickle.dump((source, arch), self.process.stdin)
        self.process.stdin.flush()
        found: Binary | CompileError = pickle.load(self.process.stdout)
        return found


class Helpers:
    """The helpers of one program, which end with the block that they are used in."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self._all: list[Helper] = []
        self._places = 0
        self._idle: queue.SimpleQueue[Helper] = queue.SimpleQueue()

    def __len__(self) -> int:
        return len(self._all)

    def __enter__(self) -> Helpers:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the helpers; they have nothing to finish."""
        for helper in self._all:
            helper.process.kill()
        for helper in self._all:
            helper.process.communicate()
        _take(-self._places)

    def start(self, operations: int) -> None:
        """Starts as many as a program of so many operations has use for, and the system allows."""
        count = min(operations // OPERATIONS, os.cpu_count() or 1)
        if operations < FEWEST * OPERATIONS or not _take(count):
            return
        self._places = count
        with contextlib.suppress(OSError):
            for _ in range(count):
                helper = Helper(self.arch)
                self._all.append(helper)
                self._idle.put(helper)

    def compile(self, source: Source) -> Binary:
        """A kernel compiled by a helper that is idle; here, should that process be gone.

        Raises:
            CompileError: Triton is missing or refuses it.
        """
        helper = self._idle.get()
        try:
            found = helper.compile(source, self.arch)
        except (EOFError, OSError):
            found = compile_source(source, self.arch)
        finally:
            self._idle.put(helper)
        if isinstance(found, CompileError):
            raise found
        return found


def serve() -> None:
    """Compiles what comes on the standard input, until its end; what Triton prints goes to the standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    given, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with contextlib.suppress(CompileError):
        compile_source(FIRST, sys.argv[2])
    with contextlib.suppress(EOFError):
        while True:
            pickle.dump(_answer(*pickle.load(given)), answers)
            answers.flush()


def _answer(source: Source, arch: str) -> Binary | CompileError:
    try:
        return compile_source(source, arch)
    except CompileError as error:
        return error
