"""Complex numbers: their parts, conjugates and angles, and complex tensors made of reals.

The results of `real`, `imag` and the `view_as_` functions share the memory of their operand; conjugates do not.
"""

from __future__ import annotations

import math
from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional.rules import as_common, cast, to_float

__all__ = [
    "angle", "complex", "conj", "conj_physical", "imag", "polar", "real", "view_as_complex", "view_as_real",
]  # fmt: skip


def real(input: Any) -> Tensor:
    """The real parts; a tensor of real numbers is itself the result."""
    x = as_tensor(input)
    return dispatch("real", x) if x.dtype.is_complex else x


def imag(input: Any) -> Tensor:
    """The imaginary parts of complex numbers."""
    return dispatch("imag", _expect_complex(input, "imag"))


def _expect_complex(input: Any, name: str) -> Tensor:
    x = as_tensor(input)
    if not x.dtype.is_complex:
        raise fail(f"expected complex numbers for {name}, got {x.desc}")
    return x


def conj(input: Any) -> Tensor:
    """The complex conjugates; a tensor of real numbers is itself the result."""
    x = as_tensor(input)
    return dispatch("conj_physical", x) if x.dtype.is_complex else x


def conj_physical(input: Any) -> Tensor:
    """The complex conjugates; the same as `conj`."""
    return conj(input)


def angle(input: Any) -> Tensor:
    """The angles of complex numbers in the plane, in radians; of real numbers 0 or pi, and NaN of NaN."""
    x = as_tensor(input)
    if x.dtype.is_complex:
        return e.atan2(imag(x), real(x))
    turned: Tensor = cast(e.where(e.lt(x, 0), math.pi, 0.0), to_float(x).dtype)
    return e.where(e.isnan(x), x, turned) if x.dtype.is_float else turned


def view_as_real(input: Any) -> Tensor:
    """Complex numbers as pairs of reals, their parts, along a new last dimension."""
    return dispatch("view_as_real", _expect_complex(input, "view_as_real"))


def view_as_complex(input: Any) -> Tensor:
    """Pairs of reals along the last dimension, float32 or float64, as complex numbers."""
    return dispatch("view_as_complex", input)


def complex(real: Any, imag: Any) -> Tensor:
    """Complex numbers with these parts, of one type, float32 or float64; the parts broadcast.

    Raises:
        OneFlowError: the parts have other types.
    """
    parts = [as_tensor(x) for x in (real, imag)]
    if parts[0].dtype != parts[1].dtype or parts[0].dtype not in dtypes.PARTS:
        raise fail(f"expected two parts of float32, or of float64, for complex, got {parts[0].desc}, {parts[1].desc}")
    return e.add(dispatch("real_grad", parts[0]), dispatch("imag_grad", parts[1]))


def polar(abs: Any, angle: Any) -> Tensor:
    """Complex numbers with these magnitudes and angles in radians."""
    size, turn = as_common(abs, angle)
    return complex(e.mul(size, e.cos(turn)), e.mul(size, e.sin(turn)))
