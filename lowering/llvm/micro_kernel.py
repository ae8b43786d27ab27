"""The micro-kernel of matrix products and convolutions: one step of the depth on a register tile.

Each step broadcasts an element of the left operand for each row, loads the vectors of the right operand, and adds the
products to the accumulators of rows x vectors.

Output is MLIR text on vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oneflow.lowering.llvm.column_block import ColumnBlock
from oneflow.lowering.llvm.contraction_nest import ContractionNest
from oneflow.lowering.llvm.lanes import LaneValue
from oneflow.lowering.llvm.packing import Panel
from oneflow.lowering.llvm.writer import Index


@dataclass
class MicroKernel:
    """Writes the steps of register tiles, whose right operand is packed into a panel or is read in place."""

    contraction: ContractionNest
    block: ColumnBlock
    panel: Panel | None = None

    def step(
        self, rows: Sequence[Mapping[int, Index]], carried: Sequence[LaneValue],
        load: Callable[[int], LaneValue] | None = None,
    ) -> list[LaneValue]:  # fmt: skip
        """Writes one step of the depth; `rows` are the induction variables of each row. Returns the accumulators.

        `load` loads the left operand of a row, by its index in `rows`, from a packed copy.
        """
        contraction, nest = self.contraction, self.contraction.nest
        depth = contraction.depth_index() if self.panel is not None else 0
        right = [self._right(depth, v) for v in range(self.block.vectors)]
        after = []
        for r, row in enumerate(rows):
            nest.indices |= row
            left = load(r) if load else contraction.load(contraction.left, nest.scalars)
            broadcast = nest.writer.op(f"vector.broadcast {left.name} : {left.element} to {contraction.vector_type}")
            for v, vector in enumerate(right):
                after.append(contraction.multiply_add(broadcast, vector, carried[r * len(right) + v]))
        return after

    def _right(self, depth: Index, vector: int) -> str:
        """A vector of the right operand at a step of the depth."""
        lanes = self.block.lanes(vector)
        if self.panel is not None:
            return self.panel.load(depth, vector)
        return self.contraction.load(self.contraction.right, lanes).name
