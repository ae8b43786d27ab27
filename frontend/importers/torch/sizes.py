"""Symbolic sizes of PyTorch as sizes of this library: numbers, or a `Size` that is computed from dimensions.

A size that PyTorch computes with floating-point numbers is a rounded number. The number is a fraction of sizes where
PyTorch's floating-point number is exact, or is one quotient: the compiler knows more of a fraction that is rounded
with integers. Other numbers are computed with floating-point numbers, as PyTorch does.
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
from oneflow.frontend.core.tensor import Real
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

    @property
    def real(self) -> Any:
        """The fraction as a floating-point number."""
        return sz.real("/", self.above, self.below)


def _is_real(value: Any) -> bool:
    return isinstance(value, (float, Real))


def _ratio(value: Any) -> Ratio:
    return value if isinstance(value, Ratio) else Ratio(value, 1)


def _real(value: Any) -> Any:
    """A size, a fraction or a floating-point number as an operand of floating-point arithmetic."""
    return value.real if isinstance(value, Ratio) else value


def _of_reals(kind: str) -> Callable[..., Any]:
    return lambda *values: sz.real(kind, *map(_real, values))


def _folded(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *terms: functools.reduce(combine, terms)


def _exactly(kind: str, combine: Callable[[Ratio, Ratio], Any]) -> Callable[[Any, Any], Any]:
    """A function of two numbers: of fractions where it is exact, else of floating-point numbers."""

    def of_two(a: Any, b: Any) -> Any:
        if not (_is_real(a) or _is_real(b)) and _ratio(a).is_exact and _ratio(b).is_exact:
            return combine(_ratio(a), _ratio(b))
        return sz.real(kind, _real(a), _real(b))

    return of_two


def _sum(a: Ratio, b: Ratio) -> Ratio:
    return Ratio(a.above * b.below + b.above * a.below, a.below * b.below)


def _quotient(a: Ratio, b: Ratio) -> Ratio:
    is_negative = isinstance(b.above, int) and b.above < 0
    return Ratio(a.above * (-b.below if is_negative else b.below), a.below * (-b.above if is_negative else b.above))


def _rounding(kind: str, of_ratio: Callable[[Ratio], Any]) -> Callable[[Any], Any]:
    """A function from numbers to sizes: `of_ratio` of a fraction, else `kind` of a floating-point number."""
    return lambda value: sz.rounded(kind, value) if _is_real(value) else of_ratio(_ratio(value))


def _floor(value: Ratio) -> Any:
    return value.above // value.below


def _ceil(value: Ratio) -> Any:
    return -(-value.above // value.below)


def _truncated(value: Ratio) -> Any:
    return sz.maximum(_floor(value), 0) + sz.minimum(_ceil(value), 0)


def _nearest(value: Ratio) -> Any:
    """The nearest integer, of two the even one."""
    above, below = value
    doubled = above * 2 + below
    upper = doubled // (below * 2)
    is_tie = 1 - sz.minimum(doubled % (below * 2), 1)
    return upper - is_tie * (upper % 2)


def _power(base: Any, count: Any) -> Any:
    if not isinstance(count, int) or count < 0:
        raise UnsupportedError([f"the size {base} to the power of {count}"])
    return functools.reduce(operator.mul, [base] * count, 1)


def _real_power(base: Any, exponent: Any) -> Any:
    """A square or a square root; other powers are rounded differently by different libraries."""
    functions = {Ratio(2, 1): lambda x: sz.real("*", x, x), Ratio(1, 2): lambda x: sz.real("sqrt", x)}
    function = functions.get(_ratio(exponent))
    if function is None:
        raise UnsupportedError(["a size that PyTorch computes with a power other than 2 and 0.5"])
    return function(_real(base))


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
    "Add": _folded(_exactly("+", _sum)),
    "Mul": _folded(_exactly("*", lambda a, b: Ratio(a.above * b.above, a.below * b.below))),
    "IntTrueDiv": _exactly("/", _quotient),
    "FloatTrueDiv": _exactly("/", _quotient),
    "ToFloat": _ratio,
    "Identity": lambda value: value,
    "FloorToInt": _rounding("floor", _floor),
    "CeilToInt": _rounding("ceil", _ceil),
    "TruncToInt": _rounding("trunc", _truncated),
    "RoundToInt": _rounding("round", _nearest),
    "TruncToFloat": lambda value: _ratio(_rounding("trunc", _truncated)(value)),
    "floor": _rounding("floor", _floor),
    "ceiling": _rounding("ceil", _ceil),
    "FloatPow": _real_power,
    "Pow": _real_power,
    "Max": _folded(_of_reals("max")),
    "Min": _folded(_of_reals("min")),
    "Abs": lambda value: sz.real("max", _real(value), sz.real("-", 0, _real(value))),
    "OpaqueUnaryFn_sqrt": _of_reals("sqrt"),
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
        if isinstance(size, Ratio) or _is_real(size):
            raise UnsupportedError([f"the size {symbol.node.expr}, a fraction"])
        return size

    def _evaluate(self, expr: Any) -> Any:
        """A size, a fraction of sizes, or a floating-point number that is computed from sizes."""
        if expr.is_Integer:
            return int(expr)
        if expr.is_Float or expr.is_Rational:
            return Ratio(*(float(expr) if expr.is_Float else Fraction(int(expr.p), int(expr.q))).as_integer_ratio())
        if expr in self._known:
            return self._known[expr]
        values = list(map(self._evaluate, expr.args))
        name = type(expr).__name__
        is_plain = name in _FUNCTIONS and not any(isinstance(v, Ratio) or _is_real(v) for v in values)
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
            raise UnsupportedError(
                [f"the size {expr}, which is neither of an argument nor computed by a known function"]
            )
        return function
