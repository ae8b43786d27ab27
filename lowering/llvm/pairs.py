"""Kernels whose last loop has two steps, such as the gradient of max pooling: lanes along the loop before.

Both steps are computed for a vector of the other loop. Their results are interleaved in registers and stored as two
contiguous vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import Linear, Node, Structure, Use
from oneflow.lowering.llvm.body import Lanes, LaneValue, NeedsScalars
from oneflow.lowering.llvm.kernel import Kernel, Tensor
from oneflow.lowering.llvm.loop_nest import LoopNest, in_result_order
from oneflow.lowering.llvm.loops import Loop, Loops, Position
from oneflow.lowering.llvm.writer import Writer


def emit_pairs(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel whose results end in dimensions of two elements, as MLIR text.

    Raises:
        Unsupported: the kernel has another form.
    """
    return Pairs(kernel, in_result_order(structure), "column").emit()


@dataclass
class Pairs(LoopNest):
    """The emission of one structure with the last loop `pair` unrolled and lanes along the loop before.

    `first_steps` holds the results of the first step until the second step has its own.
    """

    first_steps: dict[ir.Value, LaneValue] = field(default_factory=dict)

    def _make_loops(self, writer: Writer) -> Loops:
        loops = super()._make_loops(writer)
        sizes = [loop.size for loop in loops.outer[-2:]]
        if loops.inner or len(sizes) < 2 or sizes[1] != 2 or not isinstance(sizes[0], int):
            raise NeedsScalars(
                "pairs are for pointwise kernels whose last loop has two steps, after a loop of static size"
            )
        self.pair: Loop = loops.outer.pop()
        return loops

    def _emit_outer_position(self, lanes: Lanes) -> None:
        """Emits both steps of the pair."""
        for number in range(2):
            self.position[self.pair.id] = number
            super()._emit_outer_position(lanes)

    def _positions_of(self, node: Node, use: Use) -> list[Position]:
        """The positions of an access; the two last loops are one position, in which lanes have stride 2, where the
        last dimension has no more elements than the pair.
        """
        *positions, last = super()._positions_of(node, use) or [Position(Linear(()), 1)]
        assert self.vector is not None
        loops = (self.vector.id, self.pair.id)
        if not positions or (positions[-1].form.dim, last.form.dim) != loops or last.size != 2:
            return [*positions, last]
        form = Linear(((self.vector.id, 2), (self.pair.id, 1)))
        return [*positions[:-1], Position(form, self.writer.mul(positions[-1].size, 2))]

    def _store(self, node: Node, use: Use, tensor: Tensor, value: LaneValue, lanes: Lanes) -> None:
        memory, kind, positions = self._locate(node, use, tensor)
        names, step = self._index_names(positions, lanes)
        if step != 2:
            super()._store(node, use, tensor, value, lanes)
        elif use.value not in self.first_steps:
            self.first_steps[use.value] = value
        else:
            begin = [*names[:-1], self.writer.op(f"arith.subi {names[-1]}, {self.writer.index(1)} : index")]
            lanes.store_interleaved((self.first_steps.pop(use.value), value), memory, kind, begin)
