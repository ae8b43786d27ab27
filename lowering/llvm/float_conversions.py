"""Conversions of floats of 8 and 16 bits, and fused multiply-add, for targets without such instructions.

Floats of 8 bits are fp8, `f8E4M3FN` and `f8E5M2`. Conversions round to nearest, ties to even.
"""

from __future__ import annotations

from oneflow.dialect.narrow_floats import F32_BITS, F32_INFINITY, NarrowFloat
from oneflow.lowering.llvm.arithmetic import Math

#: Dekker's splitter: splits the digits of an f64 in two halves.
_SPLITTER = 2.0**27 + 1


def f32_of(m: Math, x: str, narrow: NarrowFloat) -> str:
    """A value of a narrow format as f32: its shifted bits are an f32 that is too small by a power of two."""
    f = Math(m.lanes, m.writer)
    bits = m.convert("extui", m.convert("bitcast", x, narrow.name, narrow.integer), narrow.integer, "i32")
    size = f.on_bits("shli", f.on_bits("andi", bits, f.integer(narrow.sign - 1)), f.integer(narrow.lost_bits))
    sign = f.on_bits("shli", f.on_bits("andi", bits, f.integer(narrow.sign)), f.integer(F32_BITS - narrow.bits))
    scaled = f.bits(f.op("mulf", f.from_bits(size), f.const(2.0**narrow.bias_difference)))
    special = f.compare("cmpi", "uge", size, f.integer(narrow.special << narrow.lost_bits), element="i32")
    value = f.select(special, f.on_bits("ori", scaled, f.integer(F32_INFINITY)), scaled, element="i32")
    return f.from_bits(f.on_bits("ori", value, sign))


def narrow_of_f32(m: Math, x: str, narrow: NarrowFloat) -> str:
    """An f32 in a narrow format. Subnormal results are rounded by an addition, which leaves their digits in the low
    bits.
    """
    bits, lost = m.bits(x), m.integer(narrow.lost_bits)
    size = m.on_bits("andi", bits, m.integer(0x7FFFFFFF))
    sign = m.on_bits("andi", m.on_bits("shrui", bits, m.integer(F32_BITS - narrow.bits)), m.integer(narrow.sign))
    odd = m.on_bits("andi", m.on_bits("shrui", size, lost), m.integer(1))
    moved = m.on_bits("addi", size, m.integer(narrow.rounding))
    normal = m.on_bits("shrui", m.on_bits("addi", moved, odd), lost)
    unit = m.const(narrow.tiny_unit)
    tiny = m.on_bits("subi", m.bits(m.op("addf", m.from_bits(size), unit)), m.bits(unit))
    finite = m.select(_less(m, size, narrow.smallest_normal), tiny, normal, element="i32")
    special = m.select(
        _less(m, size, F32_INFINITY + 1), m.integer(narrow.special), m.integer(narrow.nan), element="i32"
    )
    value = m.on_bits("ori", m.select(_less(m, size, narrow.overflow), finite, special, element="i32"), sign)
    return m.convert("bitcast", m.convert("trunci", value, "i32", narrow.integer), narrow.integer, narrow.name)


def _less(m: Math, bits: str, bound: int) -> str:
    """Where bits are less than a bound, unsigned."""
    return m.compare("cmpi", "ult", bits, m.integer(bound), element="i32")


def f32_odd_of_f64(m: Math, x: str) -> str:
    """An f64 as f32, rounded to odd, so that a second rounding causes no double rounding."""
    f = Math(m.lanes, m.writer)
    nearest = m.convert("truncf", x, "f64", "f32")
    back = m.convert("extf", nearest, "f32", "f64")
    above = m.compare("cmpf", "ogt", m.absolute(back), m.absolute(x))
    bits = f.bits(nearest)
    below = f.select(above, f.on_bits("subi", bits, f.integer(1)), bits, element="i32")
    odd = f.from_bits(f.on_bits("ori", below, f.integer(1)))
    return f.select(m.compare("cmpf", "one", back, x), odd, nearest)


def fma_f32(m: Math, a: str, b: str, c: str) -> str:
    """a * b + c in f64, where the product is exact."""
    d = m.wide
    x, y, z = (m.convert("extf", v, "f32", "f64") for v in (a, b, c))
    return m.convert("truncf", d.op("addf", d.op("mulf", x, y), z), "f64", "f32")


def fma_f64(m: Math, a: str, b: str, c: str) -> str:
    """a * b + c, with the errors of the product (Dekker) and of the sum (Knuth) added at the end."""
    product = m.op("mulf", a, b)
    (high_a, low_a), (high_b, low_b) = _split(m, a), _split(m, b)
    lost = m.op("subf", m.op("mulf", high_a, high_b), product)
    for part_a, part_b in ((high_a, low_b), (low_a, high_b), (low_a, low_b)):
        lost = m.op("addf", lost, m.op("mulf", part_a, part_b))
    total = m.op("addf", product, c)
    second = m.op("subf", total, product)
    rest = m.op("subf", product, m.op("subf", total, second))
    lost = m.op("addf", m.op("addf", rest, m.op("subf", c, second)), lost)
    result = m.op("addf", total, lost)
    # The halves of very large numbers are infinite.
    return m.select(m.is_nan(result), total, result)


def _split(m: Math, x: str) -> tuple[str, str]:
    """The high and the low half of the digits of an f64."""
    scaled = m.op("mulf", x, m.const(_SPLITTER))
    high = m.op("subf", scaled, m.op("subf", scaled, x))
    return high, m.op("subf", x, high)
