"""Reductions, running sums, and orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import dispatch
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.importers.onnx.table import builder


def _total(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    return F.sum(x, axes, keepdims, dtype=x.dtype)


def _extreme(name: str, of_bools: str) -> Callable[..., Tensor]:
    def reduce(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
        if x.dtype == dtypes.bool_:
            return dispatch(of_bools, x, axis=axes, keepdims=keepdims)
        return dispatch(name, x, axis=axes, keepdims=keepdims, allow_empty=True)

    return reduce


def _mean(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    wide = x if x.dtype.is_float else F.cast(x, dtypes.float64)
    return F.cast(F.mean(wide, axes, keepdims), x.dtype)


def _floats(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A reduction of floats for all types."""

    def reduce(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
        wide = x if x.dtype.is_float else F.cast(x, dtypes.float64)
        return F.cast(function(wide, axes, keepdims), x.dtype)

    return reduce


#: Reductions over axes, all of which exist.
_REDUCTIONS: dict[str, Callable[[Tensor, list[int], bool], Tensor]] = {
    "ReduceSum": _total,
    "ReduceProd": lambda x, axes, keep: F.prod(x, axes, keep, dtype=x.dtype),
    "ReduceMax": _extreme("reduce_max", "reduce_any"),
    "ReduceMin": _extreme("reduce_min", "reduce_all"),
    "ReduceMean": _mean,
    "ReduceL1": lambda x, axes, keep: _total(F.abs(x), axes, keep),
    "ReduceL2": _floats(lambda x, axes, keep: F.sqrt(_total(F.square(x), axes, keep))),
    "ReduceLogSum": _floats(lambda x, axes, keep: F.log(_total(x, axes, keep))),
    "ReduceLogSumExp": _floats(F.logsumexp),
    "ReduceSumSquare": lambda x, axes, keep: _total(F.square(x), axes, keep),
}


def _reduction(reduce: Callable[[Tensor, list[int], bool], Tensor]) -> Callable[..., Tensor]:
    def build(x: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Tensor:
        dims = [] if axes is None else [int(a) % max(x.rank, 1) for a in axes.ravel()]
        if not dims and noop_with_empty_axes:
            return F.squeeze(reduce(F.unsqueeze(x, -1), [x.rank], True), -1)
        dims = dims or list(range(x.rank))
        if not x.rank:
            return F.squeeze(reduce(F.reshape(x, (1,)), [0], True), 0)
        return reduce(x, dims, bool(keepdims))

    return build


for _name, _function in _REDUCTIONS.items():
    builder(_name, known="axes")(_reduction(_function))


@builder("ArgMax")
def _arg_max(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _position(F.argmax, x, axis, keepdims, select_last_index)


@builder("ArgMin")
def _arg_min(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _position(F.argmin, x, axis, keepdims, select_last_index)


def _position(find: Any, x: Tensor, axis: int, keepdims: int, last: int) -> Tensor:
    if not last:
        tensor: Tensor = find(x, axis, bool(keepdims))
        return tensor
    return F.sub(x.size(axis) - 1, find(F.flip(x, [axis]), axis, bool(keepdims)))


@builder("CumSum", known="axis")
def _cumsum(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running(lambda y, dim: F.cast(F.cumsum(y, dim), x.dtype), 0, x, int(axis.item()), exclusive, reverse)


@builder("CumProd", known="axis")
def _cumprod(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running(lambda y, dim: F.cast(F.cumprod(y, dim), x.dtype), 1, x, int(axis.item()), exclusive, reverse)


def _running(run: Any, neutral: int, x: Tensor, axis: int, exclusive: int, reverse: int) -> Tensor:
    """Running totals along an axis: without the element itself, or from the end."""
    at = axis % x.rank
    y = F.flip(x, [at]) if reverse else x
    if exclusive:
        first = F.full_like(F.narrow(y, at, 0, 1), neutral)
        y = F.cat([first, F.narrow(y, at, 0, x.size(at) - 1)], at)
    total = run(y, at)
    return F.flip(total, [at]) if reverse else total


@builder("TopK", known="k", renamed={"K": "k"})
def _top_k(x: Tensor, k: np.ndarray, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, Tensor]:
    top = F.topk(x, int(k.reshape(-1)[0]), axis, bool(largest), bool(sorted))
    return top.values, top.indices


@builder("Hardmax", since=13)
def _hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    at = axis % x.rank
    position = F.unsqueeze(F.argmax(x, at), at)
    shape = [1] * x.rank
    shape[at] = -1
    return F.cast(F.eq(position, F.reshape(F.arange(x.size(at)), shape)), x.dtype)


@builder("Det")
def _det(x: Tensor) -> Tensor:
    """Determinants by elimination with the largest pivot; sizes are static."""
    n = int(x.shape[-1] or 0)
    result: Tensor = F.ones_like(F.select(F.select(x, -1, 0), -1, 0))
    for step in range(n):
        size = n - step
        pivot = F.argmax(F.abs(F.select(x, -1, 0)), -1)
        chosen = F.eq(F.arange(size), F.unsqueeze(pivot, -1))
        row = F.sum(F.where(F.unsqueeze(chosen, -1), x, 0.0), -2)
        head = F.select(row, -1, 0)
        result = F.mul(result, F.mul(head, F.where(F.eq(pivot, 0), 1.0, -1.0)))
        if size == 1:
            break
        first = F.unsqueeze(F.narrow(x, -2, 0, 1), -3)
        exchanged = F.where(F.unsqueeze(chosen, -1), F.squeeze(first, -3), x)
        rest = F.narrow(exchanged, -2, 1, size - 1)
        safe = F.where(F.eq(head, 0.0), 1.0, head)
        factor = F.div(F.narrow(rest, -1, 0, 1), F.unsqueeze(F.unsqueeze(safe, -1), -1))
        x = F.narrow(F.sub(rest, F.mul(factor, F.unsqueeze(row, -2))), -1, 1, size - 1)
    return result
