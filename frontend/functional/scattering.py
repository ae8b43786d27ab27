"""Functions that write or add at positions given by tensors of integers, and that read along diagonals and strides.

Positions count from 0; one outside is a run-time error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.factories import tensor_factory
from oneflow.frontend.core.promotion import as_number, fitting, is_number
from oneflow.frontend.core.settings import get_default_dtype
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.data_dependent import values_of
from oneflow.frontend.functional.gathering import index_select
from oneflow.frontend.functional.rules import cast, constant, on_integers
from oneflow.frontend.functional.source import arange, full, ones_like

__all__ = [
    "as_strided", "diag", "diagonal", "empty_strided", "index_add", "repeat_interleave", "scatter", "scatter_add",
    "scatter_reduce",
]  # fmt: skip

#: Operators by the word that PyTorch and OneFlow have for the combination.
SCATTERS = {None: "dim_scatter_update", "add": "dim_scatter_add", "multiply": "dim_scatter_mul"}
REDUCTIONS = {
    "sum": "dim_scatter_add", "mean": "dim_scatter_add", "prod": "dim_scatter_mul", "amax": "dim_scatter_amax",
    "amin": "dim_scatter_amin",
}  # fmt: skip


def _source(x: Tensor, index: Tensor, src: Any) -> Tensor:
    """The scattered values in the element type of `x`; a number is scattered to all positions."""
    if not is_number(src):
        return as_tensor(src)
    return sh.expand_as(constant(fitting(as_number(src), x.dtype), x.dtype), index)


def scatter(input: Any, dim: int, index: Any, src: Any, *, reduce: str | None = None) -> Tensor:
    """`input` with `src`, a tensor or a number, at `index` along `dim`: out[i][index[i][j]] = src[i][j] for dim 1.
    Scalars are taken for vectors of one element.

    The last of several updates wins. `reduce` "add" adds to the elements, "multiply" multiplies.

    Raises:
        OneFlowError: `reduce` is another word, or shapes or element types do not fit.
    """
    if reduce not in SCATTERS:
        raise fail(f'expected reduce to be None, "add" or "multiply" for scatter, got {reduce!r}')
    x, index = as_tensor(input), as_tensor(index)
    return _scattered(SCATTERS[reduce], x, index, _source(x, index, src), sh.axis(x, dim, scalar=True))


def _scattered(op: str, x: Tensor, index: Tensor, src: Tensor, dim: int) -> Tensor:
    positions = sh.as_vector(index)

    def on_vectors(a: Tensor, b: Tensor) -> Tensor:
        return sh.on_vector(lambda y: dispatch(op, y, positions, sh.as_vector(b), dim=dim), a)

    return on_integers(on_vectors, x, src)


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Tensor:
    """`input` to which `src` is added at `index` along `dim`: out[i][index[i][j]] += src[i][j] for dim 1."""
    return scatter(input, dim, index, src, reduce="add")


def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Tensor:
    """`input` with its elements at `index` along `dim` combined with `src`: "sum", "prod", "mean", "amax" or "amin".

    Without `include_self` elements of `src` alone are combined. Means of integers round down.

    Raises:
        OneFlowError: `reduce` is another word, or shapes or element types do not fit.
    """
    if reduce not in REDUCTIONS:
        raise fail(f"expected reduce to be one of {', '.join(REDUCTIONS)} for scatter_reduce, got {reduce!r}")
    x, index, at = as_tensor(input), as_tensor(index), sh.axis(as_tensor(input), dim, scalar=True)
    src = _source(x, index, src)
    base = x if include_self else scatter(x, at, index, _neutral(reduce, x))
    reduced = _scattered(REDUCTIONS[reduce], base, index, src, at)
    if reduce != "mean":
        return reduced
    counts = ones_like(x) if include_self else scatter(ones_like(x), at, index, 0)
    counts = _scattered("dim_scatter_add", counts, index, ones_like(src), at)
    return e.div(reduced, counts) if x.dtype.is_inexact else e.floor_divide(reduced, counts)


def _neutral(reduce: str, x: Tensor) -> float | int:
    """The neutral element of a combination."""
    if reduce in ("amax", "amin"):
        lowest, highest = (0, 1) if x.dtype == dtypes.bool_ else x.dtype.bounds
        return lowest if reduce == "amax" else highest
    return int(reduce == "prod")


def index_add(input: Any, dim: int, index: Any, source: Any, alpha: float = 1) -> Tensor:
    """`input` with the slices of `source`, times `alpha`, added to its slices at `index` along `dim`."""
    x, added = as_tensor(input), as_tensor(source)
    axis = sh.axis(x, dim, scalar=True)
    added = added if x.rank else sh.reshape(added, (1,))

    def on_vectors(x: Tensor) -> Tensor:
        return on_integers(lambda a, b: dispatch("index_add", a, index, b, dim=axis, alpha=float(alpha)), x, added)

    return sh.on_vector(on_vectors, x)


def diag(x: Any, diagonal: int = 0) -> Tensor:
    """The matrix with the vector `x` on a diagonal, or a diagonal of the matrix `x`; 1 is above the main diagonal."""
    return dispatch("diag", x, diagonal=diagonal)


def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A diagonal of the dimensions `dim1` and `dim2`, as the last dimension of the result."""
    x = as_tensor(x)
    first, second = sh.axis(x, dim1), sh.axis(x, dim2)
    if first == second:
        raise fail(f"expected two dimensions for diagonal, got {dim1} and {dim2}")
    rest = [i for i in range(x.rank) if i not in (first, second)]
    return dispatch("diagonal", sh.permute(x, [first, second, *rest]), offset=offset)


def as_strided(x: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = 0) -> Tensor:
    """A view of the memory that `x` shares: the elements from `storage_offset` on, with strides, in the shape `size`.

    If `x` is a view itself, the memory is the memory of the root of the view, as in OneFlow and PyTorch;
    `storage_offset` None begins at the first element of `x`. An argument of a compiled function has its own memory.
    """
    x = as_tensor(x)
    root, first = current_builder().memory_root(x)
    if root.dtype != x.dtype:  # reals in the memory of complex numbers, or the other way round
        pairs = not root.dtype.is_complex
        root = dispatch("view_as_complex", sh.reshape(root, (-1, 2))) if pairs else dispatch("view_as_real", root)
    offset = first if storage_offset is None else storage_offset
    return dispatch("as_strided", root, size=list(size), stride=list(stride), storage_offset=offset)


@tensor_factory
def empty_strided(size: Sequence[int], stride: Sequence[int], dtype: DType | None = None) -> Tensor:
    """A tensor with strides whose elements are to be set: zeros, in new memory that reaches to the last element.

    Raises:
        OneFlowError: there are not as many strides as sizes, or one is negative.
    """
    if len(size) != len(stride) or min((*size, *stride), default=0) < 0:
        raise fail(f"expected sizes of at least 0 and as many strides for empty_strided, got {size} and {stride}")
    needed = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if 0 not in size else 0
    return as_strided(full((needed,), 0, dtype=dtype or get_default_dtype()), size, stride)


def unfold_dimension(x: Any, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements along a dimension, every `step` elements; a window is the last dimension."""
    x = as_tensor(x)
    at = sh.axis(x, dimension, scalar=True)
    rows = x if x.rank else sh.reshape(x, (1,))
    if not rows.desc.is_static:
        return _windows_by_position(rows, at, size, step)
    windows = dispatch("unfold_tensor", rows, dimension=at, size=size, step=step)
    return windows if x.rank else sh.reshape(windows, (1,))


def _windows_by_position(x: Tensor, at: int, size: int, step: int) -> Tensor:
    """The windows of a tensor with dynamic sizes."""
    count = (x.size(at) - size) // step + 1
    starts = sh.unsqueeze(arange(count) * step, 1)
    positions = sh.reshape(starts + arange(size), (count * size,))
    sizes = list(x.sizes())
    parts = sh.reshape(index_select(x, at, positions), [*sizes[:at], count, size, *sizes[at + 1 :]])
    return sh.movedim(parts, at + 1, -1)


def repeat_interleave(input: Any, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Each slice along `dim`, or each element, `repeats` times in a row: a number, or a tensor of one for each.

    `output_size` is accepted for programs of PyTorch and must be the sum of `repeats`.

    Raises:
        TraceError: a function is being traced and `repeats` is a tensor: the shape depends on its values.
        OneFlowError: a number is negative, or the number of `repeats` differs from the number of slices.
    """
    x = as_tensor(input)
    x = sh.reshape(x, (-1,)) if dim is None else x
    at = sh.axis(x, 0 if dim is None else dim)
    if is_number(repeats):
        if isinstance(repeats, bool) or repeats < 0:
            raise fail(f"expected repeats of at least 0, got {repeats!r}")
        sizes = list(x.sizes())
        wide = sh.expand(sh.unsqueeze(x, at + 1), [*sizes[: at + 1], repeats, *sizes[at + 1 :]])
        return sh.flatten(wide, at, at + 1)
    counts, values = values_of(repeats, "repeat_interleave(x, repeats)", "repeat by a number")
    if counts.rank != 1 or not counts.dtype.is_integer or values.min(initial=0) < 0:
        raise fail(f"expected repeats as a vector of integers of at least 0, got {counts.desc}")
    if values.size not in (1, x.shape[at]):
        raise fail(f"expected {x.shape[at]} repeats, one for each slice, got {counts.desc}")
    counts = counts if values.size == x.shape[at] else sh.expand(counts, [x.shape[at]])
    running = dispatch("cumsum", cast(counts, dtypes.int64), dim=0)
    total = int(values.sum()) * (1 if values.size == x.shape[at] else x.shape[at])
    positions = dispatch("repeat_interleave", arange(x.shape[at]), running, repeat_num=total)
    return dispatch("gather", x, positions, axis=at)
