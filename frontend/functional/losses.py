"""Losses. `reduction` is "mean", "sum" or "none". Imports the other modules of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow.frontend.dispatch import as_tensor
from oneflow.frontend.errors import fail
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import reduction as r
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.gathering import gather
from oneflow.frontend.functional.normalization import log_softmax
from oneflow.frontend.functional.rules import as_common, cast
from oneflow.frontend.tensor import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "l1_loss", "mse_loss", "nll_loss",
    "smooth_l1_loss",
]  # fmt: skip


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    reducers: dict[str, Callable[[Any], Tensor]] = {"mean": r.mean, "sum": r.sum, "none": as_tensor}
    if reduction not in reducers:
        raise fail(f'expected reduction to be "mean", "sum" or "none", got {reduction!r}')
    return reducers[reduction](loss)


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
    counts = e.ne(target, ignore_index)
    known = e.where(counts, target, 0)
    picked = sh.squeeze(gather(logs, 1, sh.unsqueeze(known, 1)), 1)
    share = cast(counts, logs.dtype) if weight is None else e.where(counts, as_tensor(weight)[known], 0)  # type: ignore[index]
    loss = e.where(counts, e.neg(e.mul(picked, share)), 0)
    return e.div(r.sum(loss), r.sum(share)) if reduction == "mean" else _reduced(loss, reduction)


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
    distance = e.abs(e.sub(input, target))
    if beta == 0:
        return _reduced(distance, reduction)
    near = e.mul(e.square(distance), 0.5 / beta)
    return _reduced(e.where(e.lt(distance, beta), near, e.sub(distance, 0.5 * beta)), reduction)


def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """-(target * log(input) + (1 - target) * log(1 - input)); logarithms are cut at -100."""
    p, t = as_common(input, target)
    yes, no = (e.clamp(v, min=-100.0) for v in (e.log(p), e.log1p(e.neg(p))))
    loss = e.neg(e.add(e.mul(t, yes), e.mul(e.sub(1.0, t), no)))
    return _reduced(loss if weight is None else e.mul(loss, weight), reduction)


def binary_cross_entropy_with_logits(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """`binary_cross_entropy` of sigmoid(input), without overflow."""
    x, t = as_common(input, target)
    loss = e.sub(e.mul(e.sub(1.0, t), x), e.logsigmoid(x))
    return _reduced(loss if weight is None else e.mul(loss, weight), reduction)
