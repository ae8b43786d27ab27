"""Packing: the copy of columns of a contraction's right operand into a contiguous panel, with software prefetch.

The panel has one row for each step of the depth, in the order in which the micro-kernel reads the rows.

Output is MLIR text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oneflow.lowering.llvm.column_block import ColumnBlock
from oneflow.lowering.llvm.contraction_nest import ContractionNest
from oneflow.lowering.llvm.flat_columns import ColumnRows
from oneflow.lowering.llvm.iteration_space import Loop
from oneflow.lowering.llvm.lanes import Lanes, LaneValue, first_lanes
from oneflow.lowering.llvm.parallel_range import delinearize
from oneflow.lowering.llvm.register_transpose import transpose
from oneflow.lowering.llvm.writer import Index

#: Steps of the outermost loop of the depth from a prefetch to the load: the hardware prefetches within a page alone.
PREFETCH_STEPS = 4


@dataclass
class Panel:
    """The panel of the current column block of a contraction, whose depth has `steps` steps."""

    contraction: ContractionNest
    block: ColumnBlock
    steps: Index

    def __post_init__(self) -> None:
        self.nest, self.writer = self.contraction.nest, self.contraction.nest.writer
        self.columns, self.width = self.contraction.columns, self.contraction.nest.lane_count
        with self.writer.at_head():
            # Transposed squares at the end of the depth are stored in full, so the panel is one square longer. So are
            # vectors at the end of rows of flat columns.
            rows, columns = self.writer.add(self.steps, self.width), self.block.size
            columns += self.width if self.contraction.column_rows else 0
            self.memory = self.nest.allocate([rows, columns], self.contraction.element)

    def load(self, row: Index, vector: int) -> str:
        """A vector of a row of the panel."""
        return self.writer.op(f"vector.load {self._at(row, vector * self.width)}, {self.contraction.vector_type}")

    def _at(self, row: Index, column: Index) -> str:
        element = self.memory.at([self.writer.index(row), self.writer.index(column)])
        return f"{element} : {self.memory.type}"

    def pack(self) -> None:
        """Copies the columns of the current block."""
        contraction, rows = self.contraction, self.contraction.column_rows
        if rows is not None:
            self._pack_segments(rows)
        elif contraction.has_vector_columns():
            contraction.depth_loops(contraction.depth, self._pack_row)
        elif contraction.is_contiguous_along_depth(contraction.right):
            contraction.depth_loops(contraction.depth[:-1], self._pack_transposed)
        else:
            self._pack_elements()

    def _pack_row(self) -> None:
        """Packs one row by vector loads."""
        row = self.contraction.depth_index()
        for v in range(self.block.vectors):
            self._store(self.contraction.load(self.contraction.right, self.block.lanes(v)), row, v * self.width)

    def _store(self, value: LaneValue, row: Index, column: Index) -> None:
        """Stores a vector into a row of the panel."""
        kind = f"vector<{self.width}x{value.element}>"
        self.writer.line(f"vector.store {value.name}, {self._at(row, column)}, {kind}")

    def _pack_segments(self, rows: ColumnRows) -> None:
        """Packs flat columns: the segments of rows in the block, in order, so that each segment overwrites the idle
        lanes at the end of the segment before it.
        """
        writer, length, loop = self.writer, rows.last.size, self.nest.plain_loop
        end = writer.binary("minui", writer.add(self.block.begin, self.block.size), self.columns.size)

        def segment(row: str) -> None:
            first = writer.mul(row, length)
            begin = writer.binary("maxui", self.block.begin, first)
            last = writer.binary("minui", end, writer.add(first, length))
            indices = delinearize(writer, row, [r.size for r in rows.loops])
            self.nest.indices |= {r.id: index for r, index in zip(rows.loops, indices, strict=True)}
            self._pack_segment(rows.last, first, begin, last)

        loop(writer.binary("divui", self.block.begin, length), writer.binary("ceildivui", end, length), 1, segment)

    def _pack_segment(self, loop: Loop, first: Index, begin: str, last: str) -> None:
        """Packs the flat columns from `begin` to `last` of the row that begins at `first`.

        Each vector is packed for all steps of the depth. In an image beyond the L2 cache, all vectors of a row are
        packed before the next row, which is in another page of memory.
        """
        writer, nest, contraction = self.writer, self.nest, self.contraction
        middle = writer.add(begin, writer.floor_to(writer.binary("subi", last, begin), self.width))
        active = writer.binary("subi", last, middle)
        mask = first_lanes(writer, active, self.width)
        full, tail = nest.lanes(loop=loop), nest.lanes(mask, active=active, loop=loop)

        def vector(column: str, lanes: Lanes) -> None:
            nest.indices[loop.id] = writer.binary("subi", column, first)
            column_in_block = writer.binary("subi", column, self.block.begin)
            self._store(contraction.load(contraction.right, lanes), contraction.depth_index(), column_in_block)

        def vectors(inner: Sequence[Loop]) -> None:
            def over_depth(lanes: Lanes) -> Callable[[str], None]:
                return lambda column: contraction.depth_loops(inner, lambda: vector(column, lanes))

            nest.plain_loop(begin, middle, self.width, over_depth(full))
            nest.plain_loop(middle, last, self.width, over_depth(tail))

        def row() -> None:
            self._prefetch(loop, first, begin, last)
            contraction.depth_loops(contraction.depth[-1:], lambda: vectors(()))

        if contraction.exceeds_cache(contraction.right):
            contraction.depth_loops(contraction.depth[:-1], row)
        else:
            vectors(contraction.depth)

    def _prefetch(self, loop: Loop, first: Index, begin: str, last: str) -> None:
        """Prefetches the columns at a later step of the outermost loop of the depth, which may be beyond the end."""
        contraction, nest, outermost = self.contraction, self.nest, self.contraction.depth[0]
        if len(contraction.depth) == 1:
            return
        here, last_loop = nest.indices, contraction.depth[-1]
        later = here | {outermost.id: self.writer.add(here[outermost.id], PREFETCH_STEPS), last_loop.id: 0}

        def cache_lines(column: str) -> None:
            nest.indices = later | {loop.id: self.writer.binary("subi", column, first)}
            contraction.prefetch(contraction.right, nest.lanes(loop=loop))

        nest.plain_loop(begin, last, self.width, cache_lines)
        nest.indices = here

    def _pack_transposed(self) -> None:
        """Packs strided columns: loads vectors along the depth and transposes squares in registers."""
        loop, width = self.contraction.depth[-1], self.width

        def squares(iv: str) -> None:
            divides = isinstance(loop.size, int) and loop.size % width == 0
            lanes = self.nest.lanes(None if divides else self.nest.mask(iv, loop.size), loop=loop)
            self.nest.indices[loop.id] = iv
            row = self.contraction.depth_index()
            for v in range(self.block.vectors):
                columns = [self._load_along_depth(v * width + c, lanes) for c in range(width)]
                for step, value in enumerate(transpose(self.writer, columns)):
                    self._store(value, self.writer.add(row, step), v * width)

        self.nest.plain_loop(0, loop.size, width, squares)

    def _load_along_depth(self, column_in_block: int, lanes: Lanes) -> LaneValue:
        """A vector along the depth of a column of the block; columns beyond the end repeat the last column."""
        last = self.writer.binary("subi", self.columns.size, 1)
        column = self.writer.add(self.block.begin, column_in_block)
        fits = isinstance(self.columns.size, int) and self.columns.size % self.block.size == 0
        self.nest.indices[self.columns.id] = column if fits else self.writer.binary("minui", column, last)
        return self.contraction.load(self.contraction.right, lanes)

    def _pack_elements(self) -> None:
        """Packs strided columns element by element; columns beyond the end repeat the last column."""
        contraction, writer = self.contraction, self.writer
        last = writer.binary("subi", self.columns.size, 1)

        def column(iv: str) -> None:
            def element() -> None:
                value = contraction.load(contraction.right, self.nest.scalars)
                packed = self.memory.at([writer.index(contraction.depth_index()), iv])
                writer.line(f"memref.store {value.name}, {packed} : {self.memory.type}")

            self.nest.indices[self.columns.id] = writer.binary("minui", writer.add(self.block.begin, iv), last)
            contraction.depth_loops(contraction.depth, element)

        self.nest.plain_loop(0, self.block.size, 1, column)
