"""Special functions: the inverse error function, the logarithm of gamma and its derivatives, and Hurwitz's zeta.

Gamma's functions are shifted to large arguments by their recurrences, and reflected for negative ones; there the
asymptotic series hold (Abramowitz and Stegun, 6.1.40, 6.3.18 and 6.4.12). The terms of the series cancel near zeros,
and are computed in f64. Zeta is a sum with the remainder of Euler and Maclaurin, as in Cephes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect._scipy import scipy
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.elementwise import elementwise, in_double
from oneflow.dialect.ops.unary import unary
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import Factors, broadcast_factors
from oneflow.dialect.scalar import Expr

#: How far arguments are shifted, so that the series are exact to f64's precision.
SHIFT = 10


def _polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """The polynomial with `coefficients`, the coefficient of the highest power first."""
    value: Any = coefficients[0]
    for c in coefficients[1:]:
        value = x * value + c
    assert isinstance(value, Expr)
    return value


#: Giles, "Approximating the erfinv function" (2012): for w below 5, and from there on.
NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
        -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
FAR = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
       1.00167406, 2.83297682)  # fmt: skip


def _erfinv(x: Expr) -> Expr:
    """Giles' approximation, which is exact to f32; f64 is refined by Newton's method."""
    w = -s.log((1.0 - x) * (x + 1.0))
    central, tail = _polynomial(w - 2.5, NEAR), _polynomial(s.sqrt(s.where(w < 5.0, 5.0, w)) - 3.0, FAR)
    y = s.where(w < 5.0, central, tail) * x
    if x.dtype.bits == 64:
        for _ in range(3):
            size, target = abs(y), abs(x)
            error = s.where(target < 0.5, s.erf(size) - target, (1.0 - target) - s.erfc(size))
            size = size - error * s.exp(size * size) * (math.sqrt(math.pi) / 2)
            y = s.where(x < 0, -size, size)
    return s.where(abs(x).eq(1.0), x * math.inf, y)


def _erfinv_gradient(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    scale = math.sqrt(math.pi) / 2
    return {"x": lambda: ops.broadcast_mul_no_nan(dy, ops.exp(ops.square(op.y)) * scale)}


unary(
    "erfinv(x) -> y", "The inverse of the error function.", _erfinv, lambda x: scipy.special.erfinv(x),
    grad=_erfinv_gradient,
)  # fmt: skip


def _shifted(x: Expr) -> tuple[Expr, Expr, Expr]:
    """The argument reflected to 1/2 and above where it is smaller, whether it was, and the argument shifted."""
    reflected = x < 0.5
    positive = s.where(reflected, 1.0 - x, x)
    return positive, reflected, s.where(positive < SHIFT, positive + SHIFT, positive)


def _angle(x: Expr) -> Expr:
    """pi times the fraction of x, from -1/2 to 1/2: the sine of pi x has the same absolute value."""
    return (x - s.rint(x)) * math.pi


def _in_f64(body: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """A body whose operations are in f64, so that numbers of f32 have all digits near the zeros of the function."""
    return lambda x: s.cast(body(s.cast(x, dtypes.float64)), x.dtype)


@_in_f64
def _lgamma(x: Expr) -> Expr:
    positive, reflected, z = _shifted(x)
    product: Any = positive
    for k in range(1, SHIFT):
        product = product * (positive + k)
    square = 1.0 / (z * z)
    series = _polynomial(square, (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)) / z
    large = (z - 0.5) * s.log(z) - z + (series + 0.5 * math.log(2 * math.pi))
    value = s.where(positive < SHIFT, large - s.log(s.where(positive < SHIFT, product, 1.0)), large)
    value = s.where(positive.eq(math.inf), math.inf, s.where(x.eq(1.0) | x.eq(2.0), 0.0, value))
    sine = abs(s.sin(_angle(x)))
    mirrored = s.log(math.pi / sine) - value
    return s.where(abs(x).eq(math.inf), math.inf, s.where(reflected, mirrored, value))


@_in_f64
def _digamma(x: Expr) -> Expr:
    positive, reflected, z = _shifted(x)
    steps = sum((1.0 / (positive + k) for k in range(1, SHIFT)), 1.0 / positive)
    square = 1.0 / (z * z)
    series = _polynomial(square, (691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12)) * square
    large = s.log(z) - 0.5 / z + series
    value = s.where(positive < SHIFT, large - steps, large)
    angle = _angle(x)
    mirrored = value - math.pi * s.cos(angle) / s.sin(angle)
    at_pole = x.eq(s.floor(x)) & (x < 0)
    value = s.where(reflected, s.where(at_pole, math.nan, mirrored), value)
    return s.where(x.eq(0.0), -1.0 / x, value)


@_in_f64
def _trigamma(x: Expr) -> Expr:
    positive, reflected, z = _shifted(x)
    steps = sum((1.0 / ((positive + k) * (positive + k)) for k in range(1, SHIFT)), 1.0 / (positive * positive))
    square = 1.0 / (z * z)
    series = _polynomial(square, (-691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)) * square / z
    large = 1.0 / z + 0.5 * square + series
    value = s.where(positive < SHIFT, large + steps, large)
    ratio = math.pi / s.sin(_angle(x))
    return s.where(reflected, ratio * ratio - value, value)


def _numpy_trigamma(x: Any) -> Any:
    value = scipy.special.polygamma(1, np.where(x < 0.5, 1 - x, x))
    return np.where(x < 0.5, (np.pi / np.sin(np.pi * (x - np.rint(x)))) ** 2 - value, value)


def _linear_in_dy(op: Call) -> Factors:
    return broadcast_factors([d.shape for d in op.operands], op.results[0].rank).linear_in(op, "dy")


def _derivative_by(name: str) -> Any:
    """The gradient slot of an operator whose derivative the operator `name`(x, dy) multiplies."""
    return lambda ops, op, dy: {"x": lambda: ops.call(name, op.x, dy)[0]}


unary(
    "lgamma(x) -> y", "The logarithm of the absolute value of gamma.", _lgamma,
    lambda x: np.where(np.isinf(x), np.inf, scipy.special.gammaln(x)),
    grad=_derivative_by("lgamma_grad"),
)  # fmt: skip
unary(
    "digamma(x) -> y", "The derivative of the logarithm of gamma.", _digamma, lambda x: scipy.special.psi(x),
    grad=_derivative_by("digamma_grad"),
)  # fmt: skip
unary("trigamma(x) -> y", "The derivative of digamma.", _trigamma, _numpy_trigamma)
for _name, _derivative, _reference in (
    ("lgamma_grad", _digamma, lambda x: scipy.special.psi(x)), ("digamma_grad", _trigamma, _numpy_trigamma)
):  # fmt: skip
    elementwise(
        f"{_name}(x, dy) -> dx", f"dy times the derivative of `{_name.removesuffix('_grad')}` at x.",
        scalar=lambda x, dy, derivative=_derivative: dy * derivative(x),
        reference=in_double(lambda x, dy, derivative=_reference: dy * derivative(x)), sbp=_linear_in_dy,
    )  # fmt: skip


#: The terms that zeta adds one by one, and (2n)! over the Bernoulli numbers of its remainder.
TERMS = 10
REMAINDER = (12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1892437580.3183792, 74724249600.0, -2950130727918.164)


def _zeta(x: Expr, q: Expr) -> Expr:
    power, first = s.cast(x, dtypes.float64), s.cast(q, dtypes.float64)
    terms = sum((s.power(first + k, -power) for k in range(1, TERMS)), s.power(first, -power))
    last = first + (TERMS - 1)
    term = s.power(last, -power)
    total = terms + (term * last / (power - 1.0) - term * 0.5)
    factor: Any = 1.0
    for n, divisor in enumerate(REMAINDER):
        factor, term = (power + 2 * n) * factor, term / last
        total = total + factor * term / divisor
        factor, term = (power + (2 * n + 1)) * factor, term / last
    total = s.where(power.eq(math.inf) | first.eq(math.inf), terms, total)
    infinite = power.eq(1.0) | ((first <= 0) & first.eq(s.floor(first)))
    value = s.where(infinite, math.inf, s.where(first < 0, math.nan, total))
    return s.cast(s.where(power < 1.0, math.nan, value), x.dtype)


def _numpy_zeta(x: Any, q: Any) -> Any:
    power, first = x.astype(np.float64), q.astype(np.float64)
    is_pole = (first <= 0) & (first == np.floor(first))
    value = np.where(first > 0, scipy.special.zeta(power, np.where(first > 0, first, 1.0)), np.nan)
    value = np.where(is_pole | (power == 1), np.inf, np.where(first < 0, np.nan, value))
    return np.where(power < 1, np.nan, value).astype(x.dtype)


elementwise(
    "broadcast_zeta(x, y) -> z",
    "Hurwitz's zeta function, the sum of (k + y)^-x over k from 0; computed in f64.\n\n"
    "The result is infinite where x is 1, or y a whole number of at most 0; NaN where x is less than 1, or y "
    "negative.",
    scalar=_zeta, reference=_numpy_zeta,
)  # fmt: skip
