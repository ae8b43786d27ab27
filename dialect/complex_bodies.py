"""Scalar bodies on complex numbers: the real and the imaginary part of a body, as bodies of reals.

    split(body, {x: (a, b), y: (c, d)})      of x * y   ->   a * c - b * d,  a * d + b * c

Bodies are written once for all numbers. Nodes of a complex type become pairs of nodes by the rules of this module.
Branch cuts are as in C's functions. Source of the inverse functions: Kahan, Branch cuts for complex elementary
functions (The State of the Art in Numerical Analysis, 1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.scalar import Expr


class Pair(NamedTuple):
    """The real and the imaginary part of a node."""

    re: Expr
    im: Expr


def _is_real(z: Pair) -> bool:
    """Whether the imaginary part is the literal 0."""
    return z.im.kind == "const" and z.im.value == 0


def _mul(x: Pair, y: Pair) -> Pair:
    if _is_real(x):
        return Pair(x.re * y.re, x.re * y.im)
    if _is_real(y):
        return Pair(x.re * y.re, x.im * y.re)
    return Pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def _div(x: Pair, y: Pair) -> Pair:
    """The quotient by Smith's algorithm (Communications of the ACM 5, 1962), which squares no part of y."""
    if _is_real(y):
        return Pair(x.re / y.re, x.im / y.re)
    is_wide = abs(y.re) >= abs(y.im)
    large, small = s.where(is_wide, y.re, y.im), s.where(is_wide, y.im, y.re)
    ratio = s.where(large.eq(0), large, small / large)
    scale = large + small * ratio
    major, minor = (s.where(is_wide, a, b) for a, b in ((x.re, x.im), (x.im, x.re)))
    im = s.where(is_wide, minor - major * ratio, major * ratio - minor)
    return Pair((major + minor * ratio) / scale, im / scale)


def magnitude(z: Pair) -> Expr:
    """|z|, where no square overflows; infinite if a part is."""
    a, b = abs(z.re), abs(z.im)
    large, small = s.maximum(a, b), s.minimum(a, b)
    is_edge = large.eq(0) | large.eq(float("inf"))
    ratio = small / s.where(is_edge, 1.0, large)
    return s.where(is_edge, large, large * s.sqrt(ratio * ratio + 1.0))


def angle(z: Pair) -> Expr:
    """The argument of z in [-pi, pi]."""
    return s.atan2(z.im, z.re)


def _exp(z: Pair) -> Pair:
    scale = s.exp(z.re)
    return Pair(scale * s.cos(z.im), scale * s.sin(z.im))


def _log(z: Pair) -> Pair:
    return Pair(s.log(magnitude(z)), angle(z))


def _scaled(z: Pair, factor: float) -> Pair:
    return Pair(z.re * factor, z.im * factor)


def _exp2(z: Pair) -> Pair:
    scale, turn = s.exp2(z.re), z.im * math.log(2.0)
    return Pair(scale * s.cos(turn), scale * s.sin(turn))


def _expm1(z: Pair) -> Pair:
    """exp(z) - 1, accurate near 0: cos(y) is 1 - 2 * sin(y / 2) ** 2."""
    half = s.sin(z.im * 0.5)
    return Pair(s.expm1(z.re) * s.cos(z.im) - half * half * 2.0, s.exp(z.re) * s.sin(z.im))


def _log1p(z: Pair) -> Pair:
    """log(1 + z); near 0 from |1 + z| ** 2 - 1, so that it is accurate there."""
    is_near = s.maximum(abs(z.re), abs(z.im)) < 0.5
    re, im = s.where(is_near, z.re, 0.0), s.where(is_near, z.im, 0.0)
    shifted = Pair(z.re + 1.0, z.im)
    near_zero = s.log1p(re * (re + 2.0) + im * im) * 0.5
    return Pair(s.where(is_near, near_zero, s.log(magnitude(shifted))), angle(shifted))


def _sqrt(z: Pair) -> Pair:
    """The root with a real part of at least 0: the larger part from |z|, the other one from the product."""
    large = s.sqrt((abs(z.re) + magnitude(z)) * 0.5)
    small = abs(z.im) / (s.where(large.eq(0), 1.0, large) * 2.0)
    is_right = z.re >= 0
    im = s.where(is_right, small, large)
    below = (z.im < 0) | (s.const(1, z.im.dtype) / z.im < 0)  # -0.0 lies below the cut
    return Pair(s.where(is_right, large, small), s.where(below, -im, im))


def _tanh(z: Pair) -> Pair:
    """sinh(z) / cosh(z), from 1 / cosh(re) so that nothing overflows."""
    tangent, sine, cosine = s.tanh(z.re), s.sin(z.im), s.cos(z.im)
    narrow = s.const(1, z.re.dtype) - tangent * tangent
    scale = tangent * tangent + narrow * (cosine * cosine)
    return Pair(tangent / scale, narrow * (sine * cosine) / scale)


def _times_i(z: Pair) -> Pair:
    return Pair(-z.im, z.re)


def _over_i(z: Pair) -> Pair:
    return Pair(z.im, -z.re)


def _sinh(z: Pair) -> Pair:
    return Pair(s.sinh(z.re) * s.cos(z.im), s.cosh(z.re) * s.sin(z.im))


def _cosh(z: Pair) -> Pair:
    return Pair(s.cosh(z.re) * s.cos(z.im), s.sinh(z.re) * s.sin(z.im))


def _rsqrt(z: Pair) -> Pair:
    return _div(Pair(s.const(1, z.re.dtype), s.const(0, z.re.dtype)), _sqrt(z))


def _roots(z: Pair) -> tuple[Pair, Pair]:
    """sqrt(1 - z) and sqrt(1 + z)."""
    return _sqrt(Pair(1.0 - z.re, -z.im)), _sqrt(Pair(z.re + 1.0, z.im))


def _asin(z: Pair) -> Pair:
    below, above = _roots(z)
    product = below.re * above.re - below.im * above.im
    return Pair(s.atan2(z.re, product), s.asinh(below.re * above.im - below.im * above.re))


def _acos(z: Pair) -> Pair:
    below, above = _roots(z)
    return Pair(s.atan2(below.re, above.re) * 2.0, s.asinh(above.re * below.im - above.im * below.re))


def _acosh(z: Pair) -> Pair:
    low, high = _sqrt(Pair(z.re - 1.0, z.im)), _sqrt(Pair(z.re + 1.0, z.im))
    return Pair(s.asinh(low.re * high.re + low.im * high.im), s.atan2(low.im, high.re) * 2.0)


def _atanh(z: Pair) -> Pair:
    size, square = abs(z.re), z.im * z.im
    real = s.log1p(size * 4.0 / ((1.0 - size) * (1.0 - size) + square)) * 0.25
    return Pair(s.where(z.re < 0, -real, real), s.atan2(z.im * 2.0, (1.0 - size) * (size + 1.0) - square) * 0.5)


def _pow(x: Pair, y: Pair) -> Pair:
    """exp(y * log(x)); 0 to a power other than 0 is 0, and z to the power 0 is 1."""
    zero, one = s.const(0, x.re.dtype), s.const(1, x.re.dtype)
    flat = x.re.eq(0) & x.im.eq(0)
    none = y.re.eq(0) & y.im.eq(0)
    base = Pair(s.where(flat, one, x.re), x.im)
    power = _exp(_mul(y, _log(base)))
    return Pair(s.where(none, one, s.where(flat, zero, power.re)), s.where(none | flat, zero, power.im))


#: The parts of a node from the parts of its arguments.
RULES: Mapping[str, Callable[..., Pair]] = {
    "neg": lambda x: Pair(-x.re, -x.im),
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "log": _log,
    "log2": lambda x: _scaled(_log(x), 1.0 / math.log(2.0)),
    "log10": lambda x: _scaled(_log(x), 1.0 / math.log(10.0)),
    "log1p": _log1p,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "sin": lambda x: _over_i(_sinh(_times_i(x))),
    "cos": lambda x: _cosh(_times_i(x)),
    "tan": lambda x: _over_i(_tanh(_times_i(x))),
    "asin": _asin,
    "acos": _acos,
    "atan": lambda x: _over_i(_atanh(_times_i(x))),
    "asinh": lambda x: _over_i(_asin(_times_i(x))),
    "acosh": _acosh,
    "atanh": _atanh,
    "add": lambda x, y: Pair(x.re + y.re, x.im if _is_real(y) else x.im + y.im),
    "sub": lambda x, y: Pair(x.re - y.re, x.im if _is_real(y) else x.im - y.im),
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    "select": lambda c, x, y: Pair(s.where(c, x.re, y.re), s.where(c, x.im, y.im)),
}
#: Comparisons of complex numbers, which give a truth value.
TESTS: Mapping[str, Callable[[Pair, Pair], Expr]] = {
    "eq": lambda x, y: x.re.eq(y.re) & x.im.eq(y.im),
    "ne": lambda x, y: x.re.ne(y.re) | x.im.ne(y.im),
}


def split(body: Expr, leaves: Mapping[Expr, Pair]) -> Expr | Pair:
    """A body with complex operands as a pair of real bodies, or as one body where the value is real.

    `leaves` has the parts of complex operands; other operands stay as they are.

    Raises:
        BodyError: an operation is not defined on complex numbers.
    """
    values: dict[Expr, Any] = dict(leaves)
    for node in s.walk([body]):
        if node not in values:
            values[node] = _split_node(node, [values[a] for a in node.args])
    body_value: Expr | Pair = values[body]
    return body_value


def _split_node(node: Expr, args: list[Any]) -> Expr | Pair:
    if node.kind == "const" and node.dtype.is_complex:
        number = complex(node.value)
        return Pair(s.const(number.real, node.dtype.part), s.const(number.imag, node.dtype.part))
    if node.kind == "cast" and isinstance(args[0], Pair) and node.dtype is dtypes.bool_:
        return s.cast(args[0].re, node.dtype) | s.cast(args[0].im, node.dtype)
    if not any(isinstance(a, Pair) for a in args) and not node.dtype.is_complex:
        same = all(new is old for new, old in zip(args, node.args, strict=True))
        return node if same else Expr(node.kind, tuple(args), node.dtype, node.value)
    rule = RULES.get(node.kind) or TESTS.get(node.kind)
    if rule is None:
        raise s.BodyError(f"the operation {node.kind} is not defined on complex numbers")
    return rule(*args)
