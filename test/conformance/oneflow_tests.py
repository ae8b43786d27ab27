"""OneFlow's own test modules, run from a checkout of OneFlow on this project.

    python test/conformance/oneflow_tests.py CHECKOUT [--only modules/test_a ..] [--repeats 1] [--graphs]

CHECKOUT is a folder with OneFlow's `python/`. The tests import OneFlow's harness from the checkout
(`oneflow.test_utils`), which compares results and gradients with PyTorch; `oneflow_harness.py` provides the other
modules. Each test module runs in a separate process on the CPU; each test has a time limit. The harness repeats tests
on other random inputs; `--repeats` is the largest number of repeats. `--layouts` is the largest number of layouts
of a placement that a test of global tensors tries. `--graphs` also compares with `nn.Graph`, as OneFlow does, which
compiles a program for each call. With `--ranks N`, the process simulates the ranks of one node. With `--host-cuda N`,
CUDA tests run too, on N devices made of host memory; with `--cuda-is-host`, which works with several ranks too,
their devices and placements are the host. A message of an error is equal to OneFlow's if it states the same facts
(`messages.py`). The table has a row for each module: the numbers of tests that passed, failed and were
skipped by OneFlow's marks; the reasons of failures follow, the most frequent first. The script needs the extra
`torch`.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import importlib.util
import multiprocessing
import os
import re
import signal
import sys
import unittest
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import oneflow_harness

from oneflow.testing.host_cuda import host_cuda

#: Folders of test modules, from `python/oneflow/test`.
FOLDERS = ("modules", "tensor", "dataloader", "exceptions", "graph", "misc")
#: The seconds that one test may take by default, and how many times longer its module may take.
TEST_LIMIT, MODULE_FACTOR = 40, 10
_PLACE = re.compile(r"^\S+:\d+: ")
_NUMBERS = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test: `kind` is "passed", "skipped" or "failed"; `detail` is the last line of the error."""

    test: str
    kind: str
    detail: str = ""


@dataclass
class Row:
    """The outcomes of the tests of one module."""

    module: str
    outcomes: list[Outcome] = field(default_factory=list)

    def count(self, kind: str) -> int:
        """How many tests ended like this."""
        return sum(o.kind == kind for o in self.outcomes)

    def __str__(self) -> str:
        counts = [str(self.count(kind)) for kind in ("passed", "failed", "skipped")]
        reasons = collections.Counter(reason(o.detail) for o in self.outcomes if o.kind == "failed")
        text = "; ".join(f"{n} x {r}" if n > 1 else r for r, n in reasons.most_common(3))
        return f"| {self.module} | {' | '.join(counts)} | {text} |"


def reason(detail: str) -> str:
    """An error without location and numbers, so that equal reasons are equal texts."""
    return _NUMBERS.sub("N", re.sub(r": \S+:\d+: ", ": ", _PLACE.sub("", detail)))[:160]


def test_modules(checkout: Path, only: Iterable[str] = ()) -> list[Path]:
    """The files with tests in whose path in the folder of tests one of the patterns is found."""
    root = checkout / "python/oneflow/test"
    files = [f for folder in FOLDERS for f in sorted((root / folder).glob("test_*.py"))]
    wanted = re.compile("|".join(only))
    return [f for f in files if wanted.search(f.relative_to(root).as_posix())]


def tests_in_source(path: Path) -> list[str]:
    """The names of the tests of a file that is not imported."""
    tree = ast.parse(path.read_text())
    return [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name.startswith("test")]


class _Result(unittest.TestResult):
    """Sends an outcome as soon as a test has ended."""

    def __init__(self, send: Any) -> None:
        super().__init__()
        self.send = send

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.send(Outcome(test.id(), "started"))

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.send(Outcome(test.id(), "passed"))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.send(Outcome(test.id(), "skipped", reason))

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self.send(Outcome(test.id(), "failed", _one_line(err[1])))

    addFailure = addError  # noqa: N815

    def addSubTest(self, test: unittest.TestCase, subtest: Any, err: Any) -> None:
        if err is not None:
            self.addError(test, err)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.addSuccess(test)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.send(Outcome(test.id(), "failed", "passed where OneFlow states a failure"))


def _one_line(error: BaseException) -> str:
    if isinstance(error, AssertionError) and str(error).startswith("False is not true"):
        return "AssertionError: other values"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:900]


def _tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _tests(test)
        else:
            yield test


def _timed_out(*_: Any) -> None:
    raise TimeoutError("more than the limit of seconds")


def run_module(path: Path, send: Any, seconds: int) -> None:
    """Runs the tests of a file in this process."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    signal.signal(signal.SIGALRM, _timed_out)
    for test in _tests(unittest.defaultTestLoader.loadTestsFromModule(module)):
        signal.alarm(seconds)
        test(_Result(send))
        signal.alarm(0)


def _child(connection: Any, path: Path, devices: int, seconds: int) -> None:
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    try:
        with host_cuda(devices=devices) if devices else contextlib.nullcontext():
            run_module(path, connection.send, seconds)
    except BaseException as error:
        connection.send(Outcome("", "not imported", _one_line(error)))
    os._exit(0)


def try_module(path: Path, name: str, devices: int, seconds: int) -> Row:
    """The outcomes of a module, which runs in a separate process, with CUDA devices simulated in host memory."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sending, path, devices, seconds))
    process.start()
    sending.close()
    row, running, ended = Row(name), "", ""
    with contextlib.suppress(EOFError):
        while receiving.poll(seconds * MODULE_FACTOR):
            outcome = receiving.recv()
            if outcome.kind == "started":
                running = outcome.test
            elif outcome.kind == "not imported":
                row.outcomes = [Outcome(test, "failed", outcome.detail) for test in tests_in_source(path)]
            else:
                row.outcomes.append(outcome)
                running = ""
        ended = f"more than {seconds * MODULE_FACTOR} s"
    process.kill() if ended else None
    process.join()
    if running:
        signal_name = signal.strsignal(-(process.exitcode or 0)) or ""
        row.outcomes.append(Outcome(running, "failed", ended or f"crash: {signal_name}"))
    return row


def report(rows: list[Row]) -> list[str]:
    """The table, the sums and the reasons."""
    sums = {kind: sum(row.count(kind) for row in rows) for kind in ("passed", "failed", "skipped")}
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    for row in rows:
        for outcome in row.outcomes:
            if outcome.kind == "failed":
                reasons[reason(outcome.detail)].append(f"{row.module}:{outcome.test.rpartition('.')[2]}")
    lines = [
        "| module | passed | failed | skipped | reasons |",
        "| --- | --- | --- | --- | --- |",
        *map(str, rows),
        "",
    ]
    lines.append(f"{len(rows)} modules: " + ", ".join(f"{kind} {count}" for kind, count in sums.items()))
    by_count = sorted(reasons.items(), key=lambda item: -len(item[1]))
    return lines + [f"{len(tests)} x {text} | {' '.join(tests[:6])}" for text, tests in by_count]


def main() -> None:
    """Runs the modules and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a folder with OneFlow's python/")
    parser.add_argument("--only", nargs="*", default=(), help="run modules in whose path one of these is found")
    parser.add_argument("--part", default="1/1", help="K/N runs every Nth module, from the Kth")
    parser.add_argument("--repeats", type=int, default=1, help="the most random inputs of a test")
    parser.add_argument("--graphs", action="store_true", help="also compare with nn.Graph")
    parser.add_argument("--layouts", type=int, help="the most layouts of a placement that a test tries")
    parser.add_argument("--ranks", type=int, default=1, help="the ranks that the process simulates")
    parser.add_argument("--host-cuda", type=int, default=0, help="the number of CUDA devices made of host memory")
    parser.add_argument("--cuda-is-host", action="store_true", help="run CUDA tests too, on the host")
    parser.add_argument("--seconds", type=int, default=TEST_LIMIT, help="the limit of one test")
    parser.add_argument("--report", type=Path, help="the file to write to; standard output without it")
    args = parser.parse_args()
    has_cuda = args.cuda_is_host or args.host_cuda > 0
    options = {"has_cuda": has_cuda, "layouts": args.layouts, "cuda_is_host": args.cuda_is_host}
    oneflow_harness.install(args.checkout, args.repeats, args.graphs, args.ranks, **options)
    root = args.checkout / "python/oneflow/test"
    part, parts = map(int, args.part.split("/"))
    rows = []
    for path in test_modules(args.checkout, args.only)[part - 1 :: parts]:
        name = path.relative_to(root).with_suffix("").as_posix()
        rows.append(try_module(path, name, args.host_cuda, args.seconds))
        sys.stderr.write(f"{rows[-1]}\n")
    text = "\n".join(report(rows)) + "\n"
    if args.report:
        args.report.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
