"""Functions that answer a question about tensors with a Python value, and comparisons within a tolerance."""

from __future__ import annotations

from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import reduction as r
from oneflow.frontend.functional.rules import as_common, cast

__all__ = ["allclose", "equal", "is_complex", "is_floating_point", "is_nonzero", "is_tensor", "isclose", "numel"]


def is_tensor(obj: Any) -> bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Any) -> bool:
    """Whether the elements of a tensor are floating-point numbers."""
    return bool(as_tensor(input).dtype.is_float)


def is_complex(input: Any) -> bool:
    """Whether the elements of a tensor are complex numbers."""
    return bool(as_tensor(input).dtype.is_complex)


def is_nonzero(input: Any) -> bool:
    """Whether the one element of a tensor is not 0.

    Raises:
        OneFlowError: the tensor has another number of elements.
    """
    x: Any = as_tensor(input)
    if x.numel() != 1:
        raise fail(f"expected a tensor of one element for is_nonzero, got {x.desc}")
    return bool(x.item())


def numel(input: Any) -> Any:
    """The number of elements of a tensor."""
    return as_tensor(input).numel()


def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether |input - other| <= atol + rtol * |other|, element by element; with `equal_nan` NaN is close to NaN.

    Raises:
        OneFlowError: a tolerance is negative, or element types differ.
    """
    if rtol < 0 or atol < 0:
        raise fail(f"expected tolerances of at least 0, got rtol={rtol} and atol={atol}")
    a, b = as_tensor(input), as_tensor(other)
    if a.dtype != b.dtype:
        text = f"expected two tensors of one element type for isclose, got {a.desc} and {b.desc}"
        raise fail(text, kind=TypeError)
    same = e.eq(a, b)
    if not a.dtype.is_inexact:
        a, b = (cast(x, dtypes.float64) for x in (a, b))
        return e.logical_or(same, e.le(e.abs(e.sub(a, b)), e.add(e.mul(e.abs(b), rtol), atol)))
    is_near = e.le(e.abs(e.sub(a, b)), e.add(e.mul(e.abs(b), rtol), atol))
    close = e.logical_or(same, e.logical_and(e.isfinite(b), e.logical_and(e.isfinite(a), is_near)))
    return e.logical_or(close, e.logical_and(e.isnan(a), e.isnan(b))) if equal_nan else close


def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether `isclose` holds for every element."""
    return bool(r.all(isclose(input, other, rtol, atol, equal_nan)))


def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have one shape and equal elements."""
    a, b = as_tensor(input), as_tensor(other)
    return a.shape == b.shape and bool(r.all(e.eq(*as_common(a, b))))
