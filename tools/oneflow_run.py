"""`oneflow-run`: compiles one function of a program and runs it on arrays from files.

oneflow-run model.mlir --entry-point f --input x=x.npy --input weights.safetensors --output out.npz
oneflow-run model.onnx --input x=x.npy
oneflow-run saved_graph/ --input x=x.npy
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import oneflow
import oneflow.dialect.ops
from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import Mesh
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import ProgramError, read_module
from oneflow.dialect.record import REGISTRY, suggestion
from oneflow.frontend.core.compilation import compile_for, set_compile_option
from oneflow.frontend.core.devices import Device, device
from oneflow.frontend.core.errors import OneFlowError
from oneflow.lowering.options import AUTOTUNE
from oneflow.lowering.pipelines import STAGES, pipeline_between
from oneflow.passes.pipeline import Pipeline, Watch
from oneflow.passes.sbp import STRATEGIES
from oneflow.tools import ranks
from oneflow.tools.arrays import check_output, read_arrays, write_arrays
from oneflow.tools.command import Parser, UsageError, run_command
from oneflow.tools.describe import version_text
from oneflow.tools.diagnostics import Source
from oneflow.tools.entry import Entry, EntryError, find_entry, match_inputs
from oneflow.tools.files import LOAD_HELP, load_operators, read_text
from oneflow.tools.onnx_models import SUFFIX, import_onnx
from oneflow.tools.saved_graphs import saved_program
from oneflow.tools.seeds import set_seed
from oneflow.tools.target import HELP, for_targets


class _StoreOnce(argparse.Action):
    """An option that may be given once."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, *_: Any) -> None:
        seen: set[str] = namespace.__dict__.setdefault("given", set())
        if self.dest in seen:
            parser.error(f"{self.option_strings[0]} is given twice")
        seen.add(self.dest)
        setattr(namespace, self.dest, value)


def _number(minimum: int, maximum: int) -> Callable[[str], int]:
    """Reads an integer within limits."""

    def read(text: str) -> int:
        try:
            if minimum <= (number := int(text)) <= maximum:
                return number
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"expected an integer from {minimum} to {maximum}, got {text!r}")

    return read


#: The arguments of `add_argument` by option.
OPTIONS: dict[str, dict[str, Any]] = {
    "file": {"help": "the program, an ONNX model, or the folder of a saved graph; - is standard input"},
    "--entry-point": {"metavar": "NAME", "help": "the function to run (default: the only public one)"},
    "--input": {
        "action": "append", "default": [], "metavar": "[NAME=]FILE",
        "help": "an array (NAME=x.npy), or an archive (.npz, .safetensors) whose names are names of arguments",
    },
    "--output": {"metavar": "FILE", "help": "file for the results (.npy, .npz, .safetensors); default: results are "
                                            "printed"},
    "--print-ir-after": {
        "action": "append", "default": [], "metavar": "STAGE|PASS",
        "help": f"print the program at a stage ({', '.join(STAGES)}) or after a pass",
    },
    "--time": {
        "type": _number(1, 10**9), "nargs": "?", "const": 10, "metavar": "N",
        "help": "print the times of compilation and of the median of N runs (default 10)",
    },
    "--seed": {
        "type": _number(-(2**63), 2**63 - 1), "metavar": "N", "help": "the seed of random operators that have none",
    },
    "--load-ops": {"metavar": "FILE", "help": LOAD_HELP},
    "--nproc": {
        "type": _number(1, 65536), "metavar": "N", "help": "run as N ranks, which are started by mpiexec",
    },
    "--simulate": {"action": "store_true", "help": "run all ranks of the program's mesh in this process"},
    "--mesh": {"metavar": "N,..", "help": "the mesh of ranks (default: the program's oneflow.mesh)"},
    "--sbp": {
        "choices": STRATEGIES, "default": STRATEGIES[0],
        "help": "choice of layouts without annotation (default: greedy)",
    },
    "--autotune": {"action": "store_true", "help": "on a GPU, time candidate configurations of kernels"},
    "--target": {"metavar": "TARGET", "help": HELP},
    "--device": {"metavar": "DEVICE", "default": "cpu", "help": "where to run: cpu, cuda or cuda:N (default: cpu)"},
}  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    text = "Compiles one function of an MLIR program and runs it on arrays from files."
    parser = Parser(prog="oneflow-run", description=text, allow_abbrev=False)
    for name, details in OPTIONS.items():
        is_repeatable = "action" in details or not name.startswith("-")
        parser.add_argument(name, **(details if is_repeatable else {**details, "action": _StoreOnce}))
    parser.add_argument("--version", action="version", version=version_text(oneflow.__version__))
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
    """Runs the command; returns 0, or 1 after an error, which is printed on standard error."""
    words = list(sys.argv[1:] if argv is None else argv)
    return run_command("oneflow-run", lambda: _start(words, parse_arguments(words)), ranks.report)


def _start(words: Sequence[str], arguments: argparse.Namespace) -> int:
    """Runs the program in this process, or starts ranks with the same command line."""
    if arguments.nproc is None or ranks.is_rank():
        return _run(arguments)
    if arguments.simulate:
        raise UsageError("expected either --nproc or --simulate, got both")
    return ranks.start_ranks(["oneflow.tools.oneflow_run", *words], arguments.nproc)


def _read_program(file: str, text: str) -> ir.Module | None:
    """The program; None after errors, which are printed in the format of oneflow-opt."""
    name = "<stdin>" if file == "-" else file
    try:
        return read_module(text, create_context(REGISTRY, operators=()), name)
    except ProgramError as error:
        ranks.report("\n".join(map(Source(name, text).render, error.diagnostics)))
        return None


def _read_file(arguments: argparse.Namespace) -> tuple[str, str, dict[str, np.ndarray]]:
    """The file of the program, its text, and the arrays of its constants by name."""
    file: str = arguments.file
    if file.endswith(SUFFIX):
        return file, *import_onnx(file, _read_inputs(arguments.input))
    file, constants = saved_program(file) if Path(file).is_dir() else (file, {})
    return file, read_text(file), constants


def _run(arguments: argparse.Namespace) -> int:
    with for_targets(arguments.target):
        return _run_program(arguments)


def _run_program(arguments: argparse.Namespace) -> int:
    device = _device(arguments)
    if arguments.load_ops is not None:
        load_operators(arguments.load_ops)
    file, text, constants = _read_file(arguments)
    module = _read_program(file, text)
    if module is None:
        return 1
    if arguments.autotune:
        set_compile_option(module, AUTOTUNE, True)
    entry = find_entry(module, arguments.entry_point, text)
    if arguments.output is not None:
        check_output(arguments.output, entry.outputs)
    if arguments.seed is not None:
        set_seed(module, arguments.seed)
    mesh = ranks.find_mesh(module, arguments.mesh)
    if mesh is not None:
        return _run_ranks(arguments, module, entry, mesh, constants)
    if arguments.nproc is not None or arguments.simulate:
        raise UsageError("expected a program with a mesh: the module attribute oneflow.mesh, or --mesh 2,2")
    for name in arguments.print_ir_after:
        print_after(module, name, file)
    arrays = _match(arguments, entry, constants)
    start = time.perf_counter()
    executable = _guarded(lambda: compile_for(device, module, entry.name))
    compiled = time.perf_counter() - start
    results = _guarded(lambda: executable(*arrays))
    if arguments.time is not None:
        _report_times(compiled, lambda: executable(*arrays), arguments.time)
        print(f"memory: {executable.memory}", file=sys.stderr)
    _deliver(arguments.output, dict(zip(entry.outputs, results, strict=True)))
    return 0


def _device(arguments: argparse.Namespace) -> Device:
    """The device of a command line.

    Raises:
        UsageError: the text is none.
    """
    try:
        return device(arguments.device)
    except OneFlowError as error:
        raise UsageError(f"--device: {error.text}") from None


def _run_ranks(
    arguments: argparse.Namespace, module: ir.Module, entry: Entry, mesh: Mesh, constants: Mapping[str, np.ndarray]
) -> int:
    """Runs the ranks of this process; the first rank delivers the whole results."""
    for name in arguments.print_ir_after:
        expect_known(name, ranks.STAGES, "--print-ir-after: expected a stage")
    arrays = [] if arguments.print_ir_after else _match(arguments, entry, constants)
    start = time.perf_counter()
    where = _device(arguments)
    if where.type == "cuda" and arguments.simulate:
        raise UsageError("expected --nproc with --device cuda, where every rank has a GPU, got --simulate")
    program = _guarded(lambda: ranks.prepare(module, entry.name, mesh, arguments.sbp, arguments.simulate, where.type))
    compiled = time.perf_counter() - start
    is_first = 0 in program.programs
    for name in arguments.print_ir_after if is_first else ():
        print(f"// -----// IR at stage {name} //----- //\n{_guarded(functools.partial(program.ir, name))}")
    arrays = arrays or _match(arguments, entry, constants)
    placed = [program.laid_out(i, a) for i, a in enumerate(arrays)]
    results = _guarded(lambda: program.run(placed))
    if arguments.time is not None:
        _report_times(compiled, lambda: program.run(placed), arguments.time, is_first)
    logical = _guarded(lambda: [result.gather(root=0) for result in results])
    if is_first:
        _deliver(arguments.output, dict(zip(entry.outputs, logical, strict=True)))
    return 0


def _match(arguments: argparse.Namespace, entry: Entry, constants: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The arrays of an entry point: arrays of the command line, and else the constants of the file."""
    own = {name: array for name, array in constants.items() if name in entry.inputs}
    return match_inputs(entry, {**own, **_read_inputs(arguments.input)})


def _read_inputs(inputs: Sequence[str]) -> dict[str, np.ndarray]:
    named_arrays: dict[str, np.ndarray] = {}
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
            if target in named_arrays:
                raise UsageError(f"--input {text}: {target} is given twice")
            named_arrays[target] = array
    return named_arrays


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
    expect_known(name, [*STAGES, *names], "--print-ir-after: expected a stage, or a pass on the way to llvm")
    pipeline.run(copy, REGISTRY, Watch(after=frozenset({name}), file=file, stream=sys.stdout))


def expect_known(name: str, known: Collection[str], text: str) -> None:
    """Refuses an unknown name.

    Raises:
        UsageError: the name is unknown; the nearest name is suggested, or all names are listed.
    """
    if name not in known:
        raise UsageError(f"{text}, got {name!r}{suggestion(name, known) or '; known are ' + ', '.join(known)}")


def _guarded(call: Callable[[], Any]) -> Any:
    """Compiles or runs; exceptions about the program or its data become errors of the command."""
    try:
        return call()
    except (ArithmeticError, ImportError, LookupError, MemoryError, RuntimeError, ValueError) as error:
        raise EntryError(str(error)) from None


def _report_times(compiled: float, call: Callable[[], Any], runs: int, prints: bool = True) -> None:
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    median = 1e3 * statistics.median(seconds)
    if prints:
        print(f"compile {1e3 * compiled:.1f} ms, run {median:.3f} ms (median of {runs})", file=sys.stderr)


def _deliver(output: str | None, results: dict[str, np.ndarray]) -> None:
    if output is not None:
        write_arrays(output, results)
        return
    for name, array in results.items():
        print(f"{name}: {array.dtype}[{', '.join(map(str, array.shape))}]\n{array}")


if __name__ == "__main__":
    sys.exit(main())
