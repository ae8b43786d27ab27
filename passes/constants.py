"""Constants in programs: known values, and the operations that define constants.

A known value is the result of an `arith.constant` or of a pure operator without operands. An array of one
repeated value is written as the `constant` operator, another small one as `arith.constant dense<..>`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import arith, ir
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.dtypes import DType
from oneflow.dialect.ir_builder import dense_attribute
from oneflow.dialect.numpy_builder import describe_array, run_reference
from oneflow.dialect.record import Absent, Call, Operator, OperatorError, infer
from oneflow.dialect.tensor_desc import from_mlir

#: The most elements of an array that is computed, and of one that is written element by element.
MAX_FOLDED_ELEMENTS = 1 << 16
MAX_WRITTEN_ELEMENTS = 1024


def can_evaluate(record: Operator) -> bool:
    """Whether equal operands always give equal results, by a reference that can be run here."""
    return record.pure and "random" not in record.traits and not isinstance(record.reference, Absent)


def read_dense(op: ir.Operation) -> np.ndarray | None:
    """The array of an `arith.constant`; None where the array is too large or has a type that cannot be read."""
    desc = from_mlir(op.results[0].type)
    attr = op.attributes["value"]
    is_readable = isinstance(attr, ir.DenseElementsAttr) and desc is not None and not desc.dtype.is_complex
    if desc is None or (desc.element_count or 0) > MAX_FOLDED_ELEMENTS or not is_readable:
        return None
    shape = [d for d in desc.shape or () if d is not None]
    if attr.is_splat:
        return np.full(shape, attr.get_splat_value().value, desc.dtype.numpy)
    if desc.dtype in (dtypes.bfloat16, *dtypes.FLOAT8):
        return None
    return np.array(attr).astype(desc.dtype.numpy).reshape(shape)


def evaluate_call(op: Call) -> list[np.ndarray] | None:
    """The results of a call on arrays; None where the results are too large or cannot be computed, for example
    without SciPy.
    """
    try:
        described = Call(op.record, {k: _described(x) for k, x in op.inputs.items()}, op.attrs)
        if any((d.element_count or 0) > MAX_FOLDED_ELEMENTS for d in infer(op.record, described)):
            return None
        arrays = run_reference(op)
    except (OperatorError, ValueError, IndexError, ZeroDivisionError, OverflowError, ImportError):
        return None
    return [np.asarray(a) for a in arrays]


def _described(operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(map(describe_array, operand))
    return None if operand is None else describe_array(operand)


def is_splat(array: np.ndarray) -> bool:
    """Whether every element has the bits of the first."""
    return array.tobytes() == array.reshape(-1)[:1].tobytes() * array.size


def can_write(array: np.ndarray) -> bool:
    """Whether `write` has a form for the array."""
    return is_splat(array) or (array.size <= MAX_WRITTEN_ELEMENTS and array.dtype != np.uint8)


def write(ops: Builder, array: np.ndarray, position: tuple[ir.InsertionPoint, ir.Location]) -> Value:
    """The array as a value: the operator `constant`, or `arith.constant`."""
    dtype = dtypes.from_numpy(array.dtype)
    if is_splat(array):
        return ops.call("constant", dtype=dtype, shape=array.shape, **_splat_attributes(array, dtype))[0]
    if dtype.is_complex:
        pairs = write(ops, np.stack([array.real, array.imag], -1), position)
        return ops.call("view_as_complex", pairs)[0]
    dense = dense_attribute(array, dtype)
    point, location = position
    return ops.wrap(arith.ConstantOp(dense.type, dense, ip=point, loc=location).result)


def _splat_attributes(array: np.ndarray, dtype: DType) -> dict[str, Any]:
    first = array.reshape(-1)[0] if array.size else 0
    if dtype.is_complex:
        return {"is_complex_value": True, "complex_value": [float(first.real), float(first.imag)]}
    if dtype.is_float:
        return {"is_floating_value": True, "floating_value": float(first)}
    return {"is_floating_value": False, "integer_value": int(first)}
