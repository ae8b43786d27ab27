"""Operators that set elements at the indices in another tensor."""

from __future__ import annotations

import math
from typing import Any

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import each_part
from oneflow.dialect.compute import Stage
from oneflow.dialect.ops.indexing import names, nd_depth, nd_index, numpy_nd
from oneflow.dialect.ops.scattering import expect_type
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype, letters
from oneflow.dialect.tensor_desc import TensorDesc


def _winners(ops: Builder, op: Call) -> Value:
    """For each row of indices, whether it is the last row with its index."""
    depth, lead = op.indices.shape[-1], op.indices.shape[:-1]
    if None in lead or None in op.params.shape[:depth]:
        raise op.error(f"expected static positions for the gradient of updates, got {op.indices.desc}")
    numbers = ops.reshape(ops.arange(dtype=dtypes.int64, integer_delta=1, integer_limit=math.prod(lead)), shape=lead)
    zeros = ops.call("constant", dtype=dtypes.int64, shape=op.params.shape[:depth])[0]
    last = ops.gather_nd(ops.tensor_scatter_nd_update(zeros, numbers, op.indices), op.indices)
    value: Value = ops.broadcast_equal(last, numbers)
    return value


def _update_gradient(ops: Builder, op: Call, dout: Value) -> Value:
    """The gradient of updates: the gradient of the result where an update was written last, else 0."""
    won, read = _winners(ops, op), ops.gather_nd(dout, op.indices)
    trailing = read.rank - won.rank
    wide = ops.reshape(won, shape=[*won.shape, *[1] * trailing]) if trailing else won
    value: Value = ops.where(wide, read, ops.zero_like(read))
    return value


@operator("tensor_scatter_nd_update(params, updates, indices, any_order: bool = False) -> out")
class TensorScatterNdUpdate:
    """`params` with `updates` at the indices that `gather_nd` reads; for equal indices the last update wins.

    `any_order` says that indices are distinct, or updates of equal indices equal, so that their order is free.
    """

    parts = each_part

    def types(op: Call) -> TensorDesc:
        depth = nd_depth(op, op.params.shape)
        expect_dtype(op, "updates", op.updates, (op.params.dtype,))
        expect_type(op, "updates", (*op.indices.shape[:-1], *op.params.shape[depth:]))
        desc: TensorDesc = op.params
        return desc

    def sbp(op: Call) -> Factors:
        depth = op.indices.shape[-1]
        d = letters(op.params.shape, range(depth))
        unsplit = ["_"] * (op.indices.rank - 1)
        text = f"{names(d)}, {names(unsplit, d[depth:])}, {names(unsplit, ['_'])} -> {names(d)}"
        return Factors(text).linear_in(op, "params", "updates")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {
            "params": lambda: ops.tensor_scatter_nd_update(
                dout, ops.zero_like(op.updates), op.indices, any_order=True
            ),
            "updates": lambda: _update_gradient(ops, op, dout),
        }

    def compute(op: Call) -> Stage:
        lead = op.indices.rank - 1

        def index(*at: Any) -> list[Any]:
            return [*nd_index(op, at[:lead], op.params.shape), *at[lead:]]

        return c.scatter(op.params, op.updates.shape, index, lambda *at: op.updates[at], any_order=op.any_order)

    def reference(params: Any, updates: Any, indices: Any, *, any_order: Any) -> Any:
        out = params.copy()
        out[numpy_nd("tensor_scatter_nd_update: indices", indices, params.shape)] = updates
        return out
