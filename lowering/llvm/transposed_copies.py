"""Copies of small tensors with the vectorized axis as the last one, which are written before the loops of a nest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from oneflow.lowering.llvm.iteration_space import Subscript
from oneflow.lowering.llvm.kernel import Tensor
from oneflow.lowering.llvm.lanes import Lanes
from oneflow.lowering.llvm.loop_nest import LoopNest
from oneflow.lowering.llvm.writer import MemRef


@dataclass
class TransposedCopies:
    """The transposed copies of the tensors of a nest."""

    nest: LoopNest
    _copies: dict[tuple[str, str], MemRef] = field(default_factory=dict)

    def contiguous(
        self, tensor: Tensor, memory: MemRef, subscripts: list[Subscript], lanes: Lanes
    ) -> tuple[MemRef, list[Subscript]]:
        """A copy of a tensor in which the lanes are contiguous; the tensor itself where a copy is not profitable."""
        axis = _strided_axis(subscripts, lanes)
        if axis is None or not self._is_profitable(subscripts):
            return memory, subscripts
        transposed = [*subscripts[:axis], *subscripts[axis + 1 :], subscripts[axis]]
        key = (tensor.pointer, f"{axis} last of {[s.size for s in subscripts]}")
        if key not in self._copies:
            with self.nest.writer.at_head():
                self._copies[key] = self.nest.allocate([s.size for s in transposed], tensor.element)
                self._copy(memory, self._copies[key], [s.size for s in subscripts], axis)
        return self._copies[key], transposed

    def _is_profitable(self, subscripts: Sequence[Subscript]) -> bool:
        """Whether a tensor is small and read often enough to be copied."""
        sizes = [s.size for s in subscripts]
        steps = [loop.size for loop in (*self.nest.space.outer, *self.nest.space.inner)]
        known_sizes, known_steps = [n for n in sizes if isinstance(n, int)], [n for n in steps if isinstance(n, int)]
        if len(known_sizes) < len(sizes) or len(known_steps) < len(steps):
            return False
        limits = self.nest.kernel.target.kernels.loops
        uses = math.prod(known_steps) // limits.min_transposed_uses
        return math.prod(known_sizes) <= min(limits.max_transposed_elements, uses)

    def _copy(self, source: MemRef, target: MemRef, sizes: Sequence[int | str], axis: int) -> None:
        """Writes the loops that copy a tensor."""
        w = self.nest.writer
        ivs = [w.fresh() for _ in sizes]
        for iv, size in zip(ivs, sizes, strict=True):
            w.line(f"scf.for {iv} = {w.index(0)} to {w.index(size)} step {w.index(1)} {{")
        element = w.op(f"memref.load {source.at(ivs)} : {source.type}")
        w.line(f"memref.store {element}, {target.at([*ivs[:axis], *ivs[axis + 1 :], ivs[axis]])} : {target.type}")
        w.lines.extend("}" for _ in sizes)


def _strided_axis(subscripts: Sequence[Subscript], lanes: Lanes) -> int | None:
    """The axis of the lanes, if it is not the last axis."""
    axes = [n for n, s in enumerate(subscripts) if lanes.loop and lanes.loop.id in s.form.dims]
    return axes[0] if len(axes) == 1 and axes[0] != len(subscripts) - 1 else None
