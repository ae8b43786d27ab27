"""The parts of an index key, for reading (`indexing`) and for assigning (`methods.index`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend.core.arrays import is_array
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional import elementwise
from oneflow.frontend.functional.rules import cast


def index_parts(x: Tensor, key: Any) -> list[Any]:
    """The parts of a key, each None, a slice, an int, an array or a tensor; full slices stand for the Ellipsis.

    Raises:
        OneFlowError: a part is of another kind, or the parts index more dimensions than `x` has.
    """
    parts = [_normalized(p) for p in (key if isinstance(key, tuple) else (key,))]
    dots = [i for i, p in enumerate(parts) if p is Ellipsis]
    if len(dots) > 1:
        raise fail(f"expected at most one Ellipsis in an index, got {len(dots)}")
    missing = x.rank - sum(map(_dim_count, parts))
    if missing < 0:
        raise fail(f"expected at most {x.rank} indices for {x.desc}, got {x.rank - missing}")
    at = dots[0] if dots else len(parts)
    return [*parts[:at], *[slice(None)] * missing, *parts[at + 1 :]]


def _normalized(part: Any) -> Any:
    if part is None or part is Ellipsis or isinstance(part, (slice, Tensor)):
        return byte_mask(part)
    if is_integer(part):
        return int(part)
    if not is_array(part) and not isinstance(part, (bool, list, range)):
        raise fail(f"expected an integer, slice, None, Ellipsis or tensor as an index, got {part!r}")
    array: np.ndarray = byte_mask(np.asarray(part))
    return array.astype(np.int64) if isinstance(part, list) and not array.size else array


def byte_mask(part: Any) -> Any:
    """A part of a key; a tensor or array of int8 or uint8 is a mask, as in OneFlow, and becomes one of bool."""
    if isinstance(part, Tensor) and part.dtype in (dtypes.int8, dtypes.uint8):
        return cast(part, dtypes.bool_)
    if isinstance(part, np.ndarray) and part.dtype in (np.int8, np.uint8):
        return part.astype(np.bool_)
    return part


def _dim_count(part: Any) -> int:
    """The number of dimensions that a part indexes."""
    if is_tensor_mask(part):
        rank: int = part.rank
        return rank
    if is_array_mask(part):
        dims: int = part.ndim
        return dims
    return int(part is not None and part is not Ellipsis)


def is_integer(part: Any) -> bool:
    """Whether a part is one position."""
    return isinstance(part, (int, np.integer)) and not isinstance(part, bool)


def is_array_mask(part: Any) -> bool:
    """Whether a part is a mask whose values are known."""
    return isinstance(part, np.ndarray) and part.dtype.kind == "b"


def is_tensor_mask(part: Any) -> bool:
    """Whether a part is a mask with the values of a tensor."""
    return isinstance(part, Tensor) and part.dtype == dtypes.bool_


def check_mask(x: Tensor, first: int, mask: Tensor | np.ndarray) -> None:
    """Refuses a mask whose shape differs from the shape of the dimensions of `x` that the mask indexes, from `first`
    on.

    Dynamic sizes of a tensor are left to the run. A mask with known values needs known sizes.
    """
    is_tensor = isinstance(mask, Tensor)
    pairs = zip(mask.shape, x.shape[first:], strict=False)
    if any(a != b and not (is_tensor and None in (a, b)) for a, b in pairs):
        text = mask.desc if isinstance(mask, Tensor) else f"an array of shape {mask.shape}"
        raise fail(f"expected a mask of the sizes of {x.desc} from dimension {first} on, got {text}")


def slice_bounds(part: slice, sizes: bool) -> tuple[Any, Any, Any]:
    """Start, stop and step of a slice, integers; with `sizes` the bounds may be sizes of a run.

    Raises:
        OneFlowError: a part is of another kind.
    """
    for bound in (part.start, part.stop, part.step):
        is_size = sizes and isinstance(bound, Size) and bound is not part.step
        if isinstance(bound, Tensor) and not is_size:
            raise fail("a slice bounded by a tensor has a size that depends on its value; use flow.where or a mask")
        if bound is not None and not is_size and not is_integer(bound):
            raise fail(f"expected integers in a slice, got {bound!r}")
    return part.start, part.stop, part.step


def known_positions(x: Tensor, axis: int, array: np.ndarray) -> np.ndarray:
    """Positions in a dimension of a static size; negative positions count from the end.

    Raises:
        OneFlowError: the array is not of integers, or a position is out of range.
    """
    if array.dtype.kind not in "iu":
        raise fail(f"expected integers as an index, got an array of {array.dtype}")
    size = x.shape[axis]
    assert size is not None
    wrong = array[(array < -size) | (array >= size)]
    if wrong.size:
        raise fail(f"expected an index in [{-size}, {size}) for dimension {axis} of {x.desc}, got {wrong.flat[0]}")
    wide = array.astype(np.int64)  # narrow types may not hold the size
    return np.where(wide < 0, wide + size, wide)


def check_positions(positions: Tensor) -> None:
    """Refuses a tensor of positions that is not one of integers."""
    if not positions.dtype.is_integer or positions.dtype == dtypes.bool_:
        raise fail(f"expected integers as an index, got {positions.desc}; convert with .to(flow.int64)")


def wrapped_positions(positions: Tensor, size: Any) -> Tensor:
    """A tensor of positions with negative ones counted from the end; those out of range keep their values for the
    error message.
    """
    positions = cast(positions, dtypes.int64)
    from_first = elementwise.add(positions, size)
    signs_differ = elementwise.lt(elementwise.bitwise_xor(positions, from_first), 0)
    wrapped: Tensor = elementwise.where(signs_differ, from_first, positions)
    return wrapped


def broadcast_sizes(shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """The common sizes of broadcasting; a dynamic size is assumed to be the common one, which a run checks."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return tuple(next((d for d in dims if isinstance(d, Size) or d != 1), 1) for dims in zip(*padded, strict=True))
