"""Reading and writing at positions."""

from __future__ import annotations

from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional.index_parts import broadcast_sizes, wrapped_positions
from oneflow.frontend.functional.shape import on_vector
from oneflow.frontend.importers.torch.aten.gradients import pulled_back
from oneflow.frontend.importers.torch.table import aten


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(x: Any, indices: Any) -> Any:
    _refuse_masks(indices)
    parts = [slice(None) if at is None else at for at in indices]
    parts = [wrapped_positions(at, x.size(d)) if isinstance(at, Tensor) else at for d, at in enumerate(parts)]
    return F.getitem(x, tuple(parts))


def _is_mask(at: Any) -> bool:
    return at is not None and at.dtype in (dtypes.bool_, dtypes.uint8)


def _refuse_masks(indices: Any) -> None:
    if any(map(_is_mask, indices)):
        raise fail("a mask as an index: the shape of the result depends on its values")


@aten("index_put.default", "_unsafe_index_put.default")
def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    given = [d for d, at in enumerate(indices) if at is not None]
    if len(given) == 1 and _is_mask(indices[given[0]]):
        if 0 in values.shape:
            return x
        mask = F.cast(indices[given[0]], dtypes.bool_)
        rest = x.rank - given[0] - mask.rank
        values = F.cast(_over_mask(values, mask, rest), x.dtype)
        mask = F.reshape(mask, (*mask.sizes(), *[1] * rest))
        return F.where(mask, F.add(x, values) if accumulate else values, x)
    _refuse_masks(indices)
    axes = [d for d, at in enumerate(indices) if at is not None]
    rest = [d for d in range(x.rank) if d not in axes]
    sizes = broadcast_sizes([indices[d].sizes() for d in axes])
    at = F.stack([F.expand(wrapped_positions(indices[d], x.size(d)), *sizes) for d in axes], -1)
    adjacent = axes[-1] - axes[0] < len(axes)
    before = [d for d in rest if adjacent and d < axes[0]]
    lead, inner = [x.size(d) for d in before], [x.size(d) for d in rest if d not in before]
    values = F.expand(F.cast(values, x.dtype), *lead, *sizes, *inner)
    count = len(before)
    order = [*range(count, count + len(sizes)), *range(count), *range(count + len(sizes), values.rank)]
    values, moved = F.permute(values, *order), F.permute(x, *axes, *rest)
    updated = _added(moved, at, values) if accumulate else _replaced(moved, at, values)
    inverse = [[*axes, *rest].index(d) for d in range(x.rank)]
    return F.permute(updated, *inverse)


def _over_mask(values: Any, mask: Any, rest: int) -> Any:
    """Values with the dimensions of a mask in place of the dimension of true elements, which is before `rest`
    dimensions: the n-th true element has the n-th value.
    """
    axis = values.rank - rest - 1
    if axis < 0:
        return values
    before, after = values.sizes()[:axis], values.sizes()[axis + 1 :]
    if values.shape[axis] == 1:
        sizes = [1] * mask.rank
    else:
        number = F.sub(F.cumsum(F.reshape(mask, (-1,)), 0), 1)
        values, sizes = F.index_select(values, axis, F.clamp(number, 0)), mask.sizes()
    return F.reshape(values, (*before, *sizes, *after))


def _added(x: Any, at: Any, values: Any) -> Any:
    return F.add(x, dispatch("scatter_nd_like", x, at, values))


def _replaced(x: Any, at: Any, values: Any) -> Any:
    return dispatch("tensor_scatter_nd_update", x, values, at)


@aten("gather.default")
def gather(x: Any, dim: int, at: Any, *, sparse_grad: bool = False) -> Any:
    if not x.rank or not at.rank:
        return F.reshape(gather(_vector(x), 0, _vector(at)), at.sizes())
    return F.gather(x, dim, at)


def _vector(x: Any) -> Any:
    return x if x.rank else F.reshape(x, (1,))


@aten("index_select.default")
def index_select(x: Any, dim: int, at: Any) -> Any:
    return on_vector(lambda v: F.index_select(v, dim, _vector(at)), x)


@aten("take.default")
def take(x: Any, at: Any) -> Any:
    flat = F.reshape(x, (-1,))
    return dispatch("gather", flat, wrapped_positions(at, flat.size(0)))


@aten("take_along_dim.default")
def take_along_dim(x: Any, at: Any, dim: int | None = None) -> Any:
    if dim is None:
        return F.gather(F.reshape(x, (-1,)), 0, F.reshape(at, (-1,)))
    shape = broadcast_sizes([x.sizes(), at.sizes()])
    dim %= x.rank
    x = F.expand(x, *shape[:dim], x.size(dim), *shape[dim + 1 :])
    return F.gather(x, dim, F.expand(at, *shape[:dim], at.size(dim), *shape[dim + 1 :]))


def _cut(x: Any, like: Any) -> Any:
    """The first part of each dimension, as many elements as `like` has."""
    for axis, size in enumerate(like.sizes()):
        if isinstance(size, Size) or x.shape[axis] != size:
            x = F.narrow(x, axis, 0, size)
    return x


def _scattered(write: Any, x: Any, at: Any, src: Any) -> Any:
    """The result of `write` on vectors or larger tensors; the part of the source with positions is written."""
    if not x.rank:
        return F.reshape(_scattered(write, *map(_vector, (x, at, src))), ())
    if x.dtype == dtypes.bool_:  # scatters are of numbers
        return F.cast(_scattered(write, F.cast(x, dtypes.uint8), at, F.cast(src, dtypes.uint8)), dtypes.bool_)
    return write(x, at, F.cast(_cut(src, at), x.dtype))


@aten("scatter_add.default")
def scatter_add(x: Any, dim: int, at: Any, src: Any) -> Any:
    return _scattered(lambda v, i, s: F.scatter_add(v, dim, i, s), x, at, src)


@aten("scatter.src")
def scatter(x: Any, dim: int, at: Any, src: Any) -> Any:
    return _scattered(lambda v, i, s: F.scatter(v, dim, i, s), x, at, src)


@aten("scatter.value")
def scatter_value(x: Any, dim: int, at: Any, value: Any) -> Any:
    return scatter(x, dim, at, F.full_like(at, value, dtype=x.dtype))


@aten("scatter.reduce")
def scatter_combined(x: Any, dim: int, at: Any, src: Any, *, reduce: str) -> Any:
    return _scattered(lambda v, i, s: F.scatter(v, dim, i, s, reduce=reduce), x, at, src)


def _rows(at: Any) -> Any:
    return F.unsqueeze(_vector(at), 1)


@aten("index_add.default")
def index_add(x: Any, dim: int, at: Any, source: Any, *, alpha: Any = 1) -> Any:
    source = source if alpha == 1 else F.mul(source, alpha)
    return _along_first(x, dim, source, lambda moved, values: _added(moved, _rows(at), values))


@aten("index_copy.default")
def index_copy(x: Any, dim: int, at: Any, source: Any) -> Any:
    return _along_first(x, dim, source, lambda moved, values: _replaced(moved, _rows(at), values))


@aten("index_reduce.default")
def index_reduce(x: Any, dim: int, at: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    if not x.rank:
        return F.reshape(index_reduce(_vector(x), 0, at, _vector(source), reduce, include_self=include_self), ())
    dim %= x.rank
    shape = [source.size(dim) if axis == dim else 1 for axis in range(x.rank)]
    every = F.expand(F.reshape(_vector(at), shape), *source.sizes())
    return F.scatter_reduce(x, dim, every, source, reduce, include_self)


@aten("put.default")
def put(x: Any, at: Any, source: Any, accumulate: bool = False) -> Any:
    flat, at = F.reshape(x, (-1,)), F.reshape(at, (-1,))
    write = F.scatter_add if accumulate else F.scatter
    return F.reshape(write(flat, 0, wrapped_positions(at, flat.size(0)), F.reshape(source, (-1,))), x.sizes())


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(x: Any, dim: int, at: Any, value: Any) -> Any:
    at = _vector(at)
    source = _vector(x)
    source = F.index_select(source, dim, wrapped_positions(at, source.size(dim)))
    filled = F.mul(F.ones_like(source), value)
    at = wrapped_positions(at, _vector(x).size(dim))
    return _along_first(x, dim, filled, lambda moved, values: _replaced(moved, _rows(at), values))


def _along_first(x: Any, dim: int, source: Any, write: Any) -> Any:
    """`write` of a tensor and of its updates, with `dim` as the first dimension of both."""
    if not x.rank:
        return F.reshape(_along_first(_vector(x), 0, _vector(source), write), ())
    source = F.cast(_vector(source), x.dtype)
    return F.movedim(write(F.movedim(x, dim, 0), F.movedim(source, dim, 0)), 0, dim)


@aten("embedding.default")
def embedding(weight: Any, at: Any, padding_idx: int = -1, by_count: bool = False, sparse: bool = False) -> Any:
    return F.embedding(at, weight, None if padding_idx < 0 else padding_idx)


@aten("embedding_dense_backward.default")
def embedding_backward(grad: Any, at: Any, count: Any, padding_idx: int, by_count: bool) -> Any:
    like = F.zeros((count, grad.size(-1)), dtype=grad.dtype)
    options = {"padding_idx": padding_idx, "scale_grad_by_freq": by_count}
    return dispatch("embedding_grad", grad, like, at, **options)


@aten("one_hot.default")
def one_hot(x: Any, num_classes: int = -1) -> Any:
    return F.one_hot(x, num_classes)


@aten("scatter_reduce.two")
def scatter_reduce(x: Any, dim: int, at: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    return _scattered(lambda v, i, s: F.scatter_reduce(v, dim, i, s, reduce, include_self), x, at, src)


@aten("bucketize.Tensor")
def bucketize(x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return F.searchsorted(boundaries, x, out_int32, right)


@aten("searchsorted.Tensor")
def searchsorted(
    sequence: Any, values: Any, *, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Any:
    sequence = sequence if sorter is None else F.gather(sequence, -1, sorter)
    return F.searchsorted(sequence, values, out_int32, right or side == "right")


@aten("masked_scatter_backward.default")
def masked_scatter_backward(grad: Any, mask: Any, sizes: Any) -> Any:
    return pulled_back(lambda v: masked_scatter(F.zeros_like(grad), mask, v), grad, F.zeros(sizes, dtype=grad.dtype))


@aten("masked_scatter.default")
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """The n-th true element of the mask receives the n-th element of the source."""
    shape = broadcast_sizes([x.sizes(), mask.sizes()])
    x, mask = (F.expand(v, *shape) for v in (x, mask))
    at = F.sub(F.cumsum(F.reshape(mask, (-1,)), 0), 1)
    flat = F.reshape(source, (-1,))
    gathered = dispatch("gather", flat, F.clamp(at, 0, flat.size(0) - 1 if isinstance(flat.size(0), int) else None))
    return F.where(mask, F.reshape(gathered, shape), x)


@aten("topk.default")
def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    return on_rows(lambda v: F.topk(v, k, dim, largest, sorted), x)


@aten("sort.default")
def sort(x: Any, dim: int = -1, descending: bool = False) -> Any:
    return on_rows(lambda v: F.sort(v, dim, descending), x)


@aten("sort.stable")
def sort_stable(x: Any, *, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    return sort(x, dim, descending)


@aten("argsort.default")
def argsort(x: Any, dim: int = -1, descending: bool = False) -> Any:
    return sort(x, dim, descending)[1]


@aten("kthvalue.default")
def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return on_rows(lambda v: F.kthvalue(v, k, dim, keepdim or not x.rank), x)


@aten("mode.default")
def mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    return on_rows(lambda v: F.mode(v, dim, keepdim or not x.rank), x)


@aten("median.dim")
def median(x: Any, dim: int, keepdim: bool = False) -> Any:
    return on_rows(lambda v: F.median(v, dim, keepdim or not x.rank), x)


def on_rows(function: Any, x: Any) -> list[Any]:
    """The results of `function`, a scalar being taken for a vector of one element."""
    return list(function(x)) if x.rank else [F.reshape(y, ()) for y in function(_vector(x))]


@aten("median.default")
def median_of_all(x: Any) -> Any:
    return F.median(x)
