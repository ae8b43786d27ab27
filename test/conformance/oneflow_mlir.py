"""OneFlow's own `.mlir` files, read from a checkout of OneFlow, and the outcome of each function of the files.

    python test/conformance/oneflow_mlir.py CHECKOUT

CHECKOUT is a folder with `.mlir` files. A function with operators of OneFlow is parsed and verified, its types are
inferred, layouts over the named mesh or over two devices are inferred, and the function is lowered to LLVM's dialect.
The table has a row for each file: the outcome, the number of functions that passed, and the reasons of failures.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import oneflow.dialect.ops  # noqa: F401  registers the operators
from oneflow.dialect._mlir import ir
from oneflow.dialect.job_text import mlir_text, refused_job_text
from oneflow.dialect.nd_sbp import MESH
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import Collector, ProgramError, read_module
from oneflow.dialect.record import REGISTRY
from oneflow.dialect.text_validation import find_invalid_text
from oneflow.lowering.pipelines import pipeline_between
from oneflow.passes.pipeline import Pipeline, PipelineFailure, Watch

#: The seconds that one function may take.
TIME_LIMIT = 120
_SHARD = "oneflow-infer-sbp{},oneflow-insert-boxing,oneflow-to-physical"
_COMMENT = re.compile(r"//.*")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a file or a function: "passed" or the step that failed, and one line about the outcome."""

    kind: str
    detail: str = ""


def functions_of(text: str) -> list[str] | Outcome:
    """The functions with operators of OneFlow in a file, each as a module; why the file is not read otherwise."""
    if not _COMMENT.sub("", text).strip():
        return Outcome("no program", "only comments, which run a command")
    reason = refused_job_text(text) or find_invalid_text(text)
    if reason is not None:
        return Outcome("refused", f"line {reason.line}: {reason.message}")
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, Collector(context) as collector:
        try:
            module = ir.Module.parse(mlir_text(text))
        except ir.MLIRError as error:
            first = (*error.error_diagnostics, *collector.diagnostics)[0]
            return Outcome("refused", f"MLIR's parser: {first.message}")
        return [str(f) for f in _functions(module.operation) if '"oneflow.' in str(f) or f.name == "func.func"]


def _functions(root: ir.Operation) -> Iterator[ir.Operation]:
    for op in root.regions[0].blocks[0].operations:
        if op.operation.name == "builtin.module":
            yield from _functions(op.operation)
        elif op.operation.name == "func.func":
            yield op.operation


def run_function(text: str) -> Outcome:
    """Compiles one function; the outcome names the step that failed, if a step failed."""
    try:
        module = read_module(text, create_context(REGISTRY, operators=()))
    except ProgramError as error:
        return Outcome("parse and verify", error.diagnostics[0].message)
    mesh = "" if MESH in module.operation.attributes else "{mesh=2}"
    steps = {
        "infer": "builtin.module(oneflow-infer-types)",
        "shard": f"builtin.module({_SHARD.format(mesh)})",
        "lower": pipeline_between(None, "llvm"),
    }
    for step, passes in steps.items():
        with module.context:
            copy = ir.Module.parse(str(module.operation.get_asm()))
        try:
            Pipeline.parse(passes, module.context).run(copy, REGISTRY, Watch(reproducers=None))
        except PipelineFailure as error:
            return Outcome(step, error.message.partition("\n")[0])
    return Outcome("passed")


def _child(connection: Any, text: str) -> None:
    try:
        outcome = run_function(text)
    except BaseException as error:
        outcome = Outcome("error", repr(error))
    connection.send((outcome.kind, outcome.detail))


def try_function(text: str) -> Outcome:
    """The outcome of a function, which is compiled in a separate process."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sending, text))
    process.start()
    sending.close()
    try:
        if not receiving.poll(TIME_LIMIT):
            return Outcome("time limit", f"more than {TIME_LIMIT} s")
        return Outcome(*receiving.recv())
    except EOFError:
        process.join()
        return Outcome("crash", signal.strsignal(-(process.exitcode or 0)) or "")
    finally:
        process.kill()
        process.join()


def row(path: Path) -> tuple[str, str, str]:
    """A file's outcome, the number of functions, and the reasons of functions that did not pass."""
    functions = functions_of(path.read_text())
    if isinstance(functions, Outcome):
        return functions.kind, "", functions.detail
    outcomes = [try_function(text) for text in functions if '"oneflow.' in text]
    others = len(functions) - len(outcomes)
    passed = sum(o.kind == "passed" for o in outcomes)
    failed = collections.Counter(f"{o.kind}: {o.detail}" for o in outcomes if o.kind != "passed")
    reasons = [f"{reason} ({count} x)" if count > 1 else reason for reason, count in failed.items()]
    reasons += [f"{others} without operators of OneFlow"] if others else []
    kind = "passed" if passed == len(outcomes) else "in part" if passed else "failed"
    return (kind if outcomes else "none of OneFlow's"), f"{passed} of {len(outcomes)}", "; ".join(reasons)


def report(checkout: Path) -> str:
    """The table of a checkout's files."""
    lines = ["| file | outcome | functions | reasons |", "| --- | --- | --- | --- |"]
    kinds: collections.Counter[str] = collections.Counter()
    for path in sorted(checkout.rglob("*.mlir")):
        kind, count, reasons = row(path)
        kinds[kind] += 1
        lines.append(f"| {path.relative_to(checkout)} | {kind} | {count} | {reasons} |")
    return "\n".join([*lines, "", ", ".join(f"{kind}: {n}" for kind, n in kinds.most_common())])


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a folder with .mlir files of OneFlow")
    print(report(parser.parse_args().checkout))


if __name__ == "__main__":
    main()
