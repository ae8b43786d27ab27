"""Symbolic sizes of PyTorch as sizes of this library: numbers, or a `Size` that is computed from dimensions.

A size that PyTorch computes with floating-point numbers is a fraction of sizes that is rounded. A fraction is exact
where PyTorch's floating-point number is: denominators other than powers of two are rounded at once.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import sympy
import torch

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.functional import sizes as sz
from oneflow.frontend.importers.torch.errors import UnsupportedError

#: The largest denominator of a number by which a size is multiplied.
_MOST_PARTS = 2**20


class Ratio(NamedTuple):
    """A fraction of sizes, whose denominator is positive."""

    above: Any
    below: Any

    @property
    def is_exact(self) -> bool:
        """Whether floating-point numbers compute products and sums of the fraction without rounding."""
        return isinstance(self.below, int) and self.below <= _MOST_PARTS and self.below & (self.below - 1) == 0


def _ratio(value: Any) -> Ratio:
    return value if isinstance(value, Ratio) else Ratio(value, 1)


def _folded(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *terms: functools.reduce(combine, terms)


def _exactly(combine: Callable[[Ratio, Ratio], Any]) -> Callable[[Any, Any], Any]:
    """A function of two sizes or fractions, of fractions where it is exact.

    Raises:
        UnsupportedError: PyTorch rounds the result.
    """

    def of_two(a: Any, b: Any) -> Any:
        a, b = _ratio(a), _ratio(b)
        if not (a.is_exact and b.is_exact):
            raise UnsupportedError(["a size that PyTorch computes with rounded numbers"])
        return combine(a, b)

    return of_two


def _sum(a: Ratio, b: Ratio) -> Ratio:
    return Ratio(a.above * b.below + b.above * a.below, a.below * b.below)


def _quotient(a: Ratio, b: Ratio) -> Ratio:
    is_negative = isinstance(b.above, int) and b.above < 0
    return Ratio(a.above * (-b.below if is_negative else b.below), a.below * (-b.above if is_negative else b.above))


def _floor(value: Any) -> Any:
    above, below = _ratio(value)
    return above // below


def _ceil(value: Any) -> Any:
    above, below = _ratio(value)
    return -(-above // below)


def _truncated(value: Any) -> Any:
    return sz.maximum(_floor(value), 0) + sz.minimum(_ceil(value), 0)


def _rounded(value: Any) -> Any:
    """The nearest integer, of two the even one."""
    above, below = _ratio(value)
    doubled = above * 2 + below
    upper = doubled // (below * 2)
    is_tie = 1 - sz.minimum(doubled % (below * 2), 1)
    return upper - is_tie * (upper % 2)


def _power(base: Any, count: Any) -> Any:
    if not isinstance(count, int) or count < 0:
        raise UnsupportedError([f"the size {base} to the power of {count}"])
    return functools.reduce(operator.mul, [base] * count, 1)


#: The functions of size expressions, by the names of their classes.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": _folded(operator.add),
    "Mul": _folded(operator.mul),
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "ModularIndexing": lambda base, divisor, modulus: base // divisor % modulus,
    "Max": _folded(sz.maximum),
    "Min": _folded(sz.minimum),
    "Abs": lambda size: sz.maximum(size, -size),
    "Pow": _power,
    "PowByNatural": _power,
    "Identity": lambda size: size,
}
#: The functions of expressions with fractions.
FUNCTIONS_OF_RATIOS: dict[str, Callable[..., Any]] = {
    "Add": _folded(_exactly(_sum)),
    "Mul": _folded(_exactly(lambda a, b: Ratio(a.above * b.above, a.below * b.below))),
    "IntTrueDiv": _exactly(_quotient),
    "FloatTrueDiv": _exactly(_quotient),
    "ToFloat": _ratio,
    "Identity": lambda value: value,
    "FloorToInt": _floor,
    "CeilToInt": _ceil,
    "TruncToInt": _truncated,
    "RoundToInt": _rounded,
    "TruncToFloat": lambda value: _ratio(_truncated(value)),
    "floor": _floor,
    "ceiling": _ceil,
}
#: The functions of expressions of floating-point numbers, which are tensors.
_REAL_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": _folded(F.add),
    "Mul": _folded(F.mul),
    "IntTrueDiv": F.div,
    "FloatTrueDiv": F.div,
    "ToFloat": lambda value: value,
    "FloatPow": F.pow,
    "Pow": F.pow,
    "Max": _folded(F.maximum),
    "Min": _folded(F.minimum),
    "Abs": F.abs,
    "OpaqueUnaryFn_sqrt": F.sqrt,
    "OpaqueUnaryFn_exp": F.exp,
    "OpaqueUnaryFn_log": F.log,
}


class Sizes:
    """The sizes of one call: each symbol is a dimension of an argument."""

    def __init__(self) -> None:
        self._known: dict[sympy.Symbol, Any] = {}

    def bind(self, symbol: Any, size: Any) -> None:
        """Notes the size of a dimension that the program has as `symbol`."""
        if isinstance(symbol, (torch.SymInt, torch.SymFloat)) and isinstance(symbol.node.expr, sympy.Symbol):
            self._known.setdefault(symbol.node.expr, size)

    def value(self, symbol: Any) -> Any:
        """A number of the program: an int or a `Size`, of floating-point numbers a tensor.

        Raises:
            UnsupportedError: the number is not computed from the sizes of the arguments.
        """
        if isinstance(symbol, torch.SymFloat):
            return self._real(symbol.node.expr)
        if not isinstance(symbol, torch.SymInt):
            return symbol
        size = self._evaluate(symbol.node.expr)
        if isinstance(size, Ratio):
            raise UnsupportedError([f"the size {symbol.node.expr}, a fraction"])
        return size

    def _evaluate(self, expr: Any) -> Any:
        """A size, or a fraction of sizes."""
        if expr.is_Integer:
            return int(expr)
        if expr.is_Float or expr.is_Rational:
            return Ratio(*(float(expr) if expr.is_Float else Fraction(int(expr.p), int(expr.q))).as_integer_ratio())
        if expr in self._known:
            return self._known[expr]
        values = list(map(self._evaluate, expr.args))
        name = type(expr).__name__
        is_plain = name in _FUNCTIONS and not any(isinstance(v, Ratio) for v in values)
        return self._function(expr, _FUNCTIONS if is_plain else FUNCTIONS_OF_RATIOS)(*values)

    def _real(self, expr: Any) -> Any:
        """A floating-point number as a tensor."""
        if expr.is_number:
            return as_tensor(np.array(float(expr)))
        if expr.is_integer or expr in self._known:
            return F.cast(self._evaluate(expr), dtypes.float64)
        return self._function(expr, _REAL_FUNCTIONS)(*map(self._real, expr.args))

    def _function(self, expr: Any, functions: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
        function = functions.get(type(expr).__name__)
        if function is None or not expr.args:
            raise UnsupportedError([f"the size {expr}, which no argument has"])
        return function
