"""Operators that read and write at positions. Positions may count from the end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.table import builder


def from_the_first(positions: Tensor, size: Any) -> Tensor:
    """Positions that count from the first element; negative ones counted from the end."""
    wide = F.cast(positions, dtypes.int64)
    tensor: Tensor = F.where(F.lt(wide, 0), F.add(wide, size), wide)
    return tensor


@builder("Gather")
def _gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    at = axis % x.rank
    return dispatch("gather", x, from_the_first(indices, x.size(at)), axis=at)


@builder("GatherElements")
def _gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    at = axis % x.rank
    return F.gather(x, at, from_the_first(indices, x.size(at)))


@builder("GatherND")
def _gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    return dispatch("gather_nd", x, _full_positions(x, indices, batch_dims))


def _full_positions(x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Rows of positions, counted from the first, with the positions in the batch in front."""
    depth = int(indices.shape[-1] or 0)
    columns = F.split(F.cast(indices, dtypes.int64), 1, -1) if depth else ()
    counted = [from_the_first(c, x.size(batch_dims + i)) for i, c in enumerate(columns)]
    sizes = indices.sizes()[:-1]
    for dim in reversed(range(batch_dims)):
        number = F.reshape(F.arange(sizes[dim]), [-1 if i == dim else 1 for i in range(len(sizes) + 1)])
        counted.insert(0, F.expand(number, *sizes, 1))
    return F.cat(counted, -1) if len(counted) > 1 else counted[0]


#: The operators that combine elements with their updates.
_COMBINED = {"mul": "dim_scatter_mul", "max": "dim_scatter_amax", "min": "dim_scatter_amin"}


@builder("ScatterND")
def _scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    return scattered(x, _full_positions(x, indices), updates, reduction)


@builder("ScatterElements Scatter")
def _scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    at = axis % x.rank
    counted = from_the_first(indices, x.size(at))
    sizes = indices.sizes()
    numbers = [F.reshape(F.arange(n), [-1 if i == d else 1 for i in range(x.rank)]) for d, n in enumerate(sizes)]
    rows = F.stack([counted if d == at else F.expand(n, *sizes) for d, n in enumerate(numbers)], -1)
    return scattered(x, rows, updates, reduction)


def scattered(x: Tensor, rows: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    """`x` with updates at rows of positions; updates of one position are combined, or the last one is kept."""
    if reduction == "none":
        return dispatch("tensor_scatter_nd_update", x, updates, rows)
    if reduction == "add":
        return F.add(x, dispatch("scatter_nd_like", x, rows, updates))
    if reduction not in _COMBINED:
        raise OnnxError(f"expected the reduction none, add, {', '.join(_COMBINED)}, got {reduction!r}")
    return _combined(x, rows, updates, _COMBINED[reduction])


def _combined(x: Tensor, rows: Tensor, updates: Tensor, operator: str) -> Tensor:
    """Updates of flat slices, at flat positions."""
    depth = int(rows.shape[-1] or 0)
    sizes = x.sizes()
    flat: Any = 0
    for size, column in zip(sizes[:depth], F.split(rows, 1, -1), strict=True):
        flat = F.add(F.mul(flat, size), column) if not isinstance(flat, int) else column
    count, width = math.prod(rows.sizes()[:-1]), math.prod(sizes[depth:])
    index = F.expand(F.reshape(flat, (count, 1)), count, width)
    slices = F.reshape(x, (math.prod(sizes[:depth]), width))
    return F.reshape_as(dispatch(operator, slices, index, F.reshape(updates, (count, width)), dim=0), x)


@builder("OneHot", known="depth")
def _one_hot(indices: Tensor, depth: np.ndarray, values: Tensor, *, axis: int = -1) -> Tensor:
    count = int(depth.reshape(-1)[0])
    at = axis % (indices.rank + 1)
    counted = F.unsqueeze(from_the_first(indices, count), at)
    number = F.reshape(F.arange(count), [-1 if i == at else 1 for i in range(indices.rank + 1)])
    off, on = (F.reshape(F.narrow(values, 0, i, 1), ()) for i in (0, 1))
    tensor: Tensor = F.where(F.eq(counted, number), on, off)
    return tensor


@builder("NonZero", known="x")
def _non_zero(x: np.ndarray) -> Tensor:
    return as_tensor(np.array(np.nonzero(np.atleast_1d(x)), np.int64))


@builder("Compress", known="condition")
def _compress(x: Tensor, condition: np.ndarray, *, axis: int | None = None) -> Tensor:
    y, at = (F.reshape(x, (-1,)), 0) if axis is None else (x, axis % x.rank)
    return dispatch("gather", y, as_tensor(np.flatnonzero(condition).astype(np.int64)), axis=at)


@builder("Unique", known="x")
def _unique(x: np.ndarray, *, axis: int | None = None, sorted: int = 1) -> tuple[Tensor, ...]:
    distinct = np.unique(x, True, True, True, axis=axis)
    values, first, inverse, counts = distinct
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    positions = (np.asarray(v).reshape(-1).astype(np.int64) for v in (first, inverse, counts))
    return tuple(map(as_tensor, (values, *positions)))


@builder("ReverseSequence")
def _reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    def along(vector: Tensor, axis: int) -> Tensor:
        return F.reshape(vector, [-1 if i == axis else 1 for i in range(x.rank)])

    time = along(F.arange(x.size(time_axis)), time_axis)
    length = along(F.cast(lengths, dtypes.int64), batch_axis)
    positions = F.where(F.lt(time, length), F.sub(F.sub(length, 1), time), time)
    return F.gather(x, time_axis, F.expand(positions, *x.sizes()))


@builder("TensorScatter")
def _tensor_scatter(
    past: Tensor, update: Tensor, start: Tensor | None = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    at = axis % past.rank
    number = F.reshape(F.arange(update.size(at)), [-1 if i == at else 1 for i in range(past.rank)])
    first = as_tensor(np.zeros(1, np.int64)) if start is None else F.cast(start, dtypes.int64)
    positions = F.add(number, F.reshape(first, [-1, *[1] * (past.rank - 1)]))
    if mode == "circular":
        positions = F.remainder(positions, past.size(at))
    tensor: Tensor = _scatter_elements(past, F.expand(positions, *update.sizes()), update, axis=at)
    return tensor


@builder("MaxUnpool", known="output_shape")
def _max_unpool(
    x: Tensor,
    indices: Tensor,
    output_shape: Any = None,
    *,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    spatial = len(kernel_shape)
    steps, border = strides or [1] * spatial, pads or [0] * (2 * spatial)
    rows = zip(x.shape[2:], kernel_shape, steps, border[:spatial], border[spatial:], strict=True)
    inside = [(int(n or 0) - 1) * s + k - a - b for n, k, s, a, b in rows]
    own = (*x.shape[:2], *inside)
    flat = F.scatter(F.zeros(math.prod(own), dtype=x.dtype), 0, F.reshape(indices, (-1,)), F.reshape(x, (-1,)))
    unpooled = F.reshape(flat, own)
    if output_shape is None:
        return unpooled
    # Positions count in the smaller result; the larger one is padded with zeros.
    after = [int(n) - m for n, m in zip(output_shape, own, strict=True)]
    return F.pad(unpooled, [amount for last in reversed(after) for amount in (0, last)])
