"""Type promotion: the element type that operands of different types share.

Tensors: bool < integers < floats < complex numbers; within a kind the wider type; float16 with bfloat16 becomes
float32. A signed integer type with an unsigned type becomes the narrowest signed type that holds both: int8 with
uint8 becomes int16. Floats of 8 bits are promoted to no other type. The number of dimensions does not matter. A
complex type with floats gives the complex type that holds both. Python numbers are weak: numbers only raise the kind
(a float with integers gives float32, an int with bools int64, a complex number with float64 complex128).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.settings import get_default_dtype

_DEFAULTS = {bool: dtypes.bool_, int: dtypes.int64}
_KINDS = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}
_KINDS_OF_NUMBERS = {bool: 0, int: 1, float: 2, complex: 3}


def kind_of(dtype: DType) -> int:
    """The rank of a type's kind: 0 bool, 1 integer, 2 float, 3 complex."""
    return _KINDS[dtype.kind]


def common_dtype(a: DType, b: DType) -> DType:
    """The type that values of `a` and `b` share.

    Raises:
        OneFlowError: no integer type holds both, or one is a float of 8 bits and the other of another type.
    """
    if a is b or a == b:
        return a
    if a.is_stored_only or b.is_stored_only:
        raise fail(f"floats of 8 bits are not promoted, got {a} and {b}; convert one with x.to(flow.{b.name})")
    if a.is_complex or b.is_complex:
        return common_complex(a, b)
    if kind_of(a) != kind_of(b):
        return max(a, b, key=kind_of)
    if a.kind != b.kind:
        return _signed(*(a, b) if a.kind == "uint" else (b, a))
    if a.bits != b.bits:
        return max(a, b, key=lambda d: d.bits)
    return dtypes.float32


def common_complex(a: DType, b: DType) -> DType:
    """The complex type that values of `a` and `b` share; integers and bools fit in any."""
    return max((d.complex for d in (a, b) if d.is_inexact), key=lambda d: d.bits)


def _signed(unsigned: DType, signed: DType) -> DType:
    """The narrowest signed type that holds an unsigned and a signed one.

    Raises:
        OneFlowError: there is no such type.
    """
    wider = next((d for d in dtypes.SIGNED if d.bits > unsigned.bits and d.bits >= signed.bits), None)
    if wider is None:
        raise fail(f"no integer type holds {unsigned} and {signed}; convert one with x.to(flow.{signed.name})")
    return wider


def accepts_gradient(operand: DType, gradient: DType) -> bool:
    """Whether a gradient may be converted to the type of its operand: not from complex to real numbers."""
    return operand.is_inexact and gradient.is_inexact and kind_of(gradient) <= kind_of(operand)


def default_dtype_of(number: Any) -> DType:
    """The type of a Python number without other operands."""
    if isinstance(number, (complex, np.complexfloating)):
        return get_default_dtype().complex
    return _DEFAULTS.get(type(as_number(number))) or get_default_dtype()


def is_number(value: Any) -> bool:
    """Whether `value` is weak: a Python number, or a NumPy scalar, which counts as one."""
    return isinstance(value, (bool, int, float, complex, np.bool_, np.integer, np.inexact))


def as_number(value: Any) -> Any:
    """A number as one of Python's: bool, int, float or complex."""
    number: bool | int | float | complex = value.item() if isinstance(value, np.generic) else value
    return number


def result_dtype(strong: Sequence[DType], numbers: Sequence[Any] = ()) -> DType:
    """The common type of tensors of the types `strong` and Python numbers; without tensors, of the numbers."""
    weak = list(map(default_dtype_of, numbers))
    highest = functools.reduce(common_dtype, weak) if weak else dtypes.bool_
    if not strong:
        return highest
    shared = functools.reduce(common_dtype, strong)
    if kind_of(highest) <= kind_of(shared):
        return shared
    return shared.complex if highest.is_complex and shared.is_float else highest


def dtype_with_number(dtype: DType, number: Any) -> DType:
    """The type that a tensor of a type and one of Python's numbers share."""
    known = _KINDS_OF_NUMBERS.get(type(number))
    return dtype if known is not None and known <= kind_of(dtype) else result_dtype([dtype], [number])


def fitting(number: Any, dtype: DType) -> Any:
    """A number as an element of `dtype`: a negative one of an unsigned type wraps, -1 to 255; for bool any but 0 is
    true.

    Raises:
        OneFlowError: `dtype` cannot hold the number.
    """
    if isinstance(number, complex) and not dtype.is_complex:
        raise fail(
            f"expected a real number with a tensor of {dtype.mlir}, got {number}; convert the tensor with "
            f"x.to(flow.complex64)"
        )
    if dtype.kind == "bool":
        return bool(number)
    if holds(dtype, number):
        return number
    info = np.iinfo(dtype.name)
    if info.min == 0 and -info.max <= number < 0:
        return int(number) + info.max + 1
    raise fail(f"expected a number in [{info.min}, {info.max}] with a tensor of {dtype.mlir}, got {number}")


def holds(dtype: DType, number: Any) -> bool:
    """Whether a number is in the range of an integer type, a float without its fraction; other types hold all."""
    if not dtype.is_integer:
        return True
    info = np.iinfo(dtype.name)
    return math.isfinite(number) and info.min <= int(number) <= info.max
