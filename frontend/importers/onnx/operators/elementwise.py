"""Element-wise operators."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.importers.onnx import host
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.table import builder, rows
from oneflow.frontend.importers.onnx.types import (
    SMALL,
    Codes,
    SmallType,
    decode,
    encode,
    from_host,
    to_float8,
    type_name,
)
from oneflow.frontend.importers.onnx.types import type_of_number as type_of

rows({
    "Abs": F.abs, "Acos": F.acos, "Acosh": F.acosh, "Asin": F.asin, "Asinh": F.asinh, "Atan": F.atan,
    "Atanh": F.atanh, "BitwiseNot": F.bitwise_not, "Ceil": F.ceil, "Cos": F.cos, "Cosh": F.cosh, "Erf": F.erf,
    "Exp": F.exp, "Floor": F.floor, "IsNaN": F.isnan, "Log": F.log, "Mish": lambda x: F.mish(x), "Neg": F.neg,
    "Not": F.logical_not, "Reciprocal": F.reciprocal, "Relu": lambda x: F.relu(x), "Round": F.rint,
    "Sigmoid": F.sigmoid, "Sign": F.sign, "Sin": F.sin, "Sinh": F.sinh, "Softplus": lambda x: F.softplus(x),
    "Softsign": F.softsign, "Sqrt": F.sqrt, "Tan": F.tan, "Tanh": F.tanh, "HardSwish": lambda x: F.hardswish(x),
    "BitwiseAnd": F.bitwise_and, "BitwiseOr": F.bitwise_or, "BitwiseXor": F.bitwise_xor, "Where": F.where,
})  # fmt: skip


def _quotient(a: Tensor, b: Tensor) -> Tensor:
    return F.div(a, b) if a.dtype.is_float else F.div(a, b, rounding_mode="trunc")


def _power(a: Tensor, b: Tensor) -> Tensor:
    return F.cast(F.pow(a, b), a.dtype)


def _prelu(x: Tensor, slope: Tensor) -> Tensor:
    tensor: Tensor = F.where(F.lt(x, 0), F.mul(slope, x), x)
    return tensor


@builder("PRelu")
def _prelu_of_channels(x: Tensor, slope: Tensor) -> Tensor:
    """Before version 7 a vector has a number for each channel."""
    return _prelu(x, F.reshape(slope, (-1, *[1] * (x.rank - 2))))


rows({"PRelu": _prelu}, since=7)


#: Operators of two operands. Before version 7 the second is broadcast only where `broadcast` says so.
_BINARY = {
    "Add": F.add, "Sub": F.sub, "Mul": F.mul, "Div": _quotient, "Pow": _power, "And": F.logical_and,
    "Or": F.logical_or, "Xor": F.logical_xor, "Equal": F.eq, "Greater": F.gt, "Less": F.lt,
    "GreaterOrEqual": F.ge, "LessOrEqual": F.le,
}  # fmt: skip


def _aligned(function: Any) -> Any:
    def build(a: Tensor, b: Tensor, *, broadcast: int = 0, axis: int | None = None) -> Tensor:
        if broadcast and axis is not None:
            b = F.reshape(b, (*b.shape, *[1] * (a.rank - axis % a.rank - b.rank)))
        tensor: Tensor = function(a, b)
        return tensor

    return build


for _name, _function in _BINARY.items():
    builder(_name)(_aligned(_function))
    rows({_name: _function}, since=7)


@builder("Max")
def _max(*xs: Tensor) -> Tensor:
    return functools.reduce(F.maximum, xs)


@builder("Min")
def _min(*xs: Tensor) -> Tensor:
    return functools.reduce(F.minimum, xs)


@builder("Sum")
def _sum(*xs: Tensor) -> Tensor:
    return functools.reduce(F.add, xs)


@builder("Mean")
def _mean(*xs: Tensor) -> Tensor:
    return F.div(functools.reduce(F.add, xs), float(len(xs)))


@builder("Mod")
def _mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    return F.fmod(a, b) if fmod else F.remainder(a, b)


@builder("Clip")
def _clip(x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    low = x if min is None else F.maximum(x, F.cast(min, x.dtype))
    return low if max is None else F.minimum(low, F.cast(max, x.dtype))


@builder("Identity", raw=True)
def _identity(x: Any) -> Any:
    return x


@builder("Elu")
def _elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.elu(x, alpha)


@builder("Celu")
def _celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.celu(x, alpha)


@builder("LeakyRelu")
def _leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return F.leaky_relu(x, alpha)


@builder("ThresholdedRelu")
def _thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.threshold(x, alpha, 0.0)


@builder("Selu")
def _selu(x: Tensor, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Tensor:
    return F.mul(F.elu(x, alpha), gamma)


@builder("HardSigmoid")
def _hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return F.clamp(F.add(F.mul(x, alpha), beta), 0.0, 1.0)


@builder("Gelu")
def _gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate)


@builder("Shrink")
def _shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    wide = x if x.dtype.is_float else F.cast(x, dtypes.float32)
    moved = F.where(F.lt(wide, -lambd), F.add(wide, bias), F.where(F.gt(wide, lambd), F.sub(wide, bias), 0.0))
    return F.cast(moved, x.dtype)


@builder("Swish")
def _swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.mul(x, F.sigmoid(F.mul(x, alpha)))


@builder("IsInf")
def _is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    wanted = [F.gt(x, 0)] * detect_positive + [F.lt(x, 0)] * detect_negative
    sign = functools.reduce(F.logical_or, wanted) if wanted else F.isnan(x)
    return F.logical_and(F.isinf(x), sign)


@builder("BitShift")
def _bit_shift(x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    """Products and quotients by powers of two; a shift by all bits or more leaves zeros, or the sign."""
    widest = dtypes.uint64 if x.dtype.kind == "uint" else dtypes.int64
    wide, by = F.cast(x, widest), F.cast(y, dtypes.int64)
    outside = F.logical_or(F.lt(by, 0), F.ge(by, x.dtype.bits))
    factor = F.cast(F.pow(2, F.where(outside, 0, by)), widest)
    if direction == "LEFT":
        return F.cast(F.where(outside, 0, F.mul(wide, factor)), x.dtype)
    filling = 0 if widest == dtypes.uint64 else F.where(F.lt(wide, 0), -1, 0)
    return F.cast(F.where(outside, filling, F.floor_divide(wide, factor)), x.dtype)


@builder("BitCast")
def _bit_cast(x: Tensor, *, to: int) -> Tensor:
    target: Any = type_of(to)
    if x.dtype.is_float or isinstance(target, SmallType) or target.is_float:
        raise OnnxError(
            f"bits of {x.dtype.name} as {type_name(to)} are not supported, only bits of integers as integers"
        )
    return F.cast(x, target)


@builder("Cast", raw=True)
def _cast(x: Any, *, to: int, saturate: int = 1, round_mode: str = "up", node: Any) -> Any:
    target = type_of(to)
    if target is None:
        raise OnnxError(f"a cast to {type_name(to)} is not supported")
    return _cast_to(x, target, bool(saturate), round_mode, node)


@builder("CastLike", raw=True)
def _cast_like(x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up", node: Any) -> Any:
    target = as_codes(like).type if is_small(like) else node.tensor(like).dtype
    return _cast_to(x, target, bool(saturate), round_mode, node)


def _cast_to(x: Any, target: Any, saturate: bool, round_mode: str, node: Any) -> Any:
    """A value with its elements converted; small arrays of the host stay there, since shapes may follow from them."""
    if isinstance(x, np.ndarray) and host.is_small(x) and x.dtype != object and not is_narrow(target):
        return x.astype(target.numpy)
    return converted(as_codes(x) if is_small(x) else node.tensor(x), target, saturate, round_mode)


def is_narrow(target: Any) -> bool:
    """Whether conversions to a type may saturate."""
    return isinstance(target, SmallType) or target.is_stored_only


def is_small(value: Any) -> bool:
    """Whether a value has elements of a small type."""
    return isinstance(value, Codes) or (isinstance(value, np.ndarray) and value.dtype.name in SMALL)


def as_codes(value: Any) -> Codes:
    """A value of a small type as a tensor of codes."""
    return value if isinstance(value, Codes) else from_host(value)


def converted(x: Tensor | Codes, target: Any, saturate: bool = True, round_mode: str = "up") -> Tensor | Codes:
    """A value with its elements converted to another type."""
    if isinstance(x, Codes):
        if x.type == target:
            return x
        x = decode(x, target if not isinstance(target, SmallType) and target.is_float else dtypes.float32)
    if isinstance(target, SmallType):
        return encode(x, target, saturate, round_mode)
    return to_float8(x, target, saturate) if is_narrow(target) and x.dtype != target else F.cast(x, target)
