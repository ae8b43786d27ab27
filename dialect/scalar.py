"""The scalar algebra: one element of a result as an expression, written once for every backend.

A scalar body is a Python function over `Expr` operands:

    lambda x, *, alpha: where(x > 0, x, alpha * x)

Called with `Expr` leaves the body builds a small expression graph, which `evaluate.py` (NumPy, for folding),
`lowering/` (arith and math) and `derivative.py` read. A node is a kind, its arguments and its element type; nodes are
equal when they are the same object. Floats of 16 bits never appear inside: bodies are instantiated with f32 operands
for them. Floats of 8 bits are read, chosen by `select` and converted; all else refuses them.
Laws that every backend keeps: `max` and `min` propagate NaN; integer `floordiv` and `rem` by zero give 0 (NumPy's
result); integer arithmetic wraps; `rem` has the sign of the dividend (C's fmod); shifts by the width or more give 0
(or the sign); `rint` rounds half to even.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType

#: An argument and a result of the same type. `not` takes bool or integers (bitwise).
UNARY = frozenset(
    """neg abs exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh
    asinh acosh atanh erf erfc ceil floor trunc rint not""".split()
)
#: Two arguments of one type and a result of the same type. `div` is for floats, `floordiv` for integers.
BINARY = frozenset("add sub mul div floordiv rem max min pow atan2 and or xor shl shr shru".split())
#: Functions whose arguments have to be floats.
FLOATS_ONLY = (UNARY - set("neg abs not ceil floor trunc rint".split())) | {"div", "atan2"}
#: Two arguments of one type and a bool result. Comparisons with NaN are false, `ne` true.
COMPARE = frozenset("eq ne lt le gt ge".split())
#: Everything else: a literal; an operand of a scalar body; a position; the size of an operand's
#: dimension; an element read; condition ? a : b; a conversion; a position and a size checked at run time.
OTHER = frozenset("const arg index size load select cast checked at_least".split())
KINDS = UNARY | BINARY | COMPARE | OTHER

#: A real number.
Number = bool | int | float


class BodyError(TypeError):
    """An illegal body: the text states what was expected and what was given."""


class Expr:
    """A node: `kind`, arguments, element type, and for leaves a `value`.

    `value` is the literal of a `const`, the index of an `arg`, the id of an `index`, (operand, dimension) of a
    `size`, the tensor stage of a `load` and the (operator, axis) text of a `checked` position.
    """

    __slots__ = ("args", "dtype", "kind", "value")

    def __init__(self, kind: str, args: tuple[Expr, ...], dtype: DType, value: Any = None) -> None:
        assert kind in KINDS, kind
        self.kind, self.args, self.dtype, self.value = kind, args, dtype, value

    def __add__(self, other: Operand) -> Expr:
        return binary("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return binary("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return binary("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return binary("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return binary("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return binary("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return binary("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return binary("div", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return binary("floordiv", self, other)

    def __mod__(self, other: Operand) -> Expr:
        """The remainder of floor division: the sign of the divisor, as in Python."""
        return self - (self // other) * other

    def __and__(self, other: Operand) -> Expr:
        return binary("and", self, other)

    def __or__(self, other: Operand) -> Expr:
        return binary("or", self, other)

    def __xor__(self, other: Operand) -> Expr:
        return binary("xor", self, other)

    def __lshift__(self, other: Operand) -> Expr:
        return binary("shl", self, other)

    def __rshift__(self, other: Operand) -> Expr:
        return binary("shr", self, other)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __invert__(self) -> Expr:
        return unary("not", self)

    def __abs__(self) -> Expr:
        return unary("abs", self)

    def __lt__(self, other: Operand) -> Expr:
        return binary("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return binary("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return binary("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return binary("ge", self, other)

    def combine(self, kind: str, *operands: Operand) -> Expr:
        """The node `kind(a, b)`, or a function of one operand: the arithmetic of sizes of any kind."""
        return binary(kind, *operands) if len(operands) == 2 else of_size(kind, self)

    def eq(self, other: Operand) -> Expr:
        """Equality as a bool expression (`==` compares nodes)."""
        return binary("eq", self, other)

    def ne(self, other: Operand) -> Expr:
        """Inequality as a bool expression."""
        return binary("ne", self, other)

    def __bool__(self) -> bool:
        raise BodyError("a body cannot branch on a value: use where(condition, a, b)")

    def __repr__(self) -> str:
        return format_expr(self)


Operand = Expr | Number


def const(value: Number | complex, dtype: DType) -> Expr:
    """A literal of type `dtype`."""
    if dtype.is_complex and isinstance(value, complex):
        return Expr("const", (), dtype, value)
    assert not isinstance(value, complex), value
    if dtype.is_inexact:
        return Expr("const", (), dtype, float(value))
    if dtype.kind == "bool":
        return Expr("const", (), dtype, bool(value))
    return Expr("const", (), dtype, int(value))


def arg(index: int, dtype: DType) -> Expr:
    """Operand `index` of a scalar body."""
    return Expr("arg", (), dtype, index)


def _number_like(x: Expr, number: Number) -> Expr:
    """A number with the type of `x`; a fraction is refused where `x` is an integer."""
    if number % 1 and x.dtype.kind in ("int", "uint", "index"):
        raise BodyError(
            f"expected a whole number with an operand of {x.dtype.mlir}, got {number}: cast the operand to a float"
        )
    return const(number, x.dtype)


def _pair(a: Operand, b: Operand) -> tuple[Expr, Expr]:
    """The two operands as nodes of one type; a number has the type of the other operand."""
    if isinstance(a, Expr) and not isinstance(b, Expr):
        return a, _number_like(a, b)
    if isinstance(b, Expr) and not isinstance(a, Expr):
        return _number_like(b, a), b
    assert isinstance(a, Expr) and isinstance(b, Expr), "one operand has to be an expression"
    if a.dtype != b.dtype:
        raise BodyError(f"expected operands of one type, got {a.dtype.mlir} and {b.dtype.mlir}: cast one")
    return a, b


def _expect_fitting(kind: str, dtype: DType) -> None:
    if dtype.is_stored_only:
        raise BodyError(f"expected a type that is computed with for {kind}, got {dtype.mlir}: cast it to f32")
    if kind in FLOATS_ONLY and not dtype.is_inexact:
        raise BodyError(f"expected a float for {kind}, got {dtype.mlir}: cast the operand, or divide integers by //")


def unary(kind: str, x: Expr) -> Expr:
    """The node `kind(x)`."""
    assert kind in UNARY, kind
    _expect_fitting(kind, x.dtype)
    return Expr(kind, (x,), x.dtype)


#: Rules that keep position arithmetic readable: 0 + x, 1 * x, and folding of literals.
_FOLD = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
}


def _fold_positions(kind: str, a: Expr, b: Expr) -> Expr | None:
    if a.dtype is not dtypes.index or kind not in _FOLD:
        return None
    if a.kind == b.kind == "const" and not (kind == "floordiv" and b.value == 0):
        return const(_FOLD[kind](a.value, b.value), dtypes.index)
    left, right = (e.value if e.kind == "const" else None for e in (a, b))
    if (kind in ("add", "sub") and right == 0) or (kind in ("mul", "floordiv") and right == 1):
        return a
    if (kind == "add" and left == 0) or (kind == "mul" and left == 1):
        return b
    return None


def binary(kind: str, a: Operand, b: Operand) -> Expr:
    """The node `kind(a, b)`; a number has the type of the other operand."""
    left, right = _pair(a, b)
    _expect_fitting(kind, left.dtype)
    if kind in COMPARE:
        return Expr(kind, (left, right), dtypes.bool_)
    assert kind in BINARY, kind
    folded = _fold_positions(kind, left, right)
    return Expr(kind, (left, right), left.dtype) if folded is None else folded


def where(condition: Expr, a: Operand, b: Operand) -> Expr:
    """`a` where `condition` holds, else `b`; both are computed."""
    left, right = _pair(a, b)
    return Expr("select", (condition, left, right), left.dtype)


def cast(x: Expr, dtype: DType) -> Expr:
    """`x` converted: to bool by `!= 0`, from float to integer towards zero, between integers by wrapping.

    NaN and floats outside the integer's range give the smallest i32 or i64, as x86 does; narrower integers are
    the low bits of the conversion to i32. Numbers beyond the largest f8E4M3FN, infinity too, become that, with their
    sign; f8E5M2 has infinity.
    """
    return x if x.dtype == dtype else Expr("cast", (x,), dtype)


def maximum(a: Operand, b: Operand) -> Expr:
    """The larger operand; NaN if one is NaN."""
    return binary("max", a, b)


def minimum(a: Operand, b: Operand) -> Expr:
    """The smaller operand; NaN if one is NaN."""
    return binary("min", a, b)


def power(a: Operand, b: Operand) -> Expr:
    """`a` to the power `b` (floats, or non-negative integer exponents)."""
    return binary("pow", a, b)


#: Functions from floating-point numbers to sizes.
ROUNDINGS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint"}


def of_size(kind: str, x: Expr) -> Expr:
    """A function of one size or floating-point number: `real`, the number as f64; a rounding; or a unary node."""
    if kind == "real":
        return cast(x, dtypes.float64)
    return cast(unary(ROUNDINGS[kind], x), dtypes.index) if kind in ROUNDINGS else unary(kind, x)


def remainder(a: Operand, b: Operand) -> Expr:
    """The remainder of truncated division: the sign of the dividend (C's fmod)."""
    return binary("rem", a, b)


def atan2(y: Operand, x: Operand) -> Expr:
    """The angle of the point (x, y)."""
    return binary("atan2", y, x)


def shift_right_unsigned(a: Operand, b: Operand) -> Expr:
    """The bits of `a` moved right, filled with zeros."""
    return binary("shru", a, b)


def isnan(x: Expr) -> Expr:
    """Whether `x` is NaN; false for integers."""
    return x.ne(x)


def decay(x: Expr) -> Expr:
    """exp(-|x|): never overflows, and has the derivative of exp(-x) at 0."""
    return exp(where(x < 0, x, -x))


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + exp(-x)); of real numbers finite at either end together with its derivatives."""
    if x.dtype.is_complex:
        return 1.0 / (exp(-x) + 1.0)
    e = decay(x)
    return where(x < 0, e, 1.0) / (e + 1.0)


def softplus(x: Expr) -> Expr:
    """log(1 + exp(x)), without overflow."""
    return where(x < 0, 0.0, x) + log1p(decay(x))


def truncdiv(a: Expr, b: Operand) -> Expr:
    """a / b rounded towards zero; integers give 0 where b is 0."""
    left, right = _pair(a, b)
    if left.dtype.is_float:
        return trunc(left / right)
    return (left - remainder(left, right)) // right


def floormod(a: Expr, b: Operand) -> Expr:
    """The remainder of floor division: the sign of the divisor; integers give 0 where b is 0."""
    left, right = _pair(a, b)
    rest = remainder(left, right)
    return where(rest.ne(0) & ((rest < 0) ^ (right < 0)), rest + right, rest)


def integer_power(a: Expr, b: Operand) -> Expr:
    """`a` to the power `b` for integers: exact modulo the width; negative exponents round towards zero."""
    left, right = _pair(a, b)
    if left.dtype.kind == "uint":
        return power(left, right)
    odd = (right & 1).ne(0)
    unit = where(left.eq(-1), where(odd, const(-1, left.dtype), const(1, left.dtype)), where(left.eq(1), left, 0))
    return where(right < 0, unit, power(left, maximum(right, 0)))


def floor_div_float(a: Expr, b: Operand) -> Expr:
    """floor(a / b) for floats, corrected as NumPy does through the exact remainder."""
    left, right = _pair(a, b)
    rest = remainder(left, right)
    quotient = (left - rest) / right
    lower = where(rest.ne(0) & ((right < 0) ^ (rest < 0)), quotient - 1, quotient)
    return where(right.eq(0), left / right, unary("rint", lower))


def checked(position: Expr, size: Operand, text: str) -> Expr:
    """`position`, verified at run time to be in `[0, size)`; the failure message starts with `text`."""
    extent = size if isinstance(size, Expr) else const(size, dtypes.index)
    return Expr("checked", (position, extent), dtypes.index, text)


def at_least(size: Expr, least: int, text: str) -> Expr:
    """A dimension's `size`, verified at run time to be at least `least`; the failure message starts with `text`."""
    return Expr("at_least", (size, const(least, dtypes.index)), dtypes.index, text)


def _unary_function(kind: str) -> Callable[[Expr], Expr]:
    def function(x: Expr) -> Expr:
        return unary(kind, x)

    function.__name__ = function.__qualname__ = kind
    function.__doc__ = f"The node `{kind}(x)`."
    return function


exp, exp2, expm1 = (_unary_function(k) for k in ("exp", "exp2", "expm1"))
log, log2, log10, log1p = (_unary_function(k) for k in ("log", "log2", "log10", "log1p"))
sqrt, rsqrt, erf, erfc = (_unary_function(k) for k in ("sqrt", "rsqrt", "erf", "erfc"))
sin, cos, tan = (_unary_function(k) for k in ("sin", "cos", "tan"))
asin, acos, atan = (_unary_function(k) for k in ("asin", "acos", "atan"))
sinh, cosh, tanh = (_unary_function(k) for k in ("sinh", "cosh", "tanh"))
asinh, acosh, atanh = (_unary_function(k) for k in ("asinh", "acosh", "atanh"))
ceil, floor, trunc, rint = (_unary_function(k) for k in ("ceil", "floor", "trunc", "rint"))


def pi() -> float:
    """The circle constant, for bodies."""
    return math.pi


def walk(roots: Iterable[Expr]) -> list[Expr]:
    """Every node below `roots` once, arguments before users."""
    visited: dict[int, Expr] = {}
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if id(node) in visited:
            continue
        if ready:
            visited[id(node)] = node
        else:
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args))
    return list(visited.values())


_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "and": "&", "or": "|", "xor": "^",
    "shl": "<<", "shr": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


def format_expr(node: Expr) -> str:
    """The expression as text, for documentation and `--show-op`."""
    args = [format_expr(a) for a in node.args]
    if node.kind == "const":
        return repr(node.value)
    if node.kind in ("arg", "index"):
        return f"{'x' if node.kind == 'arg' else 'i'}{node.value}"
    if node.kind in _INFIX:
        return f"({args[0]} {_INFIX[node.kind]} {args[1]})"
    if node.kind == "load":
        return f"{node.value}[{', '.join(args)}]"
    if node.kind == "cast":
        return f"{node.dtype.mlir}({args[0]})"
    return f"{node.kind}({', '.join(args)})"
