"""Tensor descriptors: blocks of a tensor that the tensor memory accelerator (TMA) copies.

    tl.make_tensor_descriptor(p0, [4096, 768], [768, 1], [128, 64])

Each group of loops over a tensor is a dimension of its descriptor; dimensions of which a block has one position come
first. The last dimension is contiguous; the other strides are multiples of 16 bytes. Out-of-range elements read as 0
and are not written. A dimension may be divided into parts, such as the parts of a split-K product: parts of whole
blocks are positions along one dimension, other parts are a separate dimension, whose last block may be partial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oneflow.lowering.targets.instructions import TMA
from oneflow.lowering.triton.codegen.kernel import Tensor, bytes_of
from oneflow.lowering.triton.codegen.tile import Axis, LinearForm, Tile
from oneflow.lowering.triton.source import TensorDescriptor
from oneflow.lowering.triton.symbolic_sizes import Size, product

#: The variable of the position along the depth (K) of a product, an integer of 32 bits.
DEPTH_POSITION = "k_at"


@dataclass(frozen=True)
class Dimension:
    """A dimension of a descriptor.

    Attributes:
        axis: the axis of the tile along the dimension.
        loops: the flattened loops of the dimension.
        size, stride: of these loops, in elements.
        parts: pairs of a loop and a step: the position along the loop times the step is added to coordinates.
    """

    axis: Axis
    loops: tuple[int, ...]
    size: int
    stride: int
    parts: tuple[tuple[int, int], ...] = ()


def describe_dimensions(tile: Tile, tensor: Tensor, form: LinearForm, axes: Sequence[Axis]) -> list[Dimension] | None:
    """The dimensions of a tensor's descriptor; None where TMA cannot read the tensor.

    Every axis that is not scalar has to be one dimension. Dimensions of scalar axes are first, so that a block is
    contiguous in shared memory; then dimensions have descending strides.
    """
    if form.computed or form.constant.terms or tensor.element in ("i1", "f64", "i64"):
        return None
    dimensions = []
    for axis in axes:
        groups = tile.groups(axis.loops)
        if not axis.scalar and len(groups) != 1:
            return None
        for group in groups:
            size = product(tile.sizes[n] for n in group).static
            stride = form.loops.get(group[-1], Size()).static
            if size is None or stride is None or (not stride and not axis.scalar):
                return None
            dimensions += [Dimension(axis, tuple(group), size, stride)] if stride else []
    merged = _merge_scalars(sorted(dimensions, key=lambda d: -d.stride))
    ordered = sorted(merged, key=lambda d: not d.axis.scalar)
    missing = {n for n in form.loops if tile.sizes[n] != Size.of(1)} - {n for d in dimensions for n in d.loops}
    if missing or not 2 <= len(ordered) <= TMA.max_rank:
        return None
    return ordered if _is_supported(ordered, tensor) else None


def _merge_scalars(dimensions: list[Dimension]) -> list[Dimension]:
    """Merges the dimensions of scalar axes into the dimensions that they are parts of."""
    for scalar in reversed([d for d in dimensions if d.axis.scalar]):
        index = next((i for i, d in enumerate(dimensions) if _has_parts(d, scalar)), None)
        if index is not None:
            dimension = dimensions[index]
            parts = (*dimension.parts, (scalar.loops[-1], dimension.size))
            dimensions[index] = replace(dimension, size=dimension.size * scalar.size, parts=parts)
            dimensions.remove(scalar)
    return dimensions


def _has_parts(dimension: Dimension, scalar: Dimension) -> bool:
    """Whether a scalar axis is the axis of the parts of a dimension, and each part is a multiple of the block."""
    is_adjacent = scalar.stride == dimension.stride * dimension.size
    return is_adjacent and not dimension.axis.scalar and dimension.size % dimension.axis.block == 0


def _is_supported(dimensions: Sequence[Dimension], tensor: Tensor) -> bool:
    width = bytes_of(tensor.element)
    *outer, last = dimensions
    ends_in_block = last.stride == 1 and not last.axis.scalar and last.axis.block * width >= TMA.alignment_bytes
    aligned = all(d.stride * width % TMA.alignment_bytes == 0 for d in outer)
    small = all(d.axis.block <= TMA.max_block_side and d.size < 2**31 for d in dimensions)
    return ends_in_block and aligned and small


@dataclass
class Descriptor:
    """The descriptor of a tensor in a tile; `starts` has the text of each axis's first position by its name."""

    tile: Tile
    tensor: Tensor
    dimensions: list[Dimension]
    starts: dict[str, str]

    @property
    def name(self) -> str:
        """The name of the descriptor, which is created before all loops."""
        return self.tile.writer.declare_descriptor(self.record(""))

    def record(self, name: str, layout: str = "", module: str = "") -> TensorDescriptor:
        """The statement that creates the descriptor."""
        dimensions, tensor = self.dimensions, self.tensor.name
        shape, strides = tuple(d.size for d in dimensions), tuple(d.stride for d in dimensions)
        return TensorDescriptor(name, tensor, 0, shape, strides, tuple(map(int, self._blocks)), layout, module)

    @property
    def is_contiguous_block(self) -> bool:
        """Whether scalar axes are outermost. Other blocks change their layout through registers when reshaped."""
        kinds = [d.axis.scalar for d in self.dimensions]
        return kinds == sorted(kinds, reverse=True)

    @property
    def _blocks(self) -> list[str]:
        return ["1" if d.axis.scalar else str(d.axis.block) for d in self.dimensions]

    @property
    def coordinates(self) -> str:
        """The text of a block's coordinates as a list."""
        return f"[{self.positions}]"

    @property
    def positions(self) -> str:
        """The text of a block's coordinates as arguments of a call."""
        return ", ".join(self._start(d) for d in self.dimensions)

    def _start(self, dimension: Dimension) -> str:
        text = self.starts.get(dimension.axis.name)
        if text is None:
            text = self.tile.positions[dimension.loops[-1]].name
        parts = [f"{self.tile.positions[n].name} * {step}" for n, step in dimension.parts]
        is_narrow = not self.tile.kernel.needs_64_bits or (text == DEPTH_POSITION and not parts)
        text = " + ".join([*parts, text])
        return text if is_narrow else f"({text}).to(tl.int32)"

    def load(self, order: Sequence[str], name: str = "") -> str:
        """The text that loads a block with the dimensions `order`; `name` is a variable for the descriptor."""
        text = f"{name or self.name}.load({self.coordinates})"
        axes = [d.axis for d in self.dimensions if not d.axis.scalar]
        if len(axes) < len(self.dimensions):
            text = f"{text}.reshape({', '.join(str(a.block) for a in axes)})"
        return text if [a.name for a in axes] == list(order) else f"{text}.T"

    def store(self, value: str, order: Sequence[str]) -> str:
        """The text that stores a block with the dimensions `order`."""
        axes = [d.axis for d in self.dimensions if not d.axis.scalar]
        text = value if [a.name for a in axes] == list(order) else f"{value}.T"
        if len(axes) < len(self.dimensions):
            text = f"{text}.reshape({', '.join(self._blocks)})"
        return f"{self.name}.store({self.coordinates}, {text})"


def are_interchangeable(descriptors: Sequence[Descriptor | None]) -> bool:
    """Whether all descriptors have the same axes, loops and parts, so that one variable may hold any of them."""
    keys = {None if d is None else tuple((s.axis.name, s.loops, s.parts) for s in d.dimensions) for d in descriptors}
    return len(keys) == 1 and None not in keys
