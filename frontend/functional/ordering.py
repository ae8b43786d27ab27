"""Functions that order elements along a dimension, and searches in ordered rows. The order is stable; NaN is the
largest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from oneflow.dialect import dtypes
from oneflow.frontend.core.dispatch import as_tensor, dispatch, dispatch_all
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.promotion import is_number
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.data_dependent import values_of
from oneflow.frontend.functional.reduction import mean
from oneflow.frontend.functional.rules import as_common, cast

__all__ = ["argsort", "bincount", "in_top_k", "kthvalue", "median", "mode", "searchsorted", "sort", "topk"]


class Ordered(NamedTuple):
    """Elements in an order, or chosen by an order, and their positions along the dimension."""

    values: Tensor
    indices: Tensor


def _last(x: Tensor, dim: int) -> Tensor:
    """`x` with a dimension moved to the end; a scalar as a vector."""
    at = sh.axis(x, dim, scalar=True)
    return sh.movedim(x, at, -1) if x.rank else sh.reshape(x, (1,))


def _back(rows: Tensor, x: Tensor, dim: int) -> Tensor:
    """The last dimension moved back to where `dim` is in `x`."""
    return sh.movedim(rows, -1, sh.axis(x, dim, scalar=True)) if x.rank else sh.reshape(rows, ())


def _direction(descending: bool) -> str:
    return "DESCENDING" if descending else "ASCENDING"


def argsort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Tensor:
    """The positions (int32) along `dim` of the elements in ascending, or descending, order.

    Equal elements keep their order, with or without `stable`.
    """
    x = as_tensor(input)
    return _back(dispatch("arg_sort", _last(x, dim), direction=_direction(descending)), x, dim)


def sort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Ordered:
    """The elements along `dim` in ascending, or descending, order, and their positions (int32) in `input`.

    Equal elements keep their order, with or without `stable`.
    """
    x = as_tensor(input)
    rows = _last(x, dim)
    indices = dispatch("arg_sort", rows, direction=_direction(descending))
    values = dispatch("dim_gather", rows, indices, dim=rows.rank - 1)
    return Ordered(_back(values, x, dim), _back(indices, x, dim))


def topk(input: Any, k: int | Size, dim: int = -1, largest: bool = True, sorted: bool = True) -> Ordered:
    """The `k` largest, or smallest, elements along `dim`, the most extreme first, and their positions (int64).

    The order is the same with `sorted` as without. `k` may be a dynamic size.

    Raises:
        OneFlowError: the dimension has fewer elements than `k`.
    """
    x = as_tensor(input)
    rows = _last(x, dim)
    size = rows.shape[-1]
    is_static = not isinstance(k, Size)
    if is_static and (type(k) is not int or not 0 <= k <= (k if size is None else size)):
        raise fail(f"expected k from 0 to the {size} elements along dimension {dim} of {x.desc}, got {k!r}")
    if largest and size is not None and is_static:
        indices = dispatch("top_k", rows, k=k, sorted=sorted)
    else:
        order = sh.narrow(dispatch("arg_sort", rows, direction=_direction(largest)), -1, 0, k)
        indices = cast(order, dtypes.int64)
    values = dispatch("dim_gather", rows, indices, dim=rows.rank - 1)
    return Ordered(_back(values, x, dim), _back(indices, x, dim))


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Ordered:
    """The `k`-th smallest element along `dim`, counted from 1, and its position (int64).

    Raises:
        OneFlowError: the element does not exist.
    """
    x = as_tensor(input)
    rows = _last(x, dim)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= (rows.shape[-1] or k):
        raise fail(f"expected k from 1 to the {rows.shape[-1]} elements along dimension {dim}, got {k!r}")
    order = sh.narrow(dispatch("arg_sort", rows, direction="ASCENDING"), -1, k - 1, 1)
    indices = cast(order, dtypes.int64)
    values = dispatch("dim_gather", rows, indices, dim=rows.rank - 1)
    return Ordered(*(_with_reduced_dim(sh.squeeze(part, -1), x, dim, keepdim) for part in (values, indices)))


def _with_reduced_dim(chosen: Tensor, x: Tensor, dim: int, keepdim: bool) -> Tensor:
    """Selects an element of each row along `dim`; with `keepdim` the dimension is kept with size 1."""
    return sh.unsqueeze(chosen, sh.axis(x, dim)) if keepdim and x.rank else chosen


def _chosen(op: str, x: Tensor, dim: int, keepdim: bool) -> Ordered:
    return Ordered(*(_with_reduced_dim(part, x, dim, keepdim) for part in dispatch_all(op, _last(x, dim))))


def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median, the lower of two: of all elements, or along `dim` with its position (int64). NaN if one is NaN,
    and of no floats.
    """
    x = as_tensor(input)
    if dim is None and x.dtype.is_float and 0 in x.shape:
        return mean(x)
    return dispatch("median", x) if dim is None else _chosen("median_with_indices", x, dim, keepdim)


def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Ordered:
    """The most frequent element along `dim`, the smallest of several, and its last position (int64)."""
    x = as_tensor(input)
    is_bool = x.dtype == dtypes.bool_
    values, indices = _chosen("mode", cast(x, dtypes.uint8) if is_bool else x, dim, keepdim)
    return Ordered(cast(values, x.dtype), indices)


def searchsorted(
    sorted_sequence: Any,
    values: Any,
    out_int32: bool = False,
    right: bool = False,
    *,
    side: str | None = None,
    sorter: Any = None,
) -> Tensor:
    """The positions at which `values` would be inserted into rows that are sorted along the last dimension (int64, or
    int32).

    The position is before equal elements, with `right` after equal elements. `sorted_sequence` is a vector, or has
    the leading sizes of `values`. `values` may be a number. `side` "right" is as `right`; `sorter` has the positions
    that sort the rows.
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise fail(f'expected side to be "left" or "right", and "right" with right, got {side!r}')
    right = right or side == "right"
    rows = as_tensor(sorted_sequence)
    if sorter is not None:
        rows = dispatch("dim_gather", rows, sorter, dim=rows.rank - 1)
    if is_number(values) and rows.dtype.is_float:
        return dispatch("searchsorted_scalar", rows, out_int32=out_int32, right=right, values=float(values))
    rows, points = as_common(rows, values)
    return dispatch("searchsorted", rows, points, out_int32=out_int32, right=right)


def in_top_k(targets: Any, predictions: Any, k: int) -> Tensor:
    """Whether each row's prediction of its target is one of its `k` largest; false for rows that are not finite."""
    return dispatch("in_top_k", targets, predictions, k=k)


def bincount(x: Any, weights: Any = None, minlength: int | None = None) -> Tensor:
    """How often each number occurs (int64) in a vector of integers that are not negative, or the sums of its weights.

    The result has `minlength` elements, more where a number is larger.

    Raises:
        TraceError: a function is being traced.
        OneFlowError: a number is negative.
    """
    tensor, values = values_of(x, "bincount(x)", "write flow.ops.bincount(x, size=..)")
    if not tensor.dtype.is_integer:
        raise fail(f"expected a vector of integers for bincount, got {tensor.desc}")
    if values.size and values.min() < 0:
        raise fail(f"expected no negative numbers for bincount, got {values.min()}")
    size = max(int(values.max()) + 1 if values.size else 0, minlength or 0)
    counts = dispatch("bincount", tensor, weights, size=size)
    return cast(counts, dtypes.int64) if weights is None else counts
