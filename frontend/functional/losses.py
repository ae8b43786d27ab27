"""Losses. `reduction` is "mean", "sum" or "none"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow.frontend.core.dispatch import as_tensor, dispatch, dispatch_all
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import reduction as r
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.normalization import log_softmax
from oneflow.frontend.functional.rules import accumulated, as_common
from oneflow.frontend.functional.source import arange

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "combined_margin_loss", "cross_entropy", "huber_loss",
    "kl_div", "l1_loss", "mse_loss", "nll_loss", "smooth_l1_loss", "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]  # fmt: skip


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """A loss as `reduction` says.

    Raises:
        TraceError: the reduction is unknown.
    """
    reducers: dict[str, Callable[[Any], Tensor]] = {"mean": r.mean, "sum": r.sum, "none": as_tensor}
    if reduction not in reducers:
        raise fail(f'expected reduction to be "mean", "sum" or "none", got {reduction!r}')
    return reducers[reduction](loss)


def _common_operands(input: Any, *others: Any) -> list[Any]:
    """Tensors of one element type, the others in the shape of the first; None is kept."""
    tensors = [v for v in others if v is not None]
    x, *rest = as_common(input, *tensors)
    shaped = iter([t if t.shape == x.shape else sh.expand_as(t, x) for t in rest])
    return [x, *(None if v is None else next(shaped) for v in others)]


@accumulated
def nll_loss(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """Minus the log-probability of each class in `target` by `input`.

    `input` is (n, classes, ..), `target` (n, ..) integers; `weight` is one number per class. Targets that are
    `ignore_index` count nothing; the mean is over the weights of the others.
    """
    logs, target = as_tensor(input), as_tensor(target)
    if logs.rank < 2 or target.rank != logs.rank - 1 or not target.dtype.is_integer:
        raise fail(f"expected input (n, classes, ..) and integers (n, ..), got {logs.desc} and {target.desc}")
    loss, weights = dispatch_all("nll", sh.movedim(logs, 1, -1), target, weight, ignore_index=ignore_index)
    return e.div(r.sum(loss), r.sum(weights)) if reduction == "mean" else reduced(loss, reduction)


@accumulated
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """`nll_loss` of `log_softmax(input, 1)`; targets may also be probabilities in the shape of `input`.

    `input` is (n, classes, ..), or (classes,) alone; `weight` is one number per class. `label_smoothing` is the
    fraction of a target that is divided equally among all classes.
    """
    x, target = as_tensor(input), as_tensor(target)
    if not 0 <= label_smoothing <= 1:
        raise fail(f"expected label_smoothing of 0 to 1, got {label_smoothing}")
    dim = 1 if x.rank > 1 else 0
    logs = log_softmax(x, dim)
    if not target.dtype.is_integer:
        return _from_probabilities(logs, target, weight, reduction, label_smoothing, dim)
    if dim == 0:
        logs, target = sh.unsqueeze(logs, 0), sh.unsqueeze(target, 0)
    loss = nll_loss(logs, target, weight, ignore_index, reduction)
    if dim == 0 and reduction == "none":
        loss = sh.squeeze(loss, 0)
    if not label_smoothing:
        return loss
    counts = e.ne(target, ignore_index)
    even = e.where(counts, e.neg(r.mean(_weighed(logs, weight, 1), 1)), 0.0)
    if reduction == "mean":
        even = e.div(r.sum(even), r.sum(counts if weight is None else _weights_of(target, weight, counts)))
    else:
        even = reduced(even, reduction)
    return e.add(e.mul(loss, 1 - label_smoothing), e.mul(sh.reshape(even, loss.shape), label_smoothing))


def _weights_of(target: Tensor, weight: Any, counts: Tensor) -> Tensor:
    """The weight of each target that counts, else 0."""
    weights: Tensor = e.where(counts, dispatch("gather", weight, e.where(counts, target, 0), axis=0), 0.0)
    return weights


def _weighed(logs: Tensor, weight: Any, dim: int) -> Tensor:
    """Values along the classes, each times the weight of its class, if there are weights."""
    return logs if weight is None else e.mul(logs, sh.reshape(weight, (-1, *[1] * (logs.rank - 1 - dim))))


def _from_probabilities(
    logs: Tensor, target: Tensor, weight: Any, reduction: str, smoothing: float, dim: int
) -> Tensor:
    """The cross entropy of targets that are probabilities; its mean is over the rows."""
    if smoothing:
        target = e.add(e.mul(target, 1 - smoothing), smoothing / logs.size(dim))
    return reduced(e.neg(r.sum(e.mul(target, _weighed(logs, weight, dim)), dim)), reduction)


@accumulated
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """d^2 / 2 where d = |input - target| is below delta, else delta * (d - delta / 2)."""
    if delta <= 0:
        raise fail(f"expected delta above 0, got {delta}")
    return e.mul(smooth_l1_loss(input, target, reduction, delta), delta)


@accumulated
def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """(input - target)^2."""
    return reduced(e.square(e.sub(input, target)), reduction)


@accumulated
def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """|input - target|."""
    return reduced(e.abs(e.sub(input, target)), reduction)


@accumulated
def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d^2 / (2 beta) where d = |input - target| is below beta, else d - beta / 2."""
    return reduced(dispatch("smooth_l1_loss", *_common_operands(input, target), beta=beta), reduction)


@accumulated
def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log(target) - input), 0 where target is 0; with `log_target` the target is a logarithm too.

    `reduction` may also be "batchmean": the sum over the size of dimension 0.
    """
    loss = dispatch("kl_div_loss", *_common_operands(input, target), log_target=log_target)
    return e.div(r.sum(loss), loss.size(0)) if reduction == "batchmean" else reduced(loss, reduction)


@accumulated
def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """-(target * log(input) + (1 - target) * log(1 - input)) * weight; logarithms are cut at -100."""
    return reduced(dispatch("binary_cross_entropy", *_common_operands(input, target, weight)), reduction)


@accumulated
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """`binary_cross_entropy` of sigmoid(input), without overflow; positive examples count `pos_weight` times."""
    operands = _common_operands(input, target, weight, pos_weight)
    has = pos_weight is not None
    return reduced(dispatch("binary_cross_entropy_with_logits", *operands, has_pos_weight=has), reduction)


def sparse_softmax_cross_entropy(labels: Any, logits: Any) -> Tensor:
    """-log(softmax(logits)) of each class in `labels`, along the last dimension, in the shape of `labels`."""
    x = as_tensor(logits)
    return dispatch_all("sparse_softmax_cross_entropy", x, as_tensor(labels), depth=x.shape[-1] or 0)[1]


def softmax_cross_entropy(labels: Any, logits: Any) -> Tensor:
    """-sum(labels * log(softmax(logits))) along the last dimension, for labels that are probabilities."""
    x = as_tensor(logits)
    return e.neg(r.sum(e.mul(labels, log_softmax(x, -1)), -1))


@accumulated
def combined_margin_loss(x: Any, label: Any, m1: float = 1.0, m2: float = 0.0, m3: float = 0.0) -> Tensor:
    """Cosines `(n, classes)`; the cosine of the class `label` is cos(m1 * angle + m2) - m3. Arxiv 1801.07698."""
    x, label = as_tensor(x), as_tensor(label)
    if x.rank != 2 or label.rank != 1 or not label.dtype.is_integer:
        raise fail(f"expected cosines (n, classes) and integers (n,), got {x.desc} and {label.desc}")
    if x.shape[1] is None:
        raise fail(f"expected a static number of classes, got {x.desc}")
    chosen = e.eq(sh.unsqueeze(label, 1), arange(x.shape[1]))
    angle = e.acos(e.where(chosen, x, 0.0))  # no infinite derivative at the cosines of other classes
    margin: Tensor = e.where(chosen, e.sub(e.cos(e.add(e.mul(angle, m1), m2)), m3), x)
    return margin
