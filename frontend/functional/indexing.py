"""`x[...]`: integers, slices, None, Ellipsis, known masks, and tensors of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend.core.arrays import is_array
from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional import sizes as sz
from oneflow.frontend.functional.rules import cast

_WHOLE = (None, None, None)


def getitem(x: Tensor, key: Any) -> Tensor:
    """`x[key]`: integers and slices as NumPy indexes, then tensors of positions.

    Slices have positive steps. The dimensions of a tensor of positions take the place of its dimension; several
    broadcast, and their dimensions come first where others are between theirs.

    Raises:
        OneFlowError: the index is out of range, or the result's shape would depend on values.
    """
    x, parts = _without_masks(x, _expand(x, key if isinstance(key, tuple) else (key,)))
    slices, singles, gathered, news = _plan(x, parts)
    x = _cut_by_sizes(x, slices)
    if any(s != _WHOLE for s in slices):
        x = sh.slice(x, slices)
    for axis, number in singles.items():
        x = sh.narrow(x, axis, number, 1) if x.shape[axis] is None else x
    x = sh.squeeze(x, list(singles)) if singles else x
    for position in news:
        x = sh.unsqueeze(x, position)
    if len(gathered) > 1:
        return _at_several(x, gathered)
    return dispatch("gather", x, gathered[0][1], axis=gathered[0][0]) if gathered else x


def _at_several(x: Tensor, gathered: Sequence[tuple[int, Tensor]]) -> Tensor:
    """The elements at positions in several dimensions."""
    axes, positions = zip(*gathered, strict=True)
    spread = broadcast_sizes([p.sizes() for p in positions])
    counted = [_from_the_first(p, x.size(axis)) for axis, p in gathered]
    rows = sh.stack([sh.expand(p, *spread) for p in counted], -1)
    rest = [axis for axis in range(x.rank) if axis not in axes]
    found = dispatch("gather_nd", sh.permute(x, [*axes, *rest]), rows)
    if axes[0] == 0 or axes[-1] - axes[0] >= len(axes):
        return found
    count = len(spread)
    before = range(count, count + axes[0])
    return sh.permute(found, [*before, *range(count), *range(count + axes[0], found.rank)])


def broadcast_sizes(shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """The common sizes of broadcasting; a dynamic size is assumed to be the common one, which a run checks."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return tuple(next((d for d in dims if isinstance(d, Size) or d != 1), 1) for dims in zip(*padded, strict=True))


def _from_the_first(positions: Tensor, size: Any) -> Tensor:
    """Positions counted from the first, negative ones from the last; positions out of range stay out of range."""
    positions = cast(positions, dtypes.int64)
    counted = dispatch("broadcast_add", positions, as_tensor(np.int64(size) if isinstance(size, int) else size))
    return dispatch("where", dispatch("broadcast_less", positions, as_tensor(np.int64(0))), counted, positions)


def _cut_by_sizes(x: Tensor, slices: list[Any]) -> Tensor:
    """The parts between dynamic bounds; the returned slices have only the steps."""
    for axis, (start, stop, step) in enumerate(slices):
        if isinstance(start, Size) or isinstance(stop, Size):
            size = x.size(axis)
            first, last = (sz.bound(v, size) for v in (0 if start is None else start, size if stop is None else stop))
            x = sz.between(x, axis, first, sz.larger(last - first, 0))
            slices[axis] = None, None, step
    return x


def _expand(x: Tensor, parts: tuple[Any, ...]) -> list[Any]:
    """The index with its Ellipsis written out, one entry per dimension beside the None."""
    dots = [i for i, p in enumerate(parts) if p is Ellipsis]
    if len(dots) > 1:
        raise fail("expected at most one Ellipsis in an index")
    missing = x.rank - sum(map(_width, parts))
    if missing < 0:
        raise fail(f"expected at most {x.rank} indices for {x.desc}, got {x.rank - missing}")
    at = dots[0] if dots else len(parts)
    return [*parts[:at], *[slice(None)] * missing, *parts[at + 1 :]]


def _width(part: Any) -> int:
    """How many dimensions a part is for."""
    mask = _mask(part)
    return int(part is not None and part is not Ellipsis) if mask is None else mask.ndim


def _mask(part: Any) -> np.ndarray | None:
    """A part that is a bool, or an array or list of bools, as an array."""
    if isinstance(part, Tensor) or not (is_array(part) or isinstance(part, (bool, list))):
        return None
    array = np.asarray(part)
    return array if array.dtype.kind == "b" else None


def _without_masks(x: Tensor, parts: list[Any]) -> tuple[Tensor, list[Any]]:
    """Known masks as positions, of dimensions that are put together; those of one bool in a new dimension."""
    found: list[Any] = []
    axis = 0
    for part in parts:
        mask = _mask(part)
        if mask is not None:
            x = _flat(x, axis, mask)
        found.append(part if mask is None else np.flatnonzero(mask))
        axis += part is not None
    return x, found


def _flat(x: Tensor, axis: int, mask: np.ndarray) -> Tensor:
    """`x` with one dimension in place of those that a mask is for."""
    sizes = x.sizes()
    if x.shape[axis : axis + mask.ndim] != mask.shape:
        raise fail(
            f"expected a mask of the sizes of {x.desc} from dimension {axis} on, got an array of shape {mask.shape}"
        )
    return x if mask.ndim == 1 else sh.reshape(x, [*sizes[:axis], mask.size, *sizes[axis + mask.ndim :]])


def _plan(x: Tensor, parts: list[Any]) -> tuple[list[Any], dict[int, int], list[tuple[int, Tensor]], list[int]]:
    """Slices per dimension, single indices, and, without their dimensions, positions and where new dimensions go."""
    slices: list[Any] = []
    singles: dict[int, int] = {}
    gathered: list[tuple[int, Tensor]] = []
    news: list[int] = []
    width = 0
    for part in parts:
        axis = len(slices)
        if part is None:
            news.append(width)
            width += 1
        elif isinstance(part, slice):
            slices.append(_slice(part))
            width += 1
        elif isinstance(part, (int, np.integer)) and not isinstance(part, bool):
            slices.append(_single(x, axis, int(part)))
            singles[axis] = int(part)
        else:
            gathered.append((width, _positions(x, axis, part)))
            slices.append(_WHOLE)
            width += 1
    return slices, singles, gathered, news


def _slice(part: slice) -> tuple[Any, Any, Any]:
    for bound in (part.start, part.stop, part.step):
        if isinstance(bound, Tensor) and (bound is part.step or not isinstance(bound, Size)):
            raise fail("a slice bounded by a tensor has a shape that depends on its value; use flow.where or a mask")
        if bound is not None and not isinstance(bound, (int, np.integer, Size)):
            raise fail(f"expected integers in a slice, got {bound!r}")
    if part.step is not None and part.step < 1:
        raise fail(f"expected a step of at least 1 in a slice, got {part.step}; write flow.flip(x, [dim]) to reverse")
    return part.start, part.stop, part.step


def _single(x: Tensor, axis: int, index: int) -> tuple[Any, Any, Any]:
    """The slice that one index takes; nothing where the size is dynamic, so that `narrow` checks it in the run."""
    size = x.shape[axis]
    if size is None:
        return _WHOLE
    if not -size <= index < size:
        raise fail(f"expected an index in [{-size}, {size}) for dimension {axis} of {x.desc}, got {index}")
    return index % size, index % size + 1, 1


def _positions(x: Tensor, axis: int, part: Any) -> Tensor:
    """A tensor of positions along `axis`; those of arrays and lists are counted from the front here."""
    if not isinstance(part, Tensor):
        part = _constant_positions(x, axis, part)
    index = as_tensor(part)
    if index.dtype == dtypes.bool_:
        raise fail(
            "the shape of x[mask] depends on the mask's values; "
            "write flow.where(mask, x, 0) or flow.masked_fill(x, ~mask, 0), which keep the shape"
        )
    if not index.dtype.is_integer:
        raise fail(f"expected integers as an index, got {index.desc}; convert with .to(flow.int64)")
    return index


def _constant_positions(x: Tensor, axis: int, part: Any) -> np.ndarray:
    if not is_array(part) and not isinstance(part, (list, range)):
        raise fail(f"expected an integer, slice, None, Ellipsis or tensor as an index, got {part!r}")
    array = np.asarray(part)
    size = x.shape[axis]
    if array.dtype.kind not in "iu" or size is None:
        return array.astype(np.int64) if isinstance(part, list) and not array.size else array
    if array.size and not (-size <= array.min() and array.max() < size):
        raise fail(f"expected indices in [{-size}, {size}) for dimension {axis} of {x.desc}, got {part}")
    return np.where(array < 0, array + size, array).astype(np.int64)
