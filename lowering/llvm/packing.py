"""Packing: the copy of a block of columns of a contraction's right operand into a contiguous panel.

The panel has one row for each step of the depth, in the order in which the micro-kernel reads the rows.

Output is MLIR text.
"""

from __future__ import annotations

from dataclasses import dataclass

from oneflow.lowering.llvm.column_block import ColumnBlock
from oneflow.lowering.llvm.contraction_nest import ContractionNest
from oneflow.lowering.llvm.lanes import Lanes, LaneValue
from oneflow.lowering.llvm.register_transpose import transpose
from oneflow.lowering.llvm.writer import Index


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
            # Transposed squares at the end of the depth are stored in full, so the panel is one square longer.
            rows = self.writer.add(self.steps, self.width)
            self.memory = self.nest.allocate([rows, self.block.size], self.contraction.element)

    def load(self, row: Index, vector: int) -> str:
        """A vector of a row of the panel."""
        return self.writer.op(f"vector.load {self._at(row, vector)}, {self.contraction.vector_type}")

    def _at(self, row: Index, vector: int) -> str:
        at = self.memory.at([self.writer.index(row), self.writer.index(vector * self.width)])
        return f"{at} : {self.memory.type}"

    def pack(self) -> None:
        """Copies the columns of the current block."""
        contraction = self.contraction
        if contraction.has_vector_columns():
            contraction.depth_loops(contraction.depth, self._pack_row)
        elif contraction.is_contiguous_along_depth(contraction.right):
            contraction.depth_loops(contraction.depth[:-1], self._pack_transposed)
        else:
            self._pack_elements()

    def _pack_row(self) -> None:
        """Packs one row by vector loads."""
        row = self.contraction.depth_index()
        for v in range(self.block.vectors):
            self._store(self.contraction.load(self.contraction.right, self.block.lanes(v)), row, v)

    def _store(self, value: LaneValue, row: Index, vector: int) -> None:
        """Stores a vector of a row of the panel."""
        kind = f"vector<{self.width}x{value.element}>"
        self.writer.line(f"vector.store {value.name}, {self._at(row, vector)}, {kind}")

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
                for number, value in enumerate(transpose(self.writer, columns)):
                    self._store(value, self.writer.add(row, number), v)

        self.nest.plain_loop(0, loop.size, width, squares)

    def _load_along_depth(self, number: int, lanes: Lanes) -> LaneValue:
        """A vector along the depth of a column of the block; columns beyond the end repeat the last column."""
        last = self.writer.binary("subi", self.columns.size, 1)
        column = self.writer.add(self.block.begin, number)
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
                at = self.memory.at([writer.index(contraction.depth_index()), iv])
                writer.line(f"memref.store {value.name}, {at} : {self.memory.type}")

            self.nest.indices[self.columns.id] = writer.binary("minui", writer.add(self.block.begin, iv), last)
            contraction.depth_loops(contraction.depth, element)

        self.nest.plain_loop(0, self.block.size, 1, column)
