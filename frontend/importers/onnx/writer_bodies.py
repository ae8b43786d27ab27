"""Nodes of ONNX for element-wise operators without a row: the scalar body, one node for each operation.

Operands broadcast in ONNX as in the dialect, so a body of scalars is a graph of tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import scalar as s
from oneflow.dialect.dtypes import DType
from oneflow.dialect.elementwise import scalar_body
from oneflow.dialect.scalar import Expr
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.types import NUMBERS

#: Operations with one node of the same meaning.
_NODES = {
    "neg": "Neg", "abs": "Abs", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan",
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh",
    "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "ceil": "Ceil", "floor": "Floor", "rint": "Round",
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "pow": "Pow",
    "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "select": "Where",
}  # fmt: skip
#: Operations of bools, and of the bits of integers.
_BITS = {
    "not": ("Not", "BitwiseNot"), "and": ("And", "BitwiseAnd"), "or": ("Or", "BitwiseOr"),
    "xor": ("Xor", "BitwiseXor"),
}  # fmt: skip


def _log1p(x: Expr) -> Expr:
    """log(u) * x / (u - 1) of u = 1 + x, which is accurate near 0 (Kahan)."""
    u = x + 1.0
    unscaled = s.log(u) * x / (u - 1.0)
    return s.where(u.eq(1.0), x, s.where(u.eq(math.inf), u, unscaled))


def _expm1(x: Expr) -> Expr:
    """exp(x) - 1; near 0 by tanh(x / 2), of which it is 2 t / (1 - t)."""
    half = s.tanh(x * 0.5)
    return s.where(s.unary("abs", x) < 0.5, half * 2.0 / (1.0 - half), s.exp(x) - 1.0)


#: Operations as other operations.
_REWRITES: dict[str, Callable[..., Expr]] = {
    "exp2": lambda x: s.power(s.const(2.0, x.dtype), x),
    "expm1": _expm1,
    "log10": lambda x: s.log(x) * (1 / math.log(10)),
    "log1p": _log1p,
    "log2": lambda x: s.log(x) * (1 / math.log(2)),
    "ne": lambda a, b: s.unary("not", a.eq(b)),
    "rsqrt": lambda x: 1.0 / s.sqrt(x),
    "trunc": lambda x: s.where(x < 0.0, s.unary("ceil", x), s.unary("floor", x)),
}


def write_body(w: Any, c: Any) -> str:
    """The name of the result of an element-wise call.

    Raises:
        OnnxError: an operation of the body has no counterpart.
    """
    names = [name for name in c.inputs.values() if name is not None]
    root = scalar_body(c, [s.arg(number, w.desc(name).dtype) for number, name in enumerate(names)])
    written: dict[Expr, str] = {}
    read = _write(w, root, names, written)
    unread = set(range(len(names))) - {node.value for node in s.walk([root]) if node.kind == "arg"}
    for number in unread:
        read = w.node("Expand", read, w.node("Shape", names[number]))
    return read


def _write(w: Any, root: Expr, names: list[str], written: dict[Expr, str]) -> str:
    """The name of an expression, each node of which is written once."""
    for node in s.walk([root]):
        if node not in written:
            written[node] = _node(w, node, names, written)
    return written[root]


def _divided(w: Any, kind: str, dtype: DType, a: str, b: str) -> str:
    """A remainder or an integer quotient; of integers, division by 0 gives 0, which ONNX leaves undefined."""
    if dtype.is_float:
        return str(w.node("Mod", a, b, fmod=1))
    zero, one = (w.constant(np.array(number, dtype.numpy)) for number in (0, 1))
    is_zero = w.node("Equal", b, zero)
    divisor = w.node("Where", is_zero, one, b)
    rest = w.node("Mod", a, divisor, fmod=int(kind == "rem"))
    result = rest if kind == "rem" else w.node("Div", w.node("Sub", a, rest), divisor)
    return str(w.node("Where", is_zero, zero, result))


def _node(w: Any, node: Expr, names: list[str], written: dict[Expr, str]) -> str:
    """The name of one operation, whose arguments are written."""
    kind, args = node.kind, [written[a] for a in node.args]
    if kind == "arg":
        number: int = node.value
        return names[number]
    if kind == "const":
        return str(w.constant(np.array(node.value, node.dtype.numpy)))
    if kind == "cast":
        return str(w.node("Cast", *args, to=NUMBERS[node.dtype.name]))
    if kind in _BITS:
        return str(w.node(_BITS[kind][node.dtype.kind != "bool"], *args))
    if kind in ("rem", "floordiv"):
        return _divided(w, kind, node.dtype, *args)
    if kind in _REWRITES:
        return _write(w, _REWRITES[kind](*node.args), names, written)
    if kind not in _NODES:
        raise OnnxError(f"the operation {kind} of its body")
    return str(w.node(_NODES[kind], *args))
