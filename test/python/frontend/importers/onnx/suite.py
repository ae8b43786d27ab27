"""ONNX's own cases for backends, whole: `python test/python/frontend/importers/onnx/suite.py [--match WORD]`.

Prints each case that fails, and how many of each kind pass. `EXCLUDED` says which cases cannot pass, and why.
"""

from __future__ import annotations

import argparse
import collections
import re
import signal
import sys
import time
import unittest
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx.backend.test
from exclusions import reason

import oneflow.onnx.backend


def cases(match: str = "") -> Iterator[tuple[str, str, unittest.TestCase]]:
    """The kind and the name of each case for CPUs, and the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = onnx.backend.test.BackendTest(oneflow.onnx.backend, __name__)
    for kind, tests in sorted(runner.test_cases.items()):
        for name in sorted(n for n in dir(tests) if n.startswith("test_") and n.endswith("_cpu")):
            if re.search(match, name):
                yield kind, name.removesuffix("_cpu"), tests(name)


def outcome(test: unittest.TestCase, seconds: int = 120) -> str:
    """The message of a failing case; "" for a passing case."""
    result = unittest.TestResult()

    def stop(*_: Any) -> None:
        raise TimeoutError(f"took more than {seconds} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            test.run(result)
    finally:
        signal.alarm(0)
    problems = [*result.failures, *result.errors, *result.skipped]
    return problems[0][1].strip() if problems else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="", help="a regular expression for names of cases")
    parser.add_argument(
        "--log", type=Path, help="a file for names and outcomes; cases that passed there are not run again"
    )
    parser.add_argument("--shard", default="0/1", help="one of several parts, such as 1/4")
    parser.add_argument("-v", action="store_true", help="print whole errors")
    arguments = parser.parse_args()
    part, parts = map(int, arguments.shard.split("/"))
    seen = set(arguments.log.read_text().split("\n")) if arguments.log and arguments.log.exists() else set()
    known = {line.split("\t")[0] for line in seen if "\tpassed" in line}
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    for index, (kind, name, test) in enumerate(cases(arguments.match)):
        if index % parts != part or name in known:
            continue
        if excluded := reason(name):
            counts[kind, f"excluded: {excluded}"] += 1
            continue
        start = time.perf_counter()
        text = outcome(test)
        seconds = time.perf_counter() - start
        counts[kind, "failed" if text else "passed"] += 1
        line = text.splitlines()[-1] if text else ""
        last = next((x for x in reversed(text.splitlines()) if re.match(r"\S*(Error|Exception|Needed)\b", x)), line)
        if text:
            print(f"{name}: {text if arguments.v else last}", flush=True)
        if arguments.log:
            with arguments.log.open("a") as log:
                print(name, "failed" if text else "passed", f"{seconds:.2f}", last, sep="\t", file=log)
    for (kind, what), count in sorted(counts.items()):
        print(f"{kind}: {count} {what}")
    return int(any(what == "failed" for _, what in counts))


if __name__ == "__main__":
    sys.exit(main())
