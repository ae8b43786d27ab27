"""What `x[key]` takes, dimension by dimension.

Slices and integers cut a box out of `x`, which has all dimensions of `x`; arrays, lists and tensors of integers name
positions in it, or a mask says which of its elements are taken. An integer beside positions takes its dimension
first, as in PyTorch: it is not one of them, as it is in NumPy.
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

#: What a dimension of the result is that is none of `x`: a new one, those of all positions, what a mask takes.
NEW, POSITIONS, CHOSEN = "new", "positions", "chosen"
WHOLE = 0, END, 1


@dataclass
class Index:
    """An index of a tensor.

    `ranges` are the slices of the box, with positive steps, `turned` the dimensions that go backwards. `positions`
    are of dimensions whose elements are named one by one; `mask` is a mask and its first dimension. `taken` are the
    dimensions of the result: those of the tensor by their numbers, and others.
    """

    of: Tensor
    ranges: list[tuple[int, int, int]] = field(default_factory=list)
    turned: list[int] = field(default_factory=list)
    positions: dict[int, Any] = field(default_factory=dict)
    mask: tuple[Tensor, int] | None = None
    taken: list[int | str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the box is everything."""
        return all(r == WHOLE for r in self.ranges)

    @property
    def box(self) -> dict[str, list[int]]:
        """The box as attributes of `slice`."""
        return {name: [r[i] for r in self.ranges] for i, name in enumerate(("start", "stop", "step"))}

    @property
    def spread(self) -> tuple[Any, ...]:
        """The sizes of all positions, which broadcast."""
        return broadcast_sizes([p.sizes() if isinstance(p, Tensor) else p.shape for p in self.positions.values()])

    @property
    def sizes(self) -> list[Any]:
        """The sizes of the result; 1 for what a mask takes."""
        box = [len(range(*r)) if r[1] < END else self.of.size(i) for i, r in enumerate(self.ranges)]
        named = {POSITIONS: self.spread if self.positions else (), NEW: (1,), CHOSEN: (1,)}
        return [d for part in self.taken for d in (named[part] if isinstance(part, str) else (box[part],))]

    def slice(self, part: slice) -> None:
        """Adds a slice of the next dimension."""
        axis = len(self.ranges)
        size, bounds = self.of.shape[axis], _bounds(part)
        self.taken.append(axis)
        if size is None:
            self.ranges.append(_unclipped(self.of, axis, bounds))
            return
        found = range(*bounds.indices(size))
        if found.step < 0:
            found = found[::-1]
            self.turned.append(axis)
        whole = found == range(size)
        self.ranges.append(WHOLE if whole else (found.start, max(found.stop, found.start), found.step))

    def single(self, number: int) -> None:
        """Adds one position of the next dimension, whose size is known."""
        axis = len(self.ranges)
        first = int(_counted(self.of, axis, np.asarray(number)))
        self.ranges.append((first, first + 1, 1))

    def name(self, part: Any) -> None:
        """Adds positions in the next dimension; of a mask that is known those that it takes."""
        for at in _named(self.of, len(self.ranges), part):
            self.positions[len(self.ranges)] = at
            self.ranges.append(WHOLE)
        if POSITIONS not in self.taken and not _is_integer(part):
            self.taken.append(POSITIONS)

    def choose(self, mask: Tensor) -> None:
        """Adds a mask of the next dimensions."""
        first = len(self.ranges)
        if self.mask is not None:
            raise fail("expected at most one mask in an index, got several; combine them with &")
        _check_mask(self.of, first, mask.shape, mask.desc)
        self.mask = mask, first
        self.taken.append(CHOSEN)
        self.ranges += [WHOLE] * mask.rank


def read(x: Tensor, key: Any) -> Index:
    """The index that `key` is of a tensor.

    Raises:
        OneFlowError: it is none.
    """
    index = Index(x)
    parts = _expand(x, [_settled(p) for p in (key if isinstance(key, tuple) else (key,))])
    is_named = None in x.shape and any(map(_is_integer, parts))
    blocks: list[int] = []
    for number, part in enumerate(parts):
        if part is None:
            index.taken.append(NEW)
        elif isinstance(part, slice):
            index.slice(part)
        elif _is_mask(part):
            index.choose(part)
        elif _is_positions(part):
            index.name(part)
            blocks.append(number - sum(map(_is_integer, parts[:number])))
        elif is_named:
            index.name(part)
        else:
            index.single(part)
    if blocks and blocks[-1] - blocks[0] >= len(blocks):  # as NumPy has it where others are between
        index.taken.remove(POSITIONS)
    if index.positions and POSITIONS not in index.taken:
        index.taken.insert(0, POSITIONS)
    if index.mask is not None and blocks:
        raise fail(f"expected a mask or positions in an index of {x.desc}, got both; take one after the other")
    return index


def is_one(size: Any) -> bool:
    """Whether a size is known to be 1."""
    return not isinstance(size, Size) and bool(size == 1)


def _settled(part: Any) -> Any:
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


def _width(part: Any) -> int:
    """How many dimensions a part is for."""
    if _is_mask(part):
        rank: int = part.rank
        return rank
    if isinstance(part, np.ndarray) and part.dtype.kind == "b":
        return part.ndim
    return int(part is not None and part is not Ellipsis)


def _expand(x: Tensor, parts: Sequence[Any]) -> list[Any]:
    """The parts with the Ellipsis written out."""
    dots = [i for i, p in enumerate(parts) if p is Ellipsis]
    if len(dots) > 1:
        raise fail("expected at most one Ellipsis in an index")
    missing = x.rank - sum(map(_width, parts))
    if missing < 0:
        raise fail(f"expected at most {x.rank} indices for {x.desc}, got {x.rank - missing}")
    at = dots[0] if dots else len(parts)
    return [*parts[:at], *[slice(None)] * missing, *parts[at + 1 :]]


def _bounds(part: slice) -> slice:
    """A slice of numbers."""
    bounds = part.start, part.stop, part.step
    for bound in bounds:
        if isinstance(bound, Tensor):
            raise fail("a slice bounded by a tensor has a size that depends on its value; use flow.where or a mask")
        if bound is not None and not _is_integer(bound):
            raise fail(f"expected integers in a slice, got {bound!r}")
    if part.step == 0:
        raise fail("expected a step other than 0 in a slice")
    return part


def _unclipped(x: Tensor, axis: int, part: slice) -> tuple[int, int, int]:
    """The range of a slice where the size is only known at run time."""
    if part.step is not None and part.step < 0:
        raise fail(f"expected a step of at least 1 in dimension {axis} of {x.desc}, whose size is not known")
    return part.start or 0, END if part.stop is None else part.stop, part.step or 1


def _named(x: Tensor, axis: int, part: Any) -> Sequence[Any]:
    """Positions counted from the first, arrays where they are known: several of a mask."""
    if isinstance(part, np.ndarray) and part.dtype.kind == "b":
        _check_mask(x, axis, part.shape, f"an array of shape {part.shape}")
        return np.nonzero(part)
    if isinstance(part, Tensor) or x.shape[axis] is None:
        return [_counted_in_the_run(x, axis, as_tensor(np.asarray(part) if isinstance(part, int) else part))]
    array = np.asarray(part)
    if array.dtype.kind not in "iu":
        raise fail(f"expected integers as an index, got an array of {array.dtype}")
    return [_counted(x, axis, array)]


def _counted(x: Tensor, axis: int, array: np.ndarray) -> np.ndarray:
    """Known positions counted from the first."""
    size = x.shape[axis]
    assert size is not None
    wrong = array[(array < -size) | (array >= size)]
    if wrong.size:
        raise fail(f"expected an index in [{-size}, {size}) for dimension {axis} of {x.desc}, got {wrong.flat[0]}")
    wide = array.astype(np.int64)  # narrow types may not hold the size
    return np.where(wide < 0, wide + size, wide)


def _counted_in_the_run(x: Tensor, axis: int, at: Tensor) -> Tensor:
    """Positions counted from the first, known in the run; those out of range stay, so that its error names them."""
    if not at.dtype.is_integer or at.dtype == dtypes.bool_:
        raise fail(f"expected integers as an index, got {at.desc}; convert with .to(flow.int64)")
    at = F.cast(at, dtypes.int64)
    counted = F.add(at, x.size(axis))
    return F.where(F.lt(F.bitwise_xor(at, counted), 0), counted, at)  # where the signs differ


def _check_mask(x: Tensor, first: int, shape: Sequence[Any], text: object) -> None:
    """Refuses a mask of other sizes than the dimensions that it is for."""
    pairs = zip(shape, x.shape[first:], strict=False)
    if any(a is not None and b is not None and a != b for a, b in pairs):
        raise fail(f"expected a mask of the sizes of {x.desc} from dimension {first} on, got {text}")


def singles_first(key: Any) -> tuple[Any, Any]:
    """An index of an array as two, one after the other: integers, and what is left, where that has positions."""
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
