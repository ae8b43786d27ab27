"""OneFlow's operators for the gradients of losses per element.

The gradient of `binary_cross_entropy` has its own formula, since the gradient is finite where the derivative of the
loss is not; the others are the cotangent times the derivative of the loss's scalar body.
"""

from __future__ import annotations

import numpy as np

from oneflow.dialect import scalar as s
from oneflow.dialect.elementwise import elementwise
from oneflow.dialect.ops import loss  # noqa: F401  (the losses)
from oneflow.dialect.ops.elementwise_grad import gradient_of, linear_in_each, same_shapes, written
from oneflow.dialect.record import REGISTRY
from oneflow.dialect.scalar import Expr

#: The least p * (1 - p) that `binary_cross_entropy_grad` divides by.
MIN_VARIANCE = 1e-12


def _binary(x: Expr, target: Expr, *rest: Expr) -> Expr:
    """`rest` is the optional weight, and the cotangent."""
    *weight, dy = rest
    derivative = (x - target) / s.maximum((1.0 - x) * x, MIN_VARIANCE)
    return dy * derivative * weight[0] if weight else dy * derivative


def _binary_reference(x: np.ndarray, target: np.ndarray, weight: np.ndarray | None, dy: np.ndarray) -> np.ndarray:
    p, t = x.astype(np.float64), target.astype(np.float64)
    scale = dy.astype(np.float64) * (1.0 if weight is None else weight.astype(np.float64))
    return (scale * (p - t) / np.maximum(p * (1 - p), MIN_VARIANCE)).astype(x.dtype)


elementwise(
    "binary_cross_entropy_grad(input, target, weight?, dy) -> dx",
    "dy times the derivative of binary_cross_entropy with respect to input, with input * (1 - input) at least 1e-12.",
    scalar=_binary, reference=_binary_reference, types=same_shapes, sbp=linear_in_each("dy", "weight"),
)  # fmt: skip

for _name, _operands in (
    ("binary_cross_entropy_with_logits", ("input", "target", "weight?", "pos_weight?", "dy")),
    ("smooth_l1_loss", ("input", "target", "dy")),
    ("kl_div_loss", ("input", "target", "dy")),
):
    gradient_of(f"{_name}_grad", REGISTRY[_name], _operands, 0, "dx", written(REGISTRY[_name]))
