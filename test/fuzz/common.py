"""The common part of the fuzzers: seeds, worker processes with a time limit, shrinking (test-case reduction), report.

A fuzzer is a module-level class with the methods of `Fuzzer`. A case is text, so that it can be sent to a worker,
written to a file and run again:

    if __name__ == "__main__":
        sys.exit(main(Files()))

    python test/fuzz/files.py --count 1000 --seed 7      cases 0 to 999 of seed 7
    python test/fuzz/files.py found/3f2a.mlir            one case again
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import multiprocessing
import os
import random
import re
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

#: A search reports after this many cases.
PROGRESS = 5000
#: Checks that shrinking one case may take, and seconds.
SHRINK_CHECKS, SHRINK_SECONDS = 300, 120.0


class Fuzzer(Protocol):
    """The methods of a fuzzer. Every worker process has an instance, so instances have to be picklable."""

    #: The ending of a case's file.
    suffix: str
    #: The limit of one case in seconds of processor time; the limit of elapsed time is ten times as large.
    limit: float

    def make(self, random: random.Random) -> str:
        """A case."""

    def check(self, case: str) -> str | None:
        """The fault of a case, in one line; None for a case without fault."""

    def smaller(self, case: str) -> Iterator[str]:
        """Cases that are one step smaller, the smallest first; `without_lines` serves most fuzzers."""


@dataclass(frozen=True)
class Finding:
    """A case and the fault of the case; the kind of a fault is the text without numbers, names and locations.

    `reduces` is false for a fault of `make`: seed and number stand for the missing case.
    """

    case: str
    fault: str
    reduces: bool = True

    @property
    def kind(self) -> str:
        """A key that is equal for faults of one cause, as far as the text shows the cause."""
        return re.sub(r"'[^']*'|\"[^\"]*\"|<[^>]*>|0x[0-9a-f]+|%\w+|\d+", "_", self.fault)[:200]


def case_of(fuzzer: Fuzzer, seed: int, number: int) -> str:
    """Case `number` of a seed: the same on every machine and for every number of workers."""
    return fuzzer.make(random.Random(f"{seed}/{number}"))


def cases_of(fuzzer: Fuzzer, seed: int, numbers: Iterable[int]) -> Iterator[str | Finding]:
    """The cases of a seed; an exception of `make` is a finding, and does not end the search."""
    for number in numbers:
        try:
            yield case_of(fuzzer, seed, number)
        except Exception as error:
            yield Finding(f"{seed}/{number}", f"make: {_described(error)}", reduces=False)


def _described(error: Exception) -> str:
    """An unexpected exception and its location, in one line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return f"exception: {what} at {Path(frame.filename).name}:{frame.lineno}"


def without_lines(case: str) -> Iterator[str]:
    """The case without some lines: halves first, then quarters, down to single lines."""
    lines = case.splitlines()
    size = len(lines) // 2
    while size:
        for start in range(0, len(lines), size):
            yield "\n".join([*lines[:start], *lines[start + size :]]) + "\n"
        size //= 2


def _serve(fuzzer: Fuzzer, cases: Connection, errors: str) -> None:
    """The loop of a worker: receives cases and sends faults. Output of the process goes to the file `errors`."""
    stream = os.open(errors, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.dup2(stream, 2)
    os.dup2(stream, 1)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    cases.send(None)  # the imports of the fuzzer are done
    while True:
        try:
            case = cases.recv()
        except EOFError:
            return
        os.ftruncate(stream, 0)
        try:
            cases.send(fuzzer.check(case))
        except Exception as error:
            cases.send(_described(error))


@dataclass
class Worker:
    """A process that checks one case at a time; a process that dies or exceeds the limit is replaced."""

    fuzzer: Fuzzer
    folder: str
    case: str | None = None
    number: int = -1
    began: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.errors = tempfile.mktemp(dir=self.folder)
        self.process = context.Process(target=_serve, args=(self.fuzzer, theirs, self.errors), daemon=True)
        self.process.start()
        theirs.close()
        self.fresh = True

    def send(self, case: str, number: int = -1) -> None:
        """Sends a case to the worker, after the worker has started."""
        if self.fresh:
            self.connection.recv()
            self.fresh = False
        self.case, self.number, self.began = case, number, (time.monotonic(), self._worked())
        self.connection.send(case)

    @property
    def left(self) -> float:
        """Seconds until the limit."""
        waited, worked = time.monotonic() - self.began[0], self._worked() - self.began[1]
        return self.fuzzer.limit - max(worked, waited / 10)

    def _worked(self) -> float:
        """The seconds of a processor that the process has taken."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def receive(self) -> str | None:
        """The fault of the case that was sent, once the connection is ready or the limit over."""
        try:
            while not self.connection.poll(max(self.left, 0.0)):
                if self.left <= 0:
                    return self._replace(f"hang: more than {self.fuzzer.limit:.0f} s {self._place()}")
            fault: str | None = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            return self._replace(self._death())
        return fault

    def check(self, case: str) -> str | None:
        """The fault of one case."""
        self.send(case)
        return self.receive()

    def _death(self) -> str:
        code = self.process.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"status {code}"
        return f"crash: {how} {self._said()}"

    def _place(self) -> str:
        """The position of the process."""
        os.kill(self.process.pid or 0, signal.SIGUSR1)
        time.sleep(0.2)
        return self._said()

    def _said(self) -> str:
        """MLIR's message of a fatal error, and where the process was in Python."""
        lines = Path(self.errors).read_text(errors="replace").splitlines() if Path(self.errors).exists() else []
        fatal = next((line for line in lines if "ERROR" in line), "")
        frames = re.findall(r'File "(?:.*/)?(.*)", line (\S+) in', "\n".join(lines))[:4]
        return f"{fatal} {' < '.join(map(':'.join, frames))}".strip()

    def _replace(self, fault: str) -> str:
        self.close()
        self._start()
        return fault

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def _report(line: str) -> None:
    print(line, flush=True)


def _counted(cases: Iterator[str | Finding], report: Callable[[str], None]) -> Iterator[str | Finding]:
    """The cases; every `PROGRESS` cases are reported."""
    for number, case in enumerate(cases, 1):
        yield case
        if number % PROGRESS == 0:
            report(f"{number} cases")


@dataclass
class Search:
    """Checks cases on several workers, and shrinks the first of each kind of fault to a file in `out`."""

    fuzzer: Fuzzer
    out: Path
    jobs: int
    shrink: bool = True
    found: dict[str, Finding] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def run(self, cases: Iterator[str | Finding], report: Callable[[str], None] = _report) -> None:
        """Checks all cases; each new kind of fault is reported when found."""
        with tempfile.TemporaryDirectory() as folder:
            workers = [Worker(self.fuzzer, folder) for _ in range(self.jobs)]
            try:
                for finding in self._findings(_counted(cases, report), workers):
                    self._take(finding, report)
                self._shrink(workers[0], report)
            finally:
                for worker in workers:
                    worker.close()

    def _findings(self, cases: Iterator[str | Finding], workers: Sequence[Worker]) -> Iterator[Finding]:
        idle, busy = list(workers), {}
        while True:
            while idle and (case := next(cases, None)) is not None:
                if isinstance(case, Finding):
                    yield case
                    continue
                worker = idle.pop()
                worker.send(case)
                busy[worker.connection] = worker
            if not busy:
                return
            ready: Any = wait(list(busy), max(min(w.left for w in busy.values()), 0.0))
            late = [c for c, w in busy.items() if w.left <= 0]
            for connection in {*ready, *late}:
                worker = busy.pop(connection)
                checked, fault = worker.case, worker.receive()
                idle.append(worker)
                if fault is not None and checked is not None:
                    yield Finding(checked, fault)

    def _take(self, finding: Finding, report: Callable[[str], None]) -> None:
        self.counts[finding.kind] = self.counts.get(finding.kind, 0) + 1
        if finding.kind not in self.found:
            self.found[finding.kind] = finding
            report(f"{finding.fault}\n  {self._write(finding)}")

    def _write(self, finding: Finding) -> Path:
        name = hashlib.sha256(finding.kind.encode()).hexdigest()[:8]
        path = self.out / f"{name}{self.fuzzer.suffix}"
        self.out.mkdir(parents=True, exist_ok=True)
        path.write_text(finding.case, errors="surrogateescape")
        return path

    def _shrink(self, worker: Worker, report: Callable[[str], None]) -> None:
        for kind, finding in self.found.items() if self.shrink else ():
            if not finding.reduces:
                continue
            small = shrink(worker, finding)
            report(f"shrunk from {len(finding.case)} to {len(small.case)} characters: {self._write(small)}")
            self.found[kind] = small


def shrink(worker: Worker, finding: Finding) -> Finding:
    """The smallest case with a fault of the same kind that is found within the limits of shrinking."""
    checks, end = SHRINK_CHECKS, time.monotonic() + SHRINK_SECONDS
    candidates = worker.fuzzer.smaller(finding.case)
    while checks and time.monotonic() < end:
        case = next(candidates, None)
        if case is None:
            return finding
        checks -= 1
        fault = worker.check(case)
        if fault is not None and Finding(case, fault).kind == finding.kind:
            finding = Finding(case, fault)
            candidates = worker.fuzzer.smaller(case)
    return finding


def main(fuzzer: Fuzzer, argv: Sequence[str] | None = None) -> int:
    """The command of a fuzzer; the exit status is 1 after a fault."""
    parser = argparse.ArgumentParser(description=type(fuzzer).__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="cases to run again, in place of new ones")
    parser.add_argument("--count", type=int, default=1000, help="how many cases to make")
    parser.add_argument("--seed", type=int, default=0, help="what the cases are made from")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--out", type=Path, default=Path("runs/fuzz"), help="the folder for cases that fail")
    parser.add_argument("--no-shrink", action="store_true", help="leave failing cases as they were made")
    arguments = parser.parse_args(argv)
    numbers = range(arguments.first, arguments.first + arguments.count)
    cases: Iterator[str | Finding] = (
        (p.read_bytes().decode(errors="surrogateescape") for p in arguments.files)
        if arguments.files
        else cases_of(fuzzer, arguments.seed, numbers)
    )
    shrinks = not arguments.no_shrink and not arguments.files
    search = Search(fuzzer, arguments.out, max(1, arguments.jobs), shrinks)
    with contextlib.suppress(KeyboardInterrupt):
        search.run(cases)
    for kind, count in sorted(search.counts.items(), key=lambda item: -item[1]):
        print(f"{count:6} x {kind}")
    total = len(arguments.files) or arguments.count
    print(f"{total} cases, {sum(search.counts.values())} faults of {len(search.counts)} kinds")
    return 1 if search.counts else 0
