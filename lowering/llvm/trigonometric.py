"""Trigonometric functions and their inverses for f32 and f64, with the constants in `float_formats`."""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.lowering.llvm.arithmetic import Math

PI = 3.141592653589793
#: Up to this bound, pi/2 as a sum of floats (Cody and Waite) is precise enough for the range reduction.
MAX_REDUCED = 1e5


def _quadrant(m: Math, x: str) -> tuple[str, str]:
    """Range reduction: x = r + q pi/2 with |r| <= pi/4, as (r, q); q is an integer in the low bits."""
    n = m.unary("roundeven", m.op("mulf", x, m.const(2 / PI)))
    r = x
    for part in m.format.half_pi:
        r = m.fma(n, m.const(-part), r)
    return r, m.bits(m.op("addf", n, m.const(m.format.rounding_shift)))


def _sine_polynomial(m: Math, r: str, z: str) -> str:
    """The sine of r, for |r| <= pi/4 and z = r^2."""
    return _odd_polynomial(m, m.format.sine, r, z)


def _odd_polynomial(m: Math, coefficients: Sequence[float], x: str, z: str) -> str:
    """x + x z p(z), for z = x^2."""
    return m.fma(m.op("mulf", m.polynomial(z, *coefficients), z), x, x)


def _cosine_polynomial(m: Math, z: str) -> str:
    """The cosine of the square root of z, for z <= (pi/4)^2."""
    p = m.polynomial(z, *m.format.cosine)
    return m.fma(m.op("mulf", z, z), p, m.fma(z, m.const(-0.5), m.const(1.0)))


def _has_bit(m: Math, q: str, bit: int) -> str:
    """Where a bit of q is set."""
    masked = m.on_bits("andi", q, m.integer(bit))
    return m.compare("cmpi", "ne", masked, m.integer(0), element=m.format.integer)


def _shifted_sine(m: Math, x: str, quarters: int) -> str:
    """sin(x + quarters pi/2)."""
    r, q = _quadrant(m, x)
    q = m.on_bits("addi", q, m.integer(quarters))
    z = m.op("mulf", r, r)
    y = m.select(_has_bit(m, q, 1), _cosine_polynomial(m, z), _sine_polynomial(m, r, z))
    return m.select(_has_bit(m, q, 2), m.op("subf", m.const(-0.0), y), y)


def sin(m: Math, x: str) -> str:
    """The sine."""
    return m.with_libm_fallback(
        x,
        MAX_REDUCED,
        "sin",
        lambda: m.select(m.compare("cmpf", "oeq", x, m.const(0.0)), x, _shifted_sine(m, x, 0)),
    )


def cos(m: Math, x: str) -> str:
    """The cosine."""
    return m.with_libm_fallback(x, MAX_REDUCED, "cos", lambda: _shifted_sine(m, x, 1))


def _reduced_tangent(m: Math, x: str) -> str:
    """The tangent after range reduction."""
    r, q = _quadrant(m, x)
    y = _odd_polynomial(m, m.format.tangent, r, m.op("mulf", r, r))
    odd = _has_bit(m, q, 1)
    quotient = m.op("divf", m.select(odd, m.const(-1.0), y), m.select(odd, y, m.const(1.0)))
    return m.select(m.compare("cmpf", "oeq", x, m.const(0.0)), x, quotient)


def tan(m: Math, x: str) -> str:
    """The tangent."""
    return m.with_libm_fallback(x, MAX_REDUCED, "tan", lambda: _reduced_tangent(m, x))


def _arcsine_polynomial(m: Math, s: str, z: str) -> str:
    """The arc sine of s, whose square z is at most 1/4."""
    p = m.polynomial(z, *m.format.arcsine)
    return m.fma(m.op("mulf", s, z), p, s)


def _arcsine_parts(m: Math, x: str) -> tuple[str, str]:
    """Whether |x| > 1/2, and the arc sine of |x|, or of sqrt((1 - |x|) / 2) in that case."""
    size = m.absolute(x)
    large = m.compare("cmpf", "ogt", size, m.const(0.5))
    near_one = m.op("mulf", m.op("subf", m.const(1.0), size), m.const(0.5))
    z = m.select(large, near_one, m.op("mulf", size, size))
    return large, _arcsine_polynomial(m, m.select(large, m.unary("sqrt", z), size), z)


def asin(m: Math, x: str) -> str:
    """The arc sine: pi/2 - 2 asin(sqrt((1 - x) / 2)) beyond 1/2."""
    large, y = _arcsine_parts(m, x)
    near_one = m.op("addf", m.fma(m.const(-2.0), y, m.const(m.format.half_pi[0])), m.const(m.format.half_pi[1]))
    return m.copysign(m.select(large, near_one, y), x)


def acos(m: Math, x: str) -> str:
    """The arc cosine: pi/2 - asin(x); beyond 1/2, 2 asin(sqrt((1 - |x|) / 2)), subtracted from pi for negative x."""
    large, y = _arcsine_parts(m, x)
    negative = m.compare("cmpf", "olt", x, m.const(0.0))
    near = m.op("addf", m.op("subf", m.const(m.format.half_pi[0]), m.copysign(y, x)), m.const(m.format.half_pi[1]))
    double = m.op("addf", y, y)
    back = m.op("addf", m.op("subf", m.const(2 * m.format.half_pi[0]), double), m.const(2 * m.format.half_pi[1]))
    return m.select(large, m.select(negative, back, double), near)


def _arctangent(m: Math, top: str, bottom: str) -> str:
    """The arc tangent of top / bottom, for 0 <= top <= bottom."""
    # From tan(pi/8) on: pi/4 + atan((t - 1) / (t + 1)).
    large = m.compare("cmpf", "ogt", top, m.op("mulf", bottom, m.const(0.4142135623730950)))
    t = m.op(
        "divf",
        m.select(large, m.op("subf", top, bottom), top),
        m.select(large, m.op("addf", top, bottom), bottom),
    )
    z = m.op("mulf", t, t)
    y = _odd_polynomial(m, m.format.arctangent, t, z)
    return m.select(large, m.op("addf", y, m.const(PI / 4)), y)


def _from_half_pi(m: Math, y: str) -> str:
    """pi/2 - y."""
    return m.op("addf", m.op("subf", m.const(m.format.half_pi[0]), y), m.const(m.format.half_pi[1]))


def atan(m: Math, x: str) -> str:
    """The arc tangent: pi/2 - atan(1 / x) beyond 1."""
    size, one = m.absolute(x), m.const(1.0)
    inverted = m.compare("cmpf", "ogt", size, one)
    y = _arctangent(m, m.select(inverted, one, size), m.select(inverted, size, one))
    return m.select(m.is_nan(x), x, m.copysign(m.select(inverted, _from_half_pi(m, y), y), x))


def atan2(m: Math, y: str, x: str) -> str:
    """The angle of the point (x, y)."""
    up, right = m.absolute(y), m.absolute(x)
    steep = m.compare("cmpf", "ogt", up, right)
    top, bottom = m.select(steep, right, up), m.select(steep, up, right)
    angle = _arctangent(m, *_scaled_ratio(m, top, bottom))
    angle = m.select(steep, _from_half_pi(m, angle), angle)
    left = m.compare("cmpi", "slt", m.bits(x), m.integer(0), element=m.format.integer)
    back = m.op("addf", m.op("subf", m.const(2 * m.format.half_pi[0]), angle), m.const(2 * m.format.half_pi[1]))
    result = m.copysign(m.select(left, back, angle), y)
    either = m.op("ori", m.is_nan(x), m.is_nan(y), element="i1")
    return m.select(either, m.op("addf", x, y), result)


def _scaled_ratio(m: Math, top: str, bottom: str) -> tuple[str, str]:
    """A ratio scaled away from overflow and underflow; 0 / 0 becomes 0 / 1 and infinity / infinity becomes 1 / 1."""
    is_infinite = m.compare("cmpf", "oeq", top, m.const(m.format.infinity))
    top, bottom = m.select(is_infinite, m.const(1.0), top), m.select(is_infinite, m.const(1.0), bottom)
    is_zero = m.compare("cmpf", "oeq", bottom, m.const(0.0))
    bottom = m.select(is_zero, m.const(1.0), bottom)
    scale = m.select(m.compare("cmpf", "ogt", bottom, m.const(m.format.ratio_limit)), m.const(2.0**-24), m.const(1.0))
    scale = m.select(m.compare("cmpf", "olt", bottom, m.const(1 / m.format.ratio_limit)), m.const(2.0**24), scale)
    return m.op("mulf", top, scale), m.op("mulf", bottom, scale)
