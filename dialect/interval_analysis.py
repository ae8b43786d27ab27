"""Whether a scalar expression is finite: an interval for every node, from its arguments' intervals.

    is_finite(1.0 / (x * x + 1.0))   ->  True
    is_finite(1.0 / x)               ->  False

Operands are taken as finite, except operands in `maybe_nonfinite`. Overflow of sums, products and conversions is not
counted; overflow of the exponential functions is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from oneflow.dialect.scalar import Expr, walk

INF = math.inf
#: exp of no more than this is finite in f32.
EXP_LIMIT = 80.0


@dataclass(frozen=True)
class Interval:
    """Between `low` and `high`; `finite` unless it may be infinite or NaN, and without 0 where `nonzero`."""

    low: float = -INF
    high: float = INF
    finite: bool = True
    nonzero: bool = False

    @property
    def without_zero(self) -> bool:
        """Whether 0 is not among the values."""
        return self.nonzero or self.low > 0 or self.high < 0

    def where(self, holds: bool) -> Interval:
        """The same interval, finite only if `holds` too."""
        return replace(self, finite=self.finite and holds)


ANY = Interval()
UNIT = Interval(-1.0, 1.0)
NOT_FINITE = Interval(finite=False)
Unary = Callable[[Interval], Interval]


def is_finite(root: Expr, maybe_nonfinite: Collection[Expr] = ()) -> bool:
    """Whether `root` is finite for all finite operands; operands in `maybe_nonfinite` may not be finite."""
    intervals: dict[Expr, Interval] = {}
    for node in walk([root]):
        intervals[node] = NOT_FINITE if node in maybe_nonfinite else _interval(node, intervals)
    return intervals[root].finite


def _interval(node: Expr, intervals: Mapping[Expr, Interval]) -> Interval:
    if node.kind == "const":
        value = float(node.value)
        return Interval(value, value, math.isfinite(value), value != 0)
    if node.kind == "select":
        return _where(node, intervals)
    if not node.dtype.is_float or not node.args:
        return ANY
    args = [intervals[a] for a in node.args]
    if not all(a.finite for a in args):
        return NOT_FINITE
    if node.kind == "mul" and node.args[0] is node.args[1]:
        return Interval(0.0, INF)
    rule = _RULES.get(node.kind)
    return rule(*args) if rule is not None else ANY


def _span(values: Iterable[float]) -> Interval:
    """From the least to the greatest of some values; without bounds where one is NaN."""
    known = list(values)
    return ANY if any(v != v for v in known) else Interval(min(known), max(known))


def _product(x: float, y: float) -> float:
    """x * y of two bounds, where an infinite bound stands for values that are finite."""
    return 0.0 if x == 0 or y == 0 else x * y


def _mul(a: Interval, b: Interval) -> Interval:
    return _span(_product(x, y) for x in (a.low, a.high) for y in (b.low, b.high))


def _div(a: Interval, b: Interval) -> Interval:
    if not (b.low > 0 or b.high < 0):
        return ANY.where(b.without_zero)
    return _mul(a, _span((1.0 / b.low, 1.0 / b.high)))


def _neg(a: Interval) -> Interval:
    return replace(a, low=-a.high, high=-a.low)


def _abs(a: Interval) -> Interval:
    least = max(a.low, -a.high, 0.0)
    return Interval(least, max(-a.low, a.high), nonzero=a.without_zero)


def _exp(a: Interval) -> Interval:
    return Interval(math.exp(min(a.low, EXP_LIMIT)), math.exp(min(a.high, EXP_LIMIT)), a.high <= EXP_LIMIT)


def _pow(a: Interval, b: Interval) -> Interval:
    """Finite for a known exponent: an integer, or with a base of at least 0; below 0 the base must not be 0."""
    exponent = b.low
    if b.low != b.high:
        return NOT_FINITE
    return ANY.where((exponent == int(exponent) or a.low >= 0) and (exponent >= 0 or a.without_zero))


def _within(low: float, high: float) -> Unary:
    """Any finite value where the argument is in an interval, else what may not be finite."""
    return lambda a: ANY.where(low <= a.low and a.high <= high)


def _constant(interval: Interval) -> Unary:
    return lambda a: interval


#: The least positive number that matters: an open bound at 0.
_ABOVE = math.ulp(0.0)

_RULES: dict[str, Callable[..., Interval]] = {
    "neg": _neg,
    "abs": _abs,
    "exp": _exp,
    "exp2": _exp,
    "expm1": lambda a: Interval(-1.0, INF, a.high <= EXP_LIMIT),
    "sinh": _within(-EXP_LIMIT, EXP_LIMIT),
    "cosh": lambda a: Interval(1.0, INF, max(-a.low, a.high) <= EXP_LIMIT),
    **dict.fromkeys(("log", "log2", "log10"), _within(_ABOVE, INF)),
    "log1p": _within(math.nextafter(-1.0, 0.0), INF),
    "sqrt": lambda a: Interval(0.0, INF, a.low >= 0),
    "rsqrt": lambda a: Interval(0.0, INF, a.low > 0),
    **dict.fromkeys(("sin", "cos", "tanh", "erf"), _constant(UNIT)),
    "erfc": _constant(Interval(0.0, 2.0)),
    **dict.fromkeys(("asin", "acos"), _within(-1.0, 1.0)),
    "acosh": _within(1.0, INF),
    "atanh": _within(math.nextafter(-1.0, 0.0), math.nextafter(1.0, 0.0)),
    "add": lambda a, b: _span((a.low + b.low, a.high + b.high)),
    "sub": lambda a, b: _span((a.low - b.high, a.high - b.low)),
    "mul": _mul,
    "div": _div,
    "rem": lambda a, b: ANY.where(b.without_zero),
    "max": lambda a, b: Interval(max(a.low, b.low), max(a.high, b.high)),
    "min": lambda a, b: Interval(min(a.low, b.low), min(a.high, b.high)),
    "pow": _pow,
    "cast": lambda a: a,
}

_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def _where(node: Expr, intervals: Mapping[Expr, Interval]) -> Interval:
    condition, chosen, other = node.args
    a, b = _refined_by(condition, chosen, intervals, True), _refined_by(condition, other, intervals, False)
    return Interval(
        min(a.low, b.low), max(a.high, b.high), a.finite and b.finite, a.without_zero and b.without_zero
    )  # fmt: skip


def _refined_by(condition: Expr, branch: Expr, intervals: Mapping[Expr, Interval], holds: bool) -> Interval:
    """The interval of a branch that is taken where `x compared with a number` holds, or where it does not."""
    known = intervals[branch]
    compared = condition.args[0] if condition.kind in _OPPOSITE and condition.args[1].kind == "const" else None
    if compared is not branch:
        return _neg(_refined_by(condition, branch.args[0], intervals, holds)) if branch.kind == "neg" else known
    number = float(condition.args[1].value)
    kind = condition.kind if holds else _OPPOSITE[condition.kind]
    if kind in ("lt", "le"):
        return replace(known, high=min(known.high, number if kind == "le" else math.nextafter(number, -INF)))
    if kind in ("gt", "ge"):
        return replace(known, low=max(known.low, number if kind == "ge" else math.nextafter(number, INF)))
    return replace(known, nonzero=known.nonzero or (kind == "ne" and number == 0))
