"""Functions of device libraries and PTX instructions, on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from oneflow.dialect.evaluate import UNARY

#: Triton's names of element types, by pointer type.
POINTEES = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
            "fp8e4nv": "float8e4nv", "fp8e5": "float8e5",
            "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}  # fmt: skip
#: NumPy types of floats of 8 bits by Triton's names.
FLOAT8 = {"float8e4nv": ml_dtypes.float8_e4m3fn, "float8e5": ml_dtypes.float8_e5m2}
#: NumPy types by Triton's names.
KINDS: dict[str, Any] = {
    "int1": np.bool_,
    **{k: getattr(np, k, None) or FLOAT8.get(k) or getattr(ml_dtypes, k) for k in POINTEES.values()},
}  # fmt: skip
#: Functions of libdevice whose names differ from NumPy's names.
LIBDEVICE: dict[str, Callable[..., Any]] = {
    "pow": np.power, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erfc": UNARY["erfc"],
    "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip
#: PTX instructions in inline assembly of kernels.
INSTRUCTIONS: dict[str, Callable[..., Any]] = {
    "tanh.approx.f32": np.tanh, "rcp.approx.ftz.f32": np.reciprocal, "ex2.approx.ftz.f32": np.exp2,
    "div.rn.f32": lambda a, b, inverse: np.divide(a, b),
}  # fmt: skip


def libdevice(name: str) -> Callable[..., Any]:
    """A function of libdevice."""
    return LIBDEVICE.get(name) or getattr(np, name)


def instruction(text: str) -> Callable[..., Any]:
    """The function of an instruction, or of a sequence with one of `INSTRUCTIONS`, without its rounding error."""
    return next(function for name, function in INSTRUCTIONS.items() if name in text)
