"""Contractions of few rows with strided columns, such as `x @ w.T`, as dot products.

    for a chunk of columns:                    the parallel range
      for a tile of columns:
        accumulators in registers              rows x columns, lanes along the depth
        for k: load rows, load columns, multiply and add
        lanes reduced, epilogue on scalars

The time of such a contraction is the time to read `w`. Input is the structure of a kernel around one contraction,
output its functions as MLIR text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.kernels.nodes import Structure, Unsupported
from oneflow.lowering.llvm import blocked_summation
from oneflow.lowering.llvm.combiners import is_reassociable_sum
from oneflow.lowering.llvm.contraction_nest import ContractionNest
from oneflow.lowering.llvm.inner_loops import InnerNest
from oneflow.lowering.llvm.iteration_space import IterationSpace
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.lanes import Lanes, LaneValue
from oneflow.lowering.llvm.loop_nest import Vectorized
from oneflow.lowering.llvm.parallel_range import ParallelRange, steps_of
from oneflow.lowering.llvm.writer import Index, Writer


def emit_dot_products(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel around one contraction by dot products, as MLIR text.

    Raises:
        Unsupported: there are too many rows, or operands are not contiguous along the depth.
    """
    return DotProducts(ContractionNest(kernel, structure, Vectorized.INNER)).emit()


@dataclass
class DotProducts:
    """The emission of one contraction by dot products."""

    contraction: ContractionNest

    def __post_init__(self) -> None:
        self.nest, target = self.contraction.nest, self.contraction.kernel.target
        self.limits = target.kernels.contractions
        self.rows = self.contraction.row_loops()
        count = self.rows[0].size if self.rows else 1
        self._check_supported(count)
        assert isinstance(count, int)
        accumulators = target.vector_registers // 2
        self.row_count, self.tile = count, min(self.limits.max_dot_columns, accumulators // count)
        vectors = max(accumulators // (count * self.tile), 1)
        self.nest.width = target.vector_bits // element_bits(self.contraction.element) * vectors

    def _check_supported(self, rows: Index) -> None:
        """Refuses other contractions.

        Raises:
            Unsupported: there are too many rows, or operands are not contiguous along the depth.
        """
        is_few = len(self.rows) <= 1 and isinstance(rows, int) and 0 < rows <= self.limits.max_dot_rows
        if not is_few or not is_reassociable_sum(self.contraction.node, 0):
            raise Unsupported("a contraction of no rows or of too many")
        if not all(map(self.contraction.is_contiguous_along_depth, (self.contraction.left, self.contraction.right))):
            raise Unsupported("operands that are not contiguous along the depth")

    def _factors(self, writer: Writer, space: IterationSpace) -> list[Index]:
        """The factors of the parallel range: batch loops, chunks of columns."""
        batches = [loop.size for loop in self.contraction.batch_loops(self.rows, space)]
        return [*batches, writer.ceildiv(space.outer[-1].size, self.limits.dot_step_columns)]

    def emit(self) -> str:
        """The kernel's function and its launch as MLIR text."""
        loops = self.contraction.kernel.target.kernels.loops
        depth = steps_of((loop.size for loop in self.contraction.depth), loops.dynamic_steps)
        work = self.limits.dot_step_columns * self.row_count * depth
        return ParallelRange(self.nest, self._factors, work).emit(self._parallel_step)

    def _parallel_step(self, indices: Sequence[Index]) -> None:
        """Writes one parallel step: tiles of columns, then single columns."""
        writer, chunk, columns = self.nest.writer, self.limits.dot_step_columns, self.contraction.columns
        batches = self.contraction.batch_loops(self.rows)
        self.nest.indices = {loop.id: index for loop, index in zip(batches, indices, strict=False)}
        begin = writer.mul(indices[-1], chunk)
        end = writer.binary("minui", writer.add(begin, chunk), columns.size)
        middle = writer.add(begin, writer.floor_to(writer.binary("subi", end, begin), self.tile))
        self._tiles(begin, middle, self.tile)
        self._tiles(middle, end, 1)

    def _tiles(self, begin: Index, end: Index, count: int) -> None:
        """Writes a loop over tiles of `count` columns."""
        self.nest.plain_loop(begin, end, count, lambda column: self._tile(column, count))

    def _tile(self, column: str, count: int) -> None:
        """Writes one tile of columns."""
        nest, emitters, node = self.nest, self.contraction.emitters, self.contraction.node
        columns = [nest.writer.add(column, c) for c in range(count)]
        keys = [(node, 0)] * (self.row_count * count)
        sizes = [loop.size for loop in self.contraction.depth]
        cascade = blocked_summation.cascade(sizes, [*[1] * (len(sizes) - 1), nest.lane_count])

        def step(lanes: Lanes, carried: list[LaneValue]) -> list[LaneValue]:
            return self._step(columns, lanes, carried)

        inner = InnerNest(keys, nest.scalars, step, range(len(keys)) if cascade else (), cascade)
        totals = iter(emitters.inner_loops.emit(inner, emitters.accumulators.identities(keys)))
        for row in range(self.row_count):
            for column_index in columns:
                self._set_indices(row, column_index)
                initial = self.contraction.initial(nest.scalars)
                total = emitters.accumulators.reduce_lanes(node, 0, initial, next(totals))
                self.contraction.epilogue(total, nest.scalars)

    def _set_indices(self, row: Index | None = None, column: Index | None = None) -> None:
        """Sets the induction variables of the rows and of the columns."""
        if row is not None:
            self.nest.indices |= {loop.id: row for loop in self.rows}
        if column is not None:
            self.nest.indices[self.contraction.columns.id] = column

    def _step(self, columns: Sequence[Index], lanes: Lanes, carried: list[LaneValue]) -> list[LaneValue]:
        """Writes one step of the depth for a tile; returns the accumulators."""
        left, right = [], []
        for row in range(self.row_count):
            self._set_indices(row=row)
            left.append(self.contraction.load(self.contraction.left, lanes).name)
        for column in columns:
            self._set_indices(column=column)
            right.append(self.contraction.load(self.contraction.right, lanes).name)
        pairs = [(a, b) for a in left for b in right]
        return [self.contraction.multiply_add(a, b, v) for (a, b), v in zip(pairs, carried, strict=True)]
