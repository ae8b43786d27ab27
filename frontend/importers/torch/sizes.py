"""Symbolic sizes of PyTorch as sizes of this library: numbers, or a `Size` that is computed from dimensions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import sympy
import torch

from oneflow.frontend.functional import sizes as sz
from oneflow.frontend.importers.torch.errors import UnsupportedError


def _folded(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *terms: functools.reduce(combine, terms)


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
    "Pow": lambda base, count: functools.reduce(operator.mul, [base] * int(count)),
}


class Sizes:
    """The sizes of one call: each symbol is a dimension of an argument."""

    def __init__(self) -> None:
        self._known: dict[sympy.Symbol, Any] = {}

    def bind(self, symbol: Any, size: Any) -> None:
        """Notes the size of a dimension that the program has as `symbol`."""
        if isinstance(symbol, torch.SymInt) and isinstance(symbol.node.expr, sympy.Symbol):
            self._known.setdefault(symbol.node.expr, size)

    def value(self, symbol: Any) -> Any:
        """A number of the program: an int, or a `Size`.

        Raises:
            UnsupportedError: the number is not computed from the sizes of the arguments.
        """
        return self._evaluate(symbol.node.expr) if isinstance(symbol, torch.SymInt) else symbol

    def _evaluate(self, expr: Any) -> Any:
        if expr.is_Integer:
            return int(expr)
        if expr in self._known:
            return self._known[expr]
        function = _FUNCTIONS.get(type(expr).__name__)
        if function is None or not expr.args:
            raise UnsupportedError([f"the size {expr}, which no argument has"])
        return function(*map(self._evaluate, expr.args))
