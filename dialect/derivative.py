"""Derivatives of scalar bodies, and scalar expressions as operators.

An element-wise operator needs no gradient of its own: its body is differentiated here, and the derivative is
built out of the registered element-wise operators, so it is differentiable again. Imports `scalar` and
`builder`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.scalar import Expr

TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)
LN2, LN10 = math.log(2.0), math.log(10.0)

Partial = Callable[[Expr], Expr]


def _sign(x: Expr) -> Expr:
    return s.where(x > 0, s.const(1, x.dtype), s.where(x < 0, s.const(-1, x.dtype), s.const(0, x.dtype)))


#: d kind(x) / dx from the node y = kind(x), whose argument is y.args[0].
UNARY_RULES: dict[str, Partial] = {
    "neg": lambda y: s.const(-1, y.dtype),
    "abs": lambda y: _sign(y.args[0]),
    "exp": lambda y: y,
    "exp2": lambda y: y * LN2,
    "expm1": lambda y: y + 1.0,
    "log": lambda y: 1.0 / y.args[0],
    "log2": lambda y: 1.0 / (y.args[0] * LN2),
    "log10": lambda y: 1.0 / (y.args[0] * LN10),
    "log1p": lambda y: 1.0 / (y.args[0] + 1.0),
    "sqrt": lambda y: 0.5 / y,
    "rsqrt": lambda y: -0.5 * (y / y.args[0]),
    "sin": lambda y: s.cos(y.args[0]),
    "cos": lambda y: -s.sin(y.args[0]),
    "tan": lambda y: y * y + 1.0,
    "asin": lambda y: s.rsqrt(1.0 - y.args[0] * y.args[0]),
    "acos": lambda y: -s.rsqrt(1.0 - y.args[0] * y.args[0]),
    "atan": lambda y: 1.0 / (y.args[0] * y.args[0] + 1.0),
    "sinh": lambda y: s.cosh(y.args[0]),
    "cosh": lambda y: s.sinh(y.args[0]),
    "tanh": lambda y: 1.0 - y * y,
    "asinh": lambda y: s.rsqrt(y.args[0] * y.args[0] + 1.0),
    "acosh": lambda y: s.rsqrt(y.args[0] * y.args[0] - 1.0),
    "atanh": lambda y: 1.0 / (1.0 - y.args[0] * y.args[0]),
    "erf": lambda y: TWO_OVER_SQRT_PI * s.exp(-(y.args[0] * y.args[0])),
    "erfc": lambda y: -TWO_OVER_SQRT_PI * s.exp(-(y.args[0] * y.args[0])),
}
#: Nodes whose derivative is zero wherever it exists.
FLAT = frozenset("ceil floor trunc rint not".split()) | s.COMPARE


def _log_or_zero(x: Expr) -> Expr:
    """log(x) where x > 0, else 0: the factor of d pow / d exponent, with 0 * log(0) = 0."""
    positive = x > 0
    return s.where(positive, s.log(s.where(positive, x, 1.0)), 0.0)


def _half(x: Expr, y: Expr, wins: Expr) -> Expr:
    """1 where `wins`, 1/2 at a tie, else 0: how max and min share a gradient."""
    return s.where(x.eq(y), s.const(0.5, x.dtype), s.where(wins, s.const(1, x.dtype), s.const(0, x.dtype)))


#: (d kind(a, b) / da, d kind(a, b) / db) from the node.
BINARY_RULES: dict[str, tuple[Partial | None, Partial | None]] = {
    "add": (lambda y: s.const(1, y.dtype), lambda y: s.const(1, y.dtype)),
    "sub": (lambda y: s.const(1, y.dtype), lambda y: s.const(-1, y.dtype)),
    "mul": (lambda y: y.args[1], lambda y: y.args[0]),
    "div": (lambda y: 1.0 / y.args[1], lambda y: -(y / y.args[1])),
    "rem": (lambda y: s.const(1, y.dtype), lambda y: -s.trunc(y.args[0] / y.args[1])),
    "max": (
        lambda y: _half(y.args[0], y.args[1], y.args[0] > y.args[1]),
        lambda y: _half(y.args[0], y.args[1], y.args[1] > y.args[0]),
    ),
    "min": (
        lambda y: _half(y.args[0], y.args[1], y.args[0] < y.args[1]),
        lambda y: _half(y.args[0], y.args[1], y.args[1] < y.args[0]),
    ),
    "pow": (
        lambda y: s.where(y.args[1].eq(0), 0.0, y.args[1] * s.power(y.args[0], y.args[1] - 1.0)),
        lambda y: y * _log_or_zero(y.args[0]),
    ),
    "atan2": (
        lambda y: y.args[1] / (y.args[0] * y.args[0] + y.args[1] * y.args[1]),
        lambda y: -(y.args[0] / (y.args[0] * y.args[0] + y.args[1] * y.args[1])),
    ),
}


def derivative(root: Expr, wrt: Expr) -> Expr | None:
    """d `root` / d `wrt`, or None where it is zero everywhere.

    Sources: the rules of calculus; at the edges (ties, |x| at 0, zero bases) PyTorch's choices.

    Raises:
        NotImplementedError: a node on the way has no derivative.
    """
    tangents: dict[int, Expr | None] = {}
    for node in s.walk([root]):
        one = node is wrt
        tangents[id(node)] = s.const(1, node.dtype) if one else _tangent(node, tangents)
    return tangents[id(root)]


def _tangent(node: Expr, tangents: Mapping[int, Expr | None]) -> Expr | None:
    inner = [tangents[id(a)] for a in node.args]
    if node.kind in FLAT or not node.dtype.is_float or all(t is None for t in inner):
        return None
    if node.kind == "select":
        a, b = (t if t is not None else s.const(0, node.dtype) for t in inner[1:])
        return None if inner[1] is None and inner[2] is None else s.where(node.args[0], a, b)
    if node.kind == "cast":
        return None if inner[0] is None else s.cast(inner[0], node.dtype)
    total: Expr | None = None
    for partial, tangent in zip(_partials(node), inner, strict=True):
        if tangent is not None and partial is not None:
            term = _times(partial(node), tangent)
            total = term if total is None else total + term
    return total


def _partials(node: Expr) -> tuple[Partial | None, ...]:
    if node.kind in UNARY_RULES:
        return (UNARY_RULES[node.kind],)
    if node.kind in BINARY_RULES:
        return BINARY_RULES[node.kind]
    raise NotImplementedError(f"the scalar operation {node.kind} has no derivative")


def _times(a: Expr, b: Expr) -> Expr:
    for one, other in ((a, b), (b, a)):
        if one.kind == "const" and one.value == 1:
            return other
    return a * b


#: The operator that computes each kind of node on whole tensors.
OPERATORS: dict[str, str] = {
    "neg": "negative",
    "not": "logical_not",
    **{k: k for k in s.UNARY - {"neg", "not"}},
    "rem": "broadcast_fmod",
    "max": "broadcast_maximum",
    "min": "broadcast_minimum",
    "eq": "broadcast_equal",
    "ne": "broadcast_not_equal",
    "lt": "broadcast_less",
    "le": "broadcast_less_equal",
    "gt": "broadcast_greater",
    "ge": "broadcast_greater_equal",
    "and": "broadcast_logical_and",
    "or": "broadcast_logical_or",
    "xor": "broadcast_logical_xor",
    **{k: f"broadcast_{k}" for k in ("add", "sub", "mul", "div", "pow")},
    "floordiv": "floordiv",
    "atan2": "atan2",
    "select": "where",
}
#: Kinds that take a number on the right as `scalar_<kind>`.
WITH_NUMBER = frozenset("add mul div pow".split())


def build(ops: Builder, root: Expr, env: Mapping[int, Value]) -> Value:
    """`root` computed on tensors: `env` gives the value of each leaf by its identity."""
    values: dict[int, Value] = dict(env)
    for node in s.walk([root]):
        if id(node) not in values:
            values[id(node)] = _build_node(ops, node, values)
    return values[id(root)]


def _build_node(ops: Builder, node: Expr, values: Mapping[int, Value]) -> Value:
    if node.kind == "const":
        return constant(ops, node)
    args = [values[id(a)] for a in node.args]
    if node.kind == "cast":
        return ops.call("cast", args[0], dtype=node.dtype)[0]
    for left, right in ((0, 1), (1, 0)) if node.kind in ("add", "mul") else ((0, 1),):
        if node.kind in WITH_NUMBER and node.args[right].kind == "const":
            return ops.binary(node.kind, args[left], node.args[right].value)
    return ops.call(OPERATORS[node.kind], *args)[0]


def constant(ops: Builder, node: Expr) -> Value:
    """A literal as a tensor of rank 0."""
    if node.dtype.is_float:
        value = {"is_floating_value": True, "floating_value": node.value}
    else:
        value = {"is_floating_value": False, "integer_value": int(node.value)}
    return ops.call("constant", dtype=node.dtype, shape=(), **value)[0]


def leaves(ops: Builder, operands: list[Value]) -> tuple[list[Expr], dict[int, Value]]:
    """Leaf nodes for operands, 16-bit floats widened as scalar bodies are, and the values they stand for."""
    nodes = [s.arg(i, v.dtype.accumulator) for i, v in enumerate(operands)]
    env = {}
    for node, value in zip(nodes, operands, strict=True):
        widened = value if value.dtype == node.dtype else ops.call("cast", value, dtype=node.dtype)[0]
        env[id(node)] = widened
    return nodes, env


def is_differentiable(value: Value) -> bool:
    """Whether gradients flow to a value: its elements are floats."""
    return value.dtype.is_float and value.dtype is not dtypes.index
