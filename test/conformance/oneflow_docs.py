"""OneFlow's documented names and examples, read from a checkout of OneFlow and tried on this project.

    python test/conformance/oneflow_docs.py CHECKOUT --report report.txt
    python test/conformance/oneflow_docs.py CHECKOUT --write-names

CHECKOUT is a folder with OneFlow's `docs/` and `python/`. A name is an entry of an `autosummary`, `autoclass` or
`autofunction` of `docs/source/*.rst`. An example is a docstring of `python/oneflow` or a page of `docs/source` with
lines that begin with `>>>`; the lines run in order, with the names `oneflow`, `flow`, `nn` and `np`, that of the
module of the docstring, and the names in it. The output of a line is compared with the documented output as doctest
compares, with white space normalized and numbers within a tolerance. Lines marked `doctest: +SKIP` do not run.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import doctest
import importlib
import io
import math
import multiprocessing
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import names
import numpy

import oneflow
from oneflow.testing.host_cuda import host_cuda

#: The seconds that one example may take.
TIME_LIMIT = 120
TOLERANCE = 2e-3
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\bnan\b|\binf\b)")


@dataclass(frozen=True)
class Example:
    """The lines of one docstring; `source` is the location of the docstring."""

    source: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """The outcome of an example: `kind` is "passed" or a reason, `detail` one line about the outcome."""

    example: Example
    kind: str
    detail: str = ""


def documented_names(checkout: Path) -> dict[str, list[str]]:
    """The full names of each page of the documents."""
    pages = {path.stem: list(_names_of_page(path.read_text())) for path in sorted(checkout.glob("docs/source/*.rst"))}
    return {page: names for page, names in pages.items() if names}


def _names_of_page(text: str) -> Iterator[str]:
    module, listing = "oneflow", False
    for line in text.splitlines():
        words = line.split()
        directive = re.match(r"\.\. (currentmodule|automodule|autosummary|autoclass|autofunction)::\s*(\S*)", line)
        if directive:
            listing = directive[1] == "autosummary"
            module = directive[2] if directive[1] in ("currentmodule", "automodule") else module
            if directive[1] in ("autoclass", "autofunction"):
                yield _full_name(module, directive[2])
        elif words and not line[0].isspace():
            listing = False
        elif listing and len(words) == 1 and not words[0].startswith(":"):
            yield _full_name(module, words[0])


def _full_name(module: str, name: str) -> str:
    return name if name.startswith("oneflow.") else f"{module}.{name}"


def documented_examples(checkout: Path) -> list[Example]:
    """The examples of docstrings, then of pages."""
    found = []
    for path in sorted(checkout.glob("python/oneflow/**/*.py")):
        page = path.relative_to(checkout)
        if page.parts[2] == "test":
            continue
        try:
            tree = ast.parse(path.read_text())
        except SyntaxError:
            continue
        constants = [n for n in ast.walk(tree) if isinstance(n, ast.Constant)]
        texts = [(n.lineno, n.value) for n in constants if isinstance(n.value, str)]
        found += [Example(f"{page}:{line}", text) for line, text in texts if ">>> " in text]
    pages = [(p.relative_to(checkout), p.read_text()) for p in sorted(checkout.glob("docs/source/*.rst"))]
    return found + [Example(str(page), text) for page, text in pages if ">>> " in text]


class _Checker(doctest.OutputChecker):
    """Compares text without white space, and numbers within a tolerance; where no output is written any will do."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags) or _agree(want, got)


def _agree(want: str, got: str) -> bool:
    wanted, given = (_split(text.replace("...", "")) for text in (want.replace(doctest.BLANKLINE_MARKER, ""), got))
    return wanted[0] == given[0] and all(map(_near, wanted[1], given[1]))


def _split(text: str) -> tuple[list[str], list[float]]:
    """Text between numbers, without white space, and the numbers; names of gradient functions and addresses of
    objects are left out."""
    text = re.sub(r"grad_fn=<[^>]*>", "grad_fn", text)
    text = re.sub(r"<[\w.]*?(\w+) object at [^>]*>", r"<\1 object>", text)
    words = [re.sub(r"\s", "", w).replace("'", '"') for w in _NUMBER.split(text)]
    return words, [float(n) for n in _NUMBER.findall(text)]


def _near(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE / 10)


def _run(example: Example) -> tuple[str, str]:
    """Runs an example; the outcome is "passed" or a reason, and a line about the outcome."""
    if "ONLY_CHECK_RANK" in example.text:
        return "for several ranks", ""
    try:
        parts = doctest.DocTestParser().get_examples(example.text)
    except ValueError as error:
        return "malformed", str(error)
    known = {"np": numpy, "oneflow": oneflow, "flow": oneflow, "nn": oneflow.nn, **_names_of_module(example.source)}
    test = doctest.DocTest(parts, known, example.source, None, None, None)
    runner = _Runner(checker=_Checker(), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS, verbose=False)
    if all(part.options.get(doctest.SKIP) for part in parts):
        return "skipped by its own marks", ""
    with contextlib.redirect_stderr(io.StringIO()):
        runner.run(test, out=lambda _: None)
    return runner.outcome or ("passed", "")


def _names_of_module(source: str) -> dict[str, Any]:
    """The names of this project's module under the path of the file that an example is from."""
    path = source.partition(".py")[0].removeprefix("python/").removesuffix("/__init__")
    try:
        module = importlib.import_module(path.replace("/", "."))
        return {path.rpartition("/")[2]: module, **vars(module), "__name__": "__main__"}
    except ImportError:
        return {"__name__": "__main__"}


class _Runner(doctest.DocTestRunner):
    """Keeps the first failure."""

    outcome: tuple[str, str] | None = None

    def report_failure(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        if self.outcome is None:
            text = f"{example.source.strip()}: expected {' '.join(example.want.split())}, got {' '.join(got.split())}"
            self.outcome = "other output", text

    def report_unexpected_exception(self, out: Any, test: Any, example: doctest.Example, error: Any) -> None:
        if self.outcome is None:
            missing = isinstance(error[1], (AttributeError, ImportError))
            text = " ".join("".join(traceback.format_exception_only(error[1])).split())
            self.outcome = "missing name" if missing else "error", f"{example.source.strip()}: {text}"


def _child(connection: Any, example: Example, devices: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        with host_cuda(devices=devices) if devices else contextlib.nullcontext():
            connection.send(_run(example))
    except BaseException as error:
        connection.send(("error", repr(error)))
    connection.close()
    os._exit(0)


def try_example(example: Example, devices: int = 0) -> Outcome:
    """The outcome of an example, which runs in a separate process, with CUDA devices simulated in host memory."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sending, example, devices))
    process.start()
    sending.close()
    try:
        if not receiving.poll(TIME_LIMIT):
            return Outcome(example, "time limit", f"more than {TIME_LIMIT} s")
        return Outcome(example, *receiving.recv())
    except EOFError:
        process.join()
        return Outcome(example, "crash", signal.strsignal(-(process.exitcode or 0)) or "")
    finally:
        process.kill()
        process.join()


def report_names(checkout: Path) -> list[str]:
    """Counts of names for each page, with the missing names."""
    lines, total, missing = [], 0, 0
    for page, of_page in documented_names(checkout).items():
        absent = [n for n in of_page if not names.resolves(n)]
        total, missing = total + len(of_page), missing + len(absent)
        if absent:
            lines.append(f"- {page} {len(absent)}/{len(of_page)}: {' '.join(absent)}")
    return [f"names: {total - missing} of {total} resolve", *lines]


def report_examples(outcomes: list[Outcome]) -> list[str]:
    """Counts of outcomes, and a line for each example that did not pass."""
    counts = collections.Counter(o.kind for o in outcomes)
    lines = [f"examples: {counts['passed']} of {len(outcomes)} print what the documents print"]
    lines += [f"- {kind}: {count}" for kind, count in counts.most_common() if kind != "passed"]
    failed = sorted((o for o in outcomes if o.kind != "passed"), key=lambda o: (o.kind, o.detail))
    return [*lines, *(f"{o.kind} | {o.example.source} | {o.detail}" for o in failed)]


def main() -> None:
    """Tries names and examples and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a folder with OneFlow's docs/ and python/")
    parser.add_argument("--report", type=Path, help="the file to write to; standard output without it")
    parser.add_argument("--only", default="", help="try examples whose location or text has this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--names-only", action="store_true")
    parser.add_argument("--host-cuda", type=int, default=0, help="the number of CUDA devices made of host memory")
    parser.add_argument("--write-names", action="store_true", help="write names.txt and end")
    args = parser.parse_args()
    if args.write_names:
        rows = documented_names(args.checkout).items()
        names.FILE.write_text("".join(f"{page}: {' '.join(of_page)}\n" for page, of_page in rows))
        return
    lines = report_names(args.checkout)
    if not args.names_only:
        examples = [e for e in documented_examples(args.checkout) if args.only in e.source or args.only in e.text]
        with ThreadPoolExecutor(args.jobs) as pool:
            lines += report_examples(list(pool.map(lambda e: try_example(e, args.host_cuda), examples)))
    text = "\n".join(lines) + "\n"
    if args.report:
        args.report.write_text(text)
    sys.stdout.write(text if not args.report else "\n".join(lines[:1]) + "\n")


if __name__ == "__main__":
    main()
