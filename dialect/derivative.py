"""Derivatives of scalar bodies, and scalar expressions as operators.

An element-wise operator needs no gradient of its own: the body is differentiated here, and the derivative is
built out of the registered element-wise operators, so that the gradient is differentiable again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.scalar import Expr

TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)
LN2, LN10 = math.log(2.0), math.log(10.0)

Partial = Callable[[Expr], Expr]


def _sign(x: Expr) -> Expr:
    return s.where(x > 0, s.const(1, x.dtype), s.where(x < 0, s.const(-1, x.dtype), s.const(0, x.dtype)))


def _acosh_derivative(x: Expr) -> Expr:
    """1 / sqrt(x * x - 1); of complex numbers in factors, of which no product crosses the cut of the root."""
    return s.rsqrt(x - 1.0) * s.rsqrt(x + 1.0) if x.dtype.is_complex else s.rsqrt(x * x - 1.0)


#: d kind(x) / dx from the node y = kind(x), whose argument is y.args[0].
UNARY_RULES: dict[str, Partial] = {
    "neg": lambda y: s.const(-1, y.dtype),
    "abs": lambda y: _sign(y.args[0]),
    "exp": lambda y: y,
    "exp2": lambda y: y * LN2,
    "expm1": lambda y: s.exp(y.args[0]),
    "log": lambda y: 1.0 / y.args[0],
    "log2": lambda y: 1.0 / (y.args[0] * LN2),
    "log10": lambda y: 1.0 / (y.args[0] * LN10),
    "log1p": lambda y: 1.0 / (y.args[0] + 1.0),
    "sqrt": lambda y: 0.5 / y,
    "rsqrt": lambda y: -0.5 * (y * y * y),
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
    "acosh": lambda y: _acosh_derivative(y.args[0]),
    "atanh": lambda y: 1.0 / (1.0 - y.args[0] * y.args[0]),
    "erf": lambda y: TWO_OVER_SQRT_PI * s.exp(-(y.args[0] * y.args[0])),
    "erfc": lambda y: -TWO_OVER_SQRT_PI * s.exp(-(y.args[0] * y.args[0])),
}
#: Nodes whose derivative is zero wherever the derivative exists.
FLAT = frozenset("ceil floor trunc rint not".split()) | s.COMPARE


def _pow_by_base(y: Expr) -> Expr:
    """b * a ** (b - 1), and 0 where b is 0 whatever the base."""
    base, exponent = y.args
    if exponent.kind == "const":
        return times(exponent, _power(base, exponent.value - 1.0))
    flat = exponent.eq(0)
    return s.where(flat, 0.0, exponent * s.power(s.where(flat, 1.0, base), exponent - 1.0))


def _power(base: Expr, exponent: float) -> Expr:
    """base ** exponent for a known exponent: no power of 0 or 1 is left."""
    if exponent in (0.0, 1.0):
        return base if exponent else s.const(1, base.dtype)
    return s.power(base, exponent)


def _pow_by_exponent(y: Expr) -> Expr:
    """a ** b * log(a), and 0 where a is 0 and b is not negative, or any complex number."""
    base, exponent = y.args
    if base.kind == "const" and base.value > 0:
        return y * math.log(base.value)
    flat = base.eq(0) if base.dtype.is_complex else base.eq(0) & (exponent >= 0)
    return y * s.log(s.where(flat, 1.0, base))


def _share(x: Expr, y: Expr, loses: Expr) -> Expr:
    """1/2 at a tie, 0 where x `loses`, else 1 (NaN too): how max and min share a gradient."""
    return s.where(loses, s.const(0, x.dtype), s.where(x.eq(y), s.const(0.5, x.dtype), s.const(1, x.dtype)))


def _over_norm(y: Expr, side: Expr) -> Expr:
    """side / (a ** 2 + b ** 2), 0 at the origin: the derivatives of atan2."""
    norm = y.args[0] * y.args[0] + y.args[1] * y.args[1]
    return side / s.where(norm.eq(0), 1.0, norm)


#: (d kind(a, b) / da, d kind(a, b) / db) from the node.
BINARY_RULES: dict[str, tuple[Partial | None, Partial | None]] = {
    "add": (lambda y: s.const(1, y.dtype), lambda y: s.const(1, y.dtype)),
    "sub": (lambda y: s.const(1, y.dtype), lambda y: s.const(-1, y.dtype)),
    "mul": (lambda y: y.args[1], lambda y: y.args[0]),
    "div": (lambda y: 1.0 / y.args[1], lambda y: -(y / y.args[1])),
    "rem": (lambda y: s.const(1, y.dtype), lambda y: -s.trunc(y.args[0] / y.args[1])),
    "max": (
        lambda y: _share(y.args[0], y.args[1], y.args[0] < y.args[1]),
        lambda y: _share(y.args[0], y.args[1], y.args[1] < y.args[0]),
    ),
    "min": (
        lambda y: _share(y.args[0], y.args[1], y.args[0] > y.args[1]),
        lambda y: _share(y.args[0], y.args[1], y.args[1] > y.args[0]),
    ),
    "pow": (_pow_by_base, _pow_by_exponent),
    "atan2": (lambda y: _over_norm(y, y.args[1]), lambda y: -_over_norm(y, y.args[0])),
}


def derivative(root: Expr, wrt: Expr) -> Expr | None:
    """d `root` / d `wrt`, or None where the derivative is zero everywhere.

    Sources: the rules of calculus; at the edges (ties, |x| at 0, zero bases) PyTorch's choices.

    Raises:
        NotImplementedError: a node on the way has no derivative.
    """
    tangents: dict[int, Expr | None] = {}
    for node in s.walk([root]):
        one = node is wrt
        tangents[id(node)] = s.const(1, node.dtype.tangent) if one else _tangent(node, tangents)
    return tangents[id(root)]


def _tangent(node: Expr, tangents: Mapping[int, Expr | None]) -> Expr | None:
    inner = [tangents[id(a)] for a in node.args]
    if node.kind in FLAT or not node.dtype.is_inexact or all(t is None for t in inner):
        return None
    if node.kind == "select":
        a, b = (t if t is not None else s.const(0, node.dtype.tangent) for t in inner[1:])
        return _choice(node.args[0], a, b)
    if node.kind == "cast":
        return None if inner[0] is None else s.cast(inner[0], node.dtype.tangent)
    total: Expr | None = None
    for partial, tangent in zip(_partials(node), inner, strict=True):
        term = None if tangent is None or partial is None else times(partial(node), tangent)
        if term is not None and not _is_const(term, 0):
            total = term if total is None else total + term
    return total


def _partials(node: Expr) -> tuple[Partial | None, ...]:
    if node.kind in UNARY_RULES:
        return (UNARY_RULES[node.kind],)
    if node.kind in BINARY_RULES:
        return BINARY_RULES[node.kind]
    raise NotImplementedError(f"the scalar operation {node.kind} has no derivative")


def _choice(condition: Expr, a: Expr, b: Expr) -> Expr | None:
    """A choice of derivatives, None where both are zero."""
    return None if _is_const(a, 0) and _is_const(b, 0) else s.where(condition, a, b)


def _is_const(node: Expr, *values: float) -> bool:
    return node.kind == "const" and node.value in values


def times(a: Expr, b: Expr) -> Expr:
    """a * b without products by 0, 1 and -1; a selection by 0 or 1 stays a selection, so that NaN is masked."""
    for one, other in ((a, b), (b, a)):
        if _is_const(one, 0, 1):
            return other if one.value else one
        if _is_const(one, -1):
            return -other
    for one, other in ((a, b), (b, a)):
        if one.kind == "select" and any(_is_const(branch, 0, 1, -1) for branch in one.args[1:]):
            return s.where(one.args[0], times(one.args[1], other), times(one.args[2], other))
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
#: The operators whose right operand may be a number.
WITH_NUMBER: dict[str, str] = {
    **{k: f"scalar_{k}" for k in ("add", "mul", "div", "pow", "floordiv")},
    "rem": "scalar_fmod",
    "eq": "scalar_logical_equal",
    "ne": "scalar_logical_not_equal",
    "lt": "scalar_logical_less",
    "le": "scalar_logical_less_equal",
    "gt": "scalar_logical_greater",
    "ge": "scalar_logical_greater_equal",
}
#: The kind that a kind becomes when its arguments are swapped.
MIRRORED = {"add": "add", "mul": "mul", "eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


#: The nodes of an expression, arguments before users; the last is the expression.
Plan = tuple[Expr, ...]


def plan(root: Expr, known: Collection[Expr] = ()) -> Plan:
    """The steps that build `root` from the values of the leaves and of `known`; cached, since repeated builds are
    faster.
    """
    nodes = s.walk([root])
    needed = {root}
    for node in reversed(nodes):
        if node in needed and node not in known:
            needed.update(node.args)
    return tuple(node for node in nodes if node in needed)


def build(ops: Builder, steps: Plan, env: Mapping[Expr, Value]) -> Value:
    """An expression computed on tensors: `env` has the value of each leaf."""
    values: dict[Expr, Value] = dict(env)
    for node in steps:
        if node not in values and node.kind != "const":
            values[node] = _build_node(ops, node, values)
    return _value(ops, steps[-1], values)


def _value(ops: Builder, node: Expr, values: Mapping[Expr, Value]) -> Value:
    """The value of a node that has one, or a literal made into a tensor."""
    return values[node] if node in values else constant(ops, node)


def _build_node(ops: Builder, node: Expr, values: Mapping[Expr, Value]) -> Value:
    if node.kind == "cast":
        return ops.call("cast", _value(ops, node.args[0], values), dtype=node.dtype)[0]
    kind, args = node.kind, node.args
    if kind == "div" and _is_const(args[0], 1):
        return ops.call("reciprocal", _value(ops, args[1], values))[0]
    if args[0].kind == "const" and kind in MIRRORED:
        kind, args = MIRRORED[kind], args[::-1]
    if kind in WITH_NUMBER and args[1].kind == "const":
        return ops.call(WITH_NUMBER[kind], _value(ops, args[0], values), **literal_attributes(args[1]))[0]
    return ops.call(OPERATORS[kind], *(_value(ops, a, values) for a in args))[0]


def literal_attributes(node: Expr) -> dict[str, bool | int | float]:
    """A literal as the attributes of the `scalar_*` operators."""
    if node.dtype.is_inexact:
        return {"has_float_operand": True, "float_operand": float(node.value)}
    return {"has_int_operand": True, "int_operand": int(node.value)}


def constant(ops: Builder, node: Expr) -> Value:
    """A literal as a tensor of rank 0."""
    if node.dtype.is_inexact:
        value = {"is_floating_value": True, "floating_value": node.value}
    else:
        value = {"is_floating_value": False, "integer_value": int(node.value)}
    return ops.call("constant", dtype=node.dtype, shape=(), **value)[0]


def widened(ops: Builder, operands: Sequence[Value]) -> list[Value]:
    """Operands as scalar bodies read them: 16-bit floats converted to f32."""
    wide = [v.dtype.accumulator for v in operands]
    return [v if v.dtype == d else ops.call("cast", v, dtype=d)[0] for v, d in zip(operands, wide, strict=True)]
