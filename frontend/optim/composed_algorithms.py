"""Adamax, NAdam, RAdam and Rprop, whose steps are composed of other operators, with PyTorch's arguments. In a
compiled function a step is one kernel too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.optim.algorithms import Adaptive
from oneflow.frontend.optim.formulas import directed, widened
from oneflow.frontend.optim.optimizer import Group, Optimizer, no_steps, rate_of, zeros


def _decayed(p: Any, grad: Any, group: Group, rate: Any) -> tuple[Tensor, Tensor]:
    """The parameter and its gradient after the weight decay, which is added to the gradient or decoupled from it."""
    gradient, decay = directed(grad, group), group["weight_decay"]
    if not decay:
        return p, gradient
    return (p * (1.0 - rate * decay), gradient) if group.get("decoupled_weight_decay") else (p, gradient + p * decay)


def _count(state: dict[str, Any]) -> Tensor:
    """The number of this step, from 1, in f64: bias corrections cancel most digits of f32."""
    count: Tensor = F.cast(state["step"] + 1, dtypes.float64)
    return count


def _moments(grad: Any, group: Group, state: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The running means of gradients and squares; a mean with an infinite gradient is NaN after another step."""
    first, second = group["betas"]
    mean = state["exp_avg"] + (grad - state["exp_avg"]) * (1.0 - first)
    return mean, state["exp_avg_sq"] * second + grad * (1.0 - second) * grad


class Adamax(Adaptive):
    """Adam with the infinity norm of gradients, which decays by the second beta, in place of the root of the mean
    square.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, maximize=maximize)

    def initial_state(self, p: EagerTensor, group: Group) -> dict[str, np.ndarray]:
        """The mean, the largest gradient and the number of steps."""
        return {"step": no_steps(), "exp_avg": zeros(p), "exp_inf": zeros(p)}

    def call(self, p: EagerTensor, grad: Tensor, group: Group, state: dict[str, Any], rate: Tensor) -> Any:
        """Returns the parameter and the state after one step."""
        p, grad, state = widened(p, grad, state)
        first, second = group["betas"]
        _, gradient = _decayed(p, grad, group, rate)
        mean = state["exp_avg"] * first + gradient * (1.0 - first)
        largest = F.maximum(state["exp_inf"] * second, F.abs(gradient) + group["eps"])
        corrected = F.cast(1.0 - F.pow(first, _count(state)), p.dtype)
        return p - mean / largest * (rate / corrected), mean, largest


class NAdam(Adaptive):
    """Adam with Nesterov momentum. The momentum factor grows with the steps, by `momentum_decay`. With
    `decoupled_weight_decay` the decay is not part of the gradient.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        more = {"momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, lr, betas, eps, weight_decay, **more, maximize=maximize)

    def initial_state(self, p: EagerTensor, group: Group) -> dict[str, np.ndarray]:
        """The running means, the product of all momentum factors and the number of steps."""
        product = np.ones((), p.dtype.accumulator.numpy)
        return {"step": no_steps(), "mu_product": product, "exp_avg": zeros(p), "exp_avg_sq": zeros(p)}

    def call(self, p: EagerTensor, grad: Tensor, group: Group, state: dict[str, Any], rate: Tensor) -> Any:
        """Returns the parameter and the state after one step."""
        p, grad, state = widened(p, grad, state)
        p_, gradient = _decayed(p, grad, group, rate)
        mean, square = _moments(gradient, group, state)
        (first, second), count = group["betas"], _count(state)
        mu, next_mu = (1.0 - F.pow(0.96, steps * group["momentum_decay"]) * 0.5 for steps in (count, count + 1.0))
        mu, next_mu = mu * first, next_mu * first
        product = state["mu_product"] * mu
        size = F.sqrt(square) / F.cast(F.sqrt(1.0 - F.pow(second, count)), p.dtype) + group["eps"]
        factors = (1.0 - mu) / (1.0 - product), next_mu / (1.0 - product * next_mu)
        by_gradient, by_mean = (F.cast(factor, p.dtype) * rate for factor in factors)
        return (
            p_ - (gradient * by_gradient + mean * by_mean) / size,
            F.cast(product, state["mu_product"].dtype),
            mean,
            square,
        )


class RAdam(Adaptive):
    """Rectified Adam: the mean square is used once its variance is bounded, before that the mean alone.

    With `decoupled_weight_decay` the decay is not part of the gradient.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        options = {"decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, lr, betas, eps, weight_decay, **options, maximize=maximize)

    def call(self, p: EagerTensor, grad: Tensor, group: Group, state: dict[str, Any], rate: Tensor) -> Any:
        """Returns the parameter and the state after one step."""
        p, grad, state = widened(p, grad, state)
        p_, gradient = _decayed(p, grad, group, rate)
        mean, square = _moments(gradient, group, state)
        (first, second), count = group["betas"], _count(state)
        beta_power = F.pow(second, count)
        most = 2 / (1 - second) - 1
        length = most - count * beta_power * 2.0 / (1.0 - beta_power)
        trusted = F.clamp(length, min=5.0)
        ratio = (trusted - 4.0) * (trusted - 2.0) / trusted * (most / ((most - 4) * (most - 2)))
        scaled = F.cast(F.sqrt(ratio * (1.0 - beta_power)), p.dtype) / (F.sqrt(square) + group["eps"])
        step = rate / F.cast(1.0 - F.pow(first, count), p.dtype)
        return p_ - mean * step * F.where(length > 5.0, scaled, F.ones_like(square)), mean, square


class Rprop(Optimizer):
    """Resilient backpropagation: each element has a step size, and steps along the sign of its gradient.

    Step sizes start as the learning rate; a step size is multiplied by the second of `etas` where the sign of the
    gradient is the previous sign, else by the first, and stays within `step_sizes`.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        *,
        maximize: bool = False,
    ) -> None:
        numbers = {"lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes), "maximize": maximize}
        super().__init__(params, numbers)

    def check(self, group: Group) -> None:
        """Checks the hyperparameters of a group."""
        super().check(group)
        if not 0 < group["etas"][0] < 1 < group["etas"][1]:
            raise ValueError(f"expected etas below and above 1, got {group['etas']}")

    def initial_state(self, p: EagerTensor, group: Group) -> dict[str, np.ndarray]:
        """The previous gradient, the step sizes and the number of steps."""
        return {"step": no_steps(), "prev": zeros(p), "step_size": zeros(p) + p.dtype.numpy.type(rate_of(group))}

    def call(self, p: EagerTensor, grad: Tensor, group: Group, state: dict[str, Any], rate: Tensor) -> Any:
        """Returns the parameter and the state after one step."""
        p, grad, state = widened(p, grad, state)
        gradient = directed(grad, group)
        agreed: Any = gradient * state["prev"]
        sizes, (less, more) = state["step_size"], group["etas"]
        changed = F.where(agreed > 0, sizes * more, F.where(agreed < 0, sizes * less, sizes))
        sizes = F.clamp(changed, *group["step_sizes"])
        gradient = F.where(agreed < 0, F.zeros_like(gradient), gradient)
        return p - F.sign(gradient) * sizes, gradient, sizes
