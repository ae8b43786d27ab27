"""Functions that write and add at positions given by tensors of integers; the results are new tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.promotion import is_number
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.functional.source import arange, full
from oneflow.frontend.functional.updating import updated

__all__ = [
    "batch_gather", "broadcast_like", "gather_nd", "index_add", "repeat_interleave", "scatter", "scatter_add",
    "scatter_nd", "slice_update", "tensor_scatter_nd_update",
]  # fmt: skip


def gather_nd(input: Any, index: Any) -> Tensor:
    """The parts of `input` at positions that the last dimension of `index` has."""
    return dispatch("gather_nd", as_tensor(input), as_tensor(index))


def batch_gather(input: Any, indices: Any) -> Tensor:
    """`input` at positions along its dimension `indices.ndim - 1`, for each element of the dimensions before it."""
    return dispatch("batch_gather", as_tensor(input), as_tensor(indices))


def scatter_nd(index: Any, update: Any, shape: Sequence[int]) -> Tensor:
    """Zeros of a shape to which `update` is added at positions that the last dimension of `index` has."""
    return dispatch("scatter_nd", as_tensor(index), as_tensor(update), shape=sh.spread([shape]))


def tensor_scatter_nd_update(tensor: Any, indices: Any, updates: Any) -> Tensor:
    """`tensor` with `updates` in place of what `gather_nd` would take; for equal positions the last one stays."""
    tensor = as_tensor(tensor)
    return dispatch("tensor_scatter_nd_update", tensor, cast(updates, tensor.dtype), as_tensor(indices))


def slice_update(input: Any, update: Any, slice_tup_list: Sequence[Sequence[Any]]) -> Tensor:
    """Writes `update` into `input`, in place of what `flow.slice` would take; gives the tensor."""
    x = as_tensor(input)
    bounds = [slice(*part).indices(size) for part, size in zip(slice_tup_list, x.shape, strict=False)]
    bounds += [(0, size, 1) for size in x.shape[len(bounds) :]]
    start, stop, step = zip(*bounds, strict=True)
    result = dispatch("slice_update", x, cast(update, x.dtype), start=start, stop=stop, step=step)
    return updated(x, result, "slice_update")


def broadcast_like(x: Any, like_tensor: Any, broadcast_axes: Sequence[int] | None = None) -> Tensor:
    """`x` repeated to the shape of another tensor; its dimensions are those without `broadcast_axes`."""
    x, like = as_tensor(x), as_tensor(like_tensor)
    axes = range(like.rank - x.rank) if broadcast_axes is None or not len(broadcast_axes) else broadcast_axes
    return dispatch("broadcast_like", x, like, broadcast_axes=list(axes))


def scatter(x: Any, dim: int, index: Any, src: Any, *, reduce: str | None = None) -> Tensor:
    """`x` with the elements of `src`, a tensor or a number, at `index` along `dim`: out[index[i][j]][j] = src[i][j]
    for dim 0. For equal positions the last element stays.

    `reduce="add"` adds to the elements of `x`, "multiply" multiplies them.

    Raises:
        OneFlowError: sizes do not fit, or `reduce` is another.
    """
    x, index, src, at = _operands(x, dim, index, src)
    if reduce == "add":
        return dispatch("dim_scatter_add", x, index, src, dim=at)
    if reduce is not None:
        raise fail(f'expected reduce to be None or "add" for scatter, got {reduce!r}')
    sizes = index.shape
    if None in sizes:
        raise fail(f"expected an index of static sizes for scatter, got {index.desc}")
    counts = [sh.reshape(arange(n), [-1, *[1] * (index.rank - i - 1)]) for i, n in enumerate(sizes)]
    places = [cast(index, n.dtype) if i == at else sh.expand(n, *sizes) for i, n in enumerate(counts)]
    flat = [sh.reshape(p, (-1,)) for p in (*places, src)]
    return dispatch("tensor_scatter_nd_update", x, flat[-1], sh.stack(flat[:-1], 1))


def scatter_add(x: Any, dim: int, index: Any, src: Any) -> Tensor:
    """`x` to which `src` is added at `index` along `dim`: out[index[i][j]][j] += src[i][j] for dim 0."""
    x, index, src, at = _operands(x, dim, index, src)
    return dispatch("dim_scatter_add", x, index, src, dim=at)


def _operands(x: Any, dim: int, index: Any, src: Any) -> tuple[Tensor, Tensor, Tensor, int]:
    """The operands of a scatter, with as many elements of the source as of the index."""
    x, index = as_tensor(x), as_tensor(index)
    at = sh.axis(x, dim)
    if is_number(src):
        return x, index, full(index.sizes(), src, dtype=x.dtype), at
    src = as_tensor(src)
    if src.dtype != x.dtype:
        raise fail(f"expected a source of {x.dtype} to scatter into {x.desc}, got {src.desc}")
    if index.rank != x.rank or src.rank != x.rank:
        raise fail(f"expected an index and a source of {x.rank} dimensions, got {index.desc} and {src.desc}")
    for axis, (wanted, size) in enumerate(zip(index.shape, src.shape, strict=True)):
        if wanted is not None and size is not None and wanted < size:
            src = sh.narrow(src, axis, 0, wanted)
    return x, index, src, at


def index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Tensor:
    """`x` to whose slices along `dim` at positions of a vector those of `source`, times `alpha`, are added."""
    x, index, source = as_tensor(x), as_tensor(index), as_tensor(source)
    at = sh.axis(x, dim)
    if index.rank != 1:
        raise fail(f"expected a vector of positions for index_add, got {index.desc}")
    source = source if alpha == 1 else e.mul(source, alpha)
    places = sh.reshape(index, [-1 if i == at else 1 for i in range(source.rank)])
    return dispatch("dim_scatter_add", x, sh.expand_as(places, source), cast(source, x.dtype), dim=at)


def repeat_interleave(x: Any, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Each slice of `x` along `dim` several times, one after the other; without `dim` the elements of all.

    `repeats` is a number, or a vector of a number for each slice, which needs values outside of a trace.

    Raises:
        OneFlowError: a number is negative, or there is another number of them than of slices.
    """
    x = as_tensor(x)
    if dim is None:
        x, dim = sh.reshape(x, (-1,)), 0
    at = sh.axis(x, dim)
    if isinstance(repeats, int):
        if repeats < 0:
            raise fail(f"expected at least 0 repeats, got {repeats}")
        sizes = x.sizes()
        tiles = sh.expand(sh.unsqueeze(x, at + 1), *sizes[: at + 1], repeats, *sizes[at + 1 :])
        return sh.reshape(tiles, (*sizes[:at], sizes[at] * repeats, *sizes[at + 1 :]))
    if not current_builder().eager:
        raise fail("the shape of repeat_interleave depends on the values of repeats; give a Python int")
    counts = np.asarray(repeats)
    if counts.dtype.kind not in "iu" or counts.ndim > 1 or (counts < 0).any():
        raise fail(f"expected a vector of integers of at least 0 as repeats, got {repeats!r}")
    if counts.size not in (1, x.shape[at]):
        raise fail(f"expected {x.shape[at]} repeats, one for each slice, got {counts.size}")
    spread = np.repeat(np.arange(x.shape[at]), counts)
    if output_size not in (None, spread.size):
        raise fail(f"expected output_size to be {spread.size}, the sum of repeats, got {output_size}")
    return dispatch("gather", x, spread, axis=at)
