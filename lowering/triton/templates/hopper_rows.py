"""Long rows on Hopper, in Gluon: a program keeps its row in shared memory for all passes over the row.

A long row in registers leaves no registers for a second program on the SM, so that nothing is loaded while the
program computes. A row that each pass loads again is loaded from L2. The shared memory of an SM holds the rows of
several programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from oneflow.lowering.kernels.nodes import Unsupported
from oneflow.lowering.targets.instructions import REGISTER_STEP, VECTOR_BYTES, WARP
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.block_shape import BlockShape, RowMode, is_strided
from oneflow.lowering.triton.codegen.body import BodyEmitter
from oneflow.lowering.triton.codegen.emission import origins, tile_count
from oneflow.lowering.triton.codegen.kernel import TYPES, Tensor, bytes_of
from oneflow.lowering.triton.codegen.loop_nest import INNER, LoopNest
from oneflow.lowering.triton.codegen.prelude import definitions
from oneflow.lowering.triton.codegen.reduction import Fold
from oneflow.lowering.triton.codegen.tile import Axis, LinearForm, Offset, Tile
from oneflow.lowering.triton.codegen.writer import NONE, Value
from oneflow.lowering.triton.source import GLUON, PROGRAM_PLACEHOLDER, Source, nested
from oneflow.lowering.triton.symbolic_sizes import Size
from oneflow.lowering.triton.templates.warp_specialization import target_form

HEAD = """import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as tl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.language.extra.cuda import libdevice

load_elements = async_copy.async_load if hasattr(async_copy, "async_load") else async_copy.async_copy_global_to_shared

"""


def hopper_form(nest: LoopNest) -> dict[str, Source]:
    """The form for Hopper by its architecture, empty where rows are short or the nest is not supported."""
    if not gpu_target().has_warp_groups or not _is_supported(nest):
        return {}
    try:
        return target_form(SharedRowNest(nest.kernel, nest.kernel.structure()).emit())
    except Unsupported:
        return {}


def _is_supported(nest: LoopNest) -> bool:
    """Whether a kernel reads long contiguous rows, reduces them and reads them again."""
    nodes, outer, inner = nest.structure.nodes, nest.tile.axes[0].size.static, nest.row.size.static
    target = gpu_target()
    long = inner is not None and inner >= target.kernels.shared_rows.min_row and (outer or 0) >= target.sms
    folded = (
        bool(nest.folds)
        and not nest.arg_reductions
        and not nest.kernel.checks
        and nest.blocks.mode is not RowMode.SEQUENTIAL
    )
    streams = any(n.is_scan_result(i) for n in nodes for i in range(len(n.outputs)))
    plain = long and folded and not streams and nest.structure.needs_second_pass
    return plain and not is_strided(nest.structure, nest.tile.forms)


@dataclass(frozen=True)
class RowBuffer:
    """A shared-memory buffer for the row of a tensor.

    `offset` is the offset of the row's elements in the tensor. `mask` is the text of the mask of elements that exist,
    empty where all do.
    """

    name: str
    tensor: Tensor
    offset: Offset
    mask: str = ""

    @property
    def source(self) -> tuple[Tensor, LinearForm | None]:
        """The tensor, and the form of its offset: what the buffer is a copy of."""
        return self.tensor, self.offset.form


@dataclass
class RowTile(Tile):
    """Blocks of a row. Rows that the first pass reads get a buffer in shared memory, as many rows as fit.

    `unbuffered` are the other rows, each with the index of the pass that reads it.
    """

    buffers: list[RowBuffer] = field(default_factory=list)
    is_first: bool = True
    pass_index: int = 0
    unbuffered: list[tuple[Tensor, LinearForm, int]] = field(default_factory=list)

    def lanes(self, axis: Axis) -> str:
        """The positions within a block along an axis, in the layout of threads."""
        return f"tl.arange(0, {axis.block}, layout=THREADS)"

    def load(self, tensor: Tensor, offset: Offset, other: str = "0") -> Value:
        """The element at an offset."""
        buffer = next((r for r in self.buffers if r.source == (tensor, offset.form)), None)
        if buffer is None and offset.form is not None and self._is_row(offset.form):
            buffer = self._buffer(tensor, offset.form, offset)
        if buffer is None:
            return super().load(tensor, offset, other)
        text = f"{buffer.name}.index(r_at // {self.axes[-1].block}).load(THREADS)"
        return self.writer.define(f"{text} != 0" if tensor.element == "i1" else text, tensor.element, offset.axes)

    def _buffer(self, tensor: Tensor, form: LinearForm, offset: Offset) -> RowBuffer | None:
        """The buffer for a row; None where the row does not fit and only one pass reads it.

        Raises:
            Unsupported: the row does not fit and another pass reads it as well.
        """
        if self.is_first and self._fits(tensor, form):
            name, mask = f"row_buffer{len(self.buffers)}", self.mask(offset.axes) or ""
            self.buffers.append(RowBuffer(name, tensor, offset, mask))
            return self.buffers[-1]
        index = next((n for t, f, n in self.unbuffered if (t, f) == (tensor, form)), self.pass_index)
        if index != self.pass_index:
            raise Unsupported("a row that is read in two passes exceeds shared memory")
        self.unbuffered.append((tensor, form, index))
        return None

    def _is_row(self, form: LinearForm) -> bool:
        """Whether each program reads a row of its own: not a single element, nor a row that all programs share."""
        return all(any(name in form.loops for name in axis.loops) for axis in self.axes)

    def _fits(self, tensor: Tensor, form: LinearForm) -> bool:
        """Whether rows of a tensor can be copied as vectors and fit in shared memory with the other buffers."""
        outer, inner = (axis.loops for axis in self.axes)
        last = [group[-1] for group in self.groups(inner)]
        if form.computed or len(last) != 1 or form.loops.get(last[0]) != Size.of(1):
            return False
        steps = [form.loops[n] for n in outer if n in form.loops]
        width = bytes_of(tensor.element)
        is_aligned = steps and all(
            (s.static or 1) * width % VECTOR_BYTES == 0 for s in (*steps, form.constant) if s.terms
        )
        needed = self.buffer_bytes([*self.buffers, RowBuffer("", tensor, Offset("", NONE, form))])
        target = gpu_target()
        programs = target.kernels.shared_rows.min_programs_per_sm
        available = target.block_shared_bytes // programs - target.reserved_shared_bytes
        return bool(is_aligned) and needed <= available

    def buffer_bytes(self, buffers: Iterable[RowBuffer]) -> int:
        """The bytes of buffers."""
        elements = (tile_count(self.axes[-1]).static or 0) * self.axes[-1].block
        return sum(elements * bytes_of(buffer.tensor.element) for buffer in buffers)

    def broadcast(self, value: Value) -> Value:
        """The value as a full block.

        Raises:
            Unsupported: the value is the same for all elements of a row.
        """
        if not value.axes >= INNER:
            raise Unsupported("a block of one value")
        return super().broadcast(value)


@dataclass
class SharedRowNest(LoopNest):
    """The source in Gluon of a nest whose inner loops are one row."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.parameters = gpu_target().kernels.shared_rows
        self.blocks = BlockShape(1, self.parameters.block, RowMode.CHUNKED, self.parameters.warps)
        self.online_sums, self.running_maxima, self.rank = {}, {}, 1
        self.row = Axis("r", self.structure.inner, self.blocks.inner)
        self.columns = [Axis("x", self.structure.outer, 1, PROGRAM_PLACEHOLDER, scalar=True)]
        forms, opaque = self.tile.forms, self.tile.opaque
        self.tile = self.rows = RowTile(
            self.kernel, self.writer, [*self.columns, self.row], self.sizes, forms, opaque, layout="THREADS"
        )  # fmt: skip
        self.bodies = BodyEmitter(self.tile)

    def emit(self) -> Source:
        """The source.

        Raises:
            Unsupported: no row fits in shared memory.
        """
        for axis in self.columns:
            self.tile.emit_axis(axis)
        for node in self.structure.nodes:
            self._emit_node(node)
        self._close_row_loop()
        if not self.rows.buffers:
            raise Unsupported("no row fits in shared memory")
        return self._source()

    def _open_row_loop(self) -> None:
        super()._open_row_loop()
        self.rows.pass_index += 1
        self.position_lines = list(self.writer.scopes[-1].lines)
        self.tile.eviction_policy = ""
        self.waits_for_copies = self.rows.is_first
        if self.waits_for_copies:
            self.writer.line(f"async_copy.wait_group({tile_count(self.row)} - 1 - r_at // {self.row.block})")

    def _close_row_loop(self) -> None:
        if self.accumulators is not None and self.rows.is_first:
            self.loop_prologue = [*self._copy_lines(self.rows.buffers), *self.loop_prologue]
            self.rows.is_first = False
        super()._close_row_loop()

    def _copy_lines(self, buffers: Sequence[RowBuffer]) -> list[str]:
        """Statements that allocate buffers and copy rows into them, block by block."""
        layout = "tl.SwizzledSharedLayout(1, 1, 1, [0])"
        kinds = [TYPES[r.tensor.element] if r.tensor.element != "i1" else "int8" for r in buffers]
        copies = [
            f"load_elements({r.name}.index(r_at // {self.row.block}), {r.tensor.name} + {r.offset.expression}"
            f"{f', mask={r.mask}' if r.mask else ''})" for r in buffers
        ]  # fmt: skip
        return [
            *(f"{r.name} = tl.allocate_shared_memory(tl.{kind}, [{tile_count(self.row)}, {self.row.block}], {layout})"
              for r, kind in zip(buffers, kinds, strict=True)),
            f"for r_at in tl.static_range(0, {self.row.size}, {self.row.block}):",
            *nested((*self.position_lines, *copies, "async_copy.commit_group()")),
        ]  # fmt: skip

    def _range_prefix(self, begin: int, end: int | Size) -> str:
        """A pass that waits for copies, or is short, is unrolled."""
        most = self.parameters.max_unrolled
        is_short = not isinstance(end, Size) and len(range(begin, end, self.row.block)) <= most
        return "tl.static_" if self.waits_for_copies or is_short else ""

    def _source(self) -> Source:
        vector = VECTOR_BYTES // max(bytes_of(r.tensor.element) for r in self.rows.buffers)
        target, warps = gpu_target(), self.blocks.warps
        threads = f"THREADS = tl.constexpr(tl.BlockedLayout([{vector}], [{WARP}], [{warps}], [0]))\n"
        needed = self.rows.buffer_bytes(self.rows.buffers) + 2 * target.reserved_shared_bytes
        programs = target.sm_shared_bytes // needed
        registers = target.sm_registers // (programs * warps * WARP) // REGISTER_STEP * REGISTER_STEP
        return Source(
            self.kernel.name, tuple(self.kernel.parameters), tile_count(self.columns[0]),
            self.writer.body, warps, registers=min(registers, self.parameters.max_registers), language=GLUON,
            origins=origins([n.op for n in self.structure.nodes]), preamble=(HEAD, threads),
            functions=definitions(self.writer.calls, GLUON),
        )  # fmt: skip

    def _reduce(self, value: Value, fold: Fold) -> Value:
        """The reduction of a row to a scalar."""
        text = f"tl.reduce({value.name}, 0, {self.writer.call(fold.function)})"
        return self.writer.define(text, value.element, value.axes - INNER)
