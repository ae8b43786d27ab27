"""Long rows on Hopper, in Gluon: a program keeps its row in shared memory and goes over it there.

A row of so many elements in registers leaves a processor no room for another program, and it reads nothing while it
computes; a row that is read again comes from the cache of all processors. In shared memory several have room.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from oneflow.lowering.kernels.nodes import Unsupported
from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.triton.codegen.block_shape import BlockShape, is_strided
from oneflow.lowering.triton.codegen.body import BodyEmitter
from oneflow.lowering.triton.codegen.emission import origins, tile_count
from oneflow.lowering.triton.codegen.kernel import TYPES, Tensor, bytes_of
from oneflow.lowering.triton.codegen.loop_nest import INNER, LoopNest
from oneflow.lowering.triton.codegen.prelude import commented
from oneflow.lowering.triton.codegen.reduction import Fold
from oneflow.lowering.triton.codegen.symbolic_sizes import Size
from oneflow.lowering.triton.codegen.tile import Axis, LinearForm, Tile
from oneflow.lowering.triton.codegen.writer import Axes, Value
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import GLUON, Source
from oneflow.lowering.triton.templates.gluon import ARCH, JIT_DECORATOR, prelude_definitions

#: The elements of the shortest rows, the programs that a processor has at least, those of a block, and its warps.
SHORTEST, PROGRAMS, BLOCK, WARPS = 16385, 2, 8192, 8
#: The bytes that a thread copies at once, the most registers of one, and of how many their number is a multiple.
VECTOR, MOST, STEP = 16, 128, 8
#: The most steps of a sweep that is written out, and how one begins.
WRITTEN_OUT, _SWEEP = 4, re.compile(r"for r_at in range\((\d+), (\d+), (\d+)\):")

HEAD = """import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as tl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.language.extra.cuda import libdevice

load_elements = async_copy.async_load if hasattr(async_copy, "async_load") else async_copy.async_copy_global_to_shared

"""


def special(nest: LoopNest) -> dict[str, Source]:
    """The form for Hopper, by its architecture, where rows are long."""
    if not _is_for(nest):
        return {}
    try:
        return {ARCH: SharedRows(nest.kernel, nest.kernel.structure()).emit()}
    except Unsupported:
        return {}


def _is_for(nest: LoopNest) -> bool:
    """Whether a kernel reads long rows as they lie, reduces them and goes over them again."""
    nodes, outer, inner = nest.structure.nodes, nest.tile.axes[0].size.static, nest.row.size.static
    long = inner is not None and inner >= SHORTEST and (outer or 0) >= gpu_target().sms
    folded = bool(nest.folds) and not nest.selections and not nest.kernel.checks and nest.blocks.mode != "step"
    streams = any(n.is_scan_result(i) for n in nodes for i in range(len(n.outputs)))
    plain = long and folded and not streams and nest.structure.needs_second_sweep
    return plain and not is_strided(nest.structure, nest.tile.forms)


@dataclass(frozen=True)
class Room:
    """Shared memory for the row of a tensor: where its elements lie, as a form and as text, and which are there."""

    name: str
    tensor: Tensor
    form: LinearForm
    offset: str
    mask: str


@dataclass
class Rows(Tile):
    """Blocks of a row. What the first sweep reads lies in shared memory, while that has room; `far` are the rows that
    do not, with the number of the sweep that reads them.
    """

    rooms: list[Room] = field(default_factory=list)
    asked: dict[str, LinearForm] = field(default_factory=dict)
    is_first: bool = True
    sweep: int = 0
    far: list[tuple[Tensor, LinearForm, int]] = field(default_factory=list)

    def lanes(self, axis: Axis) -> str:
        """The positions within a block along an axis, as threads have them."""
        return f"tl.arange(0, {axis.block}, layout=THREADS)"

    def offset(self, form: LinearForm) -> tuple[str, Axes]:
        """The text of an offset, and the axes it varies along; remembers what that is of."""
        text, axes = super().offset(form)
        self.asked[text] = form
        return text, axes

    def load(self, tensor: Tensor, offset: str, axes: Axes, other: str = "0") -> Value:
        """The element at an offset."""
        form = self.asked.get(offset)
        room = next((r for r in self.rooms if (r.tensor, r.form) == (tensor, form)), None)
        if room is None and form is not None and self._is_row(form):
            room = self._room(tensor, form, offset, self.mask(axes) or "")
        if room is None:
            return super().load(tensor, offset, axes, other)
        text = f"{room.name}.index(r_at // {BLOCK}).load(THREADS)"
        return self.writer.define(f"{text} != 0" if tensor.element == "i1" else text, tensor.element, axes)

    def _room(self, tensor: Tensor, form: LinearForm, offset: str, mask: str) -> Room | None:
        """Room for a row, None where there is none, if it is read once alone: else the form is no better.

        Raises:
            Unsupported: another sweep has read it, too.
        """
        if self.is_first and self._fits(tensor, form):
            self.rooms.append(Room(f"room{len(self.rooms)}", tensor, form, offset, mask))
            return self.rooms[-1]
        sweep = next((n for t, f, n in self.far if (t, f) == (tensor, form)), self.sweep)
        if sweep != self.sweep:
            raise Unsupported("a row that is read again and has no room")
        self.far.append((tensor, form, sweep))
        return None

    def _is_row(self, form: LinearForm) -> bool:
        """Whether each program has a row of its own: not one element, and not a row that all have."""
        return all(any(name in form.loops for name in axis.loops) for axis in self.axes)

    def _fits(self, tensor: Tensor, form: LinearForm) -> bool:
        """Whether rows of a tensor are vectors and have room beside the others."""
        outer, inner = (axis.loops for axis in self.axes)
        last = [group[-1] for group in self.groups(inner)]
        if form.computed or len(last) != 1 or form.loops.get(last[0]) != Size.of(1):
            return False
        steps = [form.loops[n] for n in outer if n in form.loops]
        width = bytes_of(tensor.element)
        whole = steps and all((s.static or 1) * width % VECTOR == 0 for s in (*steps, form.constant) if s.terms)
        taken = self.taken([*self.rooms, Room("", tensor, form, "", "")])
        target = gpu_target()
        return bool(whole) and taken <= target.block_shared_bytes // PROGRAMS - target.reserved_shared_bytes

    def taken(self, rooms: Iterable[Room]) -> int:
        """The bytes that rooms take."""
        return sum(int(tile_count(self.axes[-1])) * BLOCK * bytes_of(room.tensor.element) for room in rooms)

    def broadcast(self, value: Value) -> Value:
        """The value as a full block, which it has to be."""
        if not value.axes >= INNER:
            raise Unsupported("a block of one value")
        return super().broadcast(value)


@dataclass
class SharedRows(LoopNest):
    """The source in Gluon of a nest whose inner loops are one row."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.blocks, self.online_sums, self.running_maxima, self.rank = (
            BlockShape(1, BLOCK, "chunk", WARPS),
            {},
            {},
            1,
        )
        self.row = Axis("r", self.structure.inner, BLOCK)
        self.columns = [Axis("x", self.structure.outer, 1, "tl.program_id(0)", scalar=True)]
        forms, opaque = self.tile.forms, self.tile.opaque
        self.tile = self.rows = Rows(self.kernel, self.writer, [*self.columns, self.row], self.sizes, forms, opaque)
        self.bodies = BodyEmitter(self.tile)

    def emit(self) -> Source:
        """The source.

        Raises:
            Unsupported: no row has room.
        """
        for axis in self.columns:
            self.tile.place(axis)
        for node in self.structure.nodes:
            self._emit_node(node)
        self._close_sweep()
        if not self.rows.rooms:
            raise Unsupported("no row that has room")
        names = [name for name, _ in self.kernel.parameters]
        lines = "".join(f"    {line}\n" for line in _laid_out(self.writer.scopes[0].lines))
        return self._source(f"\n\n{JIT_DECORATOR}def {identifier(self.kernel.name)}({', '.join(names)}):\n{lines}")

    def _open_sweep(self) -> None:
        super()._open_sweep()
        self.rows.sweep += 1
        self.placing = list(self.writer.scopes[-1].lines)
        self.tile.eviction_policy = ""
        if self.rows.is_first:
            self.writer.line(f"async_copy.wait_group({tile_count(self.row)} - 1 - r_at // {BLOCK})")

    def _close_sweep(self) -> None:
        if self.accumulators is not None and self.rows.is_first:
            self.sweep_prologue = [*self._copies(self.rows.rooms), *self.sweep_prologue]
            self.rows.is_first = False
        super()._close_sweep()

    def _copies(self, rooms: Sequence[Room]) -> list[str]:
        """Memory for rows, and what reads them: a block of each after the other."""
        layout = "tl.SwizzledSharedLayout(1, 1, 1, [0])"
        kinds = [TYPES[r.tensor.element] if r.tensor.element != "i1" else "int8" for r in rooms]
        copies = [
            f"load_elements({r.name}.index(r_at // {BLOCK}), {r.tensor.name} + {r.offset}"
            f"{f', mask={r.mask}' if r.mask else ''})" for r in rooms
        ]  # fmt: skip
        return [
            *(f"{r.name} = tl.allocate_shared_memory(tl.{kind}, [{tile_count(self.row)}, {BLOCK}], {layout})"
              for r, kind in zip(rooms, kinds, strict=True)),
            f"for r_at in range(0, {self.row.size}, {BLOCK}):",
            *(f"    {line}" for line in (*self.placing, *copies, "async_copy.commit_group()")),
        ]  # fmt: skip

    def _source(self, functions: str) -> Source:
        comments = commented(origins([n.op for n in self.structure.nodes]))
        vector = VECTOR // max(bytes_of(r.tensor.element) for r in self.rows.rooms)
        threads = f"THREADS = tl.constexpr(tl.BlockedLayout([{vector}], [32], [{WARPS}], [0]))\n"
        text, kernel = f"{comments}{HEAD}{threads}{prelude_definitions(functions)}{functions}", self.kernel
        target = gpu_target()
        programs = target.sm_shared_bytes // (self.rows.taken(self.rows.rooms) + 2 * target.reserved_shared_bytes)
        registers = target.sm_registers // (programs * WARPS * 32) // STEP * STEP
        return Source(
            kernel.name, text, tuple(kernel.parameters), tile_count(self.columns[0]), WARPS,
            registers=min(registers, MOST), language=GLUON,
        )  # fmt: skip

    def _reduce(self, value: Value, fold: Fold) -> Value:
        """A row's elements as one number."""
        return self.writer.define(f"tl.reduce({value.name}, 0, {fold.function})", value.element, value.axes - INNER)


def _laid_out(lines: Sequence[str]) -> list[str]:
    """Lines whose blocks lie as threads have them; sweeps that copy or are short are written out."""
    full = re.compile(rf"tl\.full\(\({BLOCK},\), (.+?), (tl\.\w+)\)")
    laid = [full.sub(rf"tl.full(({BLOCK},), \1, \2, THREADS)", line) for line in lines]
    for number, line in enumerate(laid):
        if (sweep := _SWEEP.match(line)) is not None:
            body = itertools.takewhile(lambda x: x.startswith(" "), laid[number + 1 :])
            short = len(range(*map(int, sweep.groups()))) <= WRITTEN_OUT
            if short or any("async_copy." in x for x in body):
                laid[number] = line.replace("range(", "tl.static_range(")
    return laid
