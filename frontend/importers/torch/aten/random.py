"""Random tensors and dropout. The numbers are this library's, not PyTorch's."""

from __future__ import annotations

import math
from typing import Any

from oneflow.dialect.dtypes import float64
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import dispatch
from oneflow.frontend.functional.random import drawn_exponential, random_offset
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


@aten("randint.default")
def randint(high: Any, _: Any, *, dtype: Any = None, out: Any) -> Any:
    return F.randint(0, high, out.shape, dtype=out.dtype)


@aten("randint.low")
def randint_from(low: Any, high: Any, _: Any, *, dtype: Any = None, out: Any) -> Any:
    return F.randint(low, high, out.shape, dtype=out.dtype)


@aten("randint_like.default")
def randint_like(_: Any, high: Any, *, dtype: Any = None, out: Any) -> Any:
    return F.randint(0, high, out.shape, dtype=out.dtype)


@aten("randint_like.low_dtype")
def randint_like_from(_: Any, low: Any, high: Any, *, dtype: Any = None, out: Any) -> Any:
    return F.randint(low, high, out.shape, dtype=out.dtype)


@aten("randperm.default")
def randperm(n: Any, *, dtype: Any = None, out: Any) -> Any:
    return F.randperm(n, dtype=out.dtype)


@aten("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor")
def normal(mean: Any = 0.0, std: Any = 1.0) -> Any:
    return F.normal(mean, std)


@aten("normal.float_float")
def normal_of_size(mean: float, std: float, _: Any, *, dtype: Any = None, out: Any) -> Any:
    return F.normal(mean, std, out.shape, dtype=out.dtype)


@aten("normal_functional.default")
def normal_like(_: Any, mean: float = 0.0, std: float = 1.0, *, out: Any) -> Any:
    return F.normal(mean, std, out.shape, dtype=out.dtype)


@aten("log_normal.default")
def log_normal(_: Any, mean: float = 1.0, std: float = 2.0, *, out: Any) -> Any:
    return F.exp(F.normal(mean, std, out.shape, dtype=out.dtype))


@aten("uniform.default")
def uniform(_: Any, low: float = 0.0, high: float = 1.0, *, out: Any) -> Any:
    return F.add(F.mul(F.rand(*out.shape, dtype=out.dtype), high - low), low)


@aten("exponential.default")
def exponential(_: Any, lambd: float = 1.0, *, out: Any) -> Any:
    return drawn_exponential(out.shape, lambd, out.dtype)


@aten("geometric.default")
def geometric(_: Any, p: float, *, out: Any) -> Any:
    tails = F.log1p(F.neg(F.rand(*out.shape, dtype=float64)))
    return F.add(F.floor(F.div(tails, math.log1p(-p))), 1)


@aten("cauchy.default")
def cauchy(_: Any, median: float = 0.0, sigma: float = 1.0, *, out: Any) -> Any:
    angle = F.mul(F.sub(F.rand(*out.shape, dtype=out.dtype), 0.5), math.pi)
    return F.add(F.mul(F.tan(angle), sigma), median)


@aten("multinomial.default")
def multinomial(x: Any, count: int, replacement: bool = False) -> Any:
    return F.multinomial(x, count, replacement)


@aten("rrelu_with_noise_functional.default")
def rrelu(x: Any, noise: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    if not training:
        return [F.leaky_relu(x, (lower + upper) / 2), noise]
    drawn = F.add(F.mul(F.rand_like(x), upper - lower), lower)
    slopes = F.where(F.gt(x, 0), F.ones_like(x), drawn)
    return [F.mul(x, slopes), slopes]


@aten("bernoulli.Tensor")
def bernoulli_of(_: Any, p: Any) -> Any:
    return F.bernoulli(p)


@aten("bernoulli.p")
def bernoulli(x: Any, p: float = 0.5) -> Any:
    return F.bernoulli(x, p)


@aten("bernoulli.default")
def bernoulli_each(x: Any) -> Any:
    return F.bernoulli(x)
