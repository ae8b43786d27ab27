"""Element-wise operators of one operand, under OneFlow's names; a row each.

Sources of formulas: OneFlow's kernels, which follow PyTorch's; at NaN derivatives follow PyTorch's formulas for one
element, which its vectorized kernels do not all share. In bodies the branch that `where` does not take stays finite,
so that no NaN enters a gradient. References compute in f64 and round once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect._scipy import scipy
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_bodies import magnitude
from oneflow.dialect.complex_parts import by_body, of_pair
from oneflow.dialect.elementwise import (
    elementwise,
    flat_gradient,
    idempotent,
    in_double,
    involution,
    neutral,
    scalar_gradient,
    scalar_gradient_at_result,
)
from oneflow.dialect.record import Call, Rule
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


def unary(signature: str, doc: str, scalar: Rule, reference: Rule, **slots: Any) -> None:
    """A row: `elementwise` with a reference in f64."""
    elementwise(signature, doc, scalar=scalar, reference=in_double(reference), depth=2, **slots)


def _unless_integer(body: Rule) -> Rule:
    """`body` for floats; integers are whole already."""
    return lambda x: body(x) if x.dtype.is_float else x


def _linear_for_integers(op: Call) -> str | None:
    return None if op.operands[0].dtype.is_float else "joint"


def _identity_on_integers(reference: Rule) -> Rule:
    """`reference` for floats; integers are whole already."""
    return lambda x: x if x.dtype.kind in "iu" else reference(x)


def _negative_part(x: Expr) -> Expr:
    """x where x <= 0, else 0: a bounded argument for exp, of derivative 1 at 0."""
    return s.where(x > 0, 0.0, x)


def _elu(x: Expr, alpha: float) -> Expr:
    return s.where(x <= 0, s.expm1(_negative_part(x)) * alpha, x)


def _clamp(x: Expr, low: float, high: float) -> Expr:
    """x between two bounds, of derivative 0 at both; NaN stays."""
    return s.where(x <= low, low, s.where(x >= high, high, x))


def _normal_cdf(x: Expr) -> Expr:
    return (s.erf(x * math.sqrt(0.5)) + 1.0) * 0.5


def _sigmoids(x: np.ndarray) -> Any:
    return 1 / (1 + np.exp(-x)) if x.dtype.kind == "c" else scipy.special.expit(x)


def _sign(x: Expr) -> Expr:
    if x.dtype.kind == "uint":
        return s.minimum(x, 1)
    return s.where(x > 0, 1, s.where(x < 0, s.const(-1, x.dtype), 0))


def _abs_types(op: Call) -> TensorDesc:
    expect_dtype(op, "x", op.x, dtypes.NUMERIC)
    return TensorDesc(op.x.shape, op.x.dtype.part)


def _abs_gradient(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    """dy * sign(x); of complex numbers dy * x / |x|, and 0 at 0."""
    if not op.x.dtype.is_complex:
        return scalar_gradient(ops, op, dy)

    def dx() -> Value:
        size = ops.where(ops.scalar_logical_equal(op.y, has_int_operand=True), ops.ones_like(op.y), op.y)
        value: Value = ops.cast(dy / size, dtype=op.x.dtype) * op.x
        return value

    return {"x": dx}


unary("acos(x) -> y", "The arc cosine.", s.acos, np.arccos, parts=by_body)
unary("acosh(x) -> y", "The inverse hyperbolic cosine.", s.acosh, np.arccosh, parts=by_body)
unary("asin(x) -> y", "The arc sine.", s.asin, np.arcsin, parts=by_body)
unary("asinh(x) -> y", "The inverse hyperbolic sine.", s.asinh, np.arcsinh, parts=by_body)
unary("atan(x) -> y", "The arc tangent.", s.atan, np.arctan, parts=by_body)
unary("atanh(x) -> y", "The inverse hyperbolic tangent.", s.atanh, np.arctanh, parts=by_body)
unary("cos(x) -> y", "The cosine.", s.cos, np.cos, parts=by_body)
unary("cosh(x) -> y", "The hyperbolic cosine.", s.cosh, np.cosh, parts=by_body)
unary("sin(x) -> y", "The sine.", s.sin, np.sin, parts=by_body)
unary("sinh(x) -> y", "The hyperbolic sine.", s.sinh, np.sinh, parts=by_body)
unary("tan(x) -> y", "The tangent.", s.tan, np.tan, parts=by_body)
unary("tanh(x) -> y", "The hyperbolic tangent.", s.tanh, np.tanh, parts=by_body)
unary("erf(x) -> y", "The error function.", s.erf, lambda x: scipy.special.erf(x))
unary("erfc(x) -> y", "1 - erf(x), accurate for large x.", s.erfc, lambda x: scipy.special.erfc(x))
unary("exp(x) -> y", "e to the power x.", s.exp, np.exp, parts=by_body)
unary("exp2(x) -> y", "2 to the power x.", s.exp2, np.exp2, parts=by_body)
unary("expm1(x) -> y", "exp(x) - 1, accurate near 0.", s.expm1, np.expm1, parts=by_body)
unary("log(x) -> y", "The natural logarithm.", s.log, np.log, parts=by_body)
unary("log10(x) -> y", "The logarithm to base 10.", s.log10, np.log10, parts=by_body)
unary("log1p(x) -> y", "log(1 + x), accurate near 0.", s.log1p, np.log1p, parts=by_body)
unary("log2(x) -> y", "The logarithm to base 2.", s.log2, np.log2, parts=by_body)
unary("rsqrt(x) -> y", "1 / sqrt(x).", s.rsqrt, lambda x: 1 / np.sqrt(x), parts=by_body)
unary("sqrt(x) -> y", "The square root.", s.sqrt, np.sqrt, parts=by_body)
unary("reciprocal(x) -> y", "1 / x.", lambda x: 1.0 / x, lambda x: 1 / x, parts=by_body)
unary(
    "reciprocal_no_nan(x) -> y", "1 / x, and 0 where x is 0.",
    lambda x: s.where(x.eq(0), 0.0, 1.0 / s.where(x.eq(0), 1.0, x)),
    lambda x: np.divide(1, x, out=np.zeros_like(x), where=x != 0),
)  # fmt: skip

unary(
    "abs(x) -> y", "The absolute value, which is real; of a complex number its magnitude.", abs, np.abs,
    allowed=dtypes.NUMERIC, types=_abs_types, grad=_abs_gradient, parts=of_pair(magnitude),
    laws=(idempotent("abs"),),
)  # fmt: skip
unary(
    "negative(x) -> y", "-x; integers wrap.", lambda x: -x, np.negative,
    allowed=dtypes.NUMERIC, linear="joint", parts=by_body, laws=(involution("negative"),),
)  # fmt: skip
unary(
    "identity(in) -> out", "x itself.", lambda x: x, lambda x: x,
    allowed=dtypes.ALL, linear="joint", parts=by_body,
    laws=(neutral("drop-identity", "identity(x) = x", lambda op: True),),
)  # fmt: skip
unary(
    "sign(x) -> y", "-1, 0 or 1; 0 of NaN, as in OneFlow.",
    _sign, lambda x: np.where(np.isnan(x), 0, np.sign(x)), allowed=dtypes.NUMERIC, grad=flat_gradient,
    laws=(idempotent("sign"),),
)  # fmt: skip
for _name, _operands, _doc, _body, _reference in (
    ("ceil", "(x) -> y", "The least whole number that is not below x.", s.ceil, np.ceil),
    ("floor", "(x) -> y", "The greatest whole number that is not above x.", s.floor, np.floor),
    ("rint", "(x) -> y", "The nearest whole number, halves to even.", s.rint, np.rint),
    ("round", "(x) -> y", "The nearest whole number, halves to even, as OneFlow's kernel.", s.rint, np.rint),
    ("trunc", "(in) -> out", "x without its fraction.", s.trunc, np.trunc),
):
    unary(
        f"{_name}{_operands}", _doc, _unless_integer(_body), _identity_on_integers(_reference),
        allowed=dtypes.NUMERIC, linear=_linear_for_integers, laws=(idempotent(_name),),
    )  # fmt: skip
unary("square(x) -> y", "x * x; integers wrap.", lambda x: x * x, np.square, allowed=dtypes.NUMERIC, parts=by_body)

unary(
    "relu(x) -> y", "x where x > 0, else 0; NaN stays.",
    lambda x: s.where(x <= 0, 0, x), lambda x: np.maximum(x, 0),
    allowed=dtypes.NUMERIC, laws=(idempotent("relu"),), grad=scalar_gradient_at_result,
)  # fmt: skip
unary(
    "square_relu(x) -> y", "relu(x) squared.",
    lambda x: s.where(x <= 0, 0.0, x) * s.where(x <= 0, 0.0, x), lambda x: np.maximum(x, 0) ** 2,
)  # fmt: skip
unary(
    "leaky_relu(x, alpha: float = 0.0) -> y", "x where x > 0, else alpha * x.",
    lambda x, *, alpha: s.where(x > 0, x, x * alpha),
    lambda x, *, alpha: np.where(x > 0, x, x * alpha),
)  # fmt: skip
unary(
    "elu(in, alpha: double = 0.0) -> out", "x where x > 0, else alpha * (exp(x) - 1).",
    lambda x, *, alpha: _elu(x, alpha),
    lambda x, *, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
)  # fmt: skip
unary(
    "celu(in, alpha: double = 0.0) -> out", "x where x > 0, else alpha * (exp(x / alpha) - 1).",
    lambda x, *, alpha: s.where(x <= 0, s.expm1(_negative_part(x) / alpha) * alpha, x),
    lambda x, *, alpha: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
)  # fmt: skip
unary(
    "selu(in) -> out", "1.0507.. * elu(x, 1.6732..), whose fixed point is mean 0 and variance 1.",
    lambda x: _elu(x, SELU_ALPHA) * SELU_SCALE,
    lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x)),
)  # fmt: skip
unary("sigmoid(x) -> y", "1 / (1 + exp(-x)).", s.sigmoid, _sigmoids, parts=by_body)
unary(
    "silu(in) -> out", "x * sigmoid(x).", lambda x: x * s.sigmoid(x), lambda x: x * _sigmoids(x), parts=by_body,
)  # fmt: skip
unary(
    "quick_gelu(x) -> y", "x * sigmoid(1.702 * x), an approximation of gelu.",
    lambda x: x * s.sigmoid(x * 1.702), lambda x: x * scipy.special.expit(1.702 * x),
)  # fmt: skip
unary(
    "gelu(in) -> out", "x times the probability that a standard normal variable is at most x.",
    lambda x: x * _normal_cdf(x), lambda x: x * scipy.special.ndtr(x),
)  # fmt: skip
unary(
    "fast_gelu(in) -> out", "gelu by tanh: x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2.",
    lambda x: x * 0.5 * (s.tanh((x + x * x * x * 0.044715) * SQRT_2_OVER_PI) + 1.0),
    lambda x: 0.5 * x * (1 + np.tanh(SQRT_2_OVER_PI * (x + 0.044715 * x**3))),
)  # fmt: skip
unary(
    "log_sigmoid(x) -> y", "log(sigmoid(x)), without overflow.",
    lambda x: -s.softplus(-x), lambda x: scipy.special.log_expit(x),
)  # fmt: skip
unary(
    "softplus(x, beta: double = 1.0, threshold: double = 20.0) -> y",
    "log(1 + exp(beta * x)) / beta, and x where beta * x is above threshold.",
    lambda x, *, beta, threshold: s.where(x * beta > threshold, x, s.softplus(x * beta) / beta),
    lambda x, *, beta, threshold: np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta),
)  # fmt: skip
unary(
    "mish(in) -> out", "x * tanh(log(1 + exp(x))).",
    lambda x: x * s.tanh(s.softplus(x)), lambda x: x * np.tanh(np.logaddexp(0, x)),
)  # fmt: skip
unary("softsign(in) -> out", "x / (1 + |x|).", lambda x: x / (abs(x) + 1.0), lambda x: x / (1 + np.abs(x)))
unary(
    "hardsigmoid(in) -> out", "(x + 3) / 6, at least 0 and at most 1.",
    lambda x: s.where(s.isnan(x), x * 0.0, _clamp(x, -3.0, 3.0) + 3.0) / 6.0, lambda x: np.clip(x + 3, 0, 6) / 6,
)  # fmt: skip
unary(
    "hardswish(in) -> out", "x * hardsigmoid(x).",
    lambda x: s.where(x <= -3, 0.0, s.where(x < 3, x * (x + 3.0) / 6.0, x)),
    lambda x: np.where(x == -np.inf, 0, x * np.clip(x + 3, 0, 6) / 6),
)  # fmt: skip
unary(
    "hardtanh(in, min_val: double = 0.0, max_val: double = 0.0) -> out",
    "x, at least min_val and at most max_val; no gradient at either bound.",
    lambda x, *, min_val, max_val: _clamp(x, min_val, max_val),
    lambda x, *, min_val, max_val: np.clip(x, min_val, max_val),
)  # fmt: skip
unary(
    "hardshrink(in, lambd: double = 0.0) -> out", "0 where |x| <= lambd, else x.",
    lambda x, *, lambd: s.where((x >= -lambd) & (x <= lambd), 0.0, x),
    lambda x, *, lambd: np.where(np.abs(x) <= lambd, 0, x),
)  # fmt: skip
unary(
    "softshrink(in, alpha: double = 0.0) -> out", "x moved towards 0 by alpha; 0 where |x| <= alpha.",
    lambda x, *, alpha: s.where((x >= -alpha) & (x <= alpha), 0.0, s.where(x > alpha, x - alpha, x + alpha)),
    lambda x, *, alpha: np.sign(x) * np.maximum(np.abs(x) - alpha, 0),
)  # fmt: skip
unary(
    "threshold(in, threshold_val: double = 0.0, value: double = 0.0) -> out",
    "x where x > threshold_val, else value; NaN stays.",
    lambda x, *, threshold_val, value: s.where(x <= threshold_val, value, x),
    lambda x, *, threshold_val, value: np.where(x <= threshold_val, value, x),
)  # fmt: skip

TEST: dict[str, Any] = {"result": dtypes.bool_, "allowed": dtypes.NUMERIC}


def _is_infinite(x: Expr) -> Expr:
    return abs(x).eq(math.inf) if x.dtype.is_float else x.ne(x)


def _is_finite(x: Expr) -> Expr:
    return abs(x) < math.inf if x.dtype.is_float else x.eq(x)


def _in_either(test: Callable[[Expr], Expr]) -> Rule:
    """The slot `parts` of a test that one part of a complex number passes."""
    return of_pair(lambda z: test(z.re) | test(z.im))


def _test_in_double(test: Rule) -> Rule:
    return lambda x: test(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))


elementwise(
    "isnan(in) -> out", "Whether x is NaN.", scalar=s.isnan, reference=lambda x: x != x, parts=by_body, **TEST
)
elementwise(
    "isinf(in) -> out", "Whether x is infinite.", scalar=_is_infinite,
    reference=_test_in_double(np.isinf), parts=_in_either(_is_infinite), **TEST,
)  # fmt: skip
elementwise(
    "isfinite(in) -> out", "Whether x is neither infinite nor NaN.", scalar=_is_finite,
    reference=_test_in_double(np.isfinite), parts=of_pair(lambda z: _is_finite(z.re) & _is_finite(z.im)), **TEST,
)  # fmt: skip
elementwise(
    "logical_not(x) -> y", "Whether x is 0.", scalar=lambda x: x.eq(0), reference=np.logical_not,
    allowed=dtypes.ALL, result=dtypes.bool_, parts=by_body,
    laws=(involution("logical_not", lambda x: x.dtype is dtypes.bool_),),
)  # fmt: skip
elementwise(
    "bitwise_not(x) -> y", "Every bit inverted.", scalar=lambda x: ~x, reference=np.invert,
    allowed=(dtypes.bool_, *dtypes.INTEGERS), laws=(involution("bitwise_not"),),
)  # fmt: skip
unary("frac(x) -> y", "x less its whole part.", lambda x: x - s.trunc(x), lambda x: x - np.trunc(x))
unary(
    "not_equal_zero(x) -> y", "1 where x is not 0, else 0, in the type of x.",
    lambda x: s.where(x.ne(0), s.const(1, x.dtype), 0), lambda x: (x != 0).astype(x.dtype),
    allowed=dtypes.NUMERIC, grad=flat_gradient,
)  # fmt: skip
