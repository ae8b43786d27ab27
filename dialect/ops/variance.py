"""The variance along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.ops.reduce import fold_axes, reduced_shape, sum_axes
from oneflow.dialect.ops.row_normalization import reciprocal
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc


def _axes(op: Call, rank: int) -> tuple[int, ...]:
    """The reduced axes in order; all axes for an empty list."""
    return tuple(sorted(op.normalize_axes(op.dim, rank, "dim"))) or tuple(range(rank))


@operator("var(input, dim: list_int32, unbiased: bool = True, keepdim: bool = False, dtype: data_type) -> output")
class Var:
    """The mean of (input - mean)^2 along `dim` (all axes if empty); `unbiased` divides by one less.

    `dtype`, the type of the result, has to be the type of `input`; all are computed in f64, in which no square of f32
    leaves the range.
    """

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "input", op.input, dtypes.FLOATS)
        expect_dtype(op, "input", op.input, (op.dtype,))
        return TensorDesc(reduced_shape(op.input.shape, _axes(op, op.input.rank), op.keepdim), op.dtype)

    def sbp(op: Call) -> Factors:
        axes = _axes(op, op.input.rank)
        names = ["_" if i in axes else f"d{i}" for i in range(op.input.rank)]
        out = names if op.keepdim else reduced_shape(names, axes, False)
        return Factors(f"{' '.join(names)} -> {' '.join(out)}")

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        def dx() -> Value:
            x, axes = widen(ops, op.input), _axes(op, op.input.rank)
            broadcast_axes = () if op.keepdim else axes
            ones = ops.reduce_sum(ops.ones_like(x), axis=axes, keepdims=True)
            mean = ops.reduce_sum(x, axis=axes, keepdims=True) / ones
            grad = ops.broadcast_like(widen(ops, dy), x, broadcast_axes=broadcast_axes) * 2.0
            return narrow(ops, grad * (x - mean) / (ones - float(op.unbiased)), op.input.dtype)

        return {"input": dx}

    def compute(op: Call) -> Stage:
        x, axes, wide = op.input, _axes(op, op.input.rank), dtypes.float64
        count = c.product([x.shape[a] for a in axes])
        sums = fold_axes(x, axes, True, 0, lambda a, b: a + b, wide, lambda e: s.cast(e, wide))
        scale = reciprocal(count, wide)

        def squared(*i: Expr) -> Expr:
            deviation = s.cast(x[i], wide) - sums[tuple(0 if a in axes else p for a, p in enumerate(i))] * scale
            element: Expr = deviation * deviation
            return element

        squares = sum_axes(c.element_wise(x.shape, squared, wide), axes, op.keepdim, wide)
        freedom = reciprocal(count - int(op.unbiased), wide)
        return c.element_wise(squares.shape, lambda *i: squares[i] * freedom, op.dtype)

    def reference(x: Any, *, dim: Any, unbiased: Any, keepdim: Any, dtype: Any) -> Any:
        axes = tuple(dim) or tuple(range(x.ndim))
        wide, count = x.astype(np.float64), np.float64(np.prod([x.shape[a] for a in axes]))
        deviation = wide - wide.sum(axis=axes, keepdims=True) / count
        return ((deviation**2).sum(axis=axes, keepdims=keepdim) / (count - unbiased)).astype(dtype.numpy)
