"""`x[...]`: integers, slices, None, Ellipsis, boolean masks whose values are known, and integer tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional import sizes as sz
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

_FULL = (None, None, None)


def getitem(x: Tensor, key: Any) -> Tensor:
    """`x[key]`: integers and slices as NumPy indexes, then tensors of positions.

    Slices have positive steps. The dimensions of a tensor of positions replace its dimension; several tensors
    broadcast, and their dimensions come first where other dimensions separate them.

    Raises:
        OneFlowError: the index is out of range, or the result's shape would depend on values.
    """
    x, parts = _without_masks(x, index_parts(x, key))
    slices, singles, gathered, news = _plan(x, parts)
    x = _cut_by_sizes(x, slices)
    if any(s != _FULL for s in slices):
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
    sizes = broadcast_sizes([p.sizes() for p in positions])
    counted = [wrapped_positions(p, x.size(axis)) for axis, p in gathered]
    rows = sh.stack([sh.expand(p, *sizes) for p in counted], -1)
    rest = [axis for axis in range(x.rank) if axis not in axes]
    gathered_rows = dispatch("gather_nd", sh.permute(x, [*axes, *rest]), rows)
    if axes[0] == 0 or axes[-1] - axes[0] >= len(axes):
        return gathered_rows
    count = len(sizes)
    before = range(count, count + axes[0])
    return sh.permute(gathered_rows, [*before, *range(count), *range(count + axes[0], gathered_rows.rank)])


def _cut_by_sizes(x: Tensor, slices: list[Any]) -> Tensor:
    """The parts between dynamic bounds; the returned slices have only the steps."""
    for axis, (start, stop, step) in enumerate(slices):
        if isinstance(start, Size) or isinstance(stop, Size):
            size = x.size(axis)
            first, last = (sz.bound(v, size) for v in (0 if start is None else start, size if stop is None else stop))
            x = sz.between(x, axis, first, sz.maximum(last - first, 0))
            slices[axis] = None, None, step
    return x


def _without_masks(x: Tensor, parts: list[Any]) -> tuple[Tensor, list[Any]]:
    """Known masks as positions in their flattened dimensions; the positions of a single bool in a new dimension."""
    without: list[Any] = []
    axis = 0
    for part in parts:
        is_mask = is_array_mask(part)
        if is_mask:
            x = _flat(x, axis, part)
        without.append(np.flatnonzero(part) if is_mask else part)
        axis += part is not None
    return x, without


def _flat(x: Tensor, axis: int, mask: np.ndarray) -> Tensor:
    """`x` with one dimension in place of the dimensions that a mask indexes."""
    sizes = x.sizes()
    check_mask(x, axis, mask)
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
        elif is_integer(part):
            slices.append(_single(x, axis, part))
            singles[axis] = part
        else:
            gathered.append((width, _positions(x, axis, part)))
            slices.append(_FULL)
            width += 1
    return slices, singles, gathered, news


def _slice(part: slice) -> tuple[Any, Any, Any]:
    start, stop, step = slice_bounds(part, sizes=True)
    if step is not None and step < 1:
        raise fail(f"expected a step of at least 1 in a slice, got {step}; write flow.flip(x, [dim]) to reverse")
    return start, stop, step


def _single(x: Tensor, axis: int, index: int) -> tuple[Any, Any, Any]:
    """The slice of one index; a full one where the size is dynamic, so that `narrow` checks the index in the run."""
    if x.shape[axis] is None:
        return _FULL
    first = int(known_positions(x, axis, np.asarray(index)))
    return first, first + 1, 1


def _positions(x: Tensor, axis: int, part: Any) -> Tensor:
    """A tensor of positions along `axis`; positions in arrays are counted from the front here."""
    if isinstance(part, np.ndarray) and x.shape[axis] is not None:
        return as_tensor(known_positions(x, axis, part))
    index = as_tensor(part)
    if is_tensor_mask(index):
        raise fail(
            "the shape of x[mask] depends on the mask's values; "
            "write flow.where(mask, x, 0) or flow.masked_fill(x, ~mask, 0), which keep the shape"
        )
    check_positions(index)
    return index
