"""Tensor descriptors: blocks of a tensor that the hardware copies as one.

    tl.make_tensor_descriptor(p0, [4096, 768], [768, 1], [128, 64])

A tensor is described by the groups of loops it is walked along, one dimension each; the last has neighbours in memory
and the others lie multiples of 16 bytes apart. Elements outside of it read as 0 and are not written. Parts of a
dimension, such as those of a depth that is cut, are places in it where no block is in two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oneflow.lowering.triton.codegen.kernel import Tensor, bytes_of
from oneflow.lowering.triton.codegen.symbolic_sizes import Size, product
from oneflow.lowering.triton.codegen.tile import Axis, Form, Tile
from oneflow.lowering.triton.source import TensorDescriptor

#: What distances between elements of a dimension are multiples of, and the most a block has along one.
BYTES, MOST, RANK = 16, 256, 5


@dataclass(frozen=True)
class Dimension:
    """A dimension of a descriptor: the axis that walks it, its loops as one, their size and stride in elements.

    It may have parts: it begins at the position along each of the loops `parts` times a step.
    """

    axis: Axis
    loops: tuple[int, ...]
    size: int
    stride: int
    parts: tuple[tuple[int, int], ...] = ()


def describe(tile: Tile, tensor: Tensor, form: Form, axes: Sequence[Axis]) -> list[Dimension] | None:
    """The dimensions of a tensor in the order of memory, None where it cannot be described.

    Every axis that is no scalar has to be one dimension.
    """
    if form.computed or form.constant.terms or tensor.element in ("i1", "f64", "i64"):
        return None
    found = []
    for axis in axes:
        groups = tile.groups(axis.loops)
        if not axis.scalar and len(groups) != 1:
            return None
        for group in groups:
            size = product(tile.sizes[n] for n in group).static
            stride = form.loops.get(group[-1], Size()).static
            if size is None or stride is None or (not stride and not axis.scalar):
                return None
            found += [Dimension(axis, tuple(group), size, stride)] if stride else []
    ordered = _joined(sorted(found, key=lambda d: -d.stride))
    missing = {n for n in form.loops if tile.sizes[n] != Size.of(1)} - {n for d in found for n in d.loops}
    if missing or not 2 <= len(ordered) <= RANK:
        return None
    return ordered if _allowed(ordered, tensor) else None


def _joined(dimensions: list[Dimension]) -> list[Dimension]:
    """Dimensions by descending strides, those of scalars as parts of what they are next to in memory."""
    for scalar in reversed([d for d in dimensions if d.axis.scalar]):
        at = next((i for i, d in enumerate(dimensions) if _has_parts(d, scalar)), None)
        if at is not None:
            whole = dimensions[at]
            parts = (*whole.parts, (scalar.loops[-1], whole.size))
            dimensions[at] = replace(whole, size=whole.size * scalar.size, parts=parts)
            dimensions.remove(scalar)
    return dimensions


def _has_parts(whole: Dimension, scalar: Dimension) -> bool:
    """Whether the positions of a scalar are parts of a dimension, each of which is whole blocks."""
    beside = scalar.stride == whole.stride * whole.size
    return beside and not whole.axis.scalar and whole.size % whole.axis.block == 0


def _allowed(dimensions: Sequence[Dimension], tensor: Tensor) -> bool:
    width = bytes_of(tensor.element)
    *outer, last = dimensions
    ends_in_block = last.stride == 1 and not last.axis.scalar and last.axis.block * width >= BYTES
    aligned = all(d.stride * width % BYTES == 0 for d in outer)
    small = all(d.axis.block <= MOST and d.size < 2**31 for d in dimensions)
    return ends_in_block and aligned and small


@dataclass
class Descriptor:
    """A tensor described, in a tile: `starts` has the first position of each axis by its name."""

    tile: Tile
    tensor: Tensor
    dimensions: list[Dimension]
    starts: dict[str, str]

    @property
    def name(self) -> str:
        """The descriptor's name; it is made before every loop."""
        writer, made = self.tile.writer, self.record("")
        name = writer.define(made.expression, "descriptor", prefix="block").name
        writer.descriptors[name] = replace(made, name=name)
        return name

    def record(self, name: str, layout: str = "") -> TensorDescriptor:
        """The statement that makes the descriptor."""
        dimensions, tensor = self.dimensions, self.tensor.name
        shape, strides = tuple(d.size for d in dimensions), tuple(d.stride for d in dimensions)
        return TensorDescriptor(name, tensor, 0, shape, strides, tuple(map(int, self._blocks)), layout)

    @property
    def is_block(self) -> bool:
        """Whether no scalar lies within a block: such a block is only laid out anew through registers."""
        kinds = [d.axis.scalar for d in self.dimensions]
        return kinds == sorted(kinds, reverse=True)

    @property
    def _blocks(self) -> list[str]:
        return ["1" if d.axis.scalar else str(d.axis.block) for d in self.dimensions]

    @property
    def place(self) -> str:
        """The positions of a block."""
        return f"[{', '.join(self._start(d) for d in self.dimensions)}]"

    def _start(self, dimension: Dimension) -> str:
        text = self.starts.get(dimension.axis.name)
        if text is None:
            text = self.tile.positions[dimension.loops[-1]].name
        text = " + ".join([*(f"{self.tile.positions[n].name} * {step}" for n, step in dimension.parts), text])
        return f"({text}).to(tl.int32)" if self.tile.kernel.is_wide and not text.startswith("k_at") else text

    def load(self, order: Sequence[str], name: str = "") -> str:
        """The text of a block whose dimensions are the axes `order`; `name` stands for this descriptor or another."""
        text = f"{name or self.name}.load({self.place})"
        spread = [d.axis for d in self.dimensions if not d.axis.scalar]
        if len(spread) < len(self.dimensions):
            text = f"{text}.reshape({', '.join(str(a.block) for a in spread)})"
        return text if [a.name for a in spread] == list(order) else f"{text}.T"

    def store(self, value: str, order: Sequence[str]) -> str:
        """The text that writes a block whose dimensions are the axes `order`."""
        spread = [d.axis for d in self.dimensions if not d.axis.scalar]
        text = value if [a.name for a in spread] == list(order) else f"{value}.T"
        if len(spread) < len(self.dimensions):
            text = f"{text}.reshape({', '.join(self._blocks)})"
        return f"{self.name}.store({self.place}, {text})"


def are_alike(found: Sequence[Descriptor | None]) -> bool:
    """Whether all there are walk blocks along the same axes, so that one may stand for another."""
    walks = {None if d is None else tuple((s.axis.name, s.loops, s.parts) for s in d.dimensions) for d in found}
    return len(walks) == 1 and None not in walks
