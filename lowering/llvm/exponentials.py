"""exp, log, tanh, erf of f32 and what follows from them: other bases, hyperbolic functions and their inverses.

Coefficients are those of Cephes (exp, log, sinh) and N. Juffa (erf). Imports `arithmetic`.
"""

from __future__ import annotations

from oneflow.lowering.llvm.arithmetic import Math

LOG_2, LOG2_E, LOG10_E = 0.6931471805599453, 1.4426950408889634, 0.4342944819032518
#: log10(2) as a number of few bits, so that its product with an exponent is exact, and the rest.
LOG10_2 = (0.30078125, 2.4874566e-4)


def _reduced(m: Math, x: str) -> tuple[str, str]:
    """x as (r, n), meaning r + n log(2), with |r| at most half of log(2)."""
    n = m.unary("roundeven", m.op("mulf", x, m.const(LOG2_E)))
    return m.fma(n, m.const(2.12194440e-4), m.fma(n, m.const(-0.693359375), x)), n


def _reduced_by_shift(m: Math, x: str) -> tuple[str, str]:
    """The same for an x of a few digits before the point; n as the low bits of an i32. NaN stays NaN."""
    shift = m.const(12582912.0)
    shifted = m.fma(x, m.const(LOG2_E), shift)
    n = m.op("subf", shifted, shift)
    r = m.fma(n, m.const(2.12194440e-4), m.fma(n, m.const(-0.693359375), x))
    return r, m.convert("bitcast", shifted, "f32", "i32")


def _near_expm1(m: Math, r: str) -> str:
    """e to the r, minus 1, for |r| at most half of log(2)."""
    p = m.polynomial(
        r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1
    )
    return m.fma(m.op("mulf", r, r), p, r)


def _split_exp(m: Math, x: str) -> tuple[str, str]:
    """e to the x as (y, n), meaning y * 2^n."""
    r, n = _reduced(m, x)
    return m.op("addf", _near_expm1(m, r), m.const(1.0)), m.convert("fptosi", n, "f32", "i32")


def _scaled(m: Math, y: str, n: str) -> str:
    """y * 2^n in two steps, so that denormals are right and nothing overflows before the result does."""
    half = m.op("shrsi", n, m.const(1, "i32"), element="i32")
    rest = m.op("subi", n, half, element="i32")
    return m.op("mulf", m.op("mulf", y, m.power_of_two(half)), m.power_of_two(rest))


def exp(m: Math, x: str) -> str:
    """e to the x."""
    return m.select(m.is_nan(x), x, _scaled(m, *_split_exp(m, m.clamp(x, -104.0, 89.0))))


def exp2(m: Math, x: str) -> str:
    """2 to the x."""
    inside = m.clamp(x, -151.0, 129.0)
    n = m.unary("roundeven", inside)
    r = m.op("mulf", m.op("subf", inside, n), m.const(LOG_2))
    y = m.op("addf", _near_expm1(m, r), m.const(1.0))
    return m.select(m.is_nan(x), x, _scaled(m, y, m.convert("fptosi", n, "f32", "i32")))


def expm1(m: Math, x: str) -> str:
    """e to the x, minus 1: 2^n (e^r - 1) + (2^n - 1); beyond 20, e to the x."""
    inside = m.clamp(x, -20.0, 89.0)
    r, n = _reduced(m, inside)
    n = m.convert("fptosi", n, "f32", "i32")
    near = _near_expm1(m, r)
    scale = m.power_of_two(m.op("minsi", n, m.const(64, "i32"), element="i32"))
    small = m.fma(scale, near, m.op("subf", scale, m.const(1.0)))
    large = _scaled(m, m.op("addf", near, m.const(1.0)), n)
    y = m.select(m.compare("cmpf", "ogt", x, m.const(20.0)), large, small)
    unchanged = m.op("ori", m.is_nan(x), m.compare("cmpf", "oeq", x, m.const(0.0)), element="i1")
    return m.select(unchanged, x, y)


def _near_exp(m: Math, x: str) -> str:
    """e to the x for x in [-80, 80]."""
    y, n = _split_exp(m, x)
    return m.op("mulf", y, m.power_of_two(n))


def _split_log(m: Math, x: str) -> tuple[str, str, str]:
    """A positive x as (exponent, f, y): its logarithm is f + y + exponent log(2), the mantissa 1 + f in
    [sqrt(1/2), sqrt(2)). Denormals are scaled up first."""
    tiny = m.compare("cmpf", "olt", x, m.const(1.17549435e-38))
    scaled = m.select(tiny, m.op("mulf", x, m.const(8388608.0)), x)
    bits = m.convert("bitcast", scaled, "f32", "i32")
    # Moves the bits so that the exponent changes at sqrt(1/2) instead of 1.
    moved = m.op("subi", bits, m.const(0x3F3504F3, "i32"), element="i32")
    exponent = m.convert("sitofp", m.op("shrsi", moved, m.const(23, "i32"), element="i32"), "i32", "f32")
    exponent = m.select(tiny, m.op("subf", exponent, m.const(23.0)), exponent)
    low = m.op("andi", moved, m.const(0x007FFFFF, "i32"), element="i32")
    mantissa = m.convert("bitcast", m.op("addi", low, m.const(0x3F3504F3, "i32"), element="i32"), "i32", "f32")
    f = m.op("subf", mantissa, m.const(1.0))
    z = m.op("mulf", f, f)
    p = m.polynomial(
        f, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
        -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )  # fmt: skip
    return exponent, f, m.fma(z, m.const(-0.5), m.op("mulf", m.op("mulf", f, z), p))


def _log_edges(m: Math, x: str, y: str) -> str:
    """The logarithm y of x, right for 0, infinity, NaN and negative numbers as well."""
    y = m.select(m.compare("cmpf", "oeq", x, m.const("0x7F800000")), x, y)
    y = m.select(m.compare("cmpf", "ult", x, m.const(0.0)), m.const("0x7FC00000"), y)
    return m.select(m.compare("cmpf", "oeq", x, m.const(0.0)), m.const("0xFF800000"), y)


def log(m: Math, x: str) -> str:
    """The natural logarithm."""
    exponent, f, y = _split_log(m, x)
    y = m.op("addf", f, m.fma(exponent, m.const(-2.12194440e-4), y))
    return _log_edges(m, x, m.fma(exponent, m.const(0.693359375), y))


def log2(m: Math, x: str) -> str:
    """The logarithm to base 2."""
    exponent, f, y = _split_log(m, x)
    # log2(e) = 1 + 0.44..: the largest part, f, is not rounded.
    extra = m.const(LOG2_E - 1)
    y = m.op("addf", m.fma(f, extra, m.fma(y, extra, y)), f)
    return _log_edges(m, x, m.op("addf", exponent, y))


def log10(m: Math, x: str) -> str:
    """The logarithm to base 10."""
    exponent, f, y = _split_log(m, x)
    high, low = (m.const(c) for c in LOG10_2)
    y = m.fma(f, m.const(LOG10_E), m.fma(y, m.const(LOG10_E), m.op("mulf", exponent, low)))
    return _log_edges(m, x, m.fma(exponent, high, y))


def log1p(m: Math, x: str) -> str:
    """The logarithm of 1 + x: that of the rounded sum, and what rounding took from it divided by the sum."""
    u = m.op("addf", x, m.const(1.0))
    lost = m.op("divf", m.op("subf", x, m.op("subf", u, m.const(1.0))), u)
    far = m.compare("cmpf", "oeq", u, m.const("0x7F800000"))
    none = m.op("ori", far, m.compare("cmpf", "oeq", u, m.const(0.0)), element="i1")
    y = m.op("addf", log(m, u), m.select(none, m.const(0.0), lost))
    return m.select(m.compare("cmpf", "oeq", x, m.const(0.0)), x, y)


def tanh(m: Math, x: str) -> str:
    """The hyperbolic tangent: h / (h + 1) for h = (e^2|x| - 1) / 2; below 0.3, h - h (h / (h + 1)) for its digits."""
    size = m.absolute(x)
    # Beyond 10 the result is 1. NaN stays NaN.
    bounded = m.select(m.compare("cmpf", "ogt", size, m.const(10.0)), m.const(10.0), size)
    r, shifted = _reduced_by_shift(m, m.op("addf", bounded, bounded))
    # Half of 2^n: the low bits of the shifted number are those of n.
    bits = m.op("shli", shifted, m.const(23, "i32"), element="i32")
    scale = m.convert("bitcast", m.op("addi", bits, m.const(0x3F000000, "i32"), element="i32"), "i32", "f32")
    h = m.fma(scale, _near_expm1(m, r), m.op("subf", scale, m.const(0.5)))
    y = m.op("divf", h, m.op("addf", h, m.const(1.0)))
    small = m.fma(m.op("negf", h), y, h)
    return m.copysign(m.select(m.compare("cmpf", "olt", size, m.const(0.3)), small, y), x)


def erf(m: Math, x: str) -> str:
    """The error function: a polynomial up to 0.93, 1 - exp(polynomial) above."""
    size = m.unary("absf", x)
    z = m.op("mulf", x, x)
    p = m.polynomial(z, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)
    small = m.fma(p, x, x)
    # Beyond 4 the result is 1; the polynomial would overflow.
    t = m.clamp(size, 0.0, 4.0)
    q = m.polynomial(
        t, -1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1, -6.34846687e-1,
        -1.28717512e-1,
    )  # fmt: skip
    large = m.op("subf", m.const(1.0), _near_exp(m, m.fma(q, t, m.op("subf", m.const(0.0), t))))
    y = m.copysign(m.select(m.compare("cmpf", "olt", size, m.const(0.927734375)), small, large), x)
    return m.select(m.compare("cmpf", "uno", x, x), x, y)


def _half_exp(m: Math, size: str) -> str:
    """Half of e to a size."""
    y, n = _split_exp(m, m.clamp(size, 0.0, 90.0))
    return _scaled(m, y, m.op("subi", n, m.const(1, "i32"), element="i32"))


def sinh(m: Math, x: str) -> str:
    """The hyperbolic sine: a polynomial up to 1."""
    size, z = m.absolute(x), m.op("mulf", x, x)
    p = m.polynomial(z, 2.03721912945e-4, 8.33028376239e-3, 1.66667160211e-1)
    small = m.fma(m.op("mulf", p, z), x, x)
    half = _half_exp(m, size)
    large = m.copysign(m.op("subf", half, m.op("divf", m.const(0.25), half)), x)
    y = m.select(m.compare("cmpf", "olt", size, m.const(1.0)), small, large)
    return m.select(m.is_nan(x), x, y)


def cosh(m: Math, x: str) -> str:
    """The hyperbolic cosine."""
    half = _half_exp(m, m.absolute(x))
    return m.select(m.is_nan(x), x, m.op("addf", half, m.op("divf", m.const(0.25), half)))


def asinh(m: Math, x: str) -> str:
    """The inverse of sinh: log1p(a + a^2 / (1 + sqrt(a^2 + 1))); far out, log(2a)."""
    size = m.absolute(x)
    square = m.op("mulf", size, size)
    root = m.unary("sqrt", m.op("addf", square, m.const(1.0)))
    part = m.op("addf", size, m.op("divf", square, m.op("addf", root, m.const(1.0))))
    return m.copysign(_of_large(m, size, part), x)


def acosh(m: Math, x: str) -> str:
    """The inverse of cosh: log1p(t + sqrt(2t + t^2)) for t = x - 1; far out, log(2x)."""
    t = m.op("subf", x, m.const(1.0))
    root = m.unary("sqrt", m.fma(t, t, m.op("addf", t, t)))
    y = _of_large(m, x, m.op("addf", t, root))
    return m.select(m.compare("cmpf", "ult", x, m.const(1.0)), m.const("0x7FC00000"), y)


def _of_large(m: Math, size: str, part: str) -> str:
    """log1p(part), or log(2 size) where squares could overflow: both through one logarithm."""
    large = m.compare("cmpf", "ogt", size, m.const(1e9))
    y = log1p(m, m.select(large, size, part))
    return m.op("addf", y, m.select(large, m.const(LOG_2), m.const(0.0)))


def atanh(m: Math, x: str) -> str:
    """The inverse of tanh: half of log1p(2a / (1 - a))."""
    size = m.absolute(x)
    ratio = m.op("divf", m.op("addf", size, size), m.op("subf", m.const(1.0), size))
    return m.copysign(m.op("mulf", m.const(0.5), log1p(m, ratio)), x)
