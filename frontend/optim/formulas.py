"""Steps of optimizers whose momentum a schedule changes, written out: it is asked for at every run.

In the operators of optimizers momentum is an attribute, which is part of the program.
"""

from __future__ import annotations

from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.optim.optimizer import Group


def directed(grad: Any, group: Group) -> Any:
    """The gradient, turned over where the loss is to grow."""
    return -grad if group["maximize"] else grad


def momentum_step(p: Any, grad: Any, group: Group, momentum: Any, rate: Any, dampening: float) -> tuple[Tensor, ...]:
    """The new parameter and momentum of `SGD`."""
    beta = current_builder().number(lambda: group["momentum"], dtypes.float32)
    along = directed(grad, group) + p * group["weight_decay"]
    kept = momentum * beta + along * (1.0 - dampening)
    return p - (along + kept * beta if group["nesterov"] else kept) * rate, kept


def adam_step(p: Any, grad: Any, group: Group, state: dict[str, Any], rate: Any, apart: bool) -> tuple[Tensor, ...]:
    """The new parameter and means of `Adam`, or with the decay `apart` from the gradient of `AdamW`."""
    first = current_builder().number(lambda: group["betas"][0], dtypes.float64)
    beta = first.to(p.dtype)
    second, decay = group["betas"][1], group["weight_decay"]
    along = directed(grad, group) if apart else directed(grad, group) + p * decay
    mean = state["exp_avg"] * beta + along * (1.0 - beta)
    square = state["exp_avg_sq"] * second + along * along * (1.0 - second)
    most = F.maximum(state["max_exp_avg_sq"], square) if group["amsgrad"] else None
    steps = (state["step"] + 1).to(dtypes.float64)  # differences from 1 in f32 would be wrong in the sixth digit
    corrected, root = ((1.0 - F.pow(b, steps)).to(p.dtype) for b in (first, second))
    size = F.sqrt((square if most is None else most) / root) + group["eps"]
    shrunk = p * (1.0 - rate * decay) if apart else p
    return (shrunk - mean / size * (rate / corrected), mean, square, *(() if most is None else (most,)))
