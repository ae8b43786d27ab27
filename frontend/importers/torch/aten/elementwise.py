"""Arithmetic, comparisons and other functions of elements."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.functional.rules import as_common, to_float
from oneflow.frontend.importers.torch.table import aten, rows

rows({
    F.abs: "abs", F.acos: "acos", F.acosh: "acosh", F.asin: "asin", F.asinh: "asinh", F.atan: "atan",
    F.atanh: "atanh", F.bitwise_not: "bitwise_not", F.ceil: "ceil", F.cos: "cos", F.cosh: "cosh", F.erf: "erf",
    F.erfc: "erfc", F.exp: "exp", F.exp2: "exp2", F.expm1: "expm1", F.floor: "floor", F.isfinite: "isfinite",
    F.isinf: "isinf", F.isnan: "isnan", F.log: "log", F.log10: "log10", F.log1p: "log1p", F.log2: "log2",
    F.logical_not: "logical_not", F.neg: "neg", F.reciprocal: "reciprocal", F.rint: "round", F.rsqrt: "rsqrt",
    F.sigmoid: "sigmoid special_expit", F.sign: "sign", F.sin: "sin", F.sinh: "sinh", F.sqrt: "sqrt",
    F.square: "square", F.tan: "tan", F.tanh: "tanh", F.trunc: "trunc",
    F.logical_and: "logical_and", F.logical_or: "logical_or", F.logical_xor: "logical_xor",
    F.maximum: "maximum max.other", F.minimum: "minimum min.other", F.atan2: "atan2",
    F.clamp: "clamp clamp.Tensor", F.where: "where.self where.ScalarSelf where.ScalarOther where.Scalar",
    F.masked_fill: "masked_fill.Scalar", F.clamp_min: "clamp_min clamp_min.Tensor",
    F.clamp_max: "clamp_max clamp_max.Tensor", F.addcmul: "addcmul", F.addcdiv: "addcdiv", F.frac: "frac",
    F.logaddexp: "logaddexp", F.digamma: "digamma", F.lgamma: "lgamma", F.erfinv: "erfinv special_erfinv",
    F.polygamma: "polygamma",
})  # fmt: skip
rows({F.add: "add", F.sub: "sub"}, "Tensor")
aten("add.Scalar")(lambda x, other, alpha=1: F.add(x, other, alpha=alpha))
aten("sub.Scalar")(lambda x, other, alpha=1: F.sub(x, other, alpha=alpha))
for _suffix in ("Tensor", "Scalar"):
    rows({
        F.mul: "mul", F.div: "div", F.fmod: "fmod", F.remainder: "remainder",
        F.eq: "eq", F.ne: "ne", F.lt: "lt", F.le: "le", F.gt: "gt", F.ge: "ge", F.bitwise_and: "bitwise_and __and__",
        F.bitwise_or: "bitwise_or __or__", F.bitwise_xor: "bitwise_xor __xor__",
    }, _suffix)  # fmt: skip
rows({
    F.pow: "pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar",
    F.div: "div.Tensor_mode div.Scalar_mode true_divide.Tensor true_divide.Scalar",
    F.floor_divide: "floor_divide floor_divide.Scalar", F.remainder: "remainder.Scalar_Tensor",
})  # fmt: skip


@aten("rsub.Scalar", "rsub.Tensor")
def rsub(x: Any, other: Any, alpha: Any = 1) -> Any:
    return F.sub(other, x, alpha=alpha)


@aten("clone.default", "alias.default", "detach.default", "lift_fresh_copy.default", "contiguous.default",
      "positive.default", "detach_.default", "lift_fresh.default", "alias_copy.default")  # fmt: skip
def same(x: Any) -> Any:
    return x


@aten("_to_copy.default", "to.dtype", "to.device", "to.other", "to.dtype_layout", "type_as.default",
      "prims.convert_element_type.default", "_assert_tensor_metadata.default")  # fmt: skip
def converted(x: Any, *_: Any, dtype: Any = None, copy: bool = False, out: Any) -> Any:
    return F.cast(x, out.dtype)


@aten("masked_fill.Tensor")
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return F.where(mask, value, x)


@aten("hypot.default")
def hypot(x: Any, y: Any) -> Any:
    return F.norm(F.stack([*_broadcast(x, y)]), 2, 0)


def _broadcast(x: Any, y: Any) -> tuple[Any, Any]:
    return F.add(x, F.zeros_like(y)), F.add(y, F.zeros_like(x))


@aten("lerp.Scalar", "lerp.Tensor")
def lerp(x: Any, end: Any, weight: Any) -> Any:
    return F.add(x, F.mul(F.sub(end, x), weight))


@aten("xlogy.Tensor")
def xlogy(x: Any, y: Any) -> Any:
    return dispatch("xlogy", to_float(x), to_float(y))


@aten("copy.default")
def copied(x: Any, source: Any, non_blocking: bool = False, *, out: Any) -> Any:
    return F.expand(F.cast(source, out.dtype), *out.shape)


@aten("fmax.default")
def fmax(x: Any, y: Any) -> Any:
    x, y = as_common(x, y)
    return F.where(F.isnan(x), y, F.where(F.isnan(y), x, F.maximum(x, y)))


@aten("fmin.default")
def fmin(x: Any, y: Any) -> Any:
    x, y = as_common(x, y)
    return F.where(F.isnan(x), y, F.where(F.isnan(y), x, F.minimum(x, y)))


@aten("isin.Tensor_Tensor")
def isin(x: Any, among: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    matches = F.any(F.eq(F.unsqueeze(x, -1), F.reshape(among, (-1,))), -1)
    return F.logical_not(matches) if invert else matches


@aten("special_xlog1py.default")
def xlog1py(x: Any, y: Any) -> Any:
    product = F.where(F.eq(x, 0), 0.0, F.mul(x, F.log1p(y)))
    return F.where(F.isnan(y), F.add(y, F.zeros_like(x)), product)


@aten("special_entr.default")
def entr(x: Any) -> Any:
    x = to_float(x)
    return F.where(F.lt(x, 0), -math.inf, F.where(F.eq(x, 0), 0.0, F.neg(F.mul(x, F.log(x)))))


@aten("logit.default", "special_logit.default")
def logit(x: Any, eps: float | None = None) -> Any:
    x = to_float(x)
    x = x if eps is None else F.clamp(x, eps, 1 - eps)
    return F.log(F.div(x, F.sub(1, x)))


@aten("logit_backward.default")
def logit_backward(grad: Any, x: Any, eps: float | None = None) -> Any:
    low, high = (0.0, 1.0) if eps is None else (eps, 1 - eps)
    inside = F.logical_and(F.ge(x, low), F.le(x, high))
    return F.where(inside, F.div(grad, F.mul(x, F.sub(1, x))), math.nan if eps is None else 0.0)


@aten("sinc.default")
def sinc(x: Any) -> Any:
    angle = F.mul(to_float(x), math.pi)
    return F.where(F.eq(angle, 0), 1.0, F.div(F.sin(angle), F.where(F.eq(angle, 0), 1.0, angle)))


@aten("isposinf.default")
def isposinf(x: Any) -> Any:
    return F.eq(to_float(x), math.inf)


@aten("isneginf.default")
def isneginf(x: Any) -> Any:
    return F.eq(to_float(x), -math.inf)


@aten("round.decimals")
def rounded(x: Any, decimals: int) -> Any:
    power = 10.0 ** abs(decimals)
    return F.div(F.rint(F.mul(x, power)), power) if decimals >= 0 else F.mul(F.rint(F.div(x, power)), power)


@aten("deg2rad.default")
def deg2rad(x: Any) -> Any:
    return F.mul(x, math.pi / 180)


@aten("rad2deg.default")
def rad2deg(x: Any) -> Any:
    return F.mul(x, 180 / math.pi)


@aten("nan_to_num.default")
def nan_to_num(x: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Any:
    if not x.dtype.is_float:
        return x
    largest = float(ml_dtypes.finfo(x.dtype.numpy).max)
    replaced = F.where(F.isnan(x), nan or 0.0, x)
    replaced = F.where(F.eq(replaced, math.inf), largest if posinf is None else posinf, replaced)
    return F.where(F.eq(replaced, -math.inf), -largest if neginf is None else neginf, replaced)


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(x: Any, sign: Any) -> Any:
    size, sign = F.abs(to_float(x)), as_tensor(sign)
    # 1 / -0 is -inf.
    negative = F.lt(F.where(F.eq(sign, 0), F.reciprocal(to_float(sign)), to_float(sign)), 0)
    return F.where(negative, F.neg(size), size)


@aten("logaddexp2.default")
def logaddexp2(x: Any, other: Any) -> Any:
    return F.mul(F.logaddexp(F.mul(x, math.log(2)), F.mul(other, math.log(2))), 1 / math.log(2))


@aten("special_ndtri.default")
def ndtri(x: Any) -> Any:
    return F.mul(F.erfinv(F.sub(F.mul(x, 2), 1)), math.sqrt(2))
