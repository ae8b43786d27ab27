"""Limits of gradients: of their norm, or of each element."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from oneflow.dialect.nd_sbp import broadcast
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.errors import refuse
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import no_grad


def _with_grad(parameters: Any) -> list[Any]:
    tensors = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p for p in tensors if p.grad is not None]


@no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Any:
    """Scales gradients in place so that the norm of all gradients together is at most `max_norm`; returns the norm
    before the scaling.

    `norm_type` is any number, or infinity for the largest absolute value; with 0 the norm is the number of gradients
    that are not all 0.

    Raises:
        RuntimeError: the norm is infinite or NaN, and `error_if_nonfinite`, which is for eager mode.
        TraceError: `error_if_nonfinite` in a function that is traced.
    """
    chosen = _with_grad(parameters)
    if not chosen:
        return F.zeros(())
    total = _norm([p.grad for p in chosen], float(norm_type))
    if error_if_nonfinite and not math.isfinite(total):
        raise refuse(f"expected gradients of a finite norm, got {float(total)}")
    factor = F.clamp(F.div(max_norm, F.add(total, 1e-6)), max=1.0)
    for p in chosen:
        p.grad.mul_(F.cast(_on_placement_of(p.grad, factor), p.dtype))
    return total


def on_one_placement(numbers: Sequence[Any]) -> list[Any]:
    """Tensors, of which those on other placements are moved to the placement of the first that has one."""
    first = next((x for x in numbers if x.placement is not None), None)
    return [x if first is None else _on_placement_of(first, x) for x in numbers]


def _on_placement_of(like: Any, x: Any) -> Any:
    """`x`, whole on the ranks of the placement of `like` if both have another placement."""
    if x.placement is None or like.placement is None or x.placement == like.placement:
        return x
    return x.to_global(like.placement, broadcast(like.placement.mesh))


def _norm(grads: list[Any], kind: float) -> Any:
    """The norm of all elements, where `kind` is positive and finite; else the norm of the norms of the gradients.

    Gradients without elements add nothing.
    """
    filled = [g for g in grads if 0 not in g.shape]
    if not filled:
        return F.zeros(())
    if math.isinf(kind) or kind <= 0:
        return F.norm(F.stack(on_one_placement([F.norm(g, kind) for g in filled])), kind)
    powers = on_one_placement([F.sum(F.square(g) if kind == 2 else F.pow(F.abs(g), kind)) for g in filled])
    total = powers[0]
    for power in powers[1:]:
        total = F.add(total, power)
    return F.sqrt(total) if kind == 2 else F.pow(total, 1 / kind)


@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limits every element of the gradients, in place, to [-clip_value, clip_value]."""
    for p in _with_grad(parameters):
        p.grad.clamp_(-clip_value, clip_value)
