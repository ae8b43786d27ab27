"""Element types: OneFlow's names and numbers, NumPy's dtypes and MLIR's spellings in one table.

Read by everything that asks what an element is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True, eq=False)
class DType:
    """An element type: one object for each, compared by identity, also after a copy.

    `str(dtype)` is OneFlow's name with the package (`oneflow.float32`), `name` is OneFlow's and NumPy's word
    (`float32`), `mlir` is MLIR's (`f32`), `code` is the number in OneFlow's `DataType` protocol enumeration (beyond
    it for floats of 8 bits, which OneFlow lacks), `kind` is `bool`, `uint`, `int`, `float`, `complex` or `index`.
    """

    name: str
    mlir: str
    kind: str
    bits: int
    code: int
    numpy: np.dtype[np.generic]

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return _of_name, (self.name,)

    @property
    def is_float(self) -> bool:
        """Whether values are floating-point numbers."""
        return self.kind == "float"

    @property
    def is_native(self) -> bool:
        """Whether NumPy itself has the type."""
        return self.numpy.isbuiltin == 1

    @property
    def is_stored_only(self) -> bool:
        """Whether values are stored, moved and converted, but not computed with: 8-bit floats."""
        return self.kind == "float" and self.bits == 8

    @property
    def has_sums(self) -> bool:
        """Whether values can be added: all but bools and floats of 8 bits."""
        return self.kind != "bool" and not self.is_stored_only

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value: the initial values of max and min."""
        if self.is_float:
            return -np.inf, np.inf
        info = np.iinfo(self.numpy)  # type: ignore[type-var]
        return int(info.min), int(info.max)

    @property
    def is_integer(self) -> bool:
        """Whether values are signed or unsigned integers (not bool)."""
        return self.kind in ("int", "uint")

    @property
    def is_complex(self) -> bool:
        """Whether values are complex numbers."""
        return self.kind == "complex"

    @functools.cached_property
    def is_inexact(self) -> bool:
        """Whether values are floating-point or complex numbers, which have gradients."""
        return self.kind in ("float", "complex")

    @property
    def part(self) -> DType:
        """The type of the real part of a value: the type itself unless values are complex numbers."""
        return _PARTS.get(self.name, self)

    @property
    def complex(self) -> DType:
        """The complex type of numbers whose real part has this type: complex64 for all but 64-bit floats."""
        if self.is_complex:
            return self
        return complex128 if self.is_float and self.bits == 64 else complex64

    @property
    def accumulator(self) -> DType:
        """The type in which sums and scalar bodies of this type are computed: f32 for f16 and bf16."""
        return float32 if self.is_float and self.bits == 16 else self

    @property
    def tangent(self) -> DType:
        """The type of derivatives in scalar bodies: the type itself, f32 for floats of 8 bits."""
        return float32 if self.is_stored_only else self

    @property
    def largest(self) -> float:
        """The largest finite number of a float."""
        return float(ml_dtypes.finfo(self.numpy).max)

    def __repr__(self) -> str:
        return f"oneflow.{self.name}"


def _of_name(name: str) -> DType:
    return index if name == index.name else BY_NAME[name]


bool_ = DType("bool", "i1", "bool", 1, 12, np.dtype(np.bool_))
uint8 = DType("uint8", "ui8", "uint", 8, 7, np.dtype(np.uint8))
uint16 = DType("uint16", "ui16", "uint", 16, 13, np.dtype(np.uint16))
uint32 = DType("uint32", "ui32", "uint", 32, 14, np.dtype(np.uint32))
uint64 = DType("uint64", "ui64", "uint", 64, 15, np.dtype(np.uint64))
int8 = DType("int8", "i8", "int", 8, 4, np.dtype(np.int8))
int16 = DType("int16", "i16", "int", 16, 17, np.dtype(np.int16))
int32 = DType("int32", "i32", "int", 32, 5, np.dtype(np.int32))
int64 = DType("int64", "i64", "int", 64, 6, np.dtype(np.int64))
float16 = DType("float16", "f16", "float", 16, 9, np.dtype(np.float16))
bfloat16 = DType("bfloat16", "bf16", "float", 16, 11, np.dtype(ml_dtypes.bfloat16))
float32 = DType("float32", "f32", "float", 32, 2, np.dtype(np.float32))
float64 = DType("float64", "f64", "float", 64, 3, np.dtype(np.float64))
float8_e4m3fn = DType("float8_e4m3fn", "f8E4M3FN", "float", 8, 32, np.dtype(ml_dtypes.float8_e4m3fn))
float8_e5m2 = DType("float8_e5m2", "f8E5M2", "float", 8, 33, np.dtype(ml_dtypes.float8_e5m2))
complex64 = DType("complex64", "complex<f32>", "complex", 64, 20, np.dtype(np.complex64))
complex128 = DType("complex128", "complex<f64>", "complex", 128, 21, np.dtype(np.complex128))

#: The type of the real and the imaginary part of each complex type, by name.
_PARTS = {"complex64": float32, "complex128": float64}

#: The type of positions and sizes inside scalar and compute bodies; never the element of a tensor.
index = DType("index", "index", "index", 64, -1, np.dtype(np.int64))

UNSIGNED = (uint8, uint16, uint32, uint64)
SIGNED = (int8, int16, int32, int64)
#: Floats of 8 bits: operators that compute refuse them.
FLOAT8 = (float8_e4m3fn, float8_e5m2)
COMPLEX = (complex64, complex128)
#: The types of real numbers and truth values, which the operators' rules allow by default.
ALL = (bool_, *UNSIGNED, *SIGNED, float16, bfloat16, float32, float64)
DTYPES = (*ALL, *FLOAT8, *COMPLEX)
BY_NAME = {d.name: d for d in DTYPES}
BY_MLIR = {d.mlir: d for d in DTYPES}
BY_CODE = {d.code: d for d in DTYPES}
BY_NUMPY = {d.numpy: d for d in DTYPES}

#: The types of floats that are computed with.
FLOATS = tuple(d for d in ALL if d.is_float)
INTEGERS = tuple(d for d in ALL if d.is_integer)
#: The types of the parts of complex numbers.
PARTS = tuple(d.part for d in COMPLEX)
#: Every type of real numbers: all but bool.
NUMERIC = INTEGERS + FLOATS


def element_bits(mlir: str) -> int:
    """The bits of a builtin element type, by its MLIR spelling; 64 for `index`."""
    found = re.search(r"\d+", mlir)
    return int(found[0]) if found else 64


def convert(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The elements of an array as real numbers of `dtype`.

    Numbers beyond the largest float8_e4m3fn become that; NaN of 8 bits has all bits but the sign set. NaN and numbers
    beyond the integers become what docs/numerics.md says.
    """
    if dtype.is_integer and from_numpy(array.dtype).is_float:
        return _truncate(array.astype(np.float64), dtype)
    if not dtype.is_stored_only:
        return array.astype(dtype.numpy)
    if array.dtype == dtype.numpy:
        return array
    with np.errstate(invalid="ignore", over="ignore"):
        single = np.asarray(_round_to_odd(array) if array.dtype == np.float64 else array.astype(np.float32))
        wide = np.clip(single, -dtype.largest, dtype.largest) if dtype is float8_e4m3fn else single
        codes = wide.astype(dtype.numpy).view(np.uint8)
    return np.asarray(np.where(np.isnan(wide), codes | 0x7F, codes), np.uint8).view(dtype.numpy)


def _truncate(array: np.ndarray, dtype: DType) -> np.ndarray:
    """An array of f64 rounded towards zero; NumPy's own conversion of NaN depends on the length of the array."""
    if dtype is uint64:
        large = array >= 2.0**63
        low = _truncate(np.where(large, array - 2.0**63, array), int64).astype(np.uint64)
        return np.asarray(np.where(large, low ^ np.uint64(1 << 63), low))
    register = int64 if dtype.bits == 64 or dtype is uint32 else int32
    bound = 2.0 ** (register.bits - 1)
    inside = (array >= -bound) & (array < bound)
    return np.asarray(np.where(inside, array, -bound).astype(register.numpy).astype(dtype.numpy))


def _round_to_odd(array: np.ndarray) -> np.ndarray:
    """An array of f64 rounded to f32 by round-to-odd, so that a second rounding is correct."""
    nearest = np.asarray(array.astype(np.float32))
    back = nearest.astype(np.float64)
    below = nearest.view(np.int32) - (np.abs(back) > np.abs(array))
    odd: np.ndarray = (below | (back != array)).astype(np.int32).view(np.float32)
    return odd


def from_numpy(dtype: object) -> DType:
    """The element type of a NumPy dtype, in native byte order.

    Raises:
        TypeError: no element type corresponds to it.
    """
    known = BY_NUMPY.get(np.dtype(dtype).newbyteorder("="))  # type: ignore[call-overload]
    if known is None:
        raise TypeError(f"expected one of {', '.join(BY_NAME)}, got dtype {dtype}")
    return known
