"""ONNX element types: those of tensors, and the small floats and integers that are held as codes.

A small type (8-bit floats, integers of 2 and 4 bits) has at most 256 values. A tensor of a small type is a tensor of
its codes (uint8); decoding is one lookup, and encoding counts the boundaries between neighbouring values.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.tensor import Tensor

#: The element types of `TensorProto.DataType` by number, as NumPy names them; text (8) has no tensors.
NAMES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz",
    19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu",
    25: "uint2", 26: "int2",
}  # fmt: skip
NUMBERS = {name: number for number, name in NAMES.items()}
SPELLED = {8: "strings", 14: "complex64", 15: "complex128"}


@dataclass(frozen=True)
class SmallType:
    """An element type of at most 8 bits that tensors hold as codes."""

    name: str

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type; each element has a byte."""
        return np.dtype(getattr(ml_dtypes, self.name))

    @property
    def is_float(self) -> bool:
        """Whether values are floating-point numbers."""
        return self.name.startswith("float")

    def __repr__(self) -> str:
        return self.name


SMALL = {name: SmallType(name) for number, name in NAMES.items() if number >= 17 and hasattr(ml_dtypes, name)}


@dataclass(frozen=True)
class Codes:
    """A tensor of a small type: its codes, as bytes."""

    tensor: Tensor
    type: SmallType

    def map(self, function: Any) -> Codes:
        """The codes after `function`, which moves elements only."""
        return Codes(function(self.tensor), self.type)


def type_of_number(number: int) -> DType | SmallType | None:
    """The element type with a number of `TensorProto.DataType`; None for one that no tensor has."""
    name = NAMES.get(number, "")
    return SMALL.get(name) or dtypes.BY_NAME.get(name)


def spelled(number: int) -> str:
    """The name of an element type by its number."""
    return NAMES.get(number) or SPELLED.get(number) or f"number {number}"


@functools.cache
def _tables(small: SmallType) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a small type: the values of all 256 bytes, the codes of its finite values in ascending order, and the
    boundary below each value but the first.

    A boundary that two values share equally belongs to the one with the even code; the boundary is moved to the next
    float32, so that `x >= boundary` decides.
    """
    values = np.arange(256, dtype=np.uint8).view(small.numpy).astype(np.float32)
    codes = np.arange(1 << _bits(small))
    known = [int(c) for c in codes if np.isfinite(values[c]) and not (values[c] == 0 and np.signbit(values[c]))]
    order = np.array(sorted(known, key=lambda c: values[c]), np.int64)
    exact = values[order].astype(np.float64)
    middle = ((exact[1:] + exact[:-1]) / 2).astype(np.float32)
    upper_is_even = (order[1:] & 1) == 0
    return values, order, np.where(upper_is_even, middle, np.nextafter(middle, np.float32(np.inf)))


def _bits(small: SmallType) -> int:
    info = ml_dtypes.finfo if small.is_float else ml_dtypes.iinfo
    return int(info(small.numpy).bits)


def decode(codes: Codes, dtype: DType) -> Tensor:
    """The values of a tensor of a small type, as elements of `dtype`."""
    values = _tables(codes.type)[0]
    wide = dispatch("gather", as_tensor(values), F.cast(codes.tensor, dtypes.int32), axis=0)
    return F.cast(wide, dtype)


def from_host(array: np.ndarray) -> Codes:
    """An array of a small type as a tensor of codes."""
    return Codes(as_tensor(np.ascontiguousarray(array).view(np.uint8)), SMALL[array.dtype.name])


def to_host(codes: np.ndarray, small: SmallType) -> np.ndarray:
    """Codes as an array of the small type."""
    return codes.view(small.numpy)


def encode(x: Tensor, small: SmallType, saturate: bool = True) -> Codes:
    """The nearest values of a small type, the even code of two equally near; integers wrap around."""
    if not small.is_float:
        return Codes(_encoded_integers(x, small), small)
    return Codes(_encoded_floats(F.cast(x, dtypes.float32), small, saturate), small)


def _encoded_integers(x: Tensor, small: SmallType) -> Tensor:
    """Codes of the low bits of integers, floats cut towards zero; a signed code is extended to its byte."""
    bits, info = _bits(small), ml_dtypes.iinfo(small.numpy)
    whole = F.cast(x, dtypes.int32)
    low = F.bitwise_and(whole, (1 << bits) - 1)
    signed = F.where(F.gt(low, int(info.max)), F.sub(low, 1 << bits), low)
    return F.cast(F.cast(signed, dtypes.int8), dtypes.uint8)


def _encoded_floats(x: Tensor, small: SmallType, saturate: bool) -> Tensor:
    """Codes of the nearest values of a type of floats."""
    values, order, boundaries = _tables(small)
    counted = F.ge(F.unsqueeze(x, -1), as_tensor(boundaries))
    rank = F.sum(F.cast(counted, dtypes.int32), -1, dtype=dtypes.int64)
    codes = dispatch("gather", as_tensor(order.astype(np.int32)), rank, axis=0)
    codes = _with_sign_of_zero(codes, x, values)
    return F.cast(_with_overflow(codes, x, small, values, saturate), dtypes.uint8)


def _with_sign_of_zero(codes: Tensor, x: Tensor, values: np.ndarray) -> Tensor:
    """Codes with that of -0 for negative numbers near 0, where the type has a negative zero."""
    negative_zero = [c for c, v in enumerate(values) if v == 0 and np.signbit(v)]
    if not negative_zero:
        return codes
    is_negative = F.lt(F.where(F.eq(x, 0.0), F.reciprocal(x), x), 0.0)
    zero = int(np.flatnonzero((values == 0) & ~np.signbit(values))[0])
    return F.where(F.logical_and(F.eq(codes, zero), is_negative), negative_zero[0], codes)


def _with_overflow(codes: Tensor, x: Tensor, small: SmallType, values: np.ndarray, saturate: bool) -> Tensor:
    """Codes with those of NaN, and, unless they saturate, of numbers beyond the largest."""
    inside = values[: 1 << _bits(small)]
    nan, infinite = np.flatnonzero(np.isnan(inside)), np.flatnonzero(np.isinf(inside))
    if not saturate and small.name != "float4_e2m1fn":
        largest = float(np.max(inside[np.isfinite(inside)]))
        limit = _first_beyond(small, largest)
        for sign in (1, -1):
            beyond = F.ge(x, limit) if sign > 0 else F.le(x, -limit)
            found = [int(c) for c in infinite if np.sign(inside[c]) == sign] or _nan_of(nan, sign)
            codes = F.where(beyond, found[0], codes) if found else codes
    if len(nan):
        codes = F.where(F.isnan(x), int(_nan_of(nan, 1)[0]), codes)
    return codes


def _nan_of(nan: np.ndarray, sign: int) -> list[int]:
    """The code of NaN with a sign: the last one of each half, or the only one."""
    half = [int(c) for c in nan if (int(c) < 128) == (sign > 0)]
    return half[-1:] or [int(c) for c in nan[:1]]


def _first_beyond(small: SmallType, largest: float) -> float:
    """The least float32 that rounds to something beyond the largest value."""
    below = np.float32(largest)
    high = np.float32(largest * 2 if np.isfinite(np.float32(largest) * 2) else np.finfo(np.float32).max)
    while (middle := np.float32((np.float64(below) + np.float64(high)) / 2)) not in (below, high):
        fits = float(middle.astype(small.numpy).astype(np.float32)) == largest
        below, high = (middle, high) if fits else (below, middle)
    return float(high)
