"""Bags of rows of a table: sums, means and maxima of the rows at positions, which offsets divide into bags."""

from __future__ import annotations

from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.errors import fail
from oneflow.frontend.importers.torch.aten.gradients import pulled_back
from oneflow.frontend.importers.torch.table import aten

SUM, MEAN, MAX = range(3)


def _bags(at: Any, offsets: Any, count: Any) -> Any:
    """The bag of each position: how many bags begin there or before."""
    starts, positions = F.getitem(offsets, slice(None, count)), at.size(0)
    begun = F.index_add(F.zeros((positions + 1,), dtype=dtypes.int64), 0, starts, F.ones_like(starts))
    return F.sub(F.getitem(F.cumsum(begun, 0), slice(None, positions)), 1)


def _summarised(weight: Any, at: Any, offsets: Any, count: Any, mode: int, weights: Any, padding_idx: int) -> Any:
    """The results of `count` bags; bags without rows give zeros."""
    bags = _bags(at, offsets, count)
    rows = F.embedding(at, weight)
    rows = rows if weights is None else F.mul(rows, F.unsqueeze(weights, 1))
    empty = F.zeros((count, weight.size(1)), dtype=weight.dtype)
    shown = None if padding_idx < 0 else F.ne(at, padding_idx)
    if mode == MAX:
        if shown is not None:
            raise fail("padding_idx of bags whose maximum is taken")
        return F.scatter_reduce(empty, 0, F.expand(F.unsqueeze(bags, 1), *rows.sizes()), rows, "amax", False)
    rows = rows if shown is None else F.mul(rows, F.cast(F.unsqueeze(shown, 1), rows.dtype))
    total = F.index_add(empty, 0, bags, rows)
    if mode == SUM:
        return total
    ones = F.ones((at.size(0),), dtype=weight.dtype) if shown is None else F.cast(shown, weight.dtype)
    sizes = F.index_add(F.zeros((count,), dtype=weight.dtype), 0, bags, ones)
    return F.div(total, F.unsqueeze(F.clamp(sizes, min=1), 1))


def _refuse(by_count: bool) -> None:
    if by_count:
        raise fail("scale_grad_by_freq of bags")


@aten("_embedding_bag.default", "_embedding_bag_forward_only.default", "embedding_bag.padding_idx")
def embedding_bag(
    weight: Any, at: Any, offsets: Any, by_count: bool = False, mode: int = SUM, sparse: bool = False,
    weights: Any = None, include_last: bool = False, padding_idx: int | None = -1, *, out: Any,
) -> Any:  # fmt: skip
    """The results after the first are for PyTorch's backward kernel: the one here computes them itself."""
    _refuse(by_count)
    padding = -1 if padding_idx is None else padding_idx
    kept = [F.zeros(tuple(result.shape), dtype=result.dtype or dtypes.int64) for result in out[1:]]
    count = offsets.size(0) - int(include_last)
    return [_summarised(weight, at, offsets, count, mode, weights, padding), *kept]


@aten("_embedding_bag_backward.default")
def embedding_bag_backward(
    grad: Any, at: Any, offsets: Any, bags: Any, sizes: Any, maxima: Any, rows: Any, by_count: bool, mode: int,
    sparse: bool, weights: Any, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """The gradient by the table."""
    _refuse(by_count)
    if mode == MAX:
        raise fail("the gradient of maxima of bags")
    count, like = grad.size(0), F.zeros((rows, grad.size(1)), dtype=grad.dtype)
    return pulled_back(lambda w: _summarised(w, at, offsets, count, mode, weights, padding_idx), grad, like)


@aten("_embedding_bag_per_sample_weights_backward.default")
def weights_backward(
    grad: Any, weight: Any, at: Any, offsets: Any, bags: Any, mode: int, padding_idx: int = -1
) -> Any:
    count, like = grad.size(0), F.zeros((at.size(0),), dtype=weight.dtype)
    return pulled_back(lambda w: _summarised(weight, at, offsets, count, mode, w, padding_idx), grad, like)
