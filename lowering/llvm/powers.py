"""Powers: 2^(y log2 x), with a logarithm of more digits than the result, since large y multiplies its error.

The logarithm is an f64 for f32 results, and a double-double number for f64 results.
"""

from __future__ import annotations

from oneflow.lowering.llvm.arithmetic import Math
from oneflow.lowering.llvm.exponentials import (
    LOG_2,
    expm1_polynomial,
    exponent_and_mantissa,
    integral,
    parts_of_normal,
    scaled,
)

#: log2((1 + s) / (1 - s)) / s as a polynomial in s^2, to 2^-37.
_LOG2 = (0.34073299324245587, 0.41167268734376855, 0.57708358300700868, 0.96179667336823094, 2.8853900817900482)
#: 2^r for |r| at most 1/2, to 2^-28.
_EXP2 = (
    0.00015461560778872135, 0.0013400562264223321, 0.009618056388057775, 0.055503268911533885, 0.24022650923651495,
    0.69314720686023623, 1.0,
)  # fmt: skip
#: log2((1 + s) / (1 - s)) is `_SCALE` (s + s^3 / 3 + s^5 p(s^2)), to 2^-66.
_SERIES = (
    0.058621635304233734, 0.058530632322816988, 0.066674043994061696, 0.076922974435035901, 0.090909091680499238,
    0.11111111110826383, 0.14285714285714685, 0.20000000000000001,
)  # fmt: skip
_SCALE, _THIRD = (2.8853900817779268, 4.0710547481862066e-17), (1 / 3, 1.850371707708594e-17)

#: A double-double number: a sum of two, the second much smaller than the first.
Pair = tuple[str, str]


def pow(m: Math, x: str, y: str) -> str:
    """x^y as C defines it; a short path where all x are positive and normal and all y are finite."""
    format_ = m.format
    smallest_normal, infinity = 1 << format_.mantissa_bits, int(format_.infinity, 16)
    beyond = m.on_bits("subi", m.bits(x), m.integer(smallest_normal))
    positive = m.compare("cmpi", "ult", beyond, m.integer(infinity - smallest_normal), element=format_.integer)
    finite = m.compare("cmpf", "olt", m.absolute(y), m.const(format_.infinity))
    plain = m.op("andi", positive, finite, element="i1")
    return m.if_all_lanes(
        plain, lambda: _power(m, x, y, special_cases=False), lambda: _power_with_special_cases(m, x, y)
    )


def _power_with_special_cases(m: Math, x: str, y: str) -> str:
    """x^y with all special cases."""
    integral = m.compare("cmpf", "oeq", m.unary("roundeven", y), y)
    half = m.op("mulf", y, m.const(0.5))
    odd = m.op("andi", integral, m.compare("cmpf", "one", m.unary("roundeven", half), half), element="i1")
    result = _power(m, m.absolute(x), y, special_cases=True)
    result = m.select(odd, m.copysign(result, x), result)
    root = m.op(
        "andi", _negative_number(m, x), m.op("xori", integral, m.const("true", "i1"), element="i1"), element="i1"
    )
    either = m.op("ori", m.is_nan(x), m.is_nan(y), element="i1")
    is_nan_result = m.op("ori", root, either, element="i1")
    is_one = m.compare("cmpf", "oeq", x, m.const(1.0))
    is_one = m.op("ori", is_one, m.compare("cmpf", "oeq", y, m.const(0.0)), element="i1")
    return m.select(is_one, m.const(1.0), m.select(is_nan_result, m.const(m.format.nan), result))


def _negative_number(m: Math, x: str) -> str:
    """Where `x` is negative and finite."""
    finite = m.compare("cmpf", "ogt", x, m.const(m.format.minus_infinity))
    return m.op("andi", m.compare("cmpf", "olt", x, m.const(0.0)), finite, element="i1")


def _power(m: Math, size: str, y: str, *, special_cases: bool) -> str:
    """size^y for a positive, normal size; with `special_cases`, for every size and y whose result is not NaN."""
    parts = exponent_and_mantissa(m, size) if special_cases else parts_of_normal(m, size)
    high, low = (_log2(m, *parts), "") if m.base == "f32" else _log2_pair(m, *parts)
    high = _log_with_special_values(m, size, high) if special_cases else high
    return _by_f64(m, y, high, special_cases) if m.base == "f32" else _by_pair(m, y, (high, low), special_cases)


def _log_with_special_values(m: Math, size: str, logarithm: str) -> str:
    """An f64 logarithm with the values for 0 and infinity."""
    d = m.wide
    is_zero, is_infinite = (m.compare("cmpf", "oeq", size, m.const(c)) for c in (0.0, m.format.infinity))
    logarithm = d.select(is_zero, d.const(d.format.minus_infinity), logarithm)
    return d.select(is_infinite, d.const(d.format.infinity), logarithm)


def _by_f64(m: Math, y: str, logarithm: str, special_cases: bool) -> str:
    """2^(y logarithm) for an f32 y and an f64 logarithm."""
    d = m.wide
    t = d.op("mulf", m.convert("extf", y, "f32", "f64"), logarithm)
    t = d.clamp(_without_nan(d, t) if special_cases else t, -200.0, 200.0)
    return m.convert("truncf", _exp2(d, t), "f64", "f32")


def _without_nan(m: Math, t: str) -> str:
    """0 for NaN: 1 to any power, and any number to the power of 0, are 1."""
    return m.select(m.is_nan(t), m.const(0.0), t)


def _log2(m: Math, exponent: str, mantissa: str) -> str:
    """log2 of a positive f32 as an f64: an odd series in s = (m - 1) / (m + 1) for the mantissa m."""
    d = m.wide
    exponent, mantissa = (m.convert("extf", v, "f32", "f64") for v in (exponent, mantissa))
    s = d.op("divf", d.op("subf", mantissa, d.const(1.0)), d.op("addf", mantissa, d.const(1.0)))
    return d.fma(s, d.polynomial(d.op("mulf", s, s), *_LOG2), exponent)


def _exp2(d: Math, t: str) -> str:
    """2^t in f64 without overflow: the integral part is added to the exponent."""
    shift = d.const(d.format.rounding_shift)
    shifted = d.op("addf", t, shift)
    p = d.polynomial(d.op("subf", t, d.op("subf", shifted, shift)), *_EXP2)
    moved = d.on_bits("shli", d.bits(shifted), d.integer(d.format.mantissa_bits))
    return d.from_bits(d.on_bits("addi", d.bits(p), moved))


def _by_pair(m: Math, y: str, logarithm: Pair, special_cases: bool) -> str:
    """2^(y logarithm) for an f64 y and a double-double logarithm."""
    high, low = logarithm
    product = m.op("mulf", y, high)
    rest = m.fma(y, low, m.fma(y, high, m.op("negf", product)))
    # Beyond this limit the result is 0 or infinite, and the rest can be NaN.
    inside = m.compare("cmpf", "olt", m.absolute(product), m.const(m.format.exp2_range[1] + 100))
    bounded = m.clamp(_without_nan(m, product) if special_cases else product, *m.format.exp2_range)
    n, integer = integral(m, m.op("addf", bounded, m.const(m.format.rounding_shift)))
    r = m.op("addf", m.op("subf", bounded, n), m.select(inside, rest, m.const(0.0)))
    y = m.op("addf", expm1_polynomial(m, m.op("mulf", r, m.const(LOG_2))), m.const(1.0))
    return scaled(m, y, integer)


def _log2_pair(m: Math, exponent: str, mantissa: str) -> Pair:
    """log2(mantissa 2^exponent) to about 65 bits."""
    s = _ratio(m, mantissa)
    z = _times(m, s, s)
    more = _sum(m, m.const(_THIRD[0]), (m.op("mulf", z[0], m.polynomial(z[0], *_SERIES)), m.const(_THIRD[1])))
    series = _sum(m, s[0], _add_low(m, _times(m, s, _times(m, z, more)), s[1]))
    scale = m.const(_SCALE[0]), m.const(_SCALE[1])
    return _sum(m, exponent, _times(m, series, scale))


def _ratio(m: Math, mantissa: str) -> Pair:
    """(mantissa - 1) / (mantissa + 1) as a double-double number."""
    one = m.const(1.0)
    top, bottom = m.op("subf", mantissa, one), m.op("addf", mantissa, one)
    lost = m.op("subf", mantissa, m.op("subf", bottom, one))
    inverse = m.op("divf", one, bottom)
    s = m.op("mulf", top, inverse)
    less = m.op("negf", s)
    return s, m.op("mulf", m.fma(less, lost, m.fma(less, bottom, top)), inverse)


def _times(m: Math, a: Pair, b: Pair) -> Pair:
    """The product of two double-double numbers."""
    product = m.op("mulf", a[0], b[0])
    rest = m.fma(a[0], b[0], m.op("negf", product))
    return product, m.fma(a[0], b[1], m.fma(a[1], b[0], rest))


def _sum(m: Math, a: str, b: Pair) -> Pair:
    """a + b, for an `a` that is 0 or larger than b."""
    total = m.op("addf", a, b[0])
    return total, m.op("addf", m.op("addf", m.op("subf", a, total), b[0]), b[1])


def _add_low(m: Math, a: Pair, low: str) -> Pair:
    """A double-double number with `low` added to its second part."""
    return a[0], m.op("addf", a[1], low)
