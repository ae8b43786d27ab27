"""The rows of a contraction: the linearized iteration space of one or several outer loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.lowering.llvm.iteration_space import Loop
from oneflow.lowering.llvm.writer import Index, Writer


@dataclass(frozen=True)
class RowLoops:
    """The loops that together are the rows."""

    writer: Writer
    loops: Sequence[Loop]

    @property
    def size(self) -> Index:
        """The number of rows."""
        return self.writer.product([loop.size for loop in self.loops])

    def indices(self, row: Index) -> dict[int, Index]:
        """The induction variables of the loops at a row."""
        indices: dict[int, Index] = {}
        for loop in reversed(self.loops[1:]):
            indices[loop.id] = self.writer.binary("remui", row, loop.size)
            row = self.writer.binary("divui", row, loop.size)
        return indices | {loop.id: row for loop in self.loops[:1]}
