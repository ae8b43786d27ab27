"""Normalization along one axis by the root of the sum of squares, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.decomposition_gradient import decomposition_gradient
from oneflow.dialect.ops.row_normalization import expect_type, sum_of_terms
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors, repeated_factors
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc

ATTRS = "axis: int32 = 0, epsilon: float = 0.0"


def _sums(op: Call, desc: Any) -> TensorDesc:
    """The type of the sums along `axis`; checks the attributes."""
    axis = op.normalize_axis(op.axis, desc.rank)
    if not op.epsilon > 0:
        raise op.error(f"expected an epsilon above 0, got {op.epsilon}")
    return TensorDesc((*desc.shape[:axis], 1, *desc.shape[axis + 1 :]), desc.dtype)


def _factors(op: Call, rank: int) -> str:
    """Factors of a tensor that is whole along `axis`."""
    return " ".join("_" if i == op.axis % rank else f"d{i}" for i in range(rank))


def _along(ops: Builder, op: Call, value: Value) -> Value:
    """The sum along `axis`, which is kept as 1."""
    return ops.call("reduce_sum", value, axis=[op.axis % value.rank], keepdims=True)[0]


def _norm(ops: Builder, op: Call, sums: Value) -> Value:
    """The divisor: the root of the sums, or of epsilon where the sums are less."""
    value: Value = ops.sqrt(ops.call("clip_by_scalar_min", sums, floating_min=op.epsilon)[0])
    return value


@operator(f"l2_normalize(x, {ATTRS}) -> y, square_x_sum")
class L2Normalize:
    """x / sqrt(max(sum(x^2), epsilon)) along `axis`, and the sums, whose size along it is 1."""

    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        expect_dtype(op, "x", op.x, dtypes.FLOATS)
        return TensorDesc(op.x.shape, op.x.dtype), _sums(op, op.x)

    def sbp(op: Call) -> Factors:
        names = _factors(op, op.x.rank)
        return Factors(f"{names} -> {names}, {names}")

    def grad(ops: Builder, op: Call, dy: Value | None, dsums: Value | None) -> dict[str, Any]:
        def dx() -> Value | None:
            terms = [] if dsums is None else [widen(ops, op.x) * widen(ops, dsums) * 2.0]
            if dy is not None:
                by_y = ops.l2_normalize_grad(dy, op.y, op.square_x_sum, axis=op.axis, epsilon=op.epsilon)
                terms.append(widen(ops, by_y) if terms else by_y)
            return sum_of_terms(ops, op.x, terms)

        return {"x": dx}

    def decompose(ops: Builder, op: Call) -> tuple[Value, Value]:
        x = widen(ops, op.x)
        sums = _along(ops, op, x * x)
        return narrow(ops, x / _norm(ops, op, sums), op.x.dtype), narrow(ops, sums, op.x.dtype)

    def reference(x: Any, *, axis: Any, epsilon: Any) -> Any:
        wide = x.astype(np.float64)
        sums = (wide * wide).sum(axis=axis, keepdims=True)
        return (wide / np.sqrt(np.maximum(sums, epsilon))).astype(x.dtype), sums.astype(x.dtype)


@operator(f"l2_normalize_grad(dy, y, square_x_sum, {ATTRS}) -> dx")
class L2NormalizeGrad:
    """(dy - y * sum(dy * y)) / sqrt(square_x_sum), or dy / sqrt(epsilon) where the sum is less than epsilon."""

    grad = decomposition_gradient

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "y", op.y, dtypes.FLOATS)
        expect_type(op, "dy", op.y)
        desc = op.y.meet(op.dy)
        expect_type(op, "square_x_sum", _sums(op, desc))
        sizes = zip(desc.shape, op.square_x_sum.shape, strict=True)
        shape = (a if i == op.axis % desc.rank or a is not None else b for i, (a, b) in enumerate(sizes))
        return TensorDesc(tuple(shape), desc.dtype)

    def sbp(op: Call) -> Factors:
        return repeated_factors(_factors(op, op.y.rank), 3).linear_in(op, "dy")

    def decompose(ops: Builder, op: Call) -> Value:
        dy, y, sums = (widen(ops, v) for v in (op.dy, op.y, op.square_x_sum))
        counts = ops.scalar_logical_greater_equal(sums, has_float_operand=True, float_operand=op.epsilon)
        projection = _along(ops, op, dy * y)
        grad = dy - y * ops.where(counts, projection, ops.zero_like(projection))
        return narrow(ops, grad / _norm(ops, op, sums), op.y.dtype)

    def reference(dy: Any, y: Any, sums: Any, *, axis: Any, epsilon: Any) -> Any:
        wide, normal = dy.astype(np.float64), y.astype(np.float64)
        projection = np.where(sums >= epsilon, (wide * normal).sum(axis=axis, keepdims=True), 0)
        return ((wide - normal * projection) / np.sqrt(np.maximum(sums.astype(np.float64), epsilon))).astype(y.dtype)
