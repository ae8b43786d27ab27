"""Distances and similarities of vectors, and losses of distances. Formulas are PyTorch's. `reduction` is "mean",
"sum" or "none".
"""

from __future__ import annotations

import math
from typing import Any

from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import reduction as r
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.losses import reduced
from oneflow.frontend.functional.rules import accumulated, as_common
from oneflow.frontend.functional.source import zeros_like

__all__ = [
    "cosine_embedding_loss", "cosine_similarity", "gaussian_nll_loss", "hinge_embedding_loss", "margin_ranking_loss",
    "normalize", "pairwise_distance", "poisson_nll_loss", "soft_margin_loss", "triplet_margin_loss",
]  # fmt: skip


@accumulated
def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """`input` over its p-norm along `dim`, which counts as at least `eps`; floats."""
    x = as_tensor(input)
    return e.div(x, e.clamp(r.norm(x, p, dim, keepdim=True), min=eps))


@accumulated
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`, whose lengths count as at least `eps`; floats.

    Gradients ignore `eps`.
    """
    pair = as_common(x1, x2)
    units = [e.div(v, _at_least(r.norm(v, 2.0, dim, keepdim=True), eps)) for v in pair]
    return r.sum(e.mul(*units), dim)


def _at_least(x: Tensor, low: float) -> Tensor:
    """`x`, at least `low`, with the gradient of `x`; an infinite `x` is kept."""
    raised: Tensor = e.where(e.lt(x, low), e.add(x, dispatch("stop_gradient", e.sub(low, x))), x)
    return raised


@accumulated
def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension; floats."""
    return r.norm(e.add(e.sub(x1, x2), eps), p, -1, keepdim)


@accumulated
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cosine for pairs whose `target` is 1, max(0, cosine - margin) for pairs whose target is -1."""
    x, y = as_common(input1, input2)
    lengths = [e.sqrt(e.add(r.sum(e.square(v), -1), 1e-12)) for v in (x, y)]
    cosine = e.div(r.sum(e.mul(x, y), -1), e.mul(*lengths))
    nothing, target = zeros_like(cosine), as_tensor(target)
    positive = e.where(e.eq(target, 1), e.sub(1.0, cosine), nothing)
    negative = e.where(e.eq(target, -1), e.clamp(e.sub(cosine, margin), min=0), nothing)
    return reduced(e.add(positive, negative), reduction)


@accumulated
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, distance(anchor, positive) - distance(anchor, negative) + margin).

    With `swap` the distance between `positive` and `negative` replaces the distance between `anchor` and `negative`
    where it is smaller.
    """
    if margin <= 0:
        raise fail(f"expected margin above 0, got {margin}")
    to_positive = pairwise_distance(anchor, positive, p, eps)
    to_negative = pairwise_distance(anchor, negative, p, eps)
    if swap:
        to_negative = e.minimum(to_negative, pairwise_distance(positive, negative, p, eps))
    return reduced(e.clamp(e.sub(e.add(to_positive, margin), to_negative), min=0), reduction)


@accumulated
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """-target * (input1 - input2) + margin, but at least 0."""
    order = e.mul(e.neg(as_tensor(target)), e.sub(input1, input2))
    return reduced(e.clamp(e.add(order, margin), min=0), reduction)


@accumulated
def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """`input` where `target` is 1, max(0, margin - input) where `target` is -1."""
    x, target = as_tensor(input), as_tensor(target)
    hinge = e.where(e.ne(target, 1), e.clamp(e.sub(margin, x), min=0), zeros_like(x))
    return reduced(e.add(hinge, e.where(e.ne(target, -1), x, zeros_like(x))), reduction)


@accumulated
def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)), without overflow; targets are 1 and -1."""
    agreed = e.mul(as_tensor(target), input)
    return reduced(e.neg(dispatch("log_sigmoid", agreed)), reduction)


@accumulated
def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability of `target` in a Poisson distribution of the expectation exp(input), or `input`.

    Terms of `target` alone are left out; with `full`, Stirling's formula approximates these terms.
    """
    x, y = as_common(input, target)
    loss = e.sub(e.exp(x), e.mul(y, x)) if log_input else e.sub(x, e.mul(y, e.log(e.add(x, eps))))
    if full:
        counts = e.where(e.gt(y, 1), y, e.add(zeros_like(y), 2.0))
        rest = e.add(e.sub(e.mul(counts, e.log(counts)), counts), e.mul(e.log(e.mul(counts, 2 * math.pi)), 0.5))
        loss = e.add(loss, e.where(e.gt(y, 1), rest, zeros_like(y)))
    return reduced(loss, reduction)


@accumulated
def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Minus the log-density of `target` in normal distributions around `input`, of the variances `var`.

    A variance counts as at least `eps`, which its gradient ignores; `full` adds log(2 * pi) / 2. Variances without
    the last dimension apply to all elements along that dimension.
    """
    x, y, v = as_common(input, target, var)
    if v.rank == x.rank - 1:
        v = sh.unsqueeze(v, -1)
    v = _at_least(v, eps)
    loss = e.mul(e.add(e.log(v), e.div(e.square(e.sub(x, y)), v)), 0.5)
    return reduced(e.add(loss, 0.5 * math.log(2 * math.pi)) if full else loss, reduction)
