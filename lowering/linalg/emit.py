"""Emission of single operations, with cached types and attributes.

Operations are created at the current insertion point and location.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import DType
from oneflow.dialect.tensor_desc import Shape

DYNAMIC: int = ir.ShapedType.get_dynamic_size()
Value: TypeAlias = ir.Value

#: The operation that returns its first operand, ordered after other operands. No pass folds it; it takes no memory.
BARRIER = "builtin.unrealized_conversion_cast"
#: The attribute of a loop whose steps may run in any order.
ANY_ORDER = "oneflow.any_order"


def dense(sizes: Sequence[int | None]) -> ir.Attribute:
    """An `array<i64: ..>` of sizes or offsets; None is a dynamic size."""
    return ir.DenseI64ArrayAttr.get([DYNAMIC if n is None else n for n in sizes])


class Emitter:
    """Emits operations into the current context, and caches types and attributes."""

    def __init__(self) -> None:
        self._elements: dict[DType, ir.Type] = {}
        self._attributes: dict[str, ir.Attribute] = {}
        self.index_type = ir.IndexType.get()

    def element(self, dtype: DType) -> ir.Type:
        """The builtin element type; unsigned integers become signless."""
        element = self._elements.get(dtype)
        if element is None:
            element = ir.Type.parse(f"i{dtype.bits}" if dtype.kind == "uint" else dtype.mlir)
            self._elements[dtype] = element
        return element

    def tensor(self, shape: Shape, dtype: DType) -> ir.Type:
        """`tensor<shape x dtype>`; None is a dynamic dimension."""
        return ir.RankedTensorType.get([DYNAMIC if d is None else d for d in shape], self.element(dtype))

    def attribute(self, text: str) -> ir.Attribute:
        """The attribute of a text in MLIR's syntax."""
        attribute = self._attributes.get(text)
        if attribute is None:
            attribute = self._attributes[text] = ir.Attribute.parse(text)
        return attribute

    def op(
        self, name: str, result: ir.Type, operands: Sequence[Value], attributes: dict[str, ir.Attribute] | None = None
    ) -> Value:
        """Creates an operation with one result, and returns the result."""
        created: Value = ir.Operation.create(
            name, results=[result], operands=operands, attributes=attributes or {}
        ).result
        return created

    def constant(self, value: float | int | bool, dtype: DType) -> Value:
        """An `arith.constant`; integers wrap to the width of `dtype`."""
        element = self.element(dtype)
        if dtype.is_float:
            number = float(dtypes.convert(np.asarray(value, np.float64), dtype)) if dtype.is_stored_only else value
            attribute = ir.FloatAttr.get(element, float(number))
        else:
            attribute = ir.IntegerAttr.get(element, _wrapped(int(value), dtype))
        return self.op("arith.constant", element, (), {"value": attribute})

    def index(self, value: int) -> Value:
        """A constant of type `index`."""
        return self.constant(value, dtypes.index)

    def cast(self, value: Value, target: ir.Type) -> Value:
        """A `tensor.cast` to `target`, where the type differs."""
        return value if value.type == target else self.op("tensor.cast", target, [value])


def _wrapped(value: int, dtype: DType) -> int:
    if dtype.kind == "bool":
        return int(value != 0)
    half = 1 << (dtype.bits - 1)
    return (value + half) % (2 * half) - half
