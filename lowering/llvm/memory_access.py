"""Loads and stores of the tensors of a kernel at the current point of a loop nest.

Accesses are affine in the loops. The output is the text of `vector.load`, `memref.load` and the stores, with the
arithmetic of their indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from oneflow.dialect.dtypes import element_bits
from oneflow.lowering.kernels.nodes import Node, Use
from oneflow.lowering.llvm.iteration_space import Subscript, index_dims
from oneflow.lowering.llvm.kernel import Tensor
from oneflow.lowering.llvm.lanes import Lanes, LaneValue, NeedsScalars
from oneflow.lowering.llvm.loop_nest import LoopNest, Vectorized
from oneflow.lowering.llvm.transposed_copies import TransposedCopies
from oneflow.lowering.llvm.writer import MemRef, memory_type, view


@dataclass
class MemoryAccess:
    """The accesses of a nest to its tensors. `_views` has the memref of each tensor and shape."""

    nest: LoopNest
    _views: dict[tuple[str, str], MemRef] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._copies = TransposedCopies(self.nest)

    def load(self, node: Node, use: Use, tensor: Tensor, lanes: Lanes) -> LaneValue:
        """Loads an element, or a vector of elements, of a tensor at the current point."""
        is_outer = self.nest.vectorized is Vectorized.OUTER
        memory, subscripts = self.locate(node, use, tensor)
        if lanes.width and is_outer:
            memory, subscripts = self._copies.contiguous(tensor, memory, subscripts, lanes)
        indices, stride = self.indices(subscripts, lanes)
        if stride == 2 and is_outer and (lanes.mask is None or lanes.active is not None):
            return lanes.load_stride_two(memory, indices, tensor.element)
        if stride > 1:
            raise NeedsScalars("strided lanes")
        if lanes.prefetches and stride and self.exceeds_cache(subscripts, tensor.element):
            self._prefetch_next_page(memory, indices, tensor.element)
        return lanes.load(memory, indices, tensor.element, bool(stride))

    def store(self, node: Node, use: Use, tensor: Tensor, value: LaneValue, lanes: Lanes) -> None:
        """Stores an element or a vector at the current point."""
        memory, subscripts = self.locate(node, use, tensor)
        indices, stride = self.indices(subscripts, lanes)
        if stride > 1 or (value.is_vector and not stride):
            raise NeedsScalars("a result with strided lanes")
        lanes.store(value, memory, indices, bool(stride))

    def locate(self, node: Node, use: Use, tensor: Tensor) -> tuple[MemRef, list[Subscript]]:
        """A tensor as a memref, and the subscripts of an access of it."""
        subscripts = self.nest.space.subscripts(node, use)
        shape = [s.size for s in subscripts]
        key = (tensor.pointer, str(shape))
        if key not in self._views:
            with self.nest.writer.at_head():
                self._views[key] = view(self.nest.writer, tensor.pointer, shape, memory_type(tensor.element))
        return self._views[key], subscripts

    def indices(self, subscripts: Sequence[Subscript], lanes: Lanes) -> tuple[list[str], int]:
        """The indices of subscripts, and the stride in elements from lane to lane (0: all lanes read one element)."""
        lane_stride = 0
        for axis, subscript in enumerate(subscripts):
            stride = dict(subscript.form.terms).get(lanes.loop.id, 0) if lanes.loop and lanes.width else 0
            if stride < 0 or (stride and axis != len(subscripts) - 1):
                raise NeedsScalars("strided lanes")
            lane_stride = lane_stride or stride
        writer = self.nest.writer
        with writer.buffered() as lines:
            indices = [writer.index(self.nest.index(s.form)) for s in subscripts]
        (writer.lines if lane_stride else lanes.invariant_lines).extend(lines)
        return indices, lane_stride

    def index_values(self, node: Node, lanes: Lanes) -> dict[int, LaneValue]:
        """The values of `linalg.index` in a body, by loop dimension."""
        writer, values = self.nest.writer, {}
        for dim in index_dims(node):
            index = self.nest.indices.get(node.loop_ids[dim], 0)
            value = LaneValue(writer.index(index), "index")
            if lanes.width and lanes.loop and node.loop_ids[dim] == lanes.loop.id:
                kind = lanes.type("index")
                steps = writer.op(f"vector.step : {kind}")
                base = writer.op(f"vector.broadcast {value.name} : index to {kind}")
                value = LaneValue(writer.op(f"arith.addi {base}, {steps} : {kind}"), "index", True, index)
            values[dim] = value
        return values

    def _prefetch_next_page(self, memory: MemRef, indices: Sequence[str], element: str) -> None:
        """Prefetches the memory one page after a vector, which may be beyond the end of the tensor."""
        w, target, bits = self.nest.writer, self.nest.kernel.target, element_bits(memory_type(element))
        for offset in range(0, self.nest.lane_count, target.cache_line_bytes * 8 // bits):
            ahead = w.binary("addi", indices[-1], target.page_bytes * 8 // bits + offset)
            self.prefetch(memory, [*indices[:-1], ahead])

    def prefetch(self, memory: MemRef, indices: Sequence[str]) -> None:
        """Prefetches the cache line of an element, which may be beyond the end of the tensor."""
        element = memory.at(indices)
        self.nest.writer.line(f"memref.prefetch {element}, read, locality<3>, data : {memory.type}")

    def exceeds_cache(self, subscripts: Sequence[Subscript], element: str) -> bool:
        """Whether a tensor of static size does not fit in the L2 cache."""
        sizes = [s.size for s in subscripts if isinstance(s.size, int)]
        bits = math.prod(sizes) * element_bits(memory_type(element))
        return len(sizes) == len(subscripts) and bits >= self.nest.kernel.target.l2_bytes * 8
