"""Steps of training, of this package and of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def step_of(loss: Callable[..., Any], optimizer: Any) -> Callable[..., Any]:
    """A training step: the loss of the arguments, the backward pass, the update."""

    def step(*arguments: Any) -> Any:
        value = loss(*arguments)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        return value

    return step
