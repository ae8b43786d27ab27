"""The common parts of kernel emitters: program ids, tile rasterization, initial values, the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oneflow.dialect._mlir import ir
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.body import BodyEmitter, literal
from oneflow.lowering.triton.codegen.kernel import Kernel
from oneflow.lowering.triton.codegen.prelude import definitions, preamble
from oneflow.lowering.triton.codegen.tile import Axis, constant_text
from oneflow.lowering.triton.codegen.writer import Value, Writer
from oneflow.lowering.triton.source import FAILURE, PROGRAM_PLACEHOLDER, Function, Parameter, Source
from oneflow.lowering.triton.symbolic_sizes import TileCount
from oneflow.passes.walk import gather


def program_id(kernel: Kernel) -> str:
    """The text of the program id, of 64 bits where positions need 64 bits."""
    return f"{PROGRAM_PLACEHOLDER}.to(tl.int64)" if kernel.needs_64_bits else PROGRAM_PLACEHOLDER


def tile_count(axis: Axis) -> TileCount:
    """The number of blocks along an axis."""
    return TileCount.of(axis.size, axis.block)


def write_tile_rasterization(writer: Writer, tile: str, rows: TileCount, columns: TileCount) -> None:
    """Writes the batch, row and column of the tile with index `tile`, of `rows` times `columns` tiles a batch.

    The order of the tiles (tile rasterization, thread block swizzle) is the grouped order of Triton's tutorial on
    matrix products: programs of a group of rows read the same columns, which stay in the L2 cache.
    """
    group = gpu_target().kernels.blocks.group_rows
    for text in (
        f"program = {tile}",
        f"batch = program // ({rows} * {columns})",
        f"tile_in_batch = program % ({rows} * {columns})",
        f"first_row = tile_in_batch // ({group} * {columns}) * {group}",
        f"group_rows = tl.minimum({rows} - first_row, {group})",
        f"row = first_row + tile_in_batch % ({group} * {columns}) % group_rows",
        f"column = tile_in_batch % ({group} * {columns}) // group_rows",
    ):
        writer.line(text)


def fill_literal(value: ir.Value) -> str | None:
    """The literal that a tensor is filled with, None where the tensor is not a `linalg.fill` of a constant."""
    if isinstance(value, ir.BlockArgument) or value.owner.name != "linalg.fill":
        return None
    scalar = value.owner.operands[0]
    is_constant = not isinstance(scalar, ir.BlockArgument) and scalar.owner.name == "arith.constant"
    return literal(scalar.owner.attributes["value"]) if is_constant else None


def initial_value(bodies: BodyEmitter, value: ir.Value) -> Value:
    """The value of a filled tensor as a scalar; a `tensor.empty` has the value 0."""
    if value.owner.name == "linalg.fill":
        return bodies.value({}, value.owner.operands[0])
    element = str(value.type.element_type)
    zero = "0.0" if element[0] in "fb" else "0"
    return bodies.writer.define(constant_text(zero, element), element, prefix="c")


def make_source(
    kernel: Kernel, writer: Writer, ops: Sequence[ir.Operation], grid: TileCount, warps: int, stages: int = 3,
    updates: dict[int, int] | None = None, fills: dict[int, str] | None = None, functions: Sequence[Function] = (),
    has_dot: bool = False,
) -> Source:  # fmt: skip
    """The source of a kernel whose statements `writer` holds.

    `ops` are the operations of the kernel, `grid` is its number of programs. `updates` has the argument whose memory
    a result takes, `fills` the literal with which a result is filled before the launch. `functions` are the functions
    that only this kernel has. `has_dot` says whether the kernel multiplies by `tl.dot`.
    """
    parameters = [*kernel.parameters, *([Parameter(FAILURE, "*i64")] if kernel.checks else [])]
    descriptor_only = tuple(p.name for p in kernel.parameters if p.is_pointer and p.name not in writer.pointers)
    return Source(
        kernel.name, tuple(parameters), grid, writer.body, warps, stages, updates or {}, fills or {},
        origins=origins(ops), preamble=preamble(writer.calls), functions=(*definitions(writer.calls), *functions),
        descriptor_only=descriptor_only, has_dot=has_dot,
    )  # fmt: skip


def origins(ops: Sequence[ir.Operation]) -> tuple[str, ...]:
    """The operators that operations were lowered from, in order, with file and line where these are known.

    Regions are searched too. Constants are shared between operators and left out.
    """
    return tuple(dict.fromkeys(f"{name} ({site})" if site else name for name, site in _operators(ops)))


def operator_names(ops: Sequence[ir.Operation]) -> tuple[str, ...]:
    """The names of the operators that operations were lowered from, in order."""
    return tuple(dict.fromkeys(name for name, _ in _operators(ops)))


def _operators(ops: Sequence[ir.Operation]) -> Iterator[tuple[str, str]]:
    """The operators that operations were lowered from: the name, and the file and line where these are known."""
    inner = (o for op in ops for o in gather(op, lambda o: o.name != "arith.constant"))
    return (operator for op in inner for operator in _operators_at(op.location))


def _operators_at(location: ir.Location) -> Iterator[tuple[str, str]]:
    """The operators that a location names, outermost first."""
    if isinstance(location, ir.NameLoc):
        child = location.child_loc
        if location.name_str.startswith("oneflow.") and not isinstance(child, ir.UnknownLoc):
            is_known = isinstance(child, ir.FileLineColLoc)
            yield location.name_str, f"{child.filename}:{child.start_line}" if is_known else ""
        yield from _operators_at(child)
    elif isinstance(location, ir.FusedLoc):
        for part in location.locations:
            yield from _operators_at(part)
    elif isinstance(location, ir.CallSiteLoc):
        yield from _operators_at(location.callee)
        yield from _operators_at(location.caller)
