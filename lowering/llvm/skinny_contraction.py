"""Skinny contractions: few rows with contiguous columns, such as `x @ w`, bound by the bandwidth of reading `w`.

    for a block of columns:                     the parallel range
      for a block of the depth:
        for a slice of the depth:               a few steps, whose left operand is packed
          for a tile of columns:
            accumulators = partial sums         rows x vectors, from a buffer in the cache
            for k in the slice: the micro-kernel
            partial sums = accumulators
        totals += partial sums                  only where there are several blocks
      epilogue on the totals

The right operand is read once, in long blocks of each row, and is not packed. Input is the structure of a kernel
around one contraction, output its functions as MLIR text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.kernels.nodes import Structure, Unsupported
from oneflow.lowering.llvm import blocked_summation
from oneflow.lowering.llvm.column_block import ColumnBlock
from oneflow.lowering.llvm.combiners import is_reassociable_sum
from oneflow.lowering.llvm.contraction import SUM_BLOCK, sum_cascade
from oneflow.lowering.llvm.contraction_nest import ContractionNest
from oneflow.lowering.llvm.iteration_space import IterationSpace
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.lanes import LaneValue
from oneflow.lowering.llvm.left_slice import LeftSlice
from oneflow.lowering.llvm.loop_nest import Vectorized
from oneflow.lowering.llvm.micro_kernel import MicroKernel
from oneflow.lowering.llvm.parallel_range import ParallelRange
from oneflow.lowering.llvm.register_tiles import register_tiles, tile_shape
from oneflow.lowering.llvm.row_loops import RowLoops
from oneflow.lowering.llvm.vectorized_nest import in_result_order
from oneflow.lowering.llvm.writer import Index, MemRef, Writer


def emit_skinny_contraction(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel around such a contraction, as MLIR text.

    Raises:
        Unsupported: there are too many rows, columns are not contiguous, or the right operand fits in the L2 cache.
    """
    return SkinnyContraction(ContractionNest(kernel, in_result_order(structure), Vectorized.OUTER)).emit()


@dataclass
class SkinnyContraction:
    """The emission of one such contraction.

    `tile` is the current tile of columns, `first_column` the start of the block of columns around the tile.
    """

    contraction: ContractionNest

    def __post_init__(self) -> None:
        self.nest, self.target = self.contraction.nest, self.contraction.kernel.target
        self.writer, self.limits = self.nest.writer, self.target.kernels.contractions
        self.rows = RowLoops(self.writer, self.contraction.row_loops())
        self.row_count, self.column_count, self.depth = self._static_sizes()
        self._check_supported()
        bits = element_bits(self.contraction.element)
        self.nest.width = self.target.vector_bits // bits
        self.tiles = register_tiles(self.target, reloads_sums=True)
        # A tile of columns is a cache line, so that each row of the right operand is read line by line.
        vectors = max(self.target.cache_line_bytes // self.target.vector_bytes, 1)
        self.tile = ColumnBlock(self.nest, self.contraction.columns, vectors)
        per_core = max(self.column_count * bits // 8 // self.target.cores, self.limits.min_block_bytes)
        block_bytes = min(self.target.l1_bytes // self.row_count, per_core)
        self.block = max(min(block_bytes * 8 // bits, self.column_count) // self.tile.size, 1) * self.tile.size
        self.micro_kernel = MicroKernel(self.contraction, self.tile)
        self.first_column: Index = 0
        self.left: LeftSlice | None = None

    def _static_sizes(self) -> tuple[int, int, int]:
        """The static sizes: rows, columns, and steps of the depth.

        Raises:
            Unsupported: there are too many rows, several dimensions of the depth, or dynamic sizes.
        """
        rows, columns = self.rows.size, self.contraction.columns.size
        depth, *more = (loop.size for loop in self.contraction.depth)
        if not isinstance(rows, int) or not isinstance(columns, int) or rows > self.limits.max_skinny_rows:
            raise Unsupported("a contraction of too many rows")
        if more or not isinstance(depth, int) or not self.contraction.has_vector_columns():
            raise Unsupported("a contraction of several dimensions, or of columns that are not contiguous")
        return rows, columns, depth

    def _check_supported(self) -> None:
        """Rejects sums that need an error term, conversions without instructions, and small right operands.

        Raises:
            Unsupported: the contraction has one.
        """
        contraction, element = self.contraction, self.contraction.element
        self.cascade = sum_cascade(contraction)
        is_free = element[0] == "i" or is_reassociable_sum(contraction.node, 0)
        if (self.cascade is not None and self.cascade.compensated) or not is_free:
            raise Unsupported("a sum with an error term or a fixed order")
        if not self.target.has_f16 and any(t.element == "f16" for t in contraction.kernel.tensors.values()):
            raise Unsupported("conversions without instructions, which would be repeated for each tile")
        if self.depth * self.column_count * element_bits(element) // 8 <= self.target.l2_bytes:
            raise Unsupported("a right operand that stays in the L2 cache")

    def _factors(self, writer: Writer, space: IterationSpace) -> list[Index]:
        """The factors of the parallel range: batch loops, one chunk of rows, blocks of columns."""
        batches = [loop.size for loop in self.contraction.batch_loops(self.rows.loops, space)]
        return [*batches, 1, math.ceil(self.column_count / self.block)]

    def emit(self) -> str:
        """The kernel's function and its launch as MLIR text."""
        # Rows that are a power of two apart would share few sets of the L1 cache.
        shape, element = [self.row_count, self.block + self.tile.size], self.contraction.element
        with self.writer.at_head():
            self.partial, self.total = (self.nest.allocate(shape, element) for _ in range(2))
            if self.row_count > self.limits.max_unpacked_rows:
                self.left = LeftSlice(self.contraction, self.rows, self.limits.skinny_slice_depth)
        tile = tile_shape(self.tiles, self.row_count, self.column_count, self.nest.lane_count)
        padded_rows = math.ceil(self.row_count / tile.rows) * tile.rows
        work = padded_rows * self.block * self.depth // self.limits.fma_per_operation
        return ParallelRange(self.nest, self._factors, work).emit(self._parallel_step)

    def _parallel_step(self, indices: Sequence[Index]) -> None:
        """Writes one parallel step: all rows of a block of columns."""
        *batch_indices, _, block = indices
        batches = self.contraction.batch_loops(self.rows.loops)
        self.nest.indices = {loop.id: index for loop, index in zip(batches, batch_indices, strict=True)}
        self.first_column = self.writer.mul(block, self.block)
        last = self.writer.binary("minui", self.writer.add(self.first_column, self.block), self.column_count)
        sums = self.total if self.cascade else self.partial
        self._over_columns(last, lambda: self._initialize(sums))
        self._depth_blocks(last)
        self._over_columns(last, lambda: self._epilogue(sums))

    # The depth

    def _depth_blocks(self, last: Index) -> None:
        """Adds all steps of the depth to the partial sums, or to the totals block by block."""
        if not self.cascade:
            self._depth_block(last, 0, self.depth)
            return

        def block(first: Index, steps: int) -> None:
            self._over_columns(last, self._clear)
            self._depth_block(last, first, steps)
            self._over_columns(last, self._add_to_totals)

        full = self.depth // SUM_BLOCK * SUM_BLOCK
        self.nest.plain_loop(0, full, SUM_BLOCK, lambda first: block(first, SUM_BLOCK))
        if full != self.depth:
            block(full, self.depth - full)

    def _depth_block(self, last: Index, first: Index, steps: int) -> None:
        """Adds `steps` steps of the depth to the partial sums."""
        length = self.limits.skinny_slice_depth
        full, add = steps // length * length, self.writer.add

        def slice_of_steps(begin: Index, steps: int) -> None:
            if self.left is not None:
                self.left.copy(begin, steps)
            self._over_columns(last, lambda: self._slice(begin, steps))

        if full:
            self.nest.plain_loop(first, add(first, full), length, lambda begin: slice_of_steps(begin, length))
        if full != steps:
            slice_of_steps(add(first, full), steps - full)

    def _slice(self, first: Index, steps: int) -> None:
        """Adds a few steps of the depth to the partial sums of a tile of columns."""
        if not any(self.tile.masks):
            self._add_steps(first, steps)
            return
        # Single steps: a target without masked loads loads lane by lane, which is long code.
        self.nest.plain_loop(first, self.writer.add(first, steps), 1, lambda k: self._add_steps(k, 1))

    def _add_steps(self, first: Index, steps: int) -> None:
        """Adds steps of the depth to the partial sums of a tile of columns, in groups of rows."""
        rows = self.row_count
        count = math.ceil(rows / self.tiles[self.tile.vectors])
        group = math.ceil(rows / count)
        if count <= self.limits.max_row_groups:
            for begin in range(0, rows, group):
                self._add_steps_of_rows(range(begin, min(begin + group, rows)), first, steps)
            return
        full, add = rows // group * group, self.writer.add

        def group_of_rows(row: str) -> None:
            self._add_steps_of_rows([add(row, r) for r in range(group)], first, steps)

        self.nest.plain_loop(0, full, group, group_of_rows)
        if full != rows:
            self._add_steps_of_rows(range(full, rows), first, steps)

    def _add_steps_of_rows(self, rows: Sequence[Index], first: Index, steps: int) -> None:
        """Adds steps of the depth to the partial sums of some rows, in registers."""
        vectors = [(row, v) for row in rows for v in range(self.tile.vectors)]
        values = [self._load(self.partial, *vector) for vector in vectors]
        indices, left = [self.rows.indices(row) for row in rows], self.left
        loads = None if left is None else lambda r: left.load(rows[r])
        for step in range(steps):
            self.nest.indices[self.contraction.depth[0].id] = self.writer.add(first, step)
            values = self.micro_kernel.step(indices, values, loads)
        for vector, value in zip(vectors, values, strict=True):
            self._store(self.partial, *vector, value)

    # The columns of a block

    def _over_columns(self, last: Index, body: Callable[[], None]) -> None:
        """Writes a loop over tiles of columns up to `last`; the tile at the end of all columns has masks."""
        writer, size = self.writer, self.tile.size
        middle = last
        if self.column_count % size:
            middle = writer.add(
                self.first_column, writer.floor_to(writer.binary("subi", last, self.first_column), size)
            )

        def full(column: str) -> None:
            self.tile.move(column)
            body()

        def masked(column: str) -> None:
            self.tile.move(column, last)
            body()

        self.nest.plain_loop(self.first_column, middle, size, full)
        if middle != last:
            self.nest.plain_loop(middle, last, size, masked)

    # The sums of a tile of columns

    def _vector_access(self, sums: MemRef, row: Index, vector: int) -> str:
        """The operand and the types of a `vector.load` or `vector.store` in a buffer of sums."""
        writer = self.writer
        tile_column = writer.binary("subi", self.tile.begin, self.first_column)
        column = writer.add(tile_column, vector * self.nest.lane_count)
        element = sums.at([writer.index(row), writer.index(column)])
        return f"{element} : {sums.type}, {self.contraction.vector_type}"

    def _load(self, sums: MemRef, row: Index, vector: int) -> LaneValue:
        name = self.writer.op(f"vector.load {self._vector_access(sums, row, vector)}")
        return LaneValue(name, self.contraction.element, True)

    def _store(self, sums: MemRef, row: Index, vector: int, value: LaneValue) -> None:
        self.writer.line(f"vector.store {value.name}, {self._vector_access(sums, row, vector)}")

    def _over_sums(self, body: Callable[[Index, int], None]) -> None:
        """Writes a loop over rows; `body` gets the row and the index of a vector in the row."""

        def vectors(row: str) -> None:
            self.nest.indices |= self.rows.indices(row)
            for v in range(self.tile.vectors):
                body(row, v)

        self.nest.plain_loop(0, self.row_count, 1, vectors)

    def _initialize(self, sums: MemRef) -> None:
        """Writes the initial values of the sums."""
        self._over_sums(lambda row, v: self._store(sums, row, v, self.contraction.initial(self.tile.lanes(v))))

    def _clear(self) -> None:
        """Writes zeros to the partial sums."""
        self._over_sums(lambda row, v: self._store(self.partial, row, v, self.contraction.identity()))

    def _add_to_totals(self) -> None:
        """Adds the partial sums to the totals."""

        def add(row: Index, v: int) -> None:
            total, partial = self._load(self.total, row, v), self._load(self.partial, row, v)
            self._store(self.total, row, v, blocked_summation.add(self.tile.lanes(v), total, partial))

        self._over_sums(add)

    def _epilogue(self, sums: MemRef) -> None:
        """Writes the epilogue of the sums."""
        self._over_sums(lambda row, v: self.contraction.epilogue(self._load(sums, row, v), self.tile.lanes(v)))
