"""Reductions, running sums, norms."""

from __future__ import annotations

from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.functional.rules import to_float
from oneflow.frontend.importers.torch.table import aten, rows

rows({
    F.amax: "amax", F.amin: "amin", F.argmax: "argmax", F.argmin: "argmin", F.logsumexp: "logsumexp",
    F.any: "any any.dim any.dims", F.all: "all all.dim all.dims", F.max: "max max.dim", F.min: "min min.dim",
    F.prod: "prod.dim_int prod", F.trace: "trace",
})  # fmt: skip


@aten("sum.default", "sum.dim_IntList", "prims.sum.default")
def total(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any) -> Any:
    return F.sum(x, dim, keepdim, dtype=out.dtype)


@aten("mean.default", "mean.dim")
def mean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any) -> Any:
    return F.mean(F.cast(x, out.dtype), dim, keepdim)


@aten("cumsum.default")
def cumsum(x: Any, dim: int, *, dtype: Any = None, out: Any) -> Any:
    return F.cumsum(F.cast(x, out.dtype), dim)


@aten("cumprod.default")
def cumprod(x: Any, dim: int, *, dtype: Any = None, out: Any) -> Any:
    return F.cumprod(F.cast(x, out.dtype), dim)


@aten("var.correction")
def var(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return F.var(x, dim, keepdim=keepdim, correction=correction)


@aten("std.correction")
def std(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return F.std(x, dim, keepdim=keepdim, correction=correction)


@aten("var_mean.correction")
def var_mean(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return [var(x, dim, correction=correction, keepdim=keepdim), F.mean(x, dim, keepdim)]


@aten("std_mean.correction")
def std_mean(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return [std(x, dim, correction=correction, keepdim=keepdim), F.mean(x, dim, keepdim)]


@aten("aminmax.default")
def aminmax(x: Any, *, dim: Any = None, keepdim: bool = False) -> Any:
    return [F.amin(x, dim, keepdim), F.amax(x, dim, keepdim)]


@aten("linalg_vector_norm.default")
def vector_norm(x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any) -> Any:
    return F.norm(F.cast(x, out.dtype), p, dim, keepdim)


@aten("_cdist_forward.default")
def distances(x: Any, y: Any, p: float, _: Any = None) -> Any:
    return F.norm(F.sub(F.unsqueeze(x, -2), F.unsqueeze(y, -3)), p, -1)


@aten("norm.ScalarOpt_dim", "norm.Scalar", "norm.ScalarOpt_dim_dtype")
def norm(x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any) -> Any:
    return F.norm(F.cast(x, out.dtype), 2 if p is None else p, dim, keepdim)


@aten("count_nonzero.dim_IntList", "count_nonzero.default")
def count_nonzero(x: Any, dim: Any = None) -> Any:
    return F.sum(F.ne(x, 0), dim)


@aten("nansum.default")
def nansum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any) -> Any:
    return F.sum(F.where(F.isnan(x), 0, x) if x.dtype.is_float else x, dim, keepdim, dtype=out.dtype)


@aten("dist.default")
def dist(x: Any, y: Any, p: Any = 2) -> Any:
    return F.norm(F.sub(x, y), p)


@aten("histc.default")
def histc(x: Any, bins: int = 100, low: Any = 0, high: Any = 0, *, out: Any) -> Any:
    x = to_float(F.reshape(x, (-1,)))
    if low == high == 0:
        low, high = F.amin(x), F.amax(x)
        same = F.eq(low, high)
        low, high = F.where(same, F.sub(low, 1), low), F.where(same, F.add(high, 1), high)
    inside = F.logical_and(F.ge(x, low), F.le(x, high))
    bin_ = F.minimum(F.floor(F.mul(F.div(F.sub(x, low), F.sub(high, low)), bins)), bins - 1)
    own = F.eq(F.unsqueeze(bin_, 1), F.arange(bins, dtype=x.dtype))
    return F.sum(F.logical_and(own, F.unsqueeze(inside, 1)), 0)
