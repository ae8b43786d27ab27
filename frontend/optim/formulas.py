"""Optimizer steps with momentum as an input, for schedules that change the momentum.

In the operators of optimizers momentum is an attribute, and so a constant of the program.
"""

from __future__ import annotations

from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.optim.optimizer import Group


def directed(grad: Any, group: Group) -> Any:
    """The gradient, negated where the loss is maximized."""
    return -grad if group["maximize"] else grad


def widened(p: Any, grad: Any, state: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """A parameter, its gradient and its states in the type of the computation: 16-bit floats as f32."""

    def wide(x: Any) -> Any:
        return F.cast(x, x.dtype.accumulator) if x.dtype.is_float else x

    return wide(p), wide(grad), {name: wide(x) for name, x in state.items()}


def momentum_step(
    p: Any, grad: Any, group: Group, state: dict[str, Any], rate: Any, dampening: float
) -> tuple[Tensor, ...]:
    """The new parameter and momentum of `SGD`."""
    p, grad, state = widened(p, grad, state)
    beta = current_builder().runtime_scalar(lambda: group["momentum"], dtypes.float32)
    gradient = directed(grad, group) + p * group["weight_decay"]
    buffer = state["momentum_buffer"] * beta + gradient * (1.0 - dampening)
    return p - (gradient + buffer * beta if group["nesterov"] else buffer) * rate, buffer


def adam_step(
    p: Any, grad: Any, group: Group, state: dict[str, Any], rate: Any, decoupled: bool
) -> tuple[Tensor, ...]:
    """The new parameter and means of `Adam`, or of `AdamW`, whose weight decay is `decoupled` from the gradient."""
    p, grad, state = widened(p, grad, state)
    first = current_builder().runtime_scalar(lambda: group["betas"][0], dtypes.float64)
    beta = F.cast(first, p.dtype)
    second, decay = group["betas"][1], group["weight_decay"]
    gradient = directed(grad, group) if decoupled else directed(grad, group) + p * decay
    mean = state["exp_avg"] * beta + gradient * (1.0 - beta)
    square = state["exp_avg_sq"] * second + gradient * (1.0 - second) * gradient
    most = F.maximum(state["max_exp_avg_sq"], square) if group["amsgrad"] else None
    steps = F.cast(state["step"] + 1, dtypes.float64)  # 1 - beta ** steps cancels most digits of f32
    corrected, by_square = (
        (1.0 - F.pow(b, steps) for b in (first, second)) if group["do_bias_correction"] else (F.ones_like(steps),) * 2
    )
    size = F.sqrt(square if most is None else most) / F.cast(F.sqrt(by_square), p.dtype) + group["eps"]
    shrunk = p * (1.0 - rate * decay) if decoupled else p
    return (
        shrunk - mean / size * (rate / F.cast(corrected, p.dtype)),
        mean,
        square,
        *(() if most is None else (most,)),
    )
