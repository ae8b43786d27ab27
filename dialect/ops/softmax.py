"""Softmax and its like, along the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.ops.reduce import row_max
from oneflow.dialect.record import Call, Law, operator
from oneflow.dialect.sbp import Factors, repeated_factors
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc


def last_axis_whole(op: Call) -> Factors:
    """Factors of a map over rows: every axis but the last can be split."""
    names = " ".join([*[f"d{i}" for i in range(op.operands[0].rank - 1)], "_"])
    return repeated_factors(names, len(op.operands))


def _linear_in_dy(op: Call) -> Factors:
    """Signatures of the gradient of a map over rows: rows can be split, and `dy` can be partial sums."""
    return last_axis_whole(op).linear_in(op, "dy")


def widen(ops: Builder, x: Value) -> Value:
    """`x` in the type of its sums."""
    return narrow(ops, x, x.dtype.accumulator)


def narrow(ops: Builder, x: Value, dtype: dtypes.DType) -> Value:
    """`x` in `dtype`."""
    return x if x.dtype == dtype else ops.call("cast", x, dtype=dtype)[0]


def _row_sum(ops: Builder, x: Value) -> Value:
    return ops.call("reduce_sum", x, axis=[x.rank - 1], keepdims=True)[0]


def _row_types(op: Call) -> TensorDesc:
    x = op.in_
    expect_dtype(op, "in", x, dtypes.FLOATS)
    expect_rank(op, "in", x, 1, -1)
    return TensorDesc(x.shape, x.dtype)


def _row_grad_types(op: Call) -> TensorDesc:
    (name, y), (_, dy) = op.inputs.items()
    expect_dtype(op, name, y, dtypes.FLOATS)
    expect_rank(op, name, y, 1, -1)
    if not dy.compatible(y):
        raise op.error(f"expected dy of type {y}, got {dy}")
    return TensorDesc(y.meet(dy).shape, y.dtype)


def _shifted(ops: Builder, x: Value) -> Value:
    """x - max(x) of each row, widened."""
    widened = widen(ops, x)
    return widened - row_max(ops, widened)


def _shifted_reference(x: np.ndarray) -> Any:
    in_f64 = x.astype(np.float64)
    return in_f64 - in_f64.max(axis=-1, keepdims=True, initial=-np.inf)


def numpy_log_softmax(x: np.ndarray) -> Any:
    """Logarithms of the softmax along the last axis in f64, NaN in a row that has NaN or inf."""
    shifted = _shifted_reference(x)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@operator("softmax(in) -> out")
class Softmax:
    """exp(in) / sum(exp(in)) along the last axis, computed from in - max(in)."""

    types = _row_types
    sbp = last_axis_whole

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"in": ops.softmax_grad(op.out, dy)}

    def decompose(ops: Builder, op: Call) -> Value:
        if op.in_.shape[-1] == 0:
            value: Value = op.in_
            return value
        e = ops.exp(_shifted(ops, op.in_))
        return narrow(ops, e / _row_sum(ops, e), op.in_.dtype)

    def reference(x: Any) -> Any:
        e = np.exp(_shifted_reference(x))
        return (e / e.sum(axis=-1, keepdims=True)).astype(x.dtype)


@operator("softmax_grad(y, dy) -> dx")
class SoftmaxGrad:
    """y * (dy - sum(y * dy)) along the last axis: the gradient of `softmax`."""

    types = _row_grad_types
    sbp = _linear_in_dy

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        def y() -> Value:
            value: Value = ddx * (op.dy - _row_sum(ops, op.y * op.dy)) - op.dy * _row_sum(ops, ddx * op.y)
            return value

        return {"y": y, "dy": lambda: ops.softmax_grad(op.y, ddx)}

    def decompose(ops: Builder, op: Call) -> Value:
        y, dy = widen(ops, op.y), widen(ops, op.dy)
        return narrow(ops, y * (dy - _row_sum(ops, y * dy)), op.y.dtype)

    def reference(y: Any, dy: Any) -> Any:
        p, g = y.astype(np.float64), dy.astype(np.float64)
        return (p * (g - (p * g).sum(axis=-1, keepdims=True))).astype(y.dtype)


@operator("log_softmax(in) -> prob")
class LogSoftmax:
    """log(softmax(in)) along the last axis, computed from in - max(in)."""

    types = _row_types
    sbp = last_axis_whole

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"in": ops.log_softmax_grad(op.prob, dy)}

    def decompose(ops: Builder, op: Call) -> Value:
        if op.in_.shape[-1] == 0:
            value: Value = op.in_
            return value
        x = _shifted(ops, op.in_)
        return narrow(ops, x - ops.log(_row_sum(ops, ops.exp(x))), op.in_.dtype)

    def reference(x: Any) -> Any:
        return numpy_log_softmax(x).astype(x.dtype)


def _of_one_class(ops: Builder, op: Call) -> Value | None:
    """If one element of each row of dy is not 0, that is the row's sum."""
    hit, classes = ops.producer(op.dy, "nll_grad"), op.dy.shape[-1]
    if hit is None or hit.weight is not None or hit.logical_size or classes is None:
        return None
    counts = ops.scalar_logical_not_equal(hit.target, has_int_operand=True, int_operand=hit.ignore_index)
    for compare, bound in (("greater_equal", 0), ("less", classes)):
        inside = ops.call(f"scalar_logical_{compare}", hit.target, has_int_operand=True, int_operand=bound)[0]
        counts = ops.broadcast_logical_and(counts, inside)
    cotangent = widen(ops, hit.out_grad)
    zero = ops.zero_like(cotangent)
    total = ops.expand_dims(ops.where(counts, zero + -cotangent, zero), axis=-1)
    return narrow(ops, widen(ops, op.dy) - ops.exp(widen(ops, op.prob)) * total, op.dy.dtype)


@operator("log_softmax_grad(prob, dy) -> dx")
class LogSoftmaxGrad:
    """dy - exp(prob) * sum(dy) along the last axis: the gradient of `log_softmax`, whose result is `prob`."""

    types = _row_grad_types
    sbp = _linear_in_dy

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        p = ops.exp(op.prob)
        return {
            "prob": lambda: -(p * _row_sum(ops, op.dy) * ddx),
            "dy": lambda: ddx - _row_sum(ops, p * ddx),
        }

    def decompose(ops: Builder, op: Call) -> Value:
        prob, dy = widen(ops, op.prob), widen(ops, op.dy)
        return narrow(ops, dy - ops.exp(prob) * _row_sum(ops, dy), op.dy.dtype)

    def reference(prob: Any, dy: Any) -> Any:
        g = dy.astype(np.float64)
        return (g - np.exp(prob.astype(np.float64)) * g.sum(axis=-1, keepdims=True)).astype(dy.dtype)

    laws = (
        Law(
            "log-softmax-grad-of-one-class",
            "log_softmax_grad(prob, nll_grad(dy, x, t)) = nll_grad(dy, x, t) + exp(prob) * dy, where t counts",
            _of_one_class,
        ),
    )
