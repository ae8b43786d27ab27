"""Circular functions of f32 and their inverses; coefficients of Cephes. Imports `arithmetic`."""

from __future__ import annotations

from oneflow.lowering.llvm.arithmetic import Math

PI = 3.141592653589793
#: Half of pi in three parts, each an f32.
HALF_PI = (1.57079637050628662109375, -4.37113882867379e-8, -1.71512451e-15)
#: Up to here the parts give the remainder exactly enough; adding `ROUND` leaves an integer in the low bits.
FAR, ROUND = 1e5, 12582912.0


def _quadrant(m: Math, x: str) -> tuple[str, str]:
    """x as (r, q): q quarters of a turn (an i32) and r, at most an eighth."""
    n = m.unary("roundeven", m.op("mulf", x, m.const(2 / PI)))
    r = x
    for part in HALF_PI:
        r = m.fma(n, m.const(-part), r)
    return r, m.convert("bitcast", m.op("addf", n, m.const(ROUND)), "f32", "i32")


def _near_sine(m: Math, r: str, z: str) -> str:
    p = m.polynomial(z, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
    return m.fma(m.op("mulf", p, z), r, r)


def _near_cosine(m: Math, z: str) -> str:
    p = m.polynomial(z, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
    return m.fma(m.op("mulf", z, z), p, m.fma(z, m.const(-0.5), m.const(1.0)))


def _has_bit(m: Math, q: str, bit: int) -> str:
    masked = m.op("andi", q, m.const(bit, "i32"), element="i32")
    return m.compare("cmpi", "ne", masked, m.const(0, "i32"), element="i32")


def _turned(m: Math, x: str, quarters: int) -> str:
    """The sine of x and `quarters` quarters of a turn."""
    r, q = _quadrant(m, x)
    q = m.op("addi", q, m.const(quarters, "i32"), element="i32")
    z = m.op("mulf", r, r)
    y = m.select(_has_bit(m, q, 1), _near_cosine(m, z), _near_sine(m, r, z))
    return m.select(_has_bit(m, q, 2), m.op("subf", m.const(-0.0), y), y)


def sin(m: Math, x: str) -> str:
    """The sine."""
    return m.where_far(
        x, FAR, "sin", lambda: m.select(m.compare("cmpf", "oeq", x, m.const(0.0)), x, _turned(m, x, 0))
    )


def cos(m: Math, x: str) -> str:
    """The cosine."""
    return m.where_far(x, FAR, "cos", lambda: _turned(m, x, 1))


def _near_tangent(m: Math, x: str) -> str:
    r, q = _quadrant(m, x)
    z = m.op("mulf", r, r)
    p = m.polynomial(
        z, 9.38540185543e-3, 3.11992232697e-3, 2.44301354525e-2, 5.34112807005e-2, 1.33387994085e-1, 3.33331568548e-1
    )
    y = m.fma(m.op("mulf", p, z), r, r)
    odd = _has_bit(m, q, 1)
    quotient = m.op("divf", m.select(odd, m.const(-1.0), y), m.select(odd, y, m.const(1.0)))
    return m.select(m.compare("cmpf", "oeq", x, m.const(0.0)), x, quotient)


def tan(m: Math, x: str) -> str:
    """The tangent."""
    return m.where_far(x, FAR, "tan", lambda: _near_tangent(m, x))


def _near_arcsine(m: Math, s: str, z: str) -> str:
    """The arc sine of s, whose square is z at most 1/4."""
    p = m.polynomial(z, 4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
    return m.fma(m.op("mulf", s, z), p, s)


def _arcsine_parts(m: Math, x: str) -> tuple[str, str]:
    """Whether |x| is more than 1/2, and the arc sine of |x|, or of sqrt((1 - |x|) / 2) then."""
    size = m.absolute(x)
    large = m.compare("cmpf", "ogt", size, m.const(0.5))
    far = m.op("mulf", m.op("subf", m.const(1.0), size), m.const(0.5))
    z = m.select(large, far, m.op("mulf", size, size))
    return large, _near_arcsine(m, m.select(large, m.unary("sqrt", z), size), z)


def asin(m: Math, x: str) -> str:
    """The arc sine: beyond 1/2, pi/2 - 2 asin(sqrt((1 - x) / 2))."""
    large, y = _arcsine_parts(m, x)
    far = m.op("addf", m.fma(m.const(-2.0), y, m.const(HALF_PI[0])), m.const(HALF_PI[1]))
    return m.copysign(m.select(large, far, y), x)


def acos(m: Math, x: str) -> str:
    """The arc cosine: pi/2 - asin(x); beyond 1/2, 2 asin(sqrt((1 - |x|) / 2)), taken from pi for negative x."""
    large, y = _arcsine_parts(m, x)
    negative = m.compare("cmpf", "olt", x, m.const(0.0))
    near = m.op("addf", m.op("subf", m.const(HALF_PI[0]), m.copysign(y, x)), m.const(HALF_PI[1]))
    double = m.op("addf", y, y)
    back = m.op("addf", m.op("subf", m.const(2 * HALF_PI[0]), double), m.const(2 * HALF_PI[1]))
    return m.select(large, m.select(negative, back, double), near)


def _arctangent(m: Math, top: str, bottom: str) -> str:
    """The arc tangent of a ratio of two numbers that are not negative, at most 1."""
    # tan(pi/8) and above: pi/4 + atan((t - 1) / (t + 1)).
    large = m.compare("cmpf", "ogt", top, m.op("mulf", bottom, m.const(0.4142135623730950)))
    t = m.op(
        "divf",
        m.select(large, m.op("subf", top, bottom), top),
        m.select(large, m.op("addf", top, bottom), bottom),
    )
    z = m.op("mulf", t, t)
    p = m.polynomial(z, 8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
    y = m.fma(m.op("mulf", p, z), t, t)
    return m.select(large, m.op("addf", y, m.const(PI / 4)), y)


def _from_half_pi(m: Math, y: str) -> str:
    return m.op("addf", m.op("subf", m.const(HALF_PI[0]), y), m.const(HALF_PI[1]))


def atan(m: Math, x: str) -> str:
    """The arc tangent: beyond 1, pi/2 - atan(1 / x)."""
    size, one = m.absolute(x), m.const(1.0)
    inverted = m.compare("cmpf", "ogt", size, one)
    y = _arctangent(m, m.select(inverted, one, size), m.select(inverted, size, one))
    return m.select(m.is_nan(x), x, m.copysign(m.select(inverted, _from_half_pi(m, y), y), x))


def atan2(m: Math, y: str, x: str) -> str:
    """The angle of the point (x, y)."""
    up, right = m.absolute(y), m.absolute(x)
    steep = m.compare("cmpf", "ogt", up, right)
    top, bottom = m.select(steep, right, up), m.select(steep, up, right)
    angle = _arctangent(m, *_tame(m, top, bottom))
    angle = m.select(steep, _from_half_pi(m, angle), angle)
    signs = m.convert("bitcast", x, "f32", "i32")
    left = m.compare("cmpi", "slt", signs, m.const(0, "i32"), element="i32")
    back = m.op("addf", m.op("subf", m.const(2 * HALF_PI[0]), angle), m.const(2 * HALF_PI[1]))
    result = m.copysign(m.select(left, back, angle), y)
    either = m.op("ori", m.is_nan(x), m.is_nan(y), element="i1")
    return m.select(either, m.op("addf", x, y), result)


def _tame(m: Math, top: str, bottom: str) -> tuple[str, str]:
    """A ratio with 0 / 0 as 0 and infinity / infinity as 1, its numbers far from overflow and underflow."""
    endless = m.compare("cmpf", "oeq", top, m.const("0x7F800000"))
    top, bottom = m.select(endless, m.const(1.0), top), m.select(endless, m.const(1.0), bottom)
    nothing = m.compare("cmpf", "oeq", bottom, m.const(0.0))
    bottom = m.select(nothing, m.const(1.0), bottom)
    scale = m.select(m.compare("cmpf", "ogt", bottom, m.const(1e30)), m.const(2.0**-24), m.const(1.0))
    scale = m.select(m.compare("cmpf", "olt", bottom, m.const(1e-30)), m.const(2.0**24), scale)
    return m.op("mulf", top, scale), m.op("mulf", bottom, scale)
