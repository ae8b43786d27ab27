"""Optimizers of `ai.onnx.preview.training`: one step on several tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.importers.onnx.table import builder

_DOMAIN = "ai.onnx.preview.training"


def _each(tensors: tuple[Tensor, ...], kinds: int, step: Callable[..., tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """The results of a step for each model; operands and results are ordered by kind."""
    count = len(tensors) // kinds
    results = [step(*(tensors[k * count + i] for k in range(kinds))) for i in range(count)]
    return tuple(v for column in zip(*results, strict=True) for v in column)


@builder("Adagrad", domain=_DOMAIN)
def _adagrad(
    rate: Tensor,
    count: Tensor,
    *tensors: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 0.0,
    norm_coefficient: float = 0.0,
) -> Any:
    decayed_rate = F.div(rate, F.add(F.mul(F.cast(count, dtypes.float32), decay_factor), 1.0))

    def step(x: Tensor, g: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        g = F.add(F.mul(x, norm_coefficient), g)
        h = F.add(h, F.mul(g, g))
        return F.sub(x, F.div(F.mul(decayed_rate, g), F.add(F.sqrt(h), epsilon))), h

    return _each(tensors, 3, step)


@builder("Momentum", domain=_DOMAIN)
def _momentum(
    rate: Tensor, count: Tensor, *tensors: Tensor, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> Any:
    own = F.where(F.gt(count, 0), beta, 1.0)

    def step(x: Tensor, g: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        g = F.add(F.mul(x, norm_coefficient), g)
        v = F.add(F.mul(v, alpha), F.mul(g, own))
        return F.sub(x, F.mul(rate, F.add(g, F.mul(v, alpha)) if mode == "nesterov" else v)), v

    return _each(tensors, 3, step)


@builder("Adam", domain=_DOMAIN)
def _adam(
    rate: Tensor,
    count: Tensor,
    *tensors: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 0.0,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> Any:
    steps = F.cast(count, dtypes.float32)
    corrected = F.div(F.mul(rate, F.sqrt(F.sub(1.0, F.pow(beta, steps)))), F.sub(1.0, F.pow(alpha, steps)))
    corrected_rate = F.where(F.gt(count, 0), corrected, rate)

    def step(x: Tensor, g: Tensor, v: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        g = F.add(F.mul(x, norm_coefficient), g)
        v = F.add(F.mul(v, alpha), F.mul(g, 1 - alpha))
        h = F.add(F.mul(h, beta), F.mul(F.mul(g, g), 1 - beta))
        moved = F.sub(x, F.div(F.mul(corrected_rate, v), F.add(F.sqrt(h), epsilon)))
        return F.mul(moved, 1 - norm_coefficient_post), v, h

    return _each(tensors, 4, step)
