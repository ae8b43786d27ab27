"""The copy of a chunk of rows of the left operand of a product of short integers.

Rows have the element type of the instruction, are contiguous, and are padded with zeros to full vectors. Output is
MLIR text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from oneflow.lowering.llvm.contraction_nest import ContractionNest
from oneflow.lowering.llvm.dot_product import DotProductLanes
from oneflow.lowering.llvm.lanes import LaneValue, first_lanes
from oneflow.lowering.llvm.row_loops import RowLoops
from oneflow.lowering.llvm.short_integers import ShortIntegers
from oneflow.lowering.llvm.writer import Index, view


@dataclass
class LeftRows:
    """The copy of at most `count` rows, which begin at `begin`; `has_sums` copies have the sum of each row."""

    contraction: ContractionNest
    rows: RowLoops
    factor: ShortIntegers
    dot: DotProductLanes
    count: int
    has_sums: bool
    begin: Index = 0

    def __post_init__(self) -> None:
        self.nest, self.writer = self.contraction.nest, self.contraction.nest.writer
        self.loop = self.contraction.depth[0]
        assert isinstance(self.loop.size, int)
        self.depth, self.vectors = self.loop.size, math.ceil(self.loop.size / self.dot.width)
        with self.writer.at_head():
            self.memory = self.nest.allocate([self.count, self.vectors * self.dot.width], self.dot.element)
            shape: list[Index] = [self.count, self.vectors * self.dot.lanes]
            self.lanes = view(self.writer, self.nest.temporaries[-1], shape, "i32")
            self.sums = self.nest.allocate([self.count], "i32") if self.has_sums else None

    def copy(self, begin: Index, end: Index) -> None:
        """Copies the rows from `begin` to `end`."""
        self.begin = begin
        self.nest.plain_loop(begin, end, 1, self._copy_row)

    def load(self, row: Index, step: Index) -> str:
        """A vector with the elements of a row at a group of steps of the depth in every lane."""
        address = self.lanes.at([self._index(row), self.writer.index(step)])
        lane = self.writer.op(f"memref.load {address} : {self.lanes.type}")
        return self.writer.op(f"vector.broadcast {lane} : i32 to {self.dot.type}")

    def load_sum(self, row: Index) -> str:
        """A vector with the sum of a row in every lane."""
        assert self.sums is not None
        total = self.writer.op(f"memref.load {self.sums.at([self._index(row)])} : {self.sums.type}")
        return self.writer.op(f"vector.broadcast {total} : i32 to {self.dot.type}")

    def _index(self, row: Index) -> str:
        """The index of a row in the copy."""
        return self.writer.index(row) if self.begin == 0 else self.writer.binary("subi", row, self.begin)

    def _copy_row(self, row: str) -> None:
        """Copies a row, and adds its elements."""
        self.nest.indices |= self.rows.indices(row)
        full = self.depth // self.dot.width * self.dot.width
        self.nest.plain_loop(0, full, self.dot.width, lambda at: self._copy_vector(row, at, None))
        if full != self.depth:
            self._copy_vector(row, full, first_lanes(self.writer, self.depth - full, self.dot.width))
        if self.sums is not None:
            kind = f"{self.dot.type} into i32"
            total = self.writer.op(f"vector.reduction <add>, {self._sum_lanes(row)} : {kind}")
            self.writer.line(f"memref.store {total}, {self.sums.at([self._index(row)])} : {self.sums.type}")

    def _copy_vector(self, row: str, at: Index, mask: str | None) -> None:
        """Copies a vector of a row; lanes without `mask` are 0."""
        self.nest.indices[self.loop.id] = at
        lanes = replace(self.nest.lanes(mask, loop=self.loop), width=self.dot.width)
        loaded = self.contraction.load_input(self.factor.input, lanes)
        value = self.factor.element(self.writer, loaded.name, self.dot.width)
        if mask is not None:
            zeros = self.writer.constant("dense<0>", self.dot.elements)
            value = self.writer.op(f"arith.select {mask}, {value}, {zeros} : {lanes.type('i1')}, {self.dot.elements}")
        address = self.memory.at([self._index(row), self.writer.index(at)])
        self.writer.line(f"vector.store {value}, {address} : {self.memory.type}, {self.dot.elements}")

    def _sum_lanes(self, row: str) -> str:
        """The sums of the elements of a row by lane."""

        def step(at: str, carried: list[LaneValue]) -> list[LaneValue]:
            address = self.lanes.at([self._index(row), at])
            vector = self.writer.op(f"vector.load {address} : {self.lanes.type}, {self.dot.type}")
            return [LaneValue(self.dot.add(carried[0].name, vector, self.dot.ones), "i32", True)]

        start = [LaneValue(self.dot.zeros, "i32", True)]
        return self.nest.loop(0, self.vectors * self.dot.lanes, self.dot.lanes, start, step)[0].name
