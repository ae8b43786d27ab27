"""Losses. `reduction` is "mean", "sum" or "none". Imports the other modules of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow.frontend.dispatch import as_tensor, dispatch, dispatch_all
from oneflow.frontend.errors import fail
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import reduction as r
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.normalization import log_softmax
from oneflow.frontend.functional.rules import as_common
from oneflow.frontend.tensor import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "kl_div", "l1_loss", "mse_loss",
    "nll_loss", "smooth_l1_loss",
]  # fmt: skip


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    reducers: dict[str, Callable[[Any], Tensor]] = {"mean": r.mean, "sum": r.sum, "none": as_tensor}
    if reduction not in reducers:
        raise fail(f'expected reduction to be "mean", "sum" or "none", got {reduction!r}')
    return reducers[reduction](loss)


def _alike(input: Any, *others: Any) -> list[Any]:
    """Tensors of one element type, the others in the shape of the first; None stays."""
    given = [v for v in others if v is not None]
    x, *rest = as_common(input, *given)
    shaped = iter([t if t.shape == x.shape else sh.expand_as(t, x) for t in rest])
    return [x, *(None if v is None else next(shaped) for v in others)]


def nll_loss(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """Minus the log-probability that `input` gives to each class in `target`.

    `input` is (n, classes, ..), `target` (n, ..) integers; `weight` is one number per class. Targets that are
    `ignore_index` count nothing; the mean is over the weights of the others.
    """
    logs, target = as_tensor(input), as_tensor(target)
    if logs.rank < 2 or target.rank != logs.rank - 1 or not target.dtype.is_integer:
        raise fail(f"expected input (n, classes, ..) and integers (n, ..), got {logs.desc} and {target.desc}")
    loss, weights = dispatch_all("nll", sh.movedim(logs, 1, -1), target, weight, ignore_index=ignore_index)
    return e.div(r.sum(loss), r.sum(weights)) if reduction == "mean" else _reduced(loss, reduction)


def cross_entropy(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """`nll_loss` of `log_softmax(input, 1)`; targets may also be probabilities in the shape of `input`."""
    logs, target = log_softmax(input, 1), as_tensor(target)
    if target.dtype.is_integer:
        return nll_loss(logs, target, weight, ignore_index, reduction)
    if weight is not None:
        raise fail("expected no weight beside targets that are probabilities; multiply the targets instead")
    return _reduced(e.neg(r.sum(e.mul(target, logs), 1)), reduction)


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """(input - target)^2."""
    return _reduced(e.square(e.sub(input, target)), reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """|input - target|."""
    return _reduced(e.abs(e.sub(input, target)), reduction)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d^2 / (2 beta) where d = |input - target| is below beta, else d - beta / 2."""
    return _reduced(dispatch("smooth_l1_loss", *_alike(input, target), beta=beta), reduction)


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log(target) - input), 0 where target is 0; with `log_target` the target is a logarithm too."""
    return _reduced(dispatch("kl_div_loss", *_alike(input, target), log_target=log_target), reduction)


def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """-(target * log(input) + (1 - target) * log(1 - input)) * weight; logarithms are cut at -100."""
    return _reduced(dispatch("binary_cross_entropy", *_alike(input, target, weight)), reduction)


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """`binary_cross_entropy` of sigmoid(input), without overflow; positive examples count `pos_weight` times."""
    operands = _alike(input, target, weight, pos_weight)
    has = pos_weight is not None
    return _reduced(dispatch("binary_cross_entropy_with_logits", *operands, has_pos_weight=has), reduction)
