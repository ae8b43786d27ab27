"""`oneflow-translate`: programs from models of other frameworks, C++ from operators declared in ODS and from
`functional_api.yaml`.

    oneflow-translate --import-torch model.pt2 -o model.mlir
    oneflow-translate --import-onnx model.onnx -o model.mlir
    oneflow-translate --import-oneflow saved_graph/ -o model.mlir
    oneflow-translate --gen-op-schema ops.td -o oneflow/core/framework/op_generated.h
    oneflow-translate --import-ods ops.td -o op_generated.cpp
    oneflow-translate --gen-functional-api functional_api.yaml -o oneflow/core/functional/functional_api.yaml.h

The first three commands write the program of an exported PyTorch model, of an ONNX model or of a graph that OneFlow
saved, and next to it `model.safetensors` with the constants under the names of the arguments. The first header has a
class for each operator, whose static functions the user implements; the source registers the operators with them; the
second header declares `functional::Name`. The headers are compiled, together with kernels and functors, into a
library that `--load-ops` loads. `--load-ops ops.td` verifies programs before such a library exists.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

import oneflow.dialect.ops  # noqa: F401  registers the operators
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.frontend.core.errors import OneFlowError
from oneflow.frontend.importers.lazy import read_torch
from oneflow.runtime.user_ops.functional_api import FunctionalApiError, parse_functional_api
from oneflow.tools.arrays import write_arrays
from oneflow.tools.command import CommandError, Parser, run_command
from oneflow.tools.declared_operators import declare
from oneflow.tools.files import make_folder, read_text, write_text
from oneflow.tools.functional_header import functional_text
from oneflow.tools.ods import read_ods, registration_text, schema_text
from oneflow.tools.onnx_models import import_onnx
from oneflow.tools.saved_graphs import import_graph

HEADER = "oneflow/core/framework/op_generated.h"


def _import_ods(file: str, arguments: argparse.Namespace) -> str:
    ops = read_ods(read_text(file), file)
    declare(ops)
    return registration_text(ops, Path(file).name, arguments.header)


def _gen_op_schema(file: str, arguments: argparse.Namespace) -> str:
    ops = read_ods(read_text(file), file)
    declare(ops, Registry(dict(REGISTRY.operators)))
    return schema_text(ops, Path(file).name)


def _gen_functional_api(file: str, arguments: argparse.Namespace) -> str:
    try:
        return functional_text(parse_functional_api(read_text(file), file), Path(file).name)
    except FunctionalApiError as error:
        raise CommandError(str(error)) from None


def _import_onnx(file: str, arguments: argparse.Namespace) -> str:
    return _with_constants(*import_onnx(file), arguments)


def _import_oneflow(file: str, arguments: argparse.Namespace) -> str:
    return _with_constants(*import_graph(file), arguments)


def _with_constants(text: str, constants: Mapping[str, np.ndarray], arguments: argparse.Namespace) -> str:
    """The program, next to which its constants are written."""
    if arguments.output != "-" and constants:
        make_folder(Path(arguments.output).parent)
        write_arrays(str(Path(arguments.output).with_suffix(".safetensors")), constants)
    return text


def _import_torch(file: str, arguments: argparse.Namespace) -> str:
    try:
        model = read_torch(file)
    except (ImportError, OneFlowError) as error:
        raise CommandError(str(error)) from None
    if arguments.output != "-":
        make_folder(Path(arguments.output).parent)
        state = {name: tensor.numpy() for name, tensor in model.arguments.items()}
        write_arrays(str(Path(arguments.output).with_suffix(".safetensors")), state)
    return f"{model.module}"


#: The outputs of the command by option: the option's argument, its help, and the writer.
WRITERS: dict[str, tuple[str, str, Callable[[str, argparse.Namespace], str]]] = {
    "import-torch": ("FILE.pt2", "write the program of a file of torch.export.save", _import_torch),
    "import-ods": ("FILE.td", "register the operators of a file, and write the C++ that does", _import_ods),
    "gen-op-schema": ("FILE.td", "write the C++ classes whose static functions the user implements", _gen_op_schema),
    "gen-functional-api": ("FILE.yaml", "write the C++ functions of a functional_api.yaml", _gen_functional_api),
    "import-onnx": ("FILE.onnx", "write the program of a model, and its constants as .safetensors", _import_onnx),
    "import-oneflow": (
        "FOLDER",
        "write the program of a saved graph, and its variables as .safetensors",
        _import_oneflow,
    ),
}


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="oneflow-translate",
        description="Programs from models (.pt2, .onnx, folders), C++ from operators (.td) and functions (.yaml).",
        allow_abbrev=False,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    for name, (metavar, told, _) in WRITERS.items():
        what.add_argument(f"--{name}", metavar=metavar, help=told)
    parser.add_argument("--header", default=HEADER, help="the header that --import-ods includes, with the classes")
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="output file (default: -)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0, or 1 after an error, which is printed on standard error."""
    return run_command(
        "oneflow-translate", lambda: _run(_parser().parse_args(sys.argv[1:] if argv is None else argv))
    )


def _run(arguments: argparse.Namespace) -> int:
    name, file = next((n, f) for n in WRITERS if (f := getattr(arguments, n.replace("-", "_"))) is not None)
    text = WRITERS[name][2](file, arguments)
    if arguments.output != "-":
        make_folder(Path(arguments.output).parent)
    write_text(arguments.output, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
