"""Random tensors and dropout. The numbers are this library's, not PyTorch's."""

from __future__ import annotations

from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import dispatch
from oneflow.frontend.functional.random import random_offset
from oneflow.frontend.importers.torch.table import aten


@aten("native_dropout.default")
def native_dropout(x: Any, p: float, train: bool | None) -> Any:
    if train is False or not p:
        return [x, F.ones_like(x)]
    mask = dispatch("random_mask_like", x, random_offset(), rate=p)
    kept = 0.0 if p == 1 else 1 / (1 - p)
    return [dispatch("dropout_grad", x, mask, scale=kept), mask]


@aten("native_dropout_backward.default")
def native_dropout_backward(grad: Any, mask: Any, scale: float) -> Any:
    return dispatch("dropout_grad", grad, mask, scale=scale)


@aten("dropout.default")
def dropout(x: Any, p: float, train: bool) -> Any:
    return x if not train or not p else F.dropout(x, p, True)


@aten("rand.default", "rand_like.default")
def rand(*_: Any, dtype: Any = None, out: Any) -> Any:
    return F.rand(*out.shape, dtype=out.dtype)


@aten("randn.default", "randn_like.default")
def randn(*_: Any, dtype: Any = None, out: Any) -> Any:
    return F.randn(*out.shape, dtype=out.dtype)


@aten("bernoulli.p")
def bernoulli(x: Any, p: float = 0.5) -> Any:
    return F.bernoulli(x, p)


@aten("bernoulli.default")
def bernoulli_each(x: Any) -> Any:
    return F.bernoulli(x)
