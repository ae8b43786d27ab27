"""`oneflow-translate`: C++ from operators declared in ODS.

    oneflow-translate --gen-op-schema ops.td -o oneflow/core/framework/op_generated.h
    oneflow-translate --import-ods ops.td -o op_generated.cpp

The header has a class for each operator, whose static functions the user implements; the source registers the
operators with them. Both are compiled, together with kernels, into a library that `--load-ops` loads. Imports `ods`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import oneflow.dialect.ops  # noqa: F401  registers the operators
from oneflow.dialect.record import REGISTRY
from oneflow.tools.command import Parser, run_command
from oneflow.tools.files import make_folder, read_text, write_text
from oneflow.tools.ods import OdsOp, read_ods, registration_text, schema_text
from oneflow.tools.ods_parser import OdsError

HEADER = "oneflow/core/framework/op_generated.h"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="oneflow-translate", description="C++ from operators declared in ODS (.td).", allow_abbrev=False
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--import-ods", metavar="FILE.td", help="write the C++ that registers the operators of a file")
    what.add_argument(
        "--gen-op-schema", metavar="FILE.td", help="write the C++ classes whose static functions the user implements"
    )
    parser.add_argument("--header", default=HEADER, help="what --import-ods includes: where the classes are")
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="where it is written (default: -)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; 0 if all went well, 1 after an error, which is printed on standard error."""
    return run_command(
        "oneflow-translate", lambda: _run(_parser().parse_args(sys.argv[1:] if argv is None else argv))
    )


def _run(arguments: argparse.Namespace) -> int:
    file = arguments.import_ods or arguments.gen_op_schema
    ops = read_ods(read_text(file), file)
    _refuse_taken(ops)
    name = Path(file).name
    text = registration_text(ops, name, arguments.header) if arguments.import_ods else schema_text(ops, name)
    if arguments.output != "-":
        make_folder(Path(arguments.output).parent)
    write_text(arguments.output, text)
    return 0


def _refuse_taken(ops: Sequence[OdsOp]) -> None:
    for op in ops:
        if op.name in REGISTRY:
            raise OdsError(f"{op.where}: operator {op.name} is defined already at {REGISTRY[op.name].where}")


if __name__ == "__main__":
    sys.exit(main())
