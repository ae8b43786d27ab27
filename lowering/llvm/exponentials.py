"""Approximations of exp, log, tanh, erf and related functions by polynomials.

Related are other bases, hyperbolic functions and their inverses.

All are for f32 and f64, with the constants in `float_formats`. Chains of dependent operations are short: a core works
on few vectors at once.
"""

from __future__ import annotations

from oneflow.lowering.llvm.arithmetic import Math

LOG_2, LOG2_E, LOG10_E = 0.6931471805599453, 1.4426950408889634, 0.4342944819032518


def _reduced(m: Math, x: str) -> tuple[str, str]:
    """Range reduction: x = r + n log(2) with |r| <= log(2) / 2, as (r, n) with an integer n. NaN stays NaN."""
    n, integer = integral(m, m.fma(x, m.const(LOG2_E), m.const(m.format.rounding_shift)))
    high, low = m.format.log_2
    return m.fma(n, m.const(-low), m.fma(n, m.const(-high), x)), integer


def integral(m: Math, shifted: str) -> tuple[str, str]:
    """The nearest integral number to x, as a float and as an integer, from `shifted`, x plus the `rounding_shift` of
    the format. NaN stays NaN, with any integer.
    """
    shift = m.format.rounding_shift
    return m.op("subf", shifted, m.const(shift)), m.on_bits("subi", m.bits(shifted), m.bits(m.const(shift)))


def expm1_polynomial(m: Math, r: str) -> str:
    """e^r - 1 for |r| <= log(2) / 2."""
    return m.fma(m.op("mulf", r, r), m.polynomial(r, *m.format.expm1), r)


def _split_exp(m: Math, x: str) -> tuple[str, str]:
    """e^x = y 2^n, as (y, n)."""
    r, n = _reduced(m, x)
    return m.op("addf", expm1_polynomial(m, r), m.const(1.0)), n


def scaled(m: Math, y: str, n: str) -> str:
    """y 2^n in two multiplications, so that denormals are right and no intermediate value overflows."""
    half = m.on_bits("shrsi", n, m.integer(1))
    rest = m.on_bits("subi", n, half)
    return m.op("mulf", m.op("mulf", y, m.power_of_two(half)), m.power_of_two(rest))


def exp(m: Math, x: str) -> str:
    """e^x."""
    return scaled(m, *_split_exp(m, m.clamp(x, *m.format.exp_range)))


def exp2(m: Math, x: str) -> str:
    """2^x."""
    inside = m.clamp(x, *m.format.exp2_range)
    n, integer = integral(m, m.op("addf", inside, m.const(m.format.rounding_shift)))
    r = m.op("mulf", m.op("subf", inside, n), m.const(LOG_2))
    return scaled(m, m.op("addf", expm1_polynomial(m, r), m.const(1.0)), integer)


def expm1(m: Math, x: str) -> str:
    """e^x - 1 as 2^n (e^r - 1) + (2^n - 1); e^x where the two are equal in this format."""
    plain, highest = m.format.expm1_limit, m.format.exp_range[1]
    inside = m.clamp(x, -plain, highest)
    r, n = _reduced(m, inside)
    polynomial = expm1_polynomial(m, r)
    scale = m.power_of_two(m.on_bits("minsi", n, m.integer(64)))
    small = m.fma(scale, polynomial, m.op("subf", scale, m.const(1.0)))
    large = scaled(m, m.op("addf", polynomial, m.const(1.0)), n)
    y = m.select(m.compare("cmpf", "ogt", x, m.const(plain)), large, small)
    return m.select(m.compare("cmpf", "oeq", x, m.const(0.0)), x, y)


def exponent_and_mantissa(m: Math, x: str) -> tuple[str, str]:
    """A positive number as y 2^n with y in [sqrt(1/2), sqrt(2)): (n, y). Denormals are scaled up first."""
    fraction = m.format.mantissa_bits
    tiny = m.compare("cmpf", "olt", x, m.const(m.format.smallest_normal))
    exponent, y = parts_of_normal(m, m.select(tiny, m.op("mulf", x, m.const(2.0**fraction)), x))
    return m.select(tiny, m.op("subf", exponent, m.const(float(fraction))), exponent), y


def parts_of_normal(m: Math, x: str) -> tuple[str, str]:
    """`exponent_and_mantissa` of a normal number."""
    format_ = m.format
    # Subtracting the bits of sqrt(1/2) moves the change of exponent from 1 to sqrt(1/2).
    moved = m.on_bits("subi", m.bits(x), m.integer(format_.root_half))
    exponent = m.convert(
        "sitofp", m.on_bits("shrsi", moved, m.integer(format_.mantissa_bits)), format_.integer, m.base
    )
    low = m.on_bits("andi", moved, m.integer((1 << format_.mantissa_bits) - 1))
    return exponent, m.from_bits(m.on_bits("addi", low, m.integer(format_.root_half)))


def _split_log(m: Math, x: str) -> tuple[str, str, str]:
    """A positive x as (exponent, f, y): log(x) = f + y + exponent log(2).

    The mantissa 1 + f is in [sqrt(1/2), sqrt(2)).
    """
    exponent, mantissa = exponent_and_mantissa(m, x)
    f = m.op("subf", mantissa, m.const(1.0))
    # With s = f / (2 + f) the logarithm is f - f^2 / 2 + s (f^2 / 2 + an even series in s).
    s = m.op("divf", f, m.op("addf", f, m.const(2.0)))
    z, half = m.op("mulf", s, s), m.op("mulf", m.op("mulf", f, m.const(0.5)), f)
    return exponent, f, m.fma(s, m.fma(z, m.polynomial(z, *m.format.log), half), m.op("negf", half))


def _log_with_special_values(m: Math, x: str, y: str) -> str:
    """The logarithm y of x with the values for 0, infinity, NaN and negative numbers."""
    format_ = m.format
    y = m.select(m.compare("cmpf", "oeq", x, m.const(format_.infinity)), x, y)
    y = m.select(m.compare("cmpf", "ult", x, m.const(0.0)), m.const(format_.nan), y)
    return m.select(m.compare("cmpf", "oeq", x, m.const(0.0)), m.const(format_.minus_infinity), y)


def log(m: Math, x: str) -> str:
    """The natural logarithm."""
    exponent, f, y = _split_log(m, x)
    high, low = (m.const(c) for c in m.format.log_2)
    y = m.op("addf", f, m.fma(exponent, low, y))
    return _log_with_special_values(m, x, m.fma(exponent, high, y))


def log2(m: Math, x: str) -> str:
    """The logarithm to base 2."""
    exponent, f, y = _split_log(m, x)
    # log2(e) = 1 + 0.44..: f times 1 is exact.
    extra = m.const(LOG2_E - 1)
    y = m.op("addf", m.fma(f, extra, m.fma(y, extra, y)), f)
    return _log_with_special_values(m, x, m.op("addf", exponent, y))


def log10(m: Math, x: str) -> str:
    """The logarithm to base 10."""
    exponent, f, y = _split_log(m, x)
    high, low = (m.const(c) for c in m.format.log10_2)
    y = m.fma(f, m.const(LOG10_E), m.fma(y, m.const(LOG10_E), m.op("mulf", exponent, low)))
    return _log_with_special_values(m, x, m.fma(exponent, high, y))


def log1p(m: Math, x: str) -> str:
    """log(1 + x): the logarithm of the rounded sum u, plus the rounding error divided by u."""
    u = m.op("addf", x, m.const(1.0))
    lost = m.op("divf", m.op("subf", x, m.op("subf", u, m.const(1.0))), u)
    is_far = m.compare("cmpf", "oeq", u, m.const(m.format.infinity))
    no_correction = m.op("ori", is_far, m.compare("cmpf", "oeq", u, m.const(0.0)), element="i1")
    y = m.op("addf", log(m, u), m.select(no_correction, m.const(0.0), lost))
    return m.select(m.compare("cmpf", "oeq", x, m.const(0.0)), x, y)


def tanh(m: Math, x: str) -> str:
    """The hyperbolic tangent: h / (h + 1) for h = (e^2|x| - 1) / 2.

    Below 0.3 it is h - h (h / (h + 1)), which keeps more digits.
    """
    size = m.absolute(x)
    # Beyond the bound the result is 1. NaN stays NaN.
    bound = m.const(m.format.expm1_limit / 2)
    bounded = m.select(m.compare("cmpf", "ogt", size, bound), bound, size)
    r, n = _reduced(m, m.op("addf", bounded, bounded))
    scale = m.power_of_two(m.on_bits("subi", n, m.integer(1)))
    h = m.fma(scale, expm1_polynomial(m, r), m.op("subf", scale, m.const(0.5)))
    y = m.op("divf", h, m.op("addf", h, m.const(1.0)))
    small = m.fma(m.op("negf", h), y, h)
    return m.copysign(m.select(m.compare("cmpf", "olt", size, m.const(0.3)), small, y), x)


def erf(m: Math, x: str) -> str:
    """The error function: an odd polynomial near 0, 1 - erfc further out."""
    size = m.absolute(x)
    small = m.fma(m.polynomial(m.op("mulf", x, x), *m.format.erf), x, x)
    large = m.op("subf", m.const(1.0), _erfc(m, m.clamp(size, 0.0, m.format.erf_limits[1])))
    # NaN is in the small branch, which keeps NaN.
    is_small = m.compare("cmpf", "ult", size, m.const(m.format.erf_limits[0]))
    return m.copysign(m.select(is_small, small, large), x)


def _erfc(m: Math, x: str) -> str:
    """1 - erf(x) for x between the limits of erf: 2^(x p(x)), to the digits that 1 - erfc(x) keeps."""
    p = m.polynomial(x, *m.format.erfc)
    n, integer = integral(m, m.fma(x, p, m.const(m.format.rounding_shift)))
    power = m.polynomial(m.fma(x, p, m.op("negf", n)), *m.format.erfc_exp2, 1.0)
    return m.from_bits(
        m.on_bits("addi", m.bits(power), m.on_bits("shli", integer, m.integer(m.format.mantissa_bits)))
    )


def _half_exp(m: Math, size: str) -> str:
    """e^size / 2."""
    y, n = _split_exp(m, m.clamp(size, 0.0, m.format.exp_range[1] + 1))
    return scaled(m, y, m.on_bits("subi", n, m.integer(1)))


def sinh(m: Math, x: str) -> str:
    """The hyperbolic sine; a polynomial up to 1."""
    size, z = m.absolute(x), m.op("mulf", x, x)
    small = m.fma(m.op("mulf", m.polynomial(z, *m.format.sinh), z), x, x)
    half = _half_exp(m, size)
    large = m.copysign(m.op("subf", half, m.op("divf", m.const(0.25), half)), x)
    return m.select(m.compare("cmpf", "olt", size, m.const(1.0)), small, large)


def cosh(m: Math, x: str) -> str:
    """The hyperbolic cosine."""
    half = _half_exp(m, m.absolute(x))
    return m.op("addf", half, m.op("divf", m.const(0.25), half))


def asinh(m: Math, x: str) -> str:
    """The inverse hyperbolic sine: log1p(a + a^2 / (1 + sqrt(a^2 + 1))); log(2a) for large a."""
    size = m.absolute(x)
    square = m.op("mulf", size, size)
    root = m.unary("sqrt", m.op("addf", square, m.const(1.0)))
    part = m.op("addf", size, m.op("divf", square, m.op("addf", root, m.const(1.0))))
    return m.copysign(_log1p_or_log_double(m, size, part), x)


def acosh(m: Math, x: str) -> str:
    """The inverse hyperbolic cosine: log1p(t + sqrt(2t + t^2)) for t = x - 1; log(2x) for large x."""
    t = m.op("subf", x, m.const(1.0))
    root = m.unary("sqrt", m.fma(t, t, m.op("addf", t, t)))
    y = _log1p_or_log_double(m, x, m.op("addf", t, root))
    return m.select(m.compare("cmpf", "ult", x, m.const(1.0)), m.const(m.format.nan), y)


def _log1p_or_log_double(m: Math, size: str, part: str) -> str:
    """log1p(part), or log(2 size) where squares could overflow; both by one logarithm."""
    large = m.compare("cmpf", "ogt", size, m.const(2.0 ** (m.format.mantissa_bits + 6)))
    y = log1p(m, m.select(large, size, part))
    return m.op("addf", y, m.select(large, m.const(LOG_2), m.const(0.0)))


def atanh(m: Math, x: str) -> str:
    """The inverse hyperbolic tangent: log1p(2a / (1 - a)) / 2."""
    size = m.absolute(x)
    ratio = m.op("divf", m.op("addf", size, size), m.op("subf", m.const(1.0), size))
    return m.copysign(m.op("mulf", m.const(0.5), log1p(m, ratio)), x)
