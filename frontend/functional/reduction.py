"""Reductions and running sums along dimensions.

`dim` is one dimension, several, or None for all; negative ones count from the end. With `keepdim` the reduced
dimensions stay with size 1.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.rules import cast, describe, to_float
from oneflow.frontend.functional.source import ones_like

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "cumprod", "cumsum", "logsumexp", "max", "mean", "min",
    "nansum", "norm", "prod", "std", "sum", "var",
]  # fmt: skip

Dims = int | Sequence[int] | None


class Extreme(NamedTuple):
    """The extreme elements along a dimension and their positions (int64), the first of equal elements."""

    values: Tensor
    indices: Tensor


def _axes(x: Tensor, dim: Dims) -> list[int]:
    """The reduced axes; None and an empty list mean all axes; a scalar has none."""
    dims = [] if dim is None else sh.as_list(dim)
    axes = [sh.axis(x, d, scalar=True) for d in dims] if len(dims) else list(range(x.rank))
    return axes if x.rank else []


def _reduce(op: str, x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    axes = _axes(x, dim)
    return dispatch(op, x, axis=axes, keepdims=keepdim) if axes else x


def _total(op: str, name: str, doc: str) -> Callable[..., Tensor]:
    def function(x: Any, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
        x = as_tensor(x)
        target = dtype or (x.dtype if x.dtype.is_inexact else dtypes.int64)
        return _reduce(op, cast(x, target), dim, keepdim)

    return describe(function, name, f"{doc}\n\nInteger and bool tensors give int64; `dtype` converts before it.")


def _test(op: str, name: str, doc: str) -> Callable[..., Tensor]:
    def function(x: Any, dim: Dims = None, keepdim: bool = False) -> Tensor:
        return _reduce(op, cast(x, dtypes.bool_), dim, keepdim)

    return describe(function, name, f"{doc} The result is bool; zero counts as false.")


def _extreme(op: str, of_bools: str, name: str, doc: str) -> Callable[..., Tensor]:
    def function(x: Any, dim: Dims = None, keepdim: bool = False) -> Tensor:
        x = as_tensor(x)
        return _reduce(of_bools if x.dtype == dtypes.bool_ else op, x, dim, keepdim)

    return describe(function, name, f"{doc} NaN where an element is NaN.")


sum = _total("reduce_sum", "sum", "The sum of the elements along `dim`; f16 and bf16 are summed in f32.")
prod = _total("reduce_prod", "prod", "The product of the elements along `dim`.")
any = _test("reduce_any", "any", "Whether an element along `dim` is true.")
all = _test("reduce_all", "all", "Whether every element along `dim` is true.")
amax = _extreme("reduce_max", "reduce_any", "amax", "The largest element along `dim`.")
amin = _extreme("reduce_min", "reduce_all", "amin", "The smallest element along `dim`.")


def max(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The largest element; with a dimension, `(values, indices)` along it; with a tensor, `maximum` of both.

    Along a dimension the element at `indices` receives the gradient; otherwise equal elements share the gradient.
    """
    return _extreme_of("max", x, dim, keepdim, amax, argmax, e.maximum)


def min(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The smallest element; with a dimension, `(values, indices)` along it; with a tensor, `minimum` of both.

    Along a dimension the element at `indices` receives the gradient; otherwise equal elements share the gradient.
    """
    return _extreme_of("min", x, dim, keepdim, amin, argmin, e.minimum)


def _extreme_of(name: str, x: Any, dim: Any, keepdim: bool, value: Any, position: Any, pairwise: Any) -> Any:
    if dim is None:
        return value(x)
    if not isinstance(dim, (int, np.integer)):
        return pairwise(x, dim)
    dim = int(dim) if isinstance(dim, np.integer) else dim
    x = as_tensor(x)
    if x.rank == 0:
        return Extreme(value(x, dim), position(x, dim))
    _expect_elements(name, x, dim)
    index = position(cast(x, dtypes.uint8) if x.dtype == dtypes.bool_ else x, dim, True)
    pair = dispatch("dim_gather", x, index, dim=sh.axis(x, dim)), index
    return Extreme(*(p if keepdim else sh.squeeze(p, dim) for p in pair))


def argmax(x: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The position (int64) of the largest element along `dim`, or in the flattened tensor.

    The first of equals; NaN counts as the largest.
    """
    x = as_tensor(x)
    _expect_elements("argmax", x, dim)
    at = None if dim is None else sh.axis(x, dim, scalar=True)
    flat = sh.movedim(x, at, -1) if at is not None and x.rank else sh.reshape(x, (-1,))
    index: Tensor = dispatch("argmax", flat)
    if not keepdim:
        return index
    return sh.unsqueeze(index, at) if at is not None and x.rank else sh.reshape(index, (1,) * x.rank)


def argmin(x: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The position (int64) of the smallest element along `dim`, or in the flattened tensor.

    The first of equals; NaN counts as the smallest.
    """
    x = as_tensor(x)
    _expect_elements("argmin", x, dim)
    return argmax(e.neg(x) if x.dtype.is_inexact else e.bitwise_not(x), dim, keepdim)


def _expect_elements(name: str, x: Tensor, dim: int | None) -> None:
    """Refuses an extreme of nothing, in the words of the function that was called."""
    shape = x.desc.shape or ()
    if 0 in (shape if dim is None or not shape else [shape[sh.axis(x, dim)]]):
        where = "" if dim is None else f" along dimension {dim}"
        raise fail(f"expected at least one element{where} for {name}, got {x.desc}")


def _floats(x: Any, name: str) -> Tensor:
    """`x` in the type of its sums.

    Raises:
        OneFlowError: its elements are integers.
    """
    x = as_tensor(x)
    if not x.dtype.is_float:
        raise fail(f"expected floating-point elements for {name}, got {x.dtype.mlir}; write x.float().{name}(..)")
    return cast(x, x.dtype.accumulator)


def _count(x: Tensor, dim: Dims, keepdim: bool) -> Tensor | float:
    """The number of elements of each reduction: an int where static."""
    sizes = [x.shape[axis] for axis in _axes(x, dim)]
    if None in sizes:
        return _reduce("reduce_sum", ones_like(x), dim, keepdim)
    return float(math.prod(s for s in sizes if s is not None))


def _average(wide: Tensor, dim: Dims, keepdim: bool, less: int = 0) -> Tensor:
    """The sum along `dim`, divided by the number of elements, or by `less` fewer: NaN where the divisor is not
    positive.
    """
    count = _count(wide, dim, keepdim)
    return e.div(_reduce("reduce_sum", wide, dim, keepdim), _less(count, less) if less else count)


def _less(count: Tensor | float, less: int) -> Tensor | float:
    if isinstance(count, Tensor):
        return e.clamp(e.sub(count, less), min=0.0)
    return builtins.max(count - less, 0.0)


def mean(x: Any, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The mean of the elements along `dim`; floats or complex numbers, f16 and bf16 are averaged in f32."""
    x = as_tensor(x)
    wide = x if x.dtype.is_complex else _floats(x, "mean")
    return cast(_average(wide, dim, keepdim), x.dtype)


def var(
    x: Any, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None
) -> Tensor:
    """The variance along `dim`, divided by n - `correction`, by default n - 1, or n where not `unbiased`; floats or
    complex numbers, computed in f64 in two passes. A bool given as `dim` is `unbiased`.
    """
    dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    dropped = int(unbiased) if correction is None else correction
    x = as_tensor(x)
    return cast(_variance(x, "var", dim, dropped, keepdim), x.dtype.part)


def std(
    x: Any, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None
) -> Tensor:
    """The square root of `var`; the gradient is 0 where that is 0."""
    dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    dropped = int(unbiased) if correction is None else correction
    x = as_tensor(x)
    return cast(_root(_variance(x, "std", dim, dropped, keepdim)), x.dtype.part)


def _variance(x: Tensor, name: str, dim: Dims, dropped: int, keepdim: bool) -> Tensor:
    """The variance in f64: squares of f32 are in the range of f64, so that the deviation of f32 is found. The
    variance of complex numbers is the sum of the variances of the parts.
    """
    if x.dtype.is_complex:
        parts = (dispatch(part, x) for part in ("real", "imag"))
        return e.add(*(_variance(part, name, dim, dropped, keepdim) for part in parts))
    wide = cast(_floats(x, name), dtypes.float64)
    deviation = e.sub(wide, _average(wide, dim, True))
    return _average(e.square(deviation), dim, keepdim, dropped)


def _root(x: Tensor) -> Tensor:
    """The square root; no gradient flows where the root is 0, although the derivative is infinite there."""
    return e.masked_fill(e.sqrt(x), e.eq(x, 0.0), 0.0)


def nansum(x: Any, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """`sum` with NaN counted as 0."""
    x = as_tensor(x)
    return sum(e.where(e.isnan(x), 0.0, x) if x.dtype.is_inexact else x, dim, keepdim, dtype=dtype)


def norm(x: Any, p: float | str | None = 2.0, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The p-norm along `dim`, sum(|x|^p)^(1/p); floats or complex numbers.

    `p` is a number, "fro" or None (which are 2), infinity (the largest absolute value), minus infinity (the smallest)
    or 0 (how many are not 0). The gradient at 0 is 0; equal elements share the gradient of the largest.
    """
    x = as_tensor(x)
    x = e.abs(x) if x.dtype.is_complex else x
    wide = _floats(x, "norm")
    return cast(_norm(wide, 2.0 if p in ("fro", None) else _as_power(p), dim, keepdim), x.dtype)


def _as_power(p: Any) -> float:
    """The p of a norm.

    Raises:
        OneFlowError: the order is no number.
    """
    if isinstance(p, bool) or not isinstance(p, (int, float)):
        raise fail(f'expected p to be a number or "fro", got {p!r}')
    return float(p)


def _norm(x: Tensor, p: float, dim: Dims, keepdim: bool) -> Tensor:
    if p == 2:
        return _root(_reduce("reduce_sum", e.square(x), dim, keepdim))
    if p == 0:
        # The gradient of a step is 0, and is there.
        return _reduce("reduce_sum", e.masked_fill(e.sign(x), e.ne(x, 0.0), 1.0), dim, keepdim)
    size = e.abs(x)
    if math.isinf(p):
        return (amax if p > 0 else amin)(size, dim, keepdim)
    if p == 1:
        return _reduce("reduce_sum", size, dim, keepdim)
    power_sum = _reduce("reduce_sum", e.pow(size, p), dim, keepdim)
    return e.masked_fill(e.pow(power_sum, 1 / p), e.eq(power_sum, 0.0), 0.0)


def logsumexp(x: Any, dim: Dims, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) along `dim`, computed from x - max(x), of complex numbers the largest real part; float32 of
    integers, -inf of no elements.
    """
    x = to_float(x)
    wide = x if x.dtype.is_complex else _floats(x, "logsumexp")
    if 0 in [wide.shape[axis] for axis in _axes(wide, dim)]:
        return cast(e.log(_reduce("reduce_sum", wide, dim, keepdim)), x.dtype)
    top = amax(dispatch("real", wide) if wide.dtype.is_complex else wide, dim, True)
    top = e.where(e.isfinite(top), top, 0.0)
    result = e.add(e.log(sum(e.exp(e.sub(wide, top)), dim, True)), top)
    return cast(result if keepdim else sh.squeeze(result, _axes(wide, dim)), x.dtype)


def _running(op: str, doc: str) -> Callable[..., Tensor]:
    def function(x: Any, dim: int, *, dtype: DType | None = None) -> Tensor:
        x = as_tensor(x) if dtype is None else cast(x, dtype)
        at = sh.axis(x, dim, scalar=True)
        wide = x if x.dtype.is_inexact else cast(x, dtypes.int64)
        return cast(sh.on_vector(lambda y: dispatch(op, y, dim=at), wide), dtype or wide.dtype)

    return describe(
        function,
        op,
        f"{doc} Integer and bool tensors give int64; `dtype` converts before, and is the type of the result.",
    )


cumsum = _running("cumsum", "Running sums along `dim`.")
cumprod = _running("cumprod", "Running products along `dim`.")
