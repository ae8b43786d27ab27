"""Indices: the parts of the key in `x[key]`, dimension by dimension.

Slices and integers select a box of `x`, which has all dimensions of `x`. Arrays, lists and tensors of integers are
positions in the box, or a mask selects elements of the box. An integer together with positions is applied first, as
in PyTorch; in NumPy the integer is one of the positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional.index_parts import (
    broadcast_sizes,
    check_mask,
    check_positions,
    index_parts,
    is_array_mask,
    is_integer,
    is_tensor_mask,
    known_positions,
    slice_bounds,
    wrapped_positions,
)
from oneflow.frontend.functional.shape import END

#: Dimensions of the result that are not in `x`: a new dimension, the dimensions of all positions, the elements of a
#: mask.
NEW_AXIS, POSITIONS, MASKED = "new", "positions", "chosen"
FULL_RANGE = 0, END, 1


@dataclass
class Index:
    """An index of a tensor.

    `ranges` are the slices of the box, with positive steps, `flipped` the dimensions whose slice has a negative step.
    `positions` are the positions by dimension; `mask` is a mask and its first dimension. `result_dims`
    are the dimensions of the result: indices of dimensions of the tensor, `NEW_AXIS`, `POSITIONS` or `MASKED`.
    """

    tensor: Tensor
    ranges: list[tuple[int, int, int]] = field(default_factory=list)
    flipped: list[int] = field(default_factory=list)
    positions: dict[int, Any] = field(default_factory=dict)
    mask: tuple[Tensor, int] | None = None
    result_dims: list[int | str] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether the box is the whole tensor."""
        return all(r == FULL_RANGE for r in self.ranges)

    @property
    def box(self) -> dict[str, list[int]]:
        """The box as attributes of the operator `slice`."""
        return {name: [r[i] for r in self.ranges] for i, name in enumerate(("start", "stop", "step"))}

    @property
    def positions_shape(self) -> tuple[Any, ...]:
        """The shape to which all positions broadcast."""
        return broadcast_sizes([p.sizes() if isinstance(p, Tensor) else p.shape for p in self.positions.values()])

    @property
    def sizes(self) -> list[Any]:
        """The shape of the result, with 1 for the elements of a mask."""
        box = [len(range(*r)) if r[1] < END else self.tensor.size(i) for i, r in enumerate(self.ranges)]
        named = {POSITIONS: self.positions_shape if self.positions else (), NEW_AXIS: (1,), MASKED: (1,)}
        return [d for part in self.result_dims for d in (named[part] if isinstance(part, str) else (box[part],))]

    def add_slice(self, part: slice) -> None:
        """Adds a slice of the next dimension."""
        axis = len(self.ranges)
        size, bounds = self.tensor.shape[axis], _bounds(part)
        self.result_dims.append(axis)
        if size is None:
            self.ranges.append(_dynamic_range(self.tensor, axis, bounds))
            return
        positions = range(*bounds.indices(size))
        if positions.step < 0:
            positions = positions[::-1]
            self.flipped.append(axis)
        is_full_range = positions == range(size)
        self.ranges.append(
            FULL_RANGE if is_full_range else (positions.start, max(positions.stop, positions.start), positions.step)
        )

    def add_integer(self, number: int) -> None:
        """Adds an integer for the next dimension, whose size is static."""
        axis = len(self.ranges)
        first = int(known_positions(self.tensor, axis, np.asarray(number)))
        self.ranges.append((first, first + 1, 1))

    def add_positions(self, part: Any) -> None:
        """Adds positions in the next dimension; for a mask with known values the positions where the mask is true."""
        for at in _positions_of(self.tensor, len(self.ranges), part):
            self.positions[len(self.ranges)] = at
            self.ranges.append(FULL_RANGE)
        if POSITIONS not in self.result_dims and not is_integer(part):
            self.result_dims.append(POSITIONS)

    def add_mask(self, mask: Tensor) -> None:
        """Adds a mask over the next dimensions."""
        first = len(self.ranges)
        if self.mask is not None:
            raise fail("expected at most one mask in an index, got several; combine the masks with &")
        check_mask(self.tensor, first, mask)
        self.mask = mask, first
        self.result_dims.append(MASKED)
        self.ranges += [FULL_RANGE] * mask.rank


def parse_index(x: Tensor, key: Any) -> Index:
    """The index of a tensor that `key` denotes.

    Raises:
        OneFlowError: the index is illegal.
    """
    index = Index(x)
    parts: list[Any] = [as_tensor(p) if is_array_mask(p) and not p.ndim else p for p in index_parts(x, key)]
    is_named = None in x.shape and any(map(is_integer, parts))
    blocks: list[int] = []
    for number, part in enumerate(parts):
        if part is None:
            index.result_dims.append(NEW_AXIS)
        elif isinstance(part, slice):
            index.add_slice(part)
        elif is_tensor_mask(part):
            index.add_mask(part)
        elif _is_positions(part):
            index.add_positions(part)
            blocks.append(number - sum(map(is_integer, parts[:number])))
        elif is_named:
            index.add_positions(part)
        else:
            index.add_integer(part)
    if blocks and blocks[-1] - blocks[0] >= len(blocks):  # as in NumPy where other parts separate the positions
        index.result_dims.remove(POSITIONS)
    if index.positions and POSITIONS not in index.result_dims:
        index.result_dims.insert(0, POSITIONS)
    if index.mask is not None and blocks:
        raise fail(f"expected a mask or positions in an index of {x.desc}, got both; apply two indices")
    return index


def is_one(size: Any) -> bool:
    """Whether a size is known to be 1."""
    return not isinstance(size, Size) and bool(size == 1)


def _is_positions(part: Any) -> bool:
    return isinstance(part, (Tensor, np.ndarray)) and not is_tensor_mask(part)


def _bounds(part: slice) -> slice:
    """The slice, checked to have integer bounds."""
    if slice_bounds(part, sizes=False)[2] == 0:
        raise fail(f"expected a step other than 0 in a slice, got {part}")
    return part


def _dynamic_range(x: Tensor, axis: int, part: slice) -> tuple[int, int, int]:
    """The range of a slice of a dimension whose size is dynamic."""
    if part.step is not None and part.step < 0:
        raise fail(
            f"expected a step of at least 1 in dimension {axis} of {x.desc}, whose size is not known, got {part.step}"
        )
    return part.start or 0, END if part.stop is None else part.stop, part.step or 1


def _positions_of(x: Tensor, axis: int, part: Any) -> Sequence[Any]:
    """Non-negative positions, as arrays where the values are known; one array for each dimension of a mask."""
    if is_array_mask(part):
        check_mask(x, axis, part)
        return np.nonzero(part)
    if isinstance(part, Tensor) or x.shape[axis] is None:
        positions = as_tensor(np.asarray(part) if isinstance(part, int) else part)
        check_positions(positions)
        return [wrapped_positions(positions, x.size(axis))]
    return [known_positions(x, axis, np.asarray(part))]


def integers_first(key: Any) -> tuple[Any, Any]:
    """An index of an array as two indices to apply in turn, integers first, where the index has positions."""
    parts = key if isinstance(key, tuple) else (key,)
    if not any(map(is_integer, parts)) or not any(isinstance(p, (np.ndarray, list, range)) for p in parts):
        return ..., key
    first: list[Any] = []
    for part in parts:
        array = np.asarray(part) if isinstance(part, (np.ndarray, list)) else None
        width = array.ndim if array is not None and is_array_mask(array) else 1
        is_kept = is_integer(part) or part is Ellipsis
        first += [part] if is_kept else [] if part is None else [slice(None)] * width
    return tuple(first), tuple(p for p in parts if not is_integer(p))
