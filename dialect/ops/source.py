"""Operators without tensor operands that make values: constants, ranges."""

from __future__ import annotations

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import scalar as s
from oneflow.dialect.compute import Stage
from oneflow.dialect.record import Call, no_grad, no_sbp, operator
from oneflow.dialect.tensor_desc import TensorDesc


@operator(
    "constant(dtype: data_type, shape: shape = [], is_floating_value: bool = True,"
    " floating_value: double = 0.0, integer_value: int64 = 0) -> out"
)
class Constant:
    """A tensor of one value: `floating_value`, or `integer_value` where `is_floating_value` is false."""

    def types(op: Call) -> TensorDesc:
        if any(d < 0 for d in op.shape):
            raise op.error(f"expected sizes of at least 0 in shape, got {list(op.shape)}")
        return TensorDesc(op.shape, op.dtype)

    sbp = no_sbp("has no operand to take a placement from")
    grad = no_grad("has no operand")

    def compute(op: Call) -> Stage:
        value = op.floating_value if op.is_floating_value else op.integer_value
        return c.element_wise(op.shape, lambda *i: s.const(value, op.dtype), op.dtype)

    def reference(*, dtype, shape, is_floating_value, floating_value, integer_value):  # type: ignore[no-untyped-def]
        return np.full(shape, floating_value if is_floating_value else integer_value, dtype.numpy)
