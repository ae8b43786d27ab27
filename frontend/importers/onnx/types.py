"""ONNX element types: the types of tensors, and the small floats and integers that are held as codes.

A small type (floats of at most 8 bits that tensors do not have, integers of 2 and 4 bits) has at most 256 values. A
tensor of a small type is a tensor of its codes (uint8); decoding is one lookup, and encoding counts the boundaries
between neighbouring values.
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
FLOAT8 = frozenset(d.name for d in dtypes.FLOAT8)
SPELLED = {8: "strings", 14: "complex64", 15: "complex128"}


@dataclass(frozen=True)
class SmallType:
    """An element type of at most 8 bits that tensors hold as codes."""

    name: str

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type; each element has a byte."""
        result: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.name))
        return result

    @property
    def is_float(self) -> bool:
        """Whether values are floating-point numbers."""
        return self.name.startswith("float")

    def __repr__(self) -> str:
        return self.name


SMALL = {
    name: SmallType(name)
    for number, name in NAMES.items()
    if number >= 17 and name not in dtypes.BY_NAME and hasattr(ml_dtypes, name)
}


@dataclass(frozen=True)
class Codes:
    """A tensor of a small type: its codes, as bytes."""

    tensor: Tensor
    type: SmallType

    def map(self, function: Any) -> Codes:
        """The codes after `function`, which moves elements only."""
        return Codes(function(self.tensor), self.type)


def limits(dtype: DType) -> tuple[int, int]:
    """The least and the largest value of a type of integers."""
    info = np.iinfo(np.dtype(dtype.name))
    return int(info.min), int(info.max)


def type_of_number(number: int) -> DType | SmallType | None:
    """The element type with a number of `TensorProto.DataType`; None for one that no tensor has."""
    name = NAMES.get(number, "")
    return SMALL.get(name) or dtypes.BY_NAME.get(name)


def type_name(number: int) -> str:
    """The name of an element type by its number."""
    return NAMES.get(number) or SPELLED.get(number) or f"number {number}"


@functools.cache
def _tables(small: SmallType, rounding: str = "nearest") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a small type: the values of all 256 bytes, the codes of its finite values in ascending order, and for each
    value but the first the least float32 that is rounded to it.

    Of two nearest values the one with the even code is taken; `rounding` may be "up" or "down" instead.
    """
    values = np.arange(256, dtype=np.uint8).view(small.numpy).astype(np.float32)
    codes = np.arange(1 << _bits(small))
    known = [int(c) for c in codes if np.isfinite(values[c]) and not (values[c] == 0 and np.signbit(values[c]))]
    order = np.array(sorted(known, key=lambda c: values[c]), np.int64)
    finite = values[order]
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    middle = np.where((order[1:] & 1) == 0, middle, np.nextafter(middle, np.float32(np.inf)))
    least = {"nearest": middle, "up": np.nextafter(finite[:-1], np.float32(np.inf)), "down": finite[1:]}
    return values, order, least[rounding]


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


def encode(x: Tensor, small: SmallType, saturate: bool = True, rounding: str = "nearest") -> Codes:
    """The nearest values of a small type, the even code of two equally near; integers wrap around.

    `rounding` ("up", "down" or "nearest") is for the type of exponents alone.
    """
    if not small.is_float:
        return Codes(_encoded_integers(x, small), small)
    how = rounding if small.name == "float8_e8m0fnu" else "nearest"
    return Codes(_encoded_floats(F.cast(x, dtypes.float32), small, saturate, how), small)


def to_float8(x: Tensor, target: DType, saturate: bool) -> Tensor:
    """The nearest floats of 8 bits; beyond the largest that, or without `saturate` infinity, or NaN."""
    wide = x if x.dtype.is_float else F.cast(x, dtypes.float32)
    if saturate and target == dtypes.float8_e5m2:
        wide = F.clamp(wide, -target.largest, target.largest)
    elif not saturate and target == dtypes.float8_e4m3fn:
        fits = F.le(F.abs(F.cast(wide, dtypes.float32)), _LAST_ROUNDED)
        wide = F.where(fits, wide, float("nan"))
    return F.cast(wide, target)


#: The largest number that is rounded to the largest float8_e4m3fn.
_LAST_ROUNDED = 464.0


def _encoded_integers(x: Tensor, small: SmallType) -> Tensor:
    """Codes of the low bits of integers, floats cut towards zero; a signed code is extended to its byte."""
    bits, info = _bits(small), ml_dtypes.iinfo(small.numpy)
    codes = F.cast(x, dtypes.int32)
    low = F.bitwise_and(codes, (1 << bits) - 1)
    signed = F.where(F.gt(low, int(info.max)), F.sub(low, 1 << bits), low)
    return F.cast(F.cast(signed, dtypes.int8), dtypes.uint8)


def _encoded_floats(x: Tensor, small: SmallType, saturate: bool, rounding: str) -> Tensor:
    """Codes of the nearest values of a type of floats."""
    values, order, least = _tables(small, rounding)
    rank = F.sum(F.cast(F.ge(F.unsqueeze(x, -1), as_tensor(least)), dtypes.int32), -1, dtype=dtypes.int64)
    codes = dispatch("gather", as_tensor(order.astype(np.int32)), rank, axis=0)
    codes = _with_sign_of_zero(codes, x, values)
    largest = float(values[order[-1]])
    for special in (np.float32(np.inf), np.float32(-np.inf)) if not saturate else ():
        beyond = F.ge(x, _first_beyond(small, largest)) if special > 0 else F.le(x, -_first_beyond(small, largest))
        codes = F.where(beyond, _code_of(special, small), codes)
    return F.cast(F.where(F.isnan(x), _code_of(np.float32(np.nan), small), codes), dtypes.uint8)


def _code_of(value: np.float32, small: SmallType) -> int:
    """The code that a number, such as NaN, is converted to."""
    return int(np.array([value]).astype(small.numpy).view(np.uint8)[0])


def _with_sign_of_zero(codes: Tensor, x: Tensor, values: np.ndarray) -> Tensor:
    """Codes; negative numbers near 0 have the code of -0, where the type has a negative zero."""
    zeros = np.flatnonzero(values == 0)
    negative = [int(c) for c in zeros if np.signbit(values[c])]
    if not negative:
        return codes
    is_negative = F.lt(F.where(F.eq(x, 0.0), F.reciprocal(x), x), 0.0)
    tensor: Tensor = F.where(F.logical_and(F.eq(codes, int(zeros[0])), is_negative), negative[0], codes)
    return tensor


def _first_beyond(small: SmallType, largest: float) -> float:
    """The least float32 that rounds to something beyond the largest value."""
    below, above = np.float32(largest), np.float32(min(2 * largest, float(np.finfo(np.float32).max)))
    while (middle := np.float32((float(below) + float(above)) / 2)) not in (below, above):
        fits = float(np.array([middle]).astype(small.numpy).astype(np.float32)[0]) == largest
        below, above = (middle, above) if fits else (below, middle)
    return float(above)
