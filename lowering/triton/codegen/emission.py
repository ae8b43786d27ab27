"""What emitters of kernels share: the program's number, blocks along an axis, what a tensor begins with, the file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oneflow.dialect._mlir import ir
from oneflow.lowering.triton.codegen.body import Bodies, literal
from oneflow.lowering.triton.codegen.kernel import FAILURE, Kernel
from oneflow.lowering.triton.codegen.prelude import kernel_source
from oneflow.lowering.triton.codegen.tile import Axis, constant_text
from oneflow.lowering.triton.codegen.writer import V, Writer
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import Source, TileLoop
from oneflow.passes.walk import gather

#: Blocks of programs that go over the same columns one after the other, so that these stay in the cache.
GROUP = 8


def program_id(kernel: Kernel) -> str:
    """The text of the program's number."""
    return "tl.program_id(0).to(tl.int64)" if kernel.is_wide else "tl.program_id(0)"


def tiles(axis: Axis) -> str:
    """The number of blocks along an axis, as a factor."""
    if axis.size.static is None:
        return f"(({axis.size} + {axis.block - 1}) // {axis.block})"
    return str(-(-axis.size.static // axis.block))


def place_block(writer: Writer, number: str, rows: str, columns: str) -> None:
    """Which of so many rows and columns of blocks a program computes: groups of rows, so that columns are read again
    while they are near.
    """
    for text in (
        f"program = {number}",
        f"batch = program // ({rows} * {columns})",
        f"within = program % ({rows} * {columns})",
        f"first = within // ({GROUP} * {columns}) * {GROUP}",
        f"height = tl.minimum({rows} - first, {GROUP})",
        f"row = first + within % ({GROUP} * {columns}) % height",
        f"column = within % ({GROUP} * {columns}) // height",
    ):
        writer.line(text)


def filled_with(value: ir.Value) -> str | None:
    """The literal that a tensor of a kernel is filled with, None if it is anything else."""
    if isinstance(value, ir.BlockArgument) or value.owner.name != "linalg.fill":
        return None
    number = value.owner.operands[0]
    constant = not isinstance(number, ir.BlockArgument) and number.owner.name == "arith.constant"
    return literal(number.owner.attributes["value"]) if constant else None


def initial(bodies: Bodies, value: ir.Value) -> V:
    """A tensor of one value as that value; what nothing defines is 0."""
    if value.owner.name == "linalg.fill":
        return bodies.value({}, value.owner.operands[0])
    element = str(value.type.element_type)
    zero = "0.0" if element[0] in "fb" else "0"
    return bodies.writer.define(constant_text(zero, element), element, prefix="c")


def finish_ops(
    kernel: Kernel, writer: Writer, ops: Sequence[ir.Operation], grid: str, warps: int, stages: int = 3,
    updates: dict[int, int] | None = None, fills: dict[int, str] | None = None, functions: Sequence[str] = (),
    tile_loop: TileLoop | None = None,
) -> Source:  # fmt: skip
    """The kernel's source around the lines that were written for `ops`."""
    parameters = [*kernel.parameters, *([(FAILURE, "*i64")] if kernel.checks else [])]
    names, lines = [n for n, _ in parameters], writer.scopes[0].lines
    text = kernel_source(identifier(kernel.name), origins(ops), names, lines, functions)
    return Source(
        kernel.name, text, tuple(parameters), grid, warps, stages, updates or {}, fills or {},
        descriptors=tuple(writer.descriptors.values()), tile_loop=tile_loop,
    )  # fmt: skip


#: An operator in a location's text: its name, then where it stands.
_ORIGIN = re.compile(r'"(oneflow\.[\w.]+)"\((?:"([^"]*)":(\d+):\d+)?')


def origins(ops: Sequence[ir.Operation]) -> list[str]:
    """The operators that operations came from, in order, each with its file and line where that is known.

    What was fused says so by what is in it; constants are shared and say nothing.
    """
    inner = [o for op in ops for o in gather(op, lambda o: o.name != "arith.constant")]
    found = [m for op in inner for m in _ORIGIN.findall(str(op.location))]
    return list(dict.fromkeys(f"{name} ({file}:{line})" if line else name for name, file, line in found))
