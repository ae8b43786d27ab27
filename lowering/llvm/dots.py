"""Contractions of few rows with strided columns, such as `x @ w.T`: their time is that of reading `w`.

for a chunk of columns:                    the parallel range
  for a tile of columns:
    accumulators in registers              rows x columns, lanes along the depth
    for k: load rows, load columns, multiply and add
    lanes reduced, epilogue on scalars
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.kernels.nodes import Structure, Unsupported
from oneflow.lowering.llvm import sums
from oneflow.lowering.llvm.body import Lanes, LaneValue
from oneflow.lowering.llvm.combine import is_reassociable_sum
from oneflow.lowering.llvm.kernel import Kernel, launch_text
from oneflow.lowering.llvm.loop_emitter import Sweep
from oneflow.lowering.llvm.loops import Loops
from oneflow.lowering.llvm.panels import ContractionNest
from oneflow.lowering.llvm.writer import Index, Writer


def emit_dots(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel around such a contraction, as MLIR text.

    Raises:
        Unsupported: there are too many rows, or operands are not contiguous along the depth.
    """
    return Dots(kernel, structure, "row").emit()


@dataclass
class Dots(ContractionNest):
    """The emission of one such contraction."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.limits = self.kernel.target.kernels.contractions
        rows = self._row_loops()
        count = rows[0].size if rows else 1
        if (
            len(rows) > 1
            or not isinstance(count, int)
            or not 0 < count <= self.limits.max_dot_rows
            or not is_reassociable_sum(self.node, 0)
        ):
            raise Unsupported("a contraction of no rows or of too many")
        if not all(self._is_contiguous_along_depth(use) for use in self.node.inputs):
            raise Unsupported("operands that do not lie along the depth")
        self.row_loop = rows[0].id if rows else -1
        target = self.kernel.target
        accumulators = target.vector_registers // 2
        self.row_count, self.tile = count, min(self.limits.max_dot_columns, accumulators // count)
        vectors = max(accumulators // (count * self.tile), 1)
        self.width = target.vector_bits // element_bits(self.operands.element) * vectors

    def _factors(self, writer: Writer, loops: Loops) -> list[Index]:
        """The factors of the parallel range: batch loops, chunks of columns."""
        others = [loop.size for loop in loops.outer if loop.id not in (self.row_loop, self.columns.id)]
        return [*others, writer.ceildiv(loops.outer[-1].size, self.limits.dot_step_columns)]

    def emit(self) -> str:
        """The kernel's function and its launch as MLIR text."""
        with self.writer.at_head():
            factors = self._factors(self.writer, self.loops)
        return self.parallel_function(lambda: self._parallel_step(self.delinearize(factors)))

    def _launch(self, chunk: int) -> str:
        w = Writer()
        loops = Loops(self.kernel, self.structure, w)
        count, work = w.product(self._factors(w, loops)), self.limits.dot_step_columns * self.row_count
        for loop in loops.inner:
            work *= loop.size if isinstance(loop.size, int) else 64
        return launch_text(self.kernel, w, count, work, w.lines)

    def _parallel_step(self, digits: Sequence[Index]) -> None:
        """One parallel step: tiles of columns, then single columns."""
        w = self.writer
        others = [loop for loop in self.loops.outer if loop.id not in (self.row_loop, self.columns.id)]
        self.position = {loop.id: d for loop, d in zip(others, digits, strict=False)}
        begin = w.mul(digits[-1], self.limits.dot_step_columns)
        end = w.binary("minui", w.add(begin, self.limits.dot_step_columns), self.columns.size)
        middle = w.add(begin, w.floor_to(w.binary("subi", end, begin), self.tile))
        for first, last, columns in ((begin, middle, self.tile), (middle, end, 1)):
            self._loop(first, last, columns, [], functools.partial(self._tile, columns), self._scalar_lanes())

    def _tile(self, columns: int, column: str, carried: list[LaneValue]) -> list[LaneValue]:
        """One tile of columns."""
        w, lanes = self.writer, self._scalar_lanes()
        self.tile_columns = [w.add(column, c) for c in range(columns)]
        keys = [(self.node, 0)] * (self.row_count * columns)
        sizes = [loop.size for loop in self.loops.inner]
        cascade = sums.cascade(sizes, [*[1] * (len(sizes) - 1), self.width or 1])
        sweep = Sweep([self.node], keys, lanes, list(range(len(keys))) if cascade else [], cascade)
        totals = iter(self._accumulate(sweep, self._identities(sweep)))
        for row in range(self.row_count):
            for at in self.tile_columns:
                self.position[self.row_loop], self.position[self.columns.id] = row, at
                total = self._reduce_lanes(self.node, 0, self._initial_accumulator(self.node, 0, lanes), next(totals))
                self._epilogue(total, lanes)
        return []

    def _emit_innermost(self, sweep: Sweep, lanes: Lanes, carried: list[LaneValue]) -> list[LaneValue]:
        """One step of the depth for a tile."""
        left = [self._vector(self.operands.left, self.row_loop, row, lanes) for row in range(self.row_count)]
        right = [self._vector(self.operands.right, self.columns.id, at, lanes) for at in self.tile_columns]
        kind = f"vector<{self.width}x{self.operands.element}>"
        pairs = [(a, b) for a in left for b in right]
        return [self._multiply_add(a, b, v, kind) for (a, b), v in zip(pairs, carried, strict=True)]

    def _vector(self, side: int, loop: int, at: Index, lanes: Lanes) -> str:
        """A vector of one operand along the depth, at row or column `at`."""
        self.position[loop] = at
        return self._convert(side, self._load_input(self.node.inputs[side], lanes), lanes).name
