"""`oneflow-run`: compiles one function of a program and runs it on arrays from files.

    oneflow-run model.mlir --entry-point f --input x=x.npy --input weights.safetensors --output out.npz

Imports the reader, the compiler (`runtime`) and the files of arrays.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

import oneflow.dialect.ops  # noqa: F401  registers the operators
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import ProgramError, read_module
from oneflow.dialect.record import REGISTRY, suggestion
from oneflow.lowering.pipelines import STAGES, pipeline_between
from oneflow.passes.pipeline import Pipeline, Watch
from oneflow.runtime.executable import compile_module
from oneflow.tools.arrays import read_arrays, write_arrays
from oneflow.tools.command import UsageError, run_command
from oneflow.tools.diagnostics import Source
from oneflow.tools.entry import EntryError, find_entry, match_inputs
from oneflow.tools.files import load_operators, read_text
from oneflow.tools.seeds import set_seed


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see --help")


#: Options by name: what argparse is told of each.
OPTIONS: dict[str, dict[str, Any]] = {
    "file": {"help": "the program; - is standard input"},
    "--entry-point": {"metavar": "NAME", "help": "the function to run (default: the only public one)"},
    "--input": {
        "action": "append", "default": [], "metavar": "[NAME=]FILE",
        "help": "an array (NAME=x.npy), or an archive (.npz, .safetensors) whose names are those of arguments",
    },
    "--output": {"metavar": "FILE", "help": "where results go (.npy, .npz, .safetensors); else they are printed"},
    "--print-ir-after": {
        "action": "append", "default": [], "metavar": "STAGE|PASS",
        "help": f"print the program at a stage ({', '.join(STAGES)}) or after a pass",
    },
    "--time": {
        "type": int, "nargs": "?", "const": 10, "metavar": "N",
        "help": "print how long compiling and the median of N runs (default 10) take",
    },
    "--seed": {"type": int, "metavar": "N", "help": "the seed of random operators that have none"},
    "--load-ops": {"metavar": "FILE", "help": "load operators first, from a Python file or a library (.so)"},
    "--device": {"choices": ["cpu"], "default": "cpu", "help": "where to run"},
}  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    text = "Compiles one function of an MLIR program and runs it on arrays from files."
    parser = _Parser(prog="oneflow-run", description=text, allow_abbrev=False)
    for name, details in OPTIONS.items():
        parser.add_argument(name, **details)
    return parser


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command line.

    Raises:
        UsageError: one is missing, malformed or unknown; the nearest is suggested.
    """
    arguments, unknown = _parser().parse_known_args(argv)
    if unknown:
        raise UsageError(
            f"unknown argument {unknown[0]}{suggestion(unknown[0].partition('=')[0], OPTIONS)}; see --help"
        )
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; 0 if all went well, 1 after an error, which is printed on standard error."""
    return run_command("oneflow-run", lambda: _run(parse_arguments(sys.argv[1:] if argv is None else argv)))


def _read_program(file: str) -> ir.Module | None:
    """The program; None after errors in it, which have been printed as oneflow-opt does."""
    text = read_text(file)
    name = "<stdin>" if file == "-" else file
    try:
        return read_module(text, create_context(REGISTRY), name)
    except ProgramError as error:
        print(*map(Source(name, text).render, error.diagnostics), sep="\n", file=sys.stderr)
        return None


def _run(arguments: argparse.Namespace) -> int:
    if arguments.load_ops:
        load_operators(arguments.load_ops)
    module = _read_program(arguments.file)
    if module is None:
        return 1
    entry = find_entry(module, arguments.entry_point)
    arrays = match_inputs(entry, _read_inputs(arguments.input))
    if arguments.seed is not None:
        set_seed(module, arguments.seed)
    for name in arguments.print_ir_after:
        print_after(module, name, arguments.file)
    start = time.perf_counter()
    executable = _guarded(lambda: compile_module(module, entry.name))
    compiled = time.perf_counter() - start
    results = _guarded(lambda: executable(*arrays))
    if arguments.time is not None:
        _report_times(compiled, lambda: executable(*arrays), arguments.time)
    _deliver(arguments.output, dict(zip(entry.outputs, results, strict=True)))
    return 0


def _read_inputs(inputs: Sequence[str]) -> dict[str, np.ndarray]:
    given: dict[str, np.ndarray] = {}
    for text in inputs:
        name, named, path = text.rpartition("=")
        arrays = read_arrays(path)
        if named and len(arrays) != 1:
            raise UsageError(
                f"--input {text}: expected one array in {path}, got {', '.join(arrays)}; leave out {name}="
            )
        if not named and "" in arrays:
            raise UsageError(f"--input {text}: expected NAME={path}, since an .npy file does not name its array")
        for key, array in arrays.items():
            target = name if named else key
            if target in given:
                raise UsageError(f"--input {text}: {target} is given twice")
            given[target] = array
    return given


def print_after(module: ir.Module, name: str, file: str) -> None:
    """Prints a copy of the program at a stage, or after each run of a pass on the way to `llvm`.

    Raises:
        UsageError: `name` is neither.
    """
    with module.context:
        copy = ir.Module.parse(str(module.operation.get_asm(enable_debug_info=True)))
    if name in STAGES:
        Pipeline.parse(pipeline_between(None, name), module.context).run(copy, REGISTRY, Watch(file=file))
        print(f"// -----// IR at stage {name} //----- //\n{copy}")
        return
    pipeline = Pipeline.parse(pipeline_between(None, "llvm"), module.context)
    names = list(dict.fromkeys(step.name for step in pipeline.steps))
    if name not in names:
        raise UsageError(f"--print-ir-after: expected a stage ({', '.join(STAGES)}) or one of {', '.join(names)}")
    pipeline.run(copy, REGISTRY, Watch(after=frozenset({name}), file=file, stream=sys.stdout))


def _guarded(call: Callable[[], Any]) -> Any:
    """Compiles or runs; what is raised about the program or its data is said as an error of the command."""
    try:
        return call()
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, ValueError) as error:
        raise EntryError(str(error)) from None


def _report_times(compiled: float, call: Callable[[], Any], runs: int) -> None:
    if runs < 1:
        raise UsageError(f"--time: expected at least 1 run, got {runs}")
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    median = 1e3 * statistics.median(seconds)
    print(f"compile {1e3 * compiled:.1f} ms, run {median:.3f} ms (median of {runs})", file=sys.stderr)


def _deliver(output: str | None, results: dict[str, np.ndarray]) -> None:
    if output is not None:
        write_arrays(output, results)
        return
    for name, array in results.items():
        print(f"{name}: {array.dtype}[{', '.join(map(str, array.shape))}]\n{array}")


if __name__ == "__main__":
    sys.exit(main())
