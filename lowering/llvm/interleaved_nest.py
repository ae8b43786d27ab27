"""Kernels whose last loop has two steps, such as the gradient of max pooling: unrolled, with interleaved stores.

Lanes are iterations of the loop before. Both steps are computed for a vector; their results are interleaved in
registers and stored as two contiguous vectors. Input is the structure of a kernel, output its functions as MLIR text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import AffineForm, Node, Structure, Use
from oneflow.lowering.llvm.iteration_space import IterationSpace, Loop, Subscript
from oneflow.lowering.llvm.kernel import Kernel, Tensor
from oneflow.lowering.llvm.lanes import Lanes, LaneValue, NeedsScalars
from oneflow.lowering.llvm.loop_nest import Vectorized
from oneflow.lowering.llvm.memory_access import MemoryAccess
from oneflow.lowering.llvm.nest_emitters import NestEmitters
from oneflow.lowering.llvm.vectorized_nest import OuterLoops, in_result_order, vectorized_nest


def emit_interleaved(kernel: Kernel, structure: Structure) -> str:
    """The functions of a kernel whose results end in dimensions of two elements, as MLIR text.

    Raises:
        Unsupported: the kernel has another form.
    """
    nest = vectorized_nest(kernel, in_result_order(structure), Vectorized.OUTER, PairedSpace)
    assert isinstance(nest.space, PairedSpace)
    emitters, pair = NestEmitters(nest), nest.space.pair
    emitters.storage.store = InterleavedStores(emitters.memory).store

    def point(lanes: Lanes) -> None:
        for step in range(2):
            nest.indices[pair.id] = step
            emitters.emit(lanes)

    return OuterLoops(nest, point).emit()


@dataclass
class PairedSpace(IterationSpace):
    """An iteration space whose last outer loop, of two steps, is the unrolled loop `pair`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = [loop.size for loop in self.outer[-2:]]
        if self.inner or len(sizes) < 2 or sizes[1] != 2 or not isinstance(sizes[0], int):
            raise NeedsScalars(
                "pairs are for pointwise kernels whose last loop has two steps, after a loop of static size"
            )
        self.pair: Loop = self.outer.pop()

    def subscripts(self, node: Node, use: Use) -> list[Subscript]:
        """The subscripts of an access; the two last loops are one subscript, in which lanes have stride 2, where the
        last dimension has no more elements than the pair.
        """
        *subscripts, last = super().subscripts(node, use) or [Subscript(AffineForm(()), 1)]
        vector = self.outer[-1].id
        loops = (vector, self.pair.id)
        if not subscripts or (subscripts[-1].form.dim, last.form.dim) != loops or last.size != 2:
            return [*subscripts, last]
        form = AffineForm(((vector, 2), (self.pair.id, 1)))
        return [*subscripts[:-1], Subscript(form, self.writer.mul(subscripts[-1].size, 2))]


@dataclass
class InterleavedStores:
    """Stores of both steps of a pair: results of the first step are kept until the second step has its own."""

    memory: MemoryAccess
    _first_steps: dict[ir.Value, LaneValue] = field(default_factory=dict)

    def store(self, node: Node, use: Use, tensor: Tensor, value: LaneValue, lanes: Lanes) -> None:
        """Stores an element or a vector, or both vectors of a pair."""
        memory, subscripts = self.memory.locate(node, use, tensor)
        indices, stride = self.memory.indices(subscripts, lanes)
        if stride != 2:
            self.memory.store(node, use, tensor, value, lanes)
        elif use.value not in self._first_steps:
            self._first_steps[use.value] = value
        else:
            writer = lanes.writer
            begin = [*indices[:-1], writer.op(f"arith.subi {indices[-1]}, {writer.index(1)} : index")]
            lanes.store_interleaved((self._first_steps.pop(use.value), value), memory, begin)
