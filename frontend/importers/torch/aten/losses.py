"""Losses and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.importers.torch.aten.gradients import pulled_back
from oneflow.frontend.importers.torch.table import aten

#: The numbers by which ATen names the reductions of losses.
_REDUCTIONS = ("none", "mean", "sum")


def _loss(name: str, function: Callable[..., Any], *parameters: str) -> None:
    """The builders of a loss `(input, target, reduction, ..)` and of its gradient."""

    def build(x: Any, target: Any, reduction: int = 1, *rest: Any, **named: Any) -> Any:
        options = dict(zip(parameters, rest, strict=False)) | named
        return function(x, target, reduction=_REDUCTIONS[reduction], **options)

    aten(f"{name}.default")(build)
    aten(f"{name}_backward.default")(
        lambda grad, x, target, *rest, **named: pulled_back(lambda v: build(v, target, *rest, **named), grad, x)
    )


_loss("mse_loss", F.mse_loss)
_loss("smooth_l1_loss", F.smooth_l1_loss, "beta")
_loss("soft_margin_loss", F.soft_margin_loss)
_loss("huber_loss", F.huber_loss, "delta")
aten("l1_loss.default")(lambda x, target, reduction=1: F.l1_loss(x, target, _REDUCTIONS[reduction]))


@aten("binary_cross_entropy.default")
def binary_cross_entropy(x: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    return F.binary_cross_entropy(x, target, weight, _REDUCTIONS[reduction])


@aten("binary_cross_entropy_backward.default")
def binary_cross_entropy_backward(grad: Any, x: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    return pulled_back(lambda v: binary_cross_entropy(v, target, weight, reduction), grad, x)


@aten("binary_cross_entropy_with_logits.default")
def binary_cross_entropy_with_logits(
    x: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Any:
    return F.binary_cross_entropy_with_logits(x, target, weight, _REDUCTIONS[reduction], pos_weight)


def _chosen(x: Any, target: Any, weight: Any, ignored: int) -> tuple[Any, Any, int]:
    """For each target the element of its class, and its weight; 0 for ignored targets."""
    dim = 1 if x.rank > 1 else 0
    counts = F.ne(target, ignored)
    safe = F.where(counts, target, 0)
    chosen = F.squeeze(F.gather(x, dim, F.unsqueeze(safe, dim)), dim)
    weights = F.cast(counts, x.dtype)
    if weight is not None:
        weights = F.mul(weights, F.getitem(weight, safe))
    return chosen, weights, dim


@aten("nll_loss_nd.default")
def nll_loss_nd(x: Any, target: Any, weight: Any = None, reduction: int = 1, ignored: int = -100) -> Any:
    return nll_loss(x, target, weight, reduction, ignored)[0]


@aten("nll_loss_forward.default", "nll_loss2d_forward.default")
def nll_loss(x: Any, target: Any, weight: Any, reduction: int, ignored: int) -> Any:
    chosen, weights, _ = _chosen(x, target, weight, ignored)
    losses, total = F.mul(F.neg(chosen), weights), F.sum(weights)
    losses = F.where(F.eq(weights, 0), 0.0, losses)
    if _REDUCTIONS[reduction] == "none":
        return [losses, F.zeros((), dtype=x.dtype)]
    return [F.div(F.sum(losses), total) if _REDUCTIONS[reduction] == "mean" else F.sum(losses), total]


@aten("nll_loss_backward.default", "nll_loss2d_backward.default")
def nll_loss_backward(grad: Any, x: Any, target: Any, weight: Any, reduction: int, ignored: int, total: Any) -> Any:
    _, weights, dim = _chosen(x, target, weight, ignored)
    scale = F.div(grad, total) if _REDUCTIONS[reduction] == "mean" else grad
    grads = F.unsqueeze(F.where(F.eq(weights, 0), 0.0, F.neg(F.mul(weights, scale))), dim)
    classes = F.reshape(F.arange(x.size(dim)), [-1 if d == dim else 1 for d in range(x.rank)])
    return F.where(F.eq(F.unsqueeze(as_tensor(target), dim), classes), grads, 0.0)
