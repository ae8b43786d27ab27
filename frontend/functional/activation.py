"""Activations that are made of several operators."""

from __future__ import annotations

from typing import Any

from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.normalization import softmax

__all__ = [
    "glu", "prelu", "softmin", "tanhshrink",
]  # fmt: skip


def tanhshrink(x: Any) -> Tensor:
    """x - tanh(x); floats."""
    return e.sub(x, e.tanh(x))


def softmin(x: Any, dim: int = -1, *, dtype: DType | None = None) -> Tensor:
    """`softmax` of -x; floats; `dtype` converts the elements before."""
    return softmax(e.neg(x), dim, dtype=dtype)


def glu(x: Any, dim: int = -1) -> Tensor:
    """The first half of `x` along `dim` times the sigmoid of the second; floats."""
    x = as_tensor(x)
    size = x.shape[sh.axis(x, dim)]
    if size is None or size % 2:
        raise fail(f"expected an even size along dimension {dim} for glu, got {x.desc}")
    first, second = sh.split(x, [size // 2] * 2, dim)
    return e.mul(first, e.sigmoid(second))


def prelu(x: Any, weight: Any) -> Tensor:
    """x where x is positive, else weight * x; `weight` has one element, or one for each channel, dimension 1."""
    x, weight = as_tensor(x), as_tensor(weight)
    count, channels = weight.desc.element_count, x.shape[1] if x.rank > 1 else 1
    if count != 1 and (weight.rank != 1 or count != channels):
        raise fail(f"expected a weight of one element or one per channel for prelu, got {weight.desc} for {x.desc}")
    slope = sh.reshape(weight, (1, -1, *[1] * (x.rank - 2)) if count != 1 else ())
    result: Tensor = e.where(e.gt(x, 0), x, e.mul(slope, x))
    return result
