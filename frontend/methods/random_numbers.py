"""Random numbers written into a tensor: `x.normal_()`, `x.uniform_(a, b)`.

The import of this module adds these methods to tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.random import drawn_exponential


def random_in_place(name: str, draw: Callable[..., Tensor], doc: str) -> Callable[..., Tensor]:
    """The method that replaces the elements of a tensor by random numbers."""

    def method(self: Tensor, *args: Any, generator: Any = None, **options: Any) -> Tensor:
        current_builder().assign(self, F.cast(draw(self, *args, generator=generator, **options), self.dtype), name)
        return self

    method.__name__, method.__doc__ = name, f"{doc} Gives the tensor."
    return method


def _normal(x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any) -> Tensor:
    return F.normal(mean, std, x.sizes(), dtype=_float_of(x, "normal_"), generator=generator)


def _uniform(x: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Any) -> Tensor:
    if a > b:
        raise fail(f"expected a of at most b for uniform_, got {a} and {b}")
    return F.add(F.mul(F.rand(x.sizes(), dtype=_float_of(x, "uniform_"), generator=generator), b - a), a)


def _bernoulli(x: Tensor, p: Any = 0.5, *, generator: Any) -> Tensor:
    if isinstance(p, Tensor):
        return F.bernoulli(F.expand_as(p, x), generator=generator)
    return F.bernoulli(F.zeros(x.sizes()), float(p), generator=generator)


def _exponential(x: Tensor, lambd: float = 1.0, *, generator: Any) -> Tensor:
    if lambd <= 0:
        raise fail(f"expected lambd above 0 for exponential_, got {lambd}")
    return drawn_exponential(x.sizes(), lambd, _float_of(x, "exponential_"), generator)


def _random(x: Tensor, low: int = 0, high: int | None = None, *, generator: Any) -> Tensor:
    top = high if high is not None else low or _integers_of(x)
    return F.randint(0 if high is None else low, top, x.sizes(), generator=generator)


def _float_of(x: Tensor, name: str) -> DType:
    if not x.dtype.is_float:
        raise fail(f"expected floating-point elements for {name}, got {x.desc}")
    return x.dtype


def _integers_of(x: Tensor) -> int:
    """The smallest integer above which the element type does not hold every integer."""
    if x.dtype.is_float:
        return 1 << {16: 11, 32: 24, 64: 53}[x.dtype.bits]
    return 2 if x.dtype.bits == 1 else (1 << min(x.dtype.bits - (x.dtype.kind == "int"), 62))


METHODS = {
    "normal_": random_in_place("normal_", _normal, "Normal numbers of a mean and a deviation."),
    "uniform_": random_in_place("uniform_", _uniform, "Uniform numbers in [a, b)."),
    "bernoulli_": random_in_place("bernoulli_", _bernoulli, "1 with the probability p, else 0."),
    "exponential_": random_in_place("exponential_", _exponential, "Exponential numbers of the rate lambd."),
    "random_": random_in_place("random_", _random, "Uniform integers in [low, high), or in [0, low)."),
}

for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
