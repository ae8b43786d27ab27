"""Indices: what `x[key]` takes, dimension by dimension.

Slices and integers cut a box out of `x`, which has all dimensions of `x`. Arrays, lists and tensors of integers give
positions in the box, or a mask says which elements of the box are taken. An integer beside positions is applied
first, as in PyTorch: it is not one of the positions, as it is in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.arrays import is_array
from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional.indexing import broadcast_sizes
from oneflow.frontend.functional.shape import END

#: Dimensions of the result that are none of `x`: a new one, the dimensions of all positions, what a mask takes.
NEW_AXIS, POSITIONS, MASKED = "new", "positions", "chosen"
FULL_RANGE = 0, END, 1


@dataclass
class Index:
    """An index of a tensor.

    `ranges` are the slices of the box, with positive steps, `flipped` the dimensions whose slice has a negative step.
    `positions` are those in the dimensions that have them; `mask` is a mask and its first dimension. `result_dims`
    are the dimensions of the result: dimensions of the tensor by number, `NEW_AXIS`, `POSITIONS` or `MASKED`.
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
        """The shape of the result, with 1 for what a mask takes."""
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
        first = int(_wrap_negative(self.tensor, axis, np.asarray(number)))
        self.ranges.append((first, first + 1, 1))

    def add_positions(self, part: Any) -> None:
        """Adds positions in the next dimension; for a mask with known values those where it is true."""
        for at in _positions_of(self.tensor, len(self.ranges), part):
            self.positions[len(self.ranges)] = at
            self.ranges.append(FULL_RANGE)
        if POSITIONS not in self.result_dims and not _is_integer(part):
            self.result_dims.append(POSITIONS)

    def add_mask(self, mask: Tensor) -> None:
        """Adds a mask over the next dimensions."""
        first = len(self.ranges)
        if self.mask is not None:
            raise fail("expected at most one mask in an index, got several; combine them with &")
        _check_mask(self.tensor, first, mask.shape, mask.desc)
        self.mask = mask, first
        self.result_dims.append(MASKED)
        self.ranges += [FULL_RANGE] * mask.rank


def parse_index(x: Tensor, key: Any) -> Index:
    """The index of a tensor that `key` means.

    Raises:
        OneFlowError: it means none.
    """
    index = Index(x)
    parts = _expand_ellipsis(x, [_normalized(p) for p in (key if isinstance(key, tuple) else (key,))])
    is_named = None in x.shape and any(map(_is_integer, parts))
    blocks: list[int] = []
    for number, part in enumerate(parts):
        if part is None:
            index.result_dims.append(NEW_AXIS)
        elif isinstance(part, slice):
            index.add_slice(part)
        elif _is_mask(part):
            index.add_mask(part)
        elif _is_positions(part):
            index.add_positions(part)
            blocks.append(number - sum(map(_is_integer, parts[:number])))
        elif is_named:
            index.add_positions(part)
        else:
            index.add_integer(part)
    if blocks and blocks[-1] - blocks[0] >= len(blocks):  # as in NumPy where other parts stand between the positions
        index.result_dims.remove(POSITIONS)
    if index.positions and POSITIONS not in index.result_dims:
        index.result_dims.insert(0, POSITIONS)
    if index.mask is not None and blocks:
        raise fail(f"expected a mask or positions in an index of {x.desc}, got both; take one after the other")
    return index


def is_one(size: Any) -> bool:
    """Whether a size is known to be 1."""
    return not isinstance(size, Size) and bool(size == 1)


def _normalized(part: Any) -> Any:
    """A part of an index as None, Ellipsis, a slice, an int, an array or a tensor."""
    if part is None or part is Ellipsis or isinstance(part, (slice, Tensor)):
        return part
    if _is_integer(part):
        return int(part)
    if not is_array(part) and not isinstance(part, (bool, list, range)):
        raise fail(f"expected an integer, slice, None, Ellipsis or tensor as an index, got {part!r}")
    array = np.asarray(part)
    if array.dtype.kind == "b" and not array.ndim:
        return as_tensor(array)
    return array.astype(np.int64) if isinstance(part, list) and not array.size else array


def _is_integer(part: Any) -> bool:
    return isinstance(part, (int, np.integer)) and not isinstance(part, bool)


def _is_mask(part: Any) -> bool:
    return isinstance(part, Tensor) and part.dtype == dtypes.bool_


def _is_positions(part: Any) -> bool:
    return isinstance(part, (Tensor, np.ndarray)) and not _is_mask(part)


def _dim_count(part: Any) -> int:
    """The number of dimensions that a part indexes."""
    if _is_mask(part):
        rank: int = part.rank
        return rank
    if isinstance(part, np.ndarray) and part.dtype.kind == "b":
        return part.ndim
    return int(part is not None and part is not Ellipsis)


def _expand_ellipsis(x: Tensor, parts: Sequence[Any]) -> list[Any]:
    """The parts with full slices in place of the Ellipsis."""
    dots = [i for i, p in enumerate(parts) if p is Ellipsis]
    if len(dots) > 1:
        raise fail("expected at most one Ellipsis in an index")
    missing = x.rank - sum(map(_dim_count, parts))
    if missing < 0:
        raise fail(f"expected at most {x.rank} indices for {x.desc}, got {x.rank - missing}")
    at = dots[0] if dots else len(parts)
    return [*parts[:at], *[slice(None)] * missing, *parts[at + 1 :]]


def _bounds(part: slice) -> slice:
    """The slice, checked to have integer bounds."""
    bounds = part.start, part.stop, part.step
    for bound in bounds:
        if isinstance(bound, Tensor):
            raise fail("a slice bounded by a tensor has a size that depends on its value; use flow.where or a mask")
        if bound is not None and not _is_integer(bound):
            raise fail(f"expected integers in a slice, got {bound!r}")
    if part.step == 0:
        raise fail("expected a step other than 0 in a slice")
    return part


def _dynamic_range(x: Tensor, axis: int, part: slice) -> tuple[int, int, int]:
    """The range of a slice of a dimension whose size is dynamic."""
    if part.step is not None and part.step < 0:
        raise fail(f"expected a step of at least 1 in dimension {axis} of {x.desc}, whose size is not known")
    return part.start or 0, END if part.stop is None else part.stop, part.step or 1


def _positions_of(x: Tensor, axis: int, part: Any) -> Sequence[Any]:
    """Non-negative positions, as arrays where they are known; one array for each dimension of a mask."""
    if isinstance(part, np.ndarray) and part.dtype.kind == "b":
        _check_mask(x, axis, part.shape, f"an array of shape {part.shape}")
        return np.nonzero(part)
    if isinstance(part, Tensor) or x.shape[axis] is None:
        return [_wrap_negative_at_run_time(x, axis, as_tensor(np.asarray(part) if isinstance(part, int) else part))]
    array = np.asarray(part)
    if array.dtype.kind not in "iu":
        raise fail(f"expected integers as an index, got an array of {array.dtype}")
    return [_wrap_negative(x, axis, array)]


def _wrap_negative(x: Tensor, axis: int, array: np.ndarray) -> np.ndarray:
    """Known positions with negative ones counted from the end."""
    size = x.shape[axis]
    assert size is not None
    wrong = array[(array < -size) | (array >= size)]
    if wrong.size:
        raise fail(f"expected an index in [{-size}, {size}) for dimension {axis} of {x.desc}, got {wrong.flat[0]}")
    wide = array.astype(np.int64)  # narrow types may not hold the size
    return np.where(wide < 0, wide + size, wide)


def _wrap_negative_at_run_time(x: Tensor, axis: int, at: Tensor) -> Tensor:
    """Positions of a tensor with negative ones counted from the end; those out of range keep their values for the
    error message.
    """
    if not at.dtype.is_integer or at.dtype == dtypes.bool_:
        raise fail(f"expected integers as an index, got {at.desc}; convert with .to(flow.int64)")
    at = F.cast(at, dtypes.int64)
    from_first = F.add(at, x.size(axis))
    signs_differ = F.lt(F.bitwise_xor(at, from_first), 0)
    wrapped: Tensor = F.where(signs_differ, from_first, at)
    return wrapped


def _check_mask(x: Tensor, first: int, shape: Sequence[Any], text: object) -> None:
    """Refuses a mask whose shape differs from that of the dimensions that it indexes."""
    pairs = zip(shape, x.shape[first:], strict=False)
    if any(a is not None and b is not None and a != b for a, b in pairs):
        raise fail(f"expected a mask of the sizes of {x.desc} from dimension {first} on, got {text}")


def integers_first(key: Any) -> tuple[Any, Any]:
    """An index of an array as two indices to apply in turn, integers first, where it has positions."""
    parts = key if isinstance(key, tuple) else (key,)
    if not any(map(_is_integer, parts)) or not any(isinstance(p, (np.ndarray, list, range)) for p in parts):
        return ..., key
    whole = slice(None)
    first: list[Any] = []
    for part in parts:
        array = np.asarray(part) if isinstance(part, (np.ndarray, list)) else None
        width = array.ndim if array is not None and array.dtype.kind == "b" else 1
        is_kept = _is_integer(part) or part is Ellipsis
        first += [part] if is_kept else [] if part is None else [whole] * width
    return tuple(first), tuple(p for p in parts if not _is_integer(p))
