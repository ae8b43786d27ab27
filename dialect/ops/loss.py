"""Losses per element; means and sums of losses are reductions. Losses of classes are in `class_loss`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.elementwise import elementwise, scalar_gradient
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import Factors, broadcast_factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc

#: The smallest logarithm that `binary_cross_entropy` computes with, so that its loss stays finite.
MIN_LOG = -100.0


def _alike(op: Call) -> TensorDesc:
    """The type of all operands, which is the same."""
    first, *rest = op.inputs
    expect_dtype(op, first, op[first], dtypes.FLOATS)
    known = TensorDesc(op[first].shape, op[first].dtype)
    for name in rest:
        expect_type(op, name, known)
        known = known if op[name] is None else known.meet(op[name])
    return known


def _weighted(loss: Any, weight: Any) -> Any:
    return loss if weight is None else loss * weight


def _in_double(function: Any) -> Any:
    """A reference computed in f64, None kept, and converted to the type of the first operand."""

    @functools.wraps(function)
    def run(x: Any, *rest: Any, **attrs: Any) -> Any:
        wide = (None if a is None else a.astype(np.float64) for a in (x, *rest))
        return function(*wide, **attrs).astype(x.dtype)

    return run


def _binary(x: Expr, target: Expr, weight: Expr | None = None) -> Expr:
    hit, miss = (s.maximum(s.log(p), MIN_LOG) for p in (x, 1.0 - x))
    element: Expr = _weighted(-(target * hit + (1.0 - target) * miss), weight)
    return element


@_in_double
def _binary_reference(x: Any, target: Any, weight: Any) -> Any:
    hit, miss = np.maximum(np.log(x), MIN_LOG), np.maximum(np.log1p(-x), MIN_LOG)
    return _weighted(-(target * hit + (1 - target) * miss), weight)


def _weighted_sbp(op: Call) -> Factors:
    """Splits of every dimension, and partial sums of the weight."""
    return broadcast_factors([d.shape for d in op.operands], op.out.rank).linear_in(op, "weight")


def _binary_gradient(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    """The gradient with respect to the input stays finite at 0 and 1, where the derivative of the logarithm is
    infinite.
    """
    by_input = {"input": lambda: ops.binary_cross_entropy_grad(op.input, op.target, op.weight, dy)}
    return {**scalar_gradient(ops, op, dy), **by_input}


elementwise(
    "binary_cross_entropy(input, target, weight?) -> out",
    "-(target * log(input) + (1 - target) * log(1 - input)) * weight, logarithms cut at -100.",
    scalar=_binary, reference=_binary_reference, types=_alike, grad=_binary_gradient, sbp=_weighted_sbp,
)  # fmt: skip


def _logits_types(op: Call) -> TensorDesc:
    if op.has_pos_weight != (op.pos_weight is not None):
        weights = "none" if op.pos_weight is None else "one"
        raise op.error(f"expected pos_weight exactly with has_pos_weight = true, got {weights}")
    return _alike(op)


def _logits(x: Expr, target: Expr, *weights: Expr, has_pos_weight: bool) -> Expr:
    """`weights` are weight and pos_weight, where given."""
    softplus = s.maximum(-x, 0) + s.log1p(s.exp(-abs(x)))
    scale = (weights[-1] - 1.0) * target + 1.0 if has_pos_weight else None
    weight = weights[0] if len(weights) > has_pos_weight else None
    element: Expr = _weighted((1.0 - target) * x + _weighted(softplus, scale), weight)
    return element


@_in_double
def _logits_reference(x: Any, target: Any, weight: Any, pos_weight: Any) -> Any:
    scale = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
    return _weighted((1 - target) * x + scale * np.logaddexp(0, -x), weight)


elementwise(
    "binary_cross_entropy_with_logits(input, target, weight?, pos_weight?, has_pos_weight: bool = False) -> out",
    "`binary_cross_entropy` of sigmoid(input), the loss of positive examples times pos_weight, without overflow.",
    scalar=_logits, reference=_logits_reference, types=_logits_types, sbp=_weighted_sbp,
)  # fmt: skip


def _smooth_l1_types(op: Call) -> TensorDesc:
    if op.beta < 0:
        raise op.error(f"expected beta of at least 0, got {op.beta}")
    return _alike(op)


def _smooth_l1(x: Expr, target: Expr, *, beta: float) -> Expr:
    difference = x - target
    distance = abs(difference)
    if beta <= 0:
        return distance
    return s.where(distance >= beta, distance - 0.5 * beta, difference * difference * (0.5 / beta))


@_in_double
def _smooth_l1_reference(x: Any, target: Any, *, beta: Any) -> Any:
    distance = np.abs(x - target)
    return np.where(distance < beta, 0.5 * distance**2 / (beta or 1), distance - 0.5 * beta)


elementwise(
    "smooth_l1_loss(input, target, beta: float = 0.0) -> out",
    "|input - target| - beta / 2, or its square / (2 * beta) where the distance is smaller than beta.",
    scalar=_smooth_l1, reference=_smooth_l1_reference, types=_smooth_l1_types,
)  # fmt: skip


def _kl_div(x: Expr, target: Expr, *, log_target: bool) -> Expr:
    if log_target:
        return s.exp(target) * (target - x)
    positive = target > 0
    return s.where(positive, target * (s.log(s.where(positive, target, 1.0)) - x), 0.0)


@_in_double
def _kl_div_reference(x: Any, target: Any, *, log_target: Any) -> Any:
    if log_target:
        return np.exp(target) * (target - x)
    return np.where(target > 0, target * (np.log(np.where(target > 0, target, 1)) - x), 0)


elementwise(
    "kl_div_loss(input, target, log_target: bool = False) -> out",
    "target * (log(target) - input), 0 where target is not positive; with `log_target`, target is a logarithm.",
    scalar=_kl_div, reference=_kl_div_reference, types=_alike,
)  # fmt: skip
