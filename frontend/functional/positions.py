"""Functions that read and write at positions given by the last dimension of a tensor of integers, or by slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.functional.updating import updated

__all__ = [
    "batch_gather", "broadcast_like", "depend", "gather_nd", "scatter_nd", "slice_update", "tensor_scatter_nd_update",
]  # fmt: skip


def gather_nd(input: Any, index: Any) -> Tensor:
    """The parts of `input` at positions that the last dimension of `index` has."""
    return dispatch("gather_nd", as_tensor(input), as_tensor(index))


def batch_gather(input: Any, indices: Any) -> Tensor:
    """`input` at positions along its dimension `indices.ndim - 1`, for each element of the dimensions before it."""
    return dispatch("batch_gather", as_tensor(input), as_tensor(indices))


def scatter_nd(index: Any, update: Any, shape: Sequence[int]) -> Tensor:
    """Zeros of a shape to which `update` is added at positions that the last dimension of `index` has."""
    return dispatch("scatter_nd", as_tensor(index), as_tensor(update), shape=sh.as_arguments([shape]))


def tensor_scatter_nd_update(tensor: Any, indices: Any, updates: Any) -> Tensor:
    """`tensor` with `updates` at the positions that `gather_nd` reads; for equal positions the last update wins."""
    tensor = as_tensor(tensor)
    return dispatch("tensor_scatter_nd_update", tensor, cast(updates, tensor.dtype), as_tensor(indices))


def slice_update(input: Any, update: Any, slice_tup_list: Sequence[Sequence[Any]]) -> Tensor:
    """Writes `update` into `input`, at the positions that `flow.slice` reads; returns the tensor."""
    x = as_tensor(input)
    bounds = [slice(*part).indices(size) for part, size in zip(slice_tup_list, x.shape, strict=False)]
    bounds += [(0, size, 1) for size in x.shape[len(bounds) :]]
    start, stop, step = zip(*bounds, strict=True)
    result = dispatch("slice_update", x, cast(update, x.dtype), start=start, stop=stop, step=step)
    return updated(x, result, "slice_update")


def broadcast_like(x: Any, like_tensor: Any, broadcast_axes: Sequence[int] | None = None) -> Tensor:
    """`x` repeated to the shape of another tensor, along `broadcast_axes`, which `x` does not have."""
    x, like = as_tensor(x), as_tensor(like_tensor)
    axes = range(like.rank - x.rank) if broadcast_axes is None or not len(broadcast_axes) else broadcast_axes
    return dispatch("broadcast_like", x, like, broadcast_axes=list(axes))


def depend(input: Any, depend: Any) -> Tensor:
    """`input`, computed after `depend`, a tensor or a list of tensors."""
    result = as_tensor(input)
    for other in depend if isinstance(depend, (list, tuple)) else [depend]:
        result = dispatch("depend", result, as_tensor(other))
    return result
