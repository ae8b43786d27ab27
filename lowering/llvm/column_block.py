"""A block of the columns of a contraction in vectors, of which vectors at the end of the columns are masked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from oneflow.lowering.llvm.iteration_space import Loop
from oneflow.lowering.llvm.lanes import Lanes, first_lanes
from oneflow.lowering.llvm.loop_nest import LoopNest
from oneflow.lowering.llvm.writer import Index


@dataclass
class ColumnBlock:
    """A block of `vectors` vectors of the loop `columns`; the current block begins at `begin`.

    `active` has the number of active lanes of each vector, `masks` their masks; None is all lanes.
    """

    nest: LoopNest
    columns: Loop
    vectors: int
    begin: Index = 0
    active: list[Index | None] = field(default_factory=list)
    masks: list[str | None] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of columns."""
        return self.nest.lane_count * self.vectors

    def padded(self, columns: int) -> int:
        """The columns of the blocks that cover `columns`."""
        return math.ceil(columns / self.size) * self.size

    def move(self, begin: Index, end: Index | None = None) -> None:
        """Moves the block to `begin`; the lanes before `end` are active, all lanes without one."""
        writer, width = self.nest.writer, self.nest.lane_count
        self.begin, self.active, self.masks = begin, [None] * self.vectors, [None] * self.vectors
        if end is not None:
            rest = writer.binary("subi", end, begin)
            counts = [rest if v == 0 else writer.binary("subi", rest, v * width) for v in range(self.vectors)]
            self.active, self.masks = [*counts], [first_lanes(writer, n, width) for n in counts]

    def lanes(self, vector: int) -> Lanes:
        """The lanes of a vector of the block; moves the induction variable of the columns there."""
        nest = self.nest
        nest.indices[self.columns.id] = nest.writer.add(self.begin, vector * nest.lane_count)
        return nest.lanes(self.masks[vector], active=self.active[vector])
