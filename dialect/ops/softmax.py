"""Softmax and its like, along the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc


def last_axis_whole(op: Call) -> Factors:
    """Factors of a map over rows: every axis but the last can be split."""
    names = " ".join([*[f"d{i}" for i in range(op.operands[0].rank - 1)], "_"])
    return Factors(f"{names} -> {names}")


@operator("softmax(in) -> out")
class Softmax:
    """exp(in) / sum(exp(in)) along the last axis, computed from in - max(in)."""

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "in", op.in_, dtypes.FLOATS)
        expect_rank(op, "in", op.in_, 1, -1)
        return op.in_

    sbp = last_axis_whole

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        inner = ops.reduce_sum(dy * op.out, axis=[op.out.rank - 1], keepdims=True)
        return {"in": op.out * (dy - inner)}

    def decompose(ops: Builder, op: Call) -> Value:
        axis = [op.in_.rank - 1]
        x = ops.cast(op.in_, dtype=op.in_.dtype.accumulator)
        e = ops.exp(x - ops.reduce_max(x, axis=axis, keepdims=True))
        return ops.cast(e / ops.reduce_sum(e, axis=axis, keepdims=True), dtype=op.in_.dtype)

    def reference(x):  # type: ignore[no-untyped-def]
        wide = x.astype(np.float64)
        e = np.exp(wide - wide.max(axis=-1, keepdims=True))
        return (e / e.sum(axis=-1, keepdims=True)).astype(x.dtype)
