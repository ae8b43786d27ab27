"""Contractions of few rows with contiguous columns, such as `x @ w`: their time is the time to read `w`.

    for a block of columns:                     the parallel range
      for a block of the depth:
        for a slice of the depth:               a few steps
          for a tile of columns:
            accumulators = partial sums         rows x vectors, from a buffer in the cache
            for k in the slice: broadcast left, load right, multiply and add
            partial sums = accumulators
        totals += partial sums                  only where there are several blocks
      epilogue on the totals

The right operand is read once, in long pieces of its rows, and is not packed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.kernels.nodes import Structure, Unsupported
from oneflow.lowering.llvm import sums
from oneflow.lowering.llvm.body import LaneValue
from oneflow.lowering.llvm.combine import is_reassociable_sum
from oneflow.lowering.llvm.contraction import SUM_BLOCK, Contraction
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.loop_nest import in_result_order
from oneflow.lowering.llvm.loops import Loop
from oneflow.lowering.llvm.writer import Index

#: A buffer: a memref and its type.
Buffer = tuple[str, str]


def emit_few_rows(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel around such a contraction, as MLIR text.

    Raises:
        Unsupported: there are too many rows, columns are not contiguous, or the right operand fits in the L2 cache.
    """
    return FewRows(kernel, in_result_order(structure), "column").emit()


@dataclass
class FewRows(Contraction):
    """The emission of one such contraction."""

    reloads_sums: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        rows, columns = self.rows.size, self.columns.size
        if not isinstance(rows, int) or not isinstance(columns, int) or rows > self.limits.max_few_rows:
            raise Unsupported("a contraction of too many rows")
        if len(self.loops.inner) != 1 or not isinstance(self.depth, int) or not self._has_vector_columns():
            raise Unsupported("a contraction of several dimensions, or of columns that are not contiguous")
        if (self.cascade is not None and self.cascade.compensated) or not self._adds_in_any_order():
            raise Unsupported("a sum that needs an error term or an order")
        if not self.kernel.target.has_f16 and any(t.element == "f16" for t in self.kernel.tensors.values()):
            raise Unsupported("conversions without instructions, which would be repeated for each tile")
        target, bits = self.kernel.target, element_bits(self.operands.element)
        if self.depth * columns * bits // 8 <= target.l2_bytes:
            raise Unsupported("a right operand that stays in the L2 cache")
        per_core = max(columns * bits // 8 // target.cores, self.limits.min_piece_bytes)
        piece = min(target.l1_bytes // rows, per_core)
        # A tile of columns is a cache line, so that each row of the right operand is read line by line.
        self.vectors = max(target.cache_line_bytes // target.vector_bytes, 1)
        self.tile_columns = self.vectors * (self.width or 1)
        self.block = max(min(piece * 8 // bits, columns) // self.tile_columns, 1) * self.tile_columns

    def _find_row_loops(self) -> list[Loop]:
        """The loops that together are the rows; none where there is one row."""
        return self._row_loops()

    def _adds_in_any_order(self) -> bool:
        return self.operands.element[0] == "i" or is_reassociable_sum(self.node, 0)

    def _needs_panel(self) -> bool:
        return False

    def emit(self) -> str:
        """The kernel's function and its launch as MLIR text."""
        with self.writer.at_head():
            self.partial = self._temporary([self.rows.size, self.block], self.operands.element)
            self.total = self._temporary([self.rows.size, self.block], self.operands.element)
        return super().emit()

    def _tiles(self, begin: Index, end: Index) -> None:
        """All rows of a block of columns; `self.column` is its begin."""
        self.first_column = self.column
        last = self.writer.binary("minui", self.writer.add(self.column, self.block), self.columns.size)
        blocks = [SUM_BLOCK] if self.cascade else []
        self._over_columns(last, lambda: self._fill(self.total if blocks else self.partial))
        self._depth_blocks(last, blocks)
        self._over_columns(last, lambda: self._finish(self.total if blocks else self.partial))

    def _depth_blocks(self, last: Index, blocks: list[int]) -> None:
        """Adds all steps of the depth to the partial sums, or to the totals block by block."""
        assert isinstance(self.depth, int)
        if not blocks:
            self._depth_block(last, 0, self.depth)
            return

        def block(first: Index, steps: int) -> None:
            self._over_columns(last, self._clear)
            self._depth_block(last, first, steps)
            self._over_columns(last, self._add_to_totals)

        full = self.depth // SUM_BLOCK * SUM_BLOCK
        self._count(0, full, SUM_BLOCK, lambda first: block(first, SUM_BLOCK))
        if full != self.depth:
            block(full, self.depth - full)

    def _depth_block(self, last: Index, first: Index, steps: int) -> None:
        """Adds `steps` steps of the depth to the partial sums."""
        length = self.limits.few_rows_slice
        full = steps // length * length
        at = self.writer.add
        if full:
            self._count(
                first, at(first, full), length, lambda k: self._over_columns(last, lambda: self._slice(k, length))
            )
        if full != steps:
            self._over_columns(last, lambda: self._slice(at(first, full), steps - full))

    def _slice(self, first: Index, steps: int) -> None:
        """Adds a few steps of the depth to the partial sums of a tile of columns."""
        if not any(self.masks):
            self._add_steps(first, steps)
            return
        # Single steps: a target without masked loads loads lane by lane, which is long code.
        self._count(first, self.writer.add(first, steps), 1, lambda k: self._add_steps(k, 1))

    def _add_steps(self, first: Index, steps: int) -> None:
        """Adds steps of the depth to the partial sums of a tile of columns, in groups of rows."""
        rows = self.rows.size
        assert isinstance(rows, int)
        count = math.ceil(rows / self.tiles[self.vectors])
        group = math.ceil(rows / count)
        if count <= self.limits.max_row_groups:
            for begin in range(0, rows, group):
                self._slice_of_rows(range(begin, min(begin + group, rows)), first, steps)
            return
        full, at = rows // group * group, self.writer.add
        self._count(0, full, group, lambda row: self._slice_of_rows([at(row, r) for r in range(group)], first, steps))
        if full != rows:
            self._slice_of_rows(range(full, rows), first, steps)

    def _slice_of_rows(self, rows: Sequence[Index], first: Index, steps: int) -> None:
        places = [(row, v) for row in rows for v in range(self.vectors)]
        values = [self._load_sum(self.partial, *place) for place in places]
        self.tile_rows = [self._row_positions(row) for row in rows]
        for step in range(steps):
            self.position[self.loops.inner[0].id] = self.writer.add(first, step)
            values = self._multiply_add_step(values)
        for place, value in zip(places, values, strict=True):
            self._store_sum(self.partial, *place, value)

    # The columns of a block

    def _count(self, begin: Index, end: Index, step: int, body: Callable[[str], None]) -> None:
        """A loop that carries no values."""

        def inside(iv: str, values: list[LaneValue]) -> list[LaneValue]:
            body(iv)
            return []

        self._loop(begin, end, step, [], inside, self._scalar_lanes())

    def _over_columns(self, last: Index, body: Callable[[], None]) -> None:
        """A loop over tiles of columns up to `last`; the tile at the end of all columns has masks."""
        w, tile, columns = self.writer, self.tile_columns, self.columns.size
        assert isinstance(columns, int)
        middle = last
        if columns % tile:
            middle = w.add(self.first_column, w.floor_to(w.binary("subi", last, self.first_column), tile))

        def full(iv: str) -> None:
            self.column, self.active_lanes, self.masks = iv, [None] * self.vectors, [None] * self.vectors
            body()

        def masked(iv: str) -> None:
            self.column = iv
            rest = w.binary("subi", last, iv)
            counts: list[Index] = [w.binary("subi", rest, v * (self.width or 1)) for v in range(1, self.vectors)]
            self.active_lanes = [rest, *counts]
            self.masks = [self._first_lanes(n) for n in (rest, *counts)]
            body()

        self._count(self.first_column, middle, tile, full)
        if middle != last:
            self._count(middle, last, tile, masked)

    def _sum_at(self, buffer: Buffer, row: Index, v: int) -> str:
        w = self.writer
        column = w.add(w.binary("subi", self.column, self.first_column), v * (self.width or 1))
        return f"{buffer[0]}[{w.index(row)}, {w.index(column)}] : {buffer[1]}, {self._vector_type}"

    @property
    def _vector_type(self) -> str:
        return f"vector<{self.width}x{self.operands.element}>"

    def _load_sum(self, buffer: Buffer, row: Index, v: int) -> LaneValue:
        return LaneValue(self.writer.op(f"vector.load {self._sum_at(buffer, row, v)}"), self.operands.element, True)

    def _store_sum(self, buffer: Buffer, row: Index, v: int, value: LaneValue) -> None:
        self.writer.line(f"vector.store {value.name}, {self._sum_at(buffer, row, v)}")

    def _over_sums(self, body: Callable[[Index, int], None]) -> None:
        """A loop over rows; `body` gets the row and the number of a vector."""

        def vectors(row: str) -> None:
            self.position |= self._row_positions(row)
            for v in range(self.vectors):
                body(row, v)

        self._count(0, self.rows.size, 1, vectors)

    def _fill(self, buffer: Buffer) -> None:
        """Writes the initial accumulators of a tile of columns."""

        def write(row: Index, v: int) -> None:
            self._store_sum(buffer, row, v, self._initial_accumulator(self.node, 0, self._lanes(v)))

        self._over_sums(write)

    def _clear(self) -> None:
        """Writes zeros to the partial sums."""
        self._over_sums(lambda row, v: self._store_sum(self.partial, row, v, self._identity(self.node, 0)))

    def _add_to_totals(self) -> None:
        def add(row: Index, v: int) -> None:
            total, partial = self._load_sum(self.total, row, v), self._load_sum(self.partial, row, v)
            self._store_sum(self.total, row, v, sums.add(self._lanes(v), total, partial))

        self._over_sums(add)

    def _finish(self, buffer: Buffer) -> None:
        """The epilogue of a tile of columns."""
        self._over_sums(lambda row, v: self._epilogue(self._load_sum(buffer, row, v), self._lanes(v)))
