"""The buffer that the finished sums of a register tile pass through to a long epilogue.

The code of such an epilogue is written once for all rows of the tile, in a loop. Output is MLIR text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.lowering.llvm.contraction_nest import ContractionNest
from oneflow.lowering.llvm.lanes import LaneValue
from oneflow.lowering.llvm.register_tiles import TileShape
from oneflow.lowering.llvm.writer import Index


@dataclass
class TileSums:
    """The sums of a tile of the shape `tile`."""

    contraction: ContractionNest
    tile: TileShape

    def __post_init__(self) -> None:
        nest, self.writer = self.contraction.nest, self.contraction.nest.writer
        with self.writer.at_head():
            shape: list[Index] = [self.tile.rows, self.tile.vectors * nest.lane_count]
            self.memory = nest.allocate(shape, self.contraction.element)

    def store(self, sums: Sequence[LaneValue]) -> None:
        """Stores sums, row by row."""
        for index, value in enumerate(sums):
            self.writer.line(f"vector.store {value.name}, {self._vector_access(*divmod(index, self.tile.vectors))}")

    def load(self, row: Index, vector: int) -> LaneValue:
        """The sums of a vector of a row."""
        return LaneValue(
            self.writer.op(f"vector.load {self._vector_access(row, vector)}"), self.contraction.element, True
        )

    def _vector_access(self, row: Index, vector: int) -> str:
        column = vector * self.contraction.nest.lane_count
        element = self.memory.at([self.writer.index(row), self.writer.index(column)])
        return f"{element} : {self.memory.type}, {self.contraction.vector_type}"
