"""Contractions: matrix products, batched products and convolutions (implicit GEMM, no im2col) in register tiles.

    for a block of columns:                 column blocks and chunks of rows are the parallel range
      panel = the right operand's block     packed once, contiguous, small enough for the L2 cache
      for a tile of rows:
        accumulators in registers           rows x vectors
        for k: the micro-kernel
        epilogue on the accumulators, and the only write of the result

Input is the structure of a kernel around one contraction, output its functions as MLIR text. There is no Winograd
convolution: its transforms round differently than the sums of the operator's meaning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.kernels.nodes import Structure, Unsupported
from oneflow.lowering.llvm import blocked_summation
from oneflow.lowering.llvm.column_block import ColumnBlock
from oneflow.lowering.llvm.combiners import is_reassociable_sum
from oneflow.lowering.llvm.contraction_nest import ContractionNest
from oneflow.lowering.llvm.flat_columns import flat_columns
from oneflow.lowering.llvm.inner_loops import InnerNest
from oneflow.lowering.llvm.iteration_space import IterationSpace, Loop
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.lanes import Lanes, LaneValue
from oneflow.lowering.llvm.loop_nest import Vectorized
from oneflow.lowering.llvm.micro_kernel import MicroKernel
from oneflow.lowering.llvm.packing import Panel
from oneflow.lowering.llvm.parallel_range import ParallelRange, work_of
from oneflow.lowering.llvm.register_tiles import TileShape, register_tiles, tile_shape
from oneflow.lowering.llvm.row_loops import RowLoops
from oneflow.lowering.llvm.tile_sums import TileSums
from oneflow.lowering.llvm.vectorized_nest import in_result_order
from oneflow.lowering.llvm.writer import Index, Writer
from oneflow.lowering.targets.cpu_derivation import BLOCK_DEPTH

#: The length of a running sum in products; see `blocked_summation`.
SUM_BLOCK = BLOCK_DEPTH


def emit_contraction(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel around one contraction, as MLIR text.

    Raises:
        Unsupported: the contraction has no rows or columns to make tiles of.
    """
    contraction = Contraction(ContractionNest(kernel, in_result_order(structure), Vectorized.OUTER))
    flat = contraction.with_flat_columns()
    return (contraction if flat is None else flat).emit()


def sum_cascade(contraction: ContractionNest) -> blocked_summation.Cascade | None:
    """The blocked summation of the sums of products; None for short sums, and sums in a given order."""
    sizes = [loop.size for loop in contraction.depth]
    is_free = is_reassociable_sum(contraction.node, 0)
    return blocked_summation.cascade(sizes, [1] * len(sizes), SUM_BLOCK) if is_free else None


@dataclass
class Contraction:
    """The emission of one contraction."""

    contraction: ContractionNest

    def __post_init__(self) -> None:
        self.nest, target = self.contraction.nest, self.contraction.kernel.target
        self.writer, self.columns, self.limits = (
            self.nest.writer,
            self.contraction.columns,
            target.kernels.contractions,
        )
        with self.writer.at_head():
            self.depth = self.writer.product([loop.size for loop in self.contraction.depth])
        self.rows = RowLoops(self.writer, self._find_row_loops())
        self.nest.width = target.vector_bits // element_bits(self.contraction.element)
        self.tile = self._tile_shape()
        self.block = ColumnBlock(self.nest, self.columns, self.tile.vectors)
        self.chunk_rows = self._chunk_rows()
        self.cascade = sum_cascade(self.contraction)

    def _tile_shape(self) -> TileShape:
        """The register tile."""
        tiles = register_tiles(self.contraction.kernel.target)
        return tile_shape(tiles, self.rows.size, self.columns.size, self.nest.lane_count)

    def with_flat_columns(self) -> Contraction | None:
        """The same contraction with its columns as one loop, if fewer lanes are idle then; else None."""
        contraction, loops = self.contraction, self.contraction.column_loops()
        sizes = [loop.size for loop in loops if isinstance(loop.size, int)]
        is_static = len(sizes) == len(loops) > 1 and loops[-1] is self.columns
        if not is_static or sizes[-1] < self.limits.min_flat_row:
            return None
        if not self._needs_panel() or not contraction.has_vector_columns():
            return None
        columns = frozenset(n for loop in loops for n in loop.loop_ids)
        space_of = flat_columns(columns, contraction.node.inputs[contraction.right])
        flat = Contraction(
            ContractionNest(contraction.kernel, contraction.structure, contraction.vectorized, space_of)
        )
        size = flat.columns.size
        assert isinstance(size, int)
        lanes = math.prod(sizes) // size * flat.block.padded(size)
        separate = math.prod(sizes[:-1]) * self.block.padded(sizes[-1])
        return flat if (separate - lanes) * self.limits.flat_lanes >= separate else None

    def _find_row_loops(self) -> list[Loop]:
        """The loops that are flattened to the rows: all row loops if their sizes are static, else the longest."""
        rows = self.contraction.row_loops()
        if not rows:
            raise Unsupported("a contraction without rows")
        if all(isinstance(loop.size, int) for loop in rows):
            return rows
        return [max(rows, key=lambda loop: loop.size if isinstance(loop.size, int) else 1 << 30)]

    def _chunk_rows(self) -> int:
        """Rows of one parallel step, a multiple of the tile. Each step packs a panel, so there are few chunks."""
        rows, tile = self.rows.size, self.tile.rows
        if not isinstance(rows, int):
            return self.limits.step_rows // tile * tile
        tiles, chunks = max(math.ceil(rows / tile), 1), max(math.ceil(rows / self.limits.step_rows), 1)
        batches = [loop.size for loop in self.contraction.batch_loops(self.rows.loops)]
        others = [n for n in (self.columns.size, *batches) if isinstance(n, int)]
        if len(others) == 1 + len(batches):
            steps = math.ceil(others[0] / self.block.size) * math.prod(others[1:])
            needed = math.ceil(self.limits.steps_per_core * self.contraction.kernel.target.cores / max(steps, 1))
            chunks = min(chunks, max(needed, self._cached_chunks(rows), 1))
        return math.ceil(tiles / chunks) * tile

    def _cached_chunks(self, rows: int) -> int:
        """The number of chunks of rows that each fit in half of the L3 cache: every block of columns reads them."""
        if not isinstance(self.depth, int):
            return 1
        bits = element_bits(self.contraction.element)
        return math.ceil(rows * self.depth * bits / 8 / (self.contraction.kernel.target.l3_bytes / 2))

    def _factors(self, writer: Writer, space: IterationSpace) -> list[Index]:
        """The factors of the parallel range: batch loops, chunks of rows, blocks of columns."""
        sizes = {loop.id: loop.size for loop in space.outer}
        chunks = writer.ceildiv(writer.product([sizes[loop.id] for loop in self.rows.loops]), self.chunk_rows)
        blocks = writer.ceildiv(sizes[self.columns.id], self.block.size)
        return [*(loop.size for loop in self.contraction.batch_loops(self.rows.loops, space)), chunks, blocks]

    def emit(self) -> str:
        """The kernel's function and its launch as MLIR text."""
        depth = self.depth if isinstance(self.depth, int) else self.limits.dynamic_depth
        work = self.chunk_rows * self.block.size * depth // self.limits.fma_per_operation
        steps = ParallelRange(self.nest, self._factors, work)
        self._allocate()
        return steps.emit(self._parallel_step)

    def _allocate(self) -> None:
        """Allocates the scratch buffers of the kernel."""
        panel = Panel(self.contraction, self.block, self.depth) if self._needs_panel() else None
        self.micro_kernel = MicroKernel(self.contraction, self.block, panel)
        epilogue = work_of(self.contraction.epilogue_nodes, self.contraction.kernel.target.kernels.loops)
        is_long = self.tile.rows > 1 and epilogue > self.limits.max_unrolled_epilogue
        self.sums = TileSums(self.contraction, self.tile) if is_long else None

    def _needs_panel(self) -> bool:
        """Whether the right operand is packed into a panel: not if one tile uses each of its elements."""
        is_single_tile = isinstance(self.rows.size, int) and self.rows.size <= self.tile.rows
        return not is_single_tile or not self.contraction.has_vector_columns()

    def _parallel_step(self, indices: Sequence[Index]) -> None:
        """Writes one parallel step: a block of columns and a chunk of rows."""
        writer, columns = self.writer, self.columns.size
        *others, chunk, block = indices
        batches = self.contraction.batch_loops(self.rows.loops)
        self.nest.indices = {loop.id: index for loop, index in zip(batches, others, strict=True)}
        is_full = isinstance(columns, int) and columns % self.block.size == 0
        self.block.move(writer.mul(block, self.block.size), None if is_full else columns)
        self._block(chunk)

    def _block(self, chunk: Index) -> None:
        """Writes the block of columns for a chunk of rows."""
        if self.micro_kernel.panel is not None:
            self.micro_kernel.panel.pack()
        self._tiles(*self._rows_of(chunk))

    def _rows_of(self, chunk: Index) -> tuple[Index, Index]:
        """The begin and the end of a chunk of rows."""
        writer, rows = self.writer, self.rows.size
        if isinstance(rows, int) and rows <= self.chunk_rows:
            return 0, rows
        begin = writer.mul(chunk, self.chunk_rows)
        return begin, writer.binary("minui", writer.add(begin, self.chunk_rows), rows)

    def _tiles(self, begin: Index, end: Index) -> None:
        """Writes tiles of rows. The rest is one smaller tile, or single rows where the number of rows is dynamic."""
        writer, size, tile = self.writer, self.rows.size, self.tile.rows
        middle: Index = end
        rest = size % tile if isinstance(size, int) else 1
        if rest:
            length = end if isinstance(end, int) and begin == 0 else writer.binary("subi", end, begin)
            middle = writer.add(begin, writer.floor_to(length, tile))
        for first, last, rows in ((begin, middle, tile), (middle, end, rest)):
            if rows and first != last:
                self._tile_loop(first, last, rows)

    def _tile_loop(self, first: Index, last: Index, rows: int) -> None:
        """Writes a loop over tiles of `rows` rows."""
        self.nest.plain_loop(first, last, rows, lambda row: self._tile(row, rows))

    def _tile(self, first: str, count: int) -> None:
        """Writes one tile: accumulators, the loop over the depth, the epilogue."""
        rows = [self.rows.indices(self.writer.add(first, r)) for r in range(count)]
        accumulators: list[LaneValue] = []
        for row in rows:
            self.nest.indices |= row
            accumulators += [self.contraction.initial(self.block.lanes(v)) for v in range(self.tile.vectors)]

        def step(lanes: Lanes, carried: list[LaneValue]) -> list[LaneValue]:
            return self.micro_kernel.step(rows, carried)

        keys = [(self.contraction.node, 0)] * len(accumulators)
        summed = range(len(keys)) if self.cascade else ()
        inner = InnerNest(keys, self.nest.scalars, step, summed, self.cascade)
        totals = self.contraction.emitters.inner_loops.emit(inner, accumulators)
        if self.sums is not None:
            self._epilogue_loop(self.sums, first, count, totals)
            return
        for index, total in enumerate(totals):
            r, v = divmod(index, self.tile.vectors)
            self.nest.indices |= rows[r]
            self.contraction.epilogue(total, self.block.lanes(v))

    def _epilogue_loop(self, sums: TileSums, first: str, count: int, totals: Sequence[LaneValue]) -> None:
        """Writes the epilogue of a tile as a loop over rows, which read their sums from a buffer."""
        sums.store(totals)

        def row(index: str) -> None:
            self.nest.indices |= self.rows.indices(self.writer.add(first, index))
            for v in range(self.tile.vectors):
                self.contraction.epilogue(sums.load(index, v), self.block.lanes(v))

        self.nest.plain_loop(0, count, 1, row)
