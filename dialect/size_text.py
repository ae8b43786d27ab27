"""Sizes computed from other sizes, as text: `"d0 * 2, max(d1 - 1, 0), floor(d0 * 0.7)"` of sizes d0, d1.

Numbers, `+ - * // %`, `min`, `max` and parentheses. Fractions, `/` and `sqrt` give floating-point numbers (f64), and
`floor`, `ceil`, `trunc` and `round` (of two the even number) make sizes of these: only functions that every backend
rounds in the same way, because a size must not depend on the backend. The given sizes may be numbers, None (unknown;
then what is computed from it is unknown), or anything that `combine`s: expressions of compute bodies, what types are
asked with.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

_KINDS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Div: "div",
}
_OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "div": operator.truediv,
    "min": min,
    "max": max,
}
#: Functions of a floating-point number; all but the square root give sizes.
_OF_ONE: dict[str, Callable[[float], Any]] = {
    "sqrt": math.sqrt,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
}


def evaluate_sizes(text: str, likes: Sequence[Any]) -> tuple[Any, ...]:
    """The sizes that `text` computes from `d0, d1, ..`, the sizes `likes`.

    Raises:
        ValueError: it is no such text, names a size that is not given, divides by 0, or gives no number.
    """
    try:
        return tuple(_evaluate(node, likes) for node in _parsed(text))
    except OverflowError:
        raise ValueError(f"a number is too large in {text}") from None


@functools.lru_cache(4096)
def _parsed(text: str) -> tuple[ast.expr, ...]:
    try:
        body = ast.parse(f"({text},)" if text.strip() else "()", mode="eval").body
    except (SyntaxError, RecursionError):
        raise ValueError(f"expected sizes such as d0 * 2, 3, got {text!r}") from None
    nodes = tuple(body.elts) if isinstance(body, ast.Tuple) else (body,)
    for node in nodes:
        if _is_real(node):
            raise _not_whole(node)
    return nodes


def _is_real(node: ast.expr) -> bool:
    """Whether the value of a node is a floating-point number, and not a size.

    Raises:
        ValueError: the node is no expression of sizes.
    """
    match node:
        case ast.Constant(value=(int() | float()) as number) if not isinstance(number, bool):
            return isinstance(number, float)
        case ast.Name():
            return False
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_real(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _KINDS:
            is_real = [_is_real(left), _is_real(right)]
            if isinstance(op, (ast.FloorDiv, ast.Mod)) and any(is_real):
                raise _not_whole(left if is_real[0] else right)
            return isinstance(op, ast.Div) or any(is_real)
        case ast.Call(func=ast.Name(id=("min" | "max")), args=[left, right], keywords=[]):
            return any([_is_real(left), _is_real(right)])
        case ast.Call(func=ast.Name(id=kind), args=[operand], keywords=[]) if kind in _OF_ONE:
            _is_real(operand)
            return kind == "sqrt"
    raise ValueError(
        "expected numbers, d0, d1, .. and + - * // % min max floor ceil trunc round as sizes, "
        f"got {ast.unparse(node)}"
    )


def _not_whole(node: ast.expr) -> ValueError:
    return ValueError(
        f"expected whole numbers as sizes, got {ast.unparse(node)}; floor, ceil, trunc and round make them"
    )


def _evaluate(node: ast.expr, likes: Sequence[Any]) -> Any:
    match node:
        case ast.Constant(value=number):
            return number
        case ast.Name(id=name):
            return _size_named(name, likes)
        case ast.UnaryOp(operand=operand):
            return _combined("sub", _is_real(node), 0, _evaluate(operand, likes))
        case ast.BinOp(left=left, op=op, right=right):
            return _combined(_KINDS[type(op)], _is_real(node), _evaluate(left, likes), _evaluate(right, likes))
        case ast.Call(func=ast.Name(id=kind), args=[left, right]):
            return _combined(kind, _is_real(node), _evaluate(left, likes), _evaluate(right, likes))
        case ast.Call(func=ast.Name(id=kind), args=[operand]):
            return _applied(kind, _real(_evaluate(operand, likes)))
    raise AssertionError(ast.unparse(node))


def _size_named(name: str, likes: Sequence[Any]) -> Any:
    index = int(name[1:]) if name[:1] == "d" and name[1:].isdecimal() else len(likes)
    if index >= len(likes):
        raise ValueError(f"expected one of {len(likes)} sizes d0, d1, .., got {name}")
    return likes[index]


def _real(value: Any) -> Any:
    """A number as a floating-point number."""
    if value is None or isinstance(value, float):
        return value
    return float(value) if isinstance(value, int) else value.combine("real", value)


def _applied(kind: str, value: Any) -> Any:
    """A function of one floating-point number."""
    if value is None:
        return None
    return _OF_ONE[kind](value) if isinstance(value, float) else value.combine(kind, value)


def _combined(kind: str, is_real: bool, a: Any, b: Any) -> Any:
    if is_real:
        a, b = _real(a), _real(b)
    if a is None or b is None:
        return None
    if kind in ("floordiv", "mod", "div") and b == 0:
        raise ValueError("expected a divisor of a size other than 0, got 0")
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return _OF_TWO[kind](a, b)
    if kind == "mod":
        return _combined("sub", False, a, _combined("mul", False, _combined("floordiv", False, a, b), b))
    return (b if isinstance(a, (int, float)) else a).combine(kind, a, b)
