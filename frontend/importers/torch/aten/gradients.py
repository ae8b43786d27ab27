"""Backward operators of ATen as gradients of the forward functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oneflow.frontend.tracing.autograd import vjp


def pulled_back(function: Callable[..., Any], grad: Any, *primals: Any) -> Any:
    """The gradient of `function(*primals)` for the cotangent `grad`: one tensor, or one for each of several."""
    grads = vjp(function, *primals)[1](grad)
    return grads if len(primals) == 1 else list(grads)


def wanted(grads: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """Gradients, None for gradients that are not asked for."""
    return [g if asked else None for g, asked in zip(grads, mask, strict=True)]
