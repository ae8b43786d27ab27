"""The margins that losses of face recognition add to the angle of the labelled class (arXiv 1801.07698)."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite, gradient_operator
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

MARGINS = "m1: float = 0.0, m2: float = 0.0, m3: float = 0.0, depth: int64 = 0"


def _check(op: Call) -> None:
    name = next(iter(op.inputs))
    x = op[name]
    expect_dtype(op, name, x, dtypes.FLOATS)
    expect_rank(op, name, x, 2)
    rows, classes = x.shape
    if classes is None:
        raise op.error(f"expected a static number of classes, got {name} of {x}")
    if op.depth:
        expect_dim(op, f"the last axis of {name}", classes, op.depth)
    expect_dtype(op, "label", op.label, dtypes.INTEGERS)
    expect_type(op, "label", TensorDesc((rows,), op.label.dtype))
    if "theta" in op.inputs:
        expect_type(op, "theta", TensorDesc((rows,), x.dtype))


def _labelled(ops: Builder, label: Value, x: Value) -> Value:
    """The mask of the labelled class of each row."""
    (hot,) = ops.call("one_hot", label, dtype=dtypes.int32, depth=x.shape[1], integer_on_value=1)
    chosen: Value = ops.cast(hot, dtype=dtypes.bool_)
    return chosen


def _write_loss(ops: Builder, op: Call) -> tuple[Value, ...]:
    x, chosen = widen(ops, op.x), _labelled(ops, op.label, op.x)
    zero = ops.zero_like(x)
    angle = ops.acos(ops.where(chosen, x, zero))  # no infinite derivative at the cosines of other classes
    y = ops.where(chosen, ops.cos(angle * op.m1 + op.m2) - op.m3, x)
    theta = ops.reduce_sum(ops.where(chosen, angle, zero), axis=[1])
    return narrow(ops, y, op.x.dtype), narrow(ops, theta, op.x.dtype)


def _numpy_labelled(label: Any, x: Any) -> Any:
    return label[:, None] == np.arange(x.shape[1])


def _numpy_loss(x: Any, label: Any, *, m1: Any, m2: Any, m3: Any) -> Any:
    wide, chosen = x.astype(np.float64), _numpy_labelled(label, x)
    angle = np.where(chosen, np.arccos(wide), 0.0)
    y = np.where(chosen, np.cos(angle * np.float32(m1) + np.float32(m2)) - np.float32(m3), wide)
    return y.astype(x.dtype), angle.sum(1).astype(x.dtype)


def _write_gradient(ops: Builder, op: Call) -> Value:
    dy = widen(ops, op.dy)
    theta = ops.expand_dims(widen(ops, op.theta), axis=1)
    derivative = ops.sin(theta * op.m1 + op.m2) * op.m1 / ops.sin(theta)
    return narrow(ops, ops.where(_labelled(ops, op.label, op.dy), dy * derivative, dy), op.dy.dtype)


def _numpy_gradient(dy: Any, label: Any, theta: Any, *, m1: Any, m2: Any) -> Any:
    cotangent, angle = dy.astype(np.float64), theta.astype(np.float64)[:, None]
    factor = np.sin(angle * np.float32(m1) + np.float32(m2)) * np.float32(m1) / np.sin(angle)
    return np.where(_numpy_labelled(label, dy), cotangent * factor, cotangent).astype(dy.dtype)


composite(
    f"combined_margin_loss(x, label, {MARGINS}) -> y, theta",
    "Cosines of rows of classes; the cosine of the class `label` is cos(m1 * theta + m2) - m3, and theta, its"
    " angle: 0 where there is no such class. `depth` is 0 or the number of classes.",
    write=_write_loss, reference=_numpy_loss, check=_check, grad=gradient_operator("combined_margin_loss_grad", "x"),
    sbp=Factors("n _, n -> n _, n"),
)  # fmt: skip
composite(
    f"combined_margin_loss_grad(dy, label, theta, {MARGINS}) -> dx",
    "The gradient of `combined_margin_loss` with respect to x.",
    write=_write_gradient, reference=_numpy_gradient, check=_check,
    sbp=lambda op: Factors("n _, n, n -> n _").linear_in(op, "dy"),
)  # fmt: skip
