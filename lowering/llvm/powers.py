"""Powers of f32 by way of f64: 2^(y log2 x), whose logarithm needs more digits than an f32 has.

Imports `arithmetic`.
"""

from __future__ import annotations

import math

from oneflow.lowering.llvm.arithmetic import Math

_INFINITY = "0x7FF0000000000000"
#: The bits of sqrt(1/2), where mantissas begin.
_ROOT_HALF = 0x3FE6A09E667F3BCD


def _log2(d: Math, size: str) -> str:
    """log2 of an f64 that was a positive f32: with s = (m - 1) / (m + 1), log2 m is an odd series in s."""
    bits = d.convert("bitcast", size, "f64", "i64")
    moved = d.op("subi", bits, d.const(_ROOT_HALF, "i64"), element="i64")
    exponent = d.convert("sitofp", d.op("shrsi", moved, d.const(52, "i64"), element="i64"), "i64", "f64")
    low = d.op("andi", moved, d.const((1 << 52) - 1, "i64"), element="i64")
    mantissa = d.convert("bitcast", d.op("addi", low, d.const(_ROOT_HALF, "i64"), element="i64"), "i64", "f64")
    one = d.const(1.0)
    s = d.op("divf", d.op("subf", mantissa, one), d.op("addf", mantissa, one))
    series = d.polynomial(d.op("mulf", s, s), *(2 / math.log(2) / n for n in (11, 9, 7, 5, 3, 1)))
    return d.fma(s, series, exponent)


def _exp2(d: Math, t: str) -> str:
    """2 to a t within the exponents of f64."""
    n = d.unary("roundeven", t)
    p = d.polynomial(d.op("subf", t, n), *(math.log(2) ** k / math.factorial(k) for k in range(7, -1, -1)))
    biased = d.op("addi", d.convert("fptosi", n, "f64", "i64"), d.const(1023, "i64"), element="i64")
    scale = d.op("shli", biased, d.const(52, "i64"), element="i64")
    return d.op("mulf", p, d.convert("bitcast", scale, "i64", "f64"))


def _size(m: Math, x: str, y: str) -> str:
    """|x| to the y, for numbers."""
    d = m.wide
    size, exponent = (m.convert("extf", v, "f32", "f64") for v in (m.absolute(x), y))
    logarithm = _log2(d, size)
    zero, endless = d.const(0.0), d.const(_INFINITY)
    logarithm = d.select(d.compare("cmpf", "oeq", size, zero), d.const("0xFFF0000000000000"), logarithm)
    logarithm = d.select(d.compare("cmpf", "oeq", size, endless), endless, logarithm)
    t = d.op("mulf", exponent, logarithm)
    # 1 to any power, infinity too, and anything to the power of 0.
    t = d.select(d.is_nan(t), zero, t)
    return m.convert("truncf", _exp2(d, d.clamp(t, -200.0, 200.0)), "f64", "f32")


def pow(m: Math, x: str, y: str) -> str:
    """x to the y, as C defines it."""
    whole = m.compare("cmpf", "oeq", m.unary("roundeven", y), y)
    half = m.op("mulf", y, m.const(0.5))
    odd = m.op("andi", whole, m.compare("cmpf", "one", m.unary("roundeven", half), half), element="i1")
    result = _size(m, x, y)
    result = m.select(odd, m.copysign(result, x), result)
    root = m.op(
        "andi", _negative_number(m, x), m.op("xori", whole, m.const("true", "i1"), element="i1"), element="i1"
    )
    either = m.op("ori", m.is_nan(x), m.is_nan(y), element="i1")
    invalid = m.op("ori", root, either, element="i1")
    certain = m.compare("cmpf", "oeq", x, m.const(1.0))
    certain = m.op("ori", certain, m.compare("cmpf", "oeq", y, m.const(0.0)), element="i1")
    return m.select(certain, m.const(1.0), m.select(invalid, m.const("0x7FC00000"), result))


def _negative_number(m: Math, x: str) -> str:
    """Where `x` is negative and not infinite."""
    finite = m.compare("cmpf", "ogt", x, m.const("0xFF800000"))
    return m.op("andi", m.compare("cmpf", "olt", x, m.const(0.0)), finite, element="i1")
