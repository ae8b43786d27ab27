"""Kinds of attribute: how each is read from MLIR, checked as a Python value, and written.

The kinds are OneFlow's, `nd_sbp` and `function`. On reading, an integer may have any integer type and a list any
spelling (`[1, 2]`, `[1 : si32]`, `array<i64: 1, 2>`); one canonical form is written. A data type is written as a type
(`f32`) and also read as OneFlow's number (`2 : i32`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import DType
from oneflow.dialect.nd_sbp import check_nd_sbp, read_nd_sbp, write_nd_sbp

#: A Python value of an attribute: int, float, bool, str, DType, or a tuple of these; or a `FunctionValue`.
AttrValue = Any


class FunctionValue:
    """A function of tensors as the value of an attribute; see `body.Body`. `symbol` names it in its module."""

    symbol: str


@dataclass(frozen=True)
class AttrKind:
    """A kind of attribute.

    `check` turns a Python value into the canonical one or raises ValueError; `read` gives the Python
    value of an MLIR attribute or raises ValueError; `write` gives the canonical MLIR attribute.
    """

    name: str
    check: Callable[[Any], AttrValue]
    read: Callable[[ir.Attribute], AttrValue]
    write: Callable[[AttrValue], ir.Attribute]


def _check_int(bits: int) -> Callable[[Any], int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def check(value: Any) -> int:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise ValueError(f"expected an integer, got {value!r}")
        if not low <= value <= high:
            raise ValueError(f"expected an integer of {bits} bits, got {value}")
        return int(value)

    return check


def _check_float(value: Any) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"expected a number, got {value!r}")
    return float(value)


def _check_single(value: Any) -> float:
    """A number rounded to f32, as it will be read back."""
    with np.errstate(over="ignore"):
        return float(np.float32(_check_float(value)))


def _check_bool(value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"expected True or False, got {value!r}")
    return bool(value)


def _check_string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a string, got {value!r}")
    return value


def _check_dtype(value: Any) -> DType:
    if not isinstance(value, DType):
        raise ValueError(f"expected a data type such as oneflow.float32, got {value!r}")
    return value


def _check_function(value: Any) -> FunctionValue:
    if not isinstance(value, FunctionValue):
        raise ValueError(f"expected a function of tensors, got {value!r}")
    return value


def _write_symbol(value: FunctionValue | str) -> ir.Attribute:
    """The symbol of a function that is in the module of the operation."""
    return ir.FlatSymbolRefAttr.get(value if isinstance(value, str) else value.symbol)


def _read_symbol(attr: ir.Attribute) -> str:
    """The name of a function; the function itself is in the module of the operation."""
    if not isinstance(attr, ir.FlatSymbolRefAttr):
        raise ValueError(f"expected a function such as @body, got {attr}")
    return str(attr.value)


def _read_int(bits: int) -> Callable[[ir.Attribute], int]:
    high = 2 ** (bits - 1)

    def read(attr: ir.Attribute) -> int:
        if not isinstance(attr, ir.IntegerAttr) or str(attr.type) == "i1":
            raise ValueError(f"expected an integer, got {attr}")
        value = int(attr.value)
        if not -high <= value < high:
            raise ValueError(f"expected an integer of {bits} bits, got {value}")
        return value

    return read


def _read_float(attr: ir.Attribute) -> float:
    if isinstance(attr, (ir.FloatAttr, ir.IntegerAttr)) and not isinstance(attr, ir.BoolAttr):
        return float(attr.value)
    raise ValueError(f"expected a floating-point number, got {attr}")


def _read_bool(attr: ir.Attribute) -> bool:
    if not isinstance(attr, ir.BoolAttr):
        raise ValueError(f"expected true or false, got {attr}")
    return bool(attr.value)


def _read_string(attr: ir.Attribute) -> str:
    if not isinstance(attr, ir.StringAttr):
        raise ValueError(f"expected a string, got {attr}")
    return str(attr.value)


def _read_dtype(attr: ir.Attribute) -> DType:
    dtype = None
    if isinstance(attr, ir.TypeAttr):
        text = str(attr.value)
        dtype = dtypes.BY_MLIR.get(text) or dtypes.BY_MLIR.get(text.removeprefix("s"))
    elif isinstance(attr, ir.IntegerAttr):
        dtype = dtypes.BY_CODE.get(attr.value)
    elif isinstance(attr, ir.StringAttr):
        dtype = dtypes.BY_NAME.get(attr.value)
    if dtype is None:
        raise ValueError(f"expected a data type such as f32, got {attr}")
    return dtype


def _elements(attr: ir.Attribute) -> Sequence[Any]:
    """The elements of a list in any spelling: MLIR attributes, or plain values of a dense array."""
    if isinstance(attr, ir.ArrayAttr):
        return list(attr)
    dense = (ir.DenseI8ArrayAttr, ir.DenseI16ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseI64ArrayAttr)
    if isinstance(attr, (*dense, ir.DenseF32ArrayAttr, ir.DenseF64ArrayAttr, ir.DenseBoolArrayAttr)):
        return list(attr)
    raise ValueError(f"expected a list, got {attr}")


def _list_of(kind: AttrKind, name: str, write: Callable[[AttrValue], ir.Attribute]) -> AttrKind:
    def check(value: Any) -> tuple[AttrValue, ...]:
        if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
            raise ValueError(f"expected a list of {kind.name}, got {value!r}")
        return tuple(kind.check(v) for v in value)

    def read(attr: ir.Attribute) -> tuple[AttrValue, ...]:
        items = _elements(attr)
        return tuple(kind.read(v) if isinstance(v, ir.Attribute) else kind.check(v) for v in items)

    return AttrKind(name, check, read, write)


def _write_int(bits: int) -> Callable[[int], ir.Attribute]:
    return lambda value: ir.IntegerAttr.get(ir.IntegerType.get_signless(bits), value)


def _write_float(spelling: str) -> Callable[[float], ir.Attribute]:
    def write(value: float) -> ir.Attribute:
        kind = ir.F32Type.get() if spelling == "f32" else ir.F64Type.get()
        return ir.FloatAttr.get(kind, value, loc=ir.Location.unknown())

    return write


def _write_dtype(value: DType) -> ir.Attribute:
    return ir.TypeAttr.get(ir.Type.parse(value.mlir))


def _write_array(element: Callable[[AttrValue], ir.Attribute]) -> Callable[[AttrValue], ir.Attribute]:
    return lambda value: ir.ArrayAttr.get([element(v) for v in value])


INT32 = AttrKind("int32", _check_int(32), _read_int(32), _write_int(32))
INT64 = AttrKind("int64", _check_int(64), _read_int(64), _write_int(64))
BOOL = AttrKind("bool", _check_bool, _read_bool, lambda v: ir.BoolAttr.get(v))
FLOAT = AttrKind("float", _check_single, _read_float, _write_float("f32"))
DOUBLE = AttrKind("double", _check_float, _read_float, _write_float("f64"))
STRING = AttrKind("string", _check_string, _read_string, lambda v: ir.StringAttr.get(v))
DATA_TYPE = AttrKind("data_type", _check_dtype, _read_dtype, _write_dtype)
SHAPE = _list_of(INT64, "shape", lambda v: ir.DenseI64ArrayAttr.get(v))
#: Read and written by the symbol of the function.
FUNCTION = AttrKind("function", _check_function, _read_symbol, _write_symbol)
ND_SBP = AttrKind("nd_sbp", check_nd_sbp, read_nd_sbp, write_nd_sbp)

KINDS = {
    kind.name: kind
    for kind in (
        INT32,
        INT64,
        BOOL,
        FLOAT,
        DOUBLE,
        STRING,
        DATA_TYPE,
        SHAPE,
        ND_SBP,
        FUNCTION,
        _list_of(INT32, "list_int32", lambda v: ir.DenseI32ArrayAttr.get(v)),
        _list_of(INT64, "list_int64", lambda v: ir.DenseI64ArrayAttr.get(v)),
        _list_of(BOOL, "list_bool", lambda v: ir.DenseBoolArrayAttr.get(v)),
        _list_of(FLOAT, "list_float", lambda v: ir.DenseF32ArrayAttr.get(v)),
        _list_of(DOUBLE, "list_double", lambda v: ir.DenseF64ArrayAttr.get(v)),
        _list_of(STRING, "list_string", _write_array(STRING.write)),
        _list_of(DATA_TYPE, "list_data_type", _write_array(_write_dtype)),
        _list_of(SHAPE, "list_shape", _write_array(SHAPE.write)),
    )
}


def format_value(value: AttrValue) -> str:
    """An attribute's Python value as documentation and signatures write it."""
    if isinstance(value, DType):
        return value.mlir
    if isinstance(value, tuple):
        return "[" + ", ".join(format_value(v) for v in value) + "]"
    if isinstance(value, float) and float(np.float32(value)) == value:
        return str(np.float32(value))
    return repr(value)
