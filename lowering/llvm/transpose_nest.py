"""Pointwise kernels that read tensors along one loop and write along another: transposes in register tiles.

    for a block of rows and a chunk of columns:      the parallel range
      for a tile of `width` columns and rows:
        load vectors along the rows, transpose them in registers to vectors along the columns
        the nodes' bodies, with a vector along the columns for each row

The columns are the last loop of the results; the rows are the loop along which the strided operands are contiguous.
Input is the structure of a kernel, output its functions as MLIR text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Node, Structure, Use
from oneflow.lowering.llvm.iteration_space import IterationSpace, Loop
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.lanes import LaneValue, NeedsScalars
from oneflow.lowering.llvm.loop_nest import LoopNest, Vectorized
from oneflow.lowering.llvm.nest_emitters import NestEmitters
from oneflow.lowering.llvm.parallel_range import ParallelRange, work_of
from oneflow.lowering.llvm.register_transpose import transpose
from oneflow.lowering.llvm.vector_width import register_lanes, vectorized_loop
from oneflow.lowering.llvm.vectorized_nest import in_result_order
from oneflow.lowering.llvm.writer import Index, Writer


def emit_transposes(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel in tiles that are transposed in registers, as MLIR text.

    Raises:
        Unsupported: the kernel has another form.
    """
    return TransposeNest(LoopNest(kernel, in_result_order(structure), Vectorized.OUTER)).emit()


@dataclass
class TransposeNest:
    """The emission of one nest in tiles of rows and columns."""

    nest: LoopNest

    def __post_init__(self) -> None:
        self.writer, self.limits = self.nest.writer, self.nest.kernel.target.kernels.loops
        columns = vectorized_loop(self.nest)
        if self.nest.space.inner or columns is None:
            raise NeedsScalars("tiles are for pointwise kernels")
        self.nest.vector = self.columns = columns
        self.emitters = NestEmitters(self.nest)
        inputs = ((node, use) for node in self.nest.structure.nodes for use in node.inputs)
        self.strided_uses = [(node, use) for node, use in inputs if self._has_strided_columns(node, use)]
        self.rows = self._find_rows()
        self.nest.width = self._tile_width()
        self.transposed: dict[int, list[LaneValue]] = {}

    def _has_strided_columns(self, node: Node, use: Use) -> bool:
        """Whether the columns of an operand in memory are not contiguous."""
        if use.value not in self.nest.kernel.tensors:
            return False
        return any(self.columns.id in s.form.dims for s in self.nest.space.subscripts(node, use)[:-1])

    def _find_rows(self) -> Loop:
        """The loop along which the strided operands are contiguous.

        Raises:
            NeedsScalars: there is no such loop.
        """
        dims = {self.nest.space.subscripts(*use)[-1].form.dim for use in self.strided_uses}
        rows = [loop for loop in self.nest.space.outer if dims == {loop.id}]
        if not rows or rows[0] is self.columns:
            raise NeedsScalars("operands with strided columns along several loops")
        return rows[0]

    def _tile_width(self) -> int:
        """The rows and columns of a tile."""
        width = min(register_lanes(self.nest), self.limits.max_transposed_lanes)
        for size in (self.rows.size, self.columns.size):
            while isinstance(size, int) and width > self.limits.min_lanes and width // 2 >= size:
                width //= 2
        return width

    def _batch_loops(self, space: IterationSpace) -> list[Loop]:
        """The outer loops that are neither rows nor columns."""
        return [loop for loop in space.outer if loop.id not in (self.rows.id, self.columns.id)]

    def _factors(self, writer: Writer, space: IterationSpace) -> list[Index]:
        """The factors of the parallel range: batch loops, blocks of rows, chunks of columns."""
        sizes = {loop.id: loop.size for loop in space.outer}
        blocks = writer.ceildiv(sizes[self.rows.id], self.limits.tile_rows)
        chunks = writer.ceildiv(sizes[self.columns.id], self.limits.tile_columns)
        return [*(loop.size for loop in self._batch_loops(space)), blocks, chunks]

    def emit(self) -> str:
        """The kernel's function and its launch as MLIR text."""
        work = work_of(self.nest.structure.nodes, self.limits)
        for loop, most in ((self.rows, self.limits.tile_rows), (self.columns, self.limits.tile_columns)):
            work *= min(loop.size, most) if isinstance(loop.size, int) else most
        return ParallelRange(self.nest, self._factors, work).emit(self._parallel_step)

    def _parallel_step(self, indices: Sequence[Index]) -> None:
        """Writes one parallel step: the tiles of a block of rows and a chunk of columns."""
        *batch_indices, block, chunk = indices
        batches = self._batch_loops(self.nest.space)
        self.nest.indices = {loop.id: index for loop, index in zip(batches, batch_indices, strict=True)}
        width = self.nest.lane_count

        def tiles(row: str) -> None:
            columns = self._bounds(self.columns, chunk, self.limits.tile_columns)
            self.nest.plain_loop(*columns, width, lambda column: self._tile(row, column))

        self.nest.plain_loop(*self._bounds(self.rows, block, self.limits.tile_rows), width, tiles)

    def _bounds(self, loop: Loop, block: Index, block_size: int) -> tuple[Index, Index]:
        """The bounds of a block of a loop, by the index of the block."""
        if isinstance(loop.size, int) and loop.size <= block_size:
            return 0, loop.size
        begin = self.writer.mul(block, block_size)
        return begin, self.writer.binary("minui", self.writer.add(begin, block_size), loop.size)

    def _tile(self, row: str, column: str) -> None:
        """Writes one tile; tiles at an edge are masked."""
        writer, width = self.writer, self.nest.lane_count
        sizes = [(first, loop.size) for first, loop in ((row, self.rows), (column, self.columns))]
        partial = [(first, size) for first, size in sizes if not isinstance(size, int) or size % width]
        if not partial:
            self._full_tile(row, column)
            return
        tests = [
            f"arith.cmpi ule, {writer.index(writer.add(first, width))}, {writer.index(size)} : index"
            for first, size in partial
        ]
        flags = [writer.op(text) for text in tests]
        is_full = flags[0] if len(flags) == 1 else writer.op(f"arith.andi {flags[0]}, {flags[1]} : i1")
        with writer.block(f"scf.if {is_full} {{", "} else {"):
            self._full_tile(row, column)
        self._edge_tile(row, column)
        writer.line("}")

    def _full_tile(self, row: str, column: str) -> None:
        """Writes a tile without masks."""
        width = self.nest.lane_count
        self._transpose_operands(row, [self.writer.add(column, c) for c in range(width)], None)
        for r in range(width):
            self._row(r, self.writer.add(row, r), column, None)

    def _edge_tile(self, row: str, column: str) -> None:
        """Writes a tile at an edge: loads are clamped to the last row and column, and stores are masked."""
        w, width = self.writer, self.nest.lane_count
        last_row, last_column = (w.binary("subi", loop.size, 1) for loop in (self.rows, self.columns))
        columns = [w.binary("minui", w.add(column, c), last_column) for c in range(width)]
        self._transpose_operands(row, columns, self.nest.mask(row, self.rows.size))
        rest = w.binary("subi", self.columns.size, column)
        for r in range(width):
            tile_row = w.add(row, r)
            is_row = w.op(f"arith.cmpi ule, {w.index(tile_row)}, {last_row} : index")
            count = w.op(f"arith.select {is_row}, {rest}, {w.index(0)} : index")
            mask = w.op(f"vector.create_mask {count} : vector<{width}xi1>")
            self._row(r, w.binary("minui", tile_row, last_row), column, mask)

    def _row(self, row_in_tile: int, row: Index, column: str, mask: str | None) -> None:
        """Writes the bodies for one row of the tile."""
        self.nest.indices |= {self.rows.id: row, self.columns.id: column}
        self.emitters.storage.loaded = {use: rows[row_in_tile] for use, rows in self.transposed.items()}
        self.emitters.emit(self.nest.lanes(mask))

    def _transpose_operands(self, row: str, columns: Sequence[Index], mask: str | None) -> None:
        """Loads and transposes the strided operands: `transposed[operand][r]` is row r of the tile."""
        lanes = self.nest.lanes(mask, loop=self.rows)
        self.nest.indices[self.rows.id] = row
        for node, use in self.strided_uses:
            loaded = []
            for column in columns:
                self.nest.indices[self.columns.id] = column
                tensor = self.nest.kernel.tensors[use.value]
                loaded.append(self.emitters.memory.load(node, use, tensor, lanes))
            self.transposed[id(use)] = transpose(self.writer, loaded)
