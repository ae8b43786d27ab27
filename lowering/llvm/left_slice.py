"""The copy of a few steps of the depth of a contraction's left operand, for products of few rows.

Rows of the left operand are often a power of two apart, and such rows share few sets of the L1 cache. The copy is
contiguous. Output is MLIR text.
"""

from __future__ import annotations

from dataclasses import dataclass

from oneflow.lowering.llvm.contraction_nest import ContractionNest
from oneflow.lowering.llvm.lanes import LaneValue
from oneflow.lowering.llvm.row_loops import RowLoops
from oneflow.lowering.llvm.writer import Index


@dataclass
class LeftSlice:
    """The copy of the current `steps` steps of all rows, which begin at `begin`."""

    contraction: ContractionNest
    rows: RowLoops
    steps: int
    begin: Index = 0

    def __post_init__(self) -> None:
        self.nest, self.writer = self.contraction.nest, self.contraction.nest.writer
        self.memory = self.nest.allocate([self.rows.size, self.steps], self.contraction.element)

    def copy(self, begin: Index, steps: int) -> None:
        """Copies the steps from `begin` on."""
        self.begin = begin

        def element(row: str, step: str) -> None:
            self.nest.indices |= self.rows.indices(row)
            self.nest.indices[self.contraction.depth[0].id] = self.writer.add(begin, step)
            value = self.contraction.load(self.contraction.left, self.nest.scalars)
            self.writer.line(f"memref.store {value.name}, {self.memory.at([row, step])} : {self.memory.type}")

        self.nest.plain_loop(
            0, self.rows.size, 1, lambda row: self.nest.plain_loop(0, steps, 1, lambda step: element(row, step))
        )

    def load(self, row: Index) -> LaneValue:
        """The element of a row at the current step."""
        at = self.writer.binary("subi", self.nest.indices[self.contraction.depth[0].id], self.begin)
        name = self.writer.op(f"memref.load {self.memory.at([self.writer.index(row), at])} : {self.memory.type}")
        return LaneValue(name, self.contraction.element)
