"""Sizes computed from other sizes, as text: `"d0 * 2, max(d1 - 1, 0)"` of sizes d0, d1.

Numbers, `+ - * // %`, `min`, `max` and parentheses. The given sizes may be numbers, None (unknown; so is what is
computed from it), or anything that `combine`s: expressions of compute bodies, what types are asked with.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

_KINDS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
}
_NUMBERS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": min,
    "max": max,
}


def evaluate_sizes(text: str, likes: Sequence[Any]) -> tuple[Any, ...]:
    """The sizes that `text` computes from `d0, d1, ..`, the sizes `likes`.

    Raises:
        ValueError: it is no such text, names a size that is not given, or divides by 0.
    """
    return tuple(_evaluate(node, likes) for node in _parsed(text))


@functools.lru_cache(4096)
def _parsed(text: str) -> tuple[ast.expr, ...]:
    try:
        body = ast.parse(f"({text},)" if text.strip() else "()", mode="eval").body
    except (SyntaxError, RecursionError):
        raise ValueError(f"expected sizes such as d0 * 2, 3, got {text!r}") from None
    return tuple(body.elts) if isinstance(body, ast.Tuple) else (body,)


def _evaluate(node: ast.expr, likes: Sequence[Any]) -> Any:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            return _size_named(name, likes)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _combine("sub", 0, _evaluate(operand, likes))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _KINDS:
            return _combine(_KINDS[type(op)], _evaluate(left, likes), _evaluate(right, likes))
        case ast.Call(func=ast.Name(id=("min" | "max") as kind), args=[left, right], keywords=[]):
            return _combine(kind, _evaluate(left, likes), _evaluate(right, likes))
    raise ValueError(f"expected numbers, d0, d1, .. and + - * // % min max as sizes, got {ast.unparse(node)}")


def _size_named(name: str, likes: Sequence[Any]) -> Any:
    number = int(name[1:]) if name[:1] == "d" and name[1:].isdecimal() else len(likes)
    if number >= len(likes):
        raise ValueError(f"expected one of {len(likes)} sizes d0, d1, .., got {name}")
    return likes[number]


def _combine(kind: str, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if kind in ("floordiv", "mod") and b == 0:
        raise ValueError("a size is divided by 0")
    if isinstance(a, int) and isinstance(b, int):
        return _NUMBERS[kind](a, b)
    if kind == "mod":
        return _combine("sub", a, _combine("mul", _combine("floordiv", a, b), b))
    return (b if isinstance(a, int) else a).combine(kind, a, b)
