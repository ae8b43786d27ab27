"""Symbolic shape guards, the first step of run-time checks: what a type rule requires of dynamic sizes.

The rule is run on symbolic sizes. Each comparison of these is a guard, and the rule is run for both answers. Where
one answer is always refused, the other is a requirement, which is checked at run time. Rules can therefore be
written for static sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.compute import as_expr, is_natural
from oneflow.dialect.record import Call, OperatorError, Rule, flatten, infer
from oneflow.dialect.scalar import Expr
from oneflow.dialect.tensor_desc import SizeSymbol, TensorDesc

#: The most runs of a rule for one call.
_MAX_RUNS = 500


@dataclass(frozen=True)
class Guard:
    """A comparison of sizes: `a` equals `b` (`eq`, in a canonical order), or is less (`lt`).

    Guards with equal texts are equal.
    """

    kind: str
    a: Expr = field(compare=False)
    b: Expr = field(compare=False)
    text: str

    @staticmethod
    def of(kind: str, a: Expr, b: Expr) -> Guard:
        """The guard that compares two expressions, in canonical form."""
        a, b = _ordered(a, b) if kind == "eq" else (a, b)
        while a.kind == "add" and a.args[1].kind == b.kind == "const":
            a, b = a.args[0], as_expr(b.value - a.args[1].value)
        return Guard(kind, a, b, f"{_text(a)} {kind} {_text(b)}")

    @property
    def condition(self) -> Expr:
        """The guard as a bool expression."""
        return s.binary(self.kind, self.a, self.b)

    def decided(self) -> bool | None:
        """The answer, where it is the same for all sizes; else None."""
        a, b = self.a, self.b
        if a.kind == b.kind == "const":
            return bool(a.value == b.value if self.kind == "eq" else a.value < b.value)
        if _text(a) == _text(b):
            return self.kind == "eq"
        if self.kind == "lt" and _is_below(a, 0) and is_natural(b):
            return True
        least = 0 if self.kind == "eq" else 1
        differ = (is_natural(a) and _is_below(b, least)) or (self.kind == "eq" and is_natural(b) and _is_below(a, 0))
        return False if differ else None


#: A guard and its answer.
Answer: TypeAlias = tuple[Guard, bool]


@dataclass(frozen=True)
class Requirement:
    """A guard that must have the answer `holds` if other guards have the answers `conditions`."""

    guard: Guard
    holds: bool
    conditions: tuple[Answer, ...] = ()

    def where(self, value: Expr, otherwise: Expr) -> Expr:
        """`value` where the conditions hold, else `otherwise`."""
        for guard, holds in self.conditions:
            both = (value, otherwise) if holds else (otherwise, value)
            value = s.where(guard.condition, *both)
        return value


def requirements(call: Call, rule: Rule | None = None) -> list[Requirement]:
    """The requirements of `rule`, by default the rule of a call's types, on the call's dynamic sizes.

    Empty where the rule needs the value of a dynamic size (some operations, such as a product with 1.5, raise a
    TypeError), or has too many guards.
    """
    if all(d.is_static for d in flatten(call.inputs.values())):
        return []
    try:
        return list(dict.fromkeys(_required(_DecisionTree(call, rule or _types).grow(()))))
    except (_Undecidable, TypeError):
        return []


class _OpenGuard(BaseException):
    """A guard without an answer on the current path; no `Exception`, which the handlers of a rule could catch."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(guard)
        self.guard = guard


class _Undecidable(BaseException):
    """A rule that needs the value of a dynamic size, or has too many guards; no `Exception`, like `_OpenGuard`."""


#: The outcome of a rule: whether it accepts the call, or a guard with the outcomes of yes and of no.
_Outcome: TypeAlias = "bool | tuple[Guard, _Outcome, _Outcome]"


@dataclass
class _DecisionTree:
    """The decision tree of a rule for a call, over guards."""

    call: Call
    rule: Rule
    runs: int = 0

    def grow(self, answers: tuple[Answer, ...]) -> _Outcome:
        """The subtree below these answers."""
        self.runs += 1
        if self.runs > _MAX_RUNS:
            raise _Undecidable
        try:
            self.rule(_symbolic(self.call, _Path(answers)))
        except _OpenGuard as undecided:
            yes, no = (self.grow((*answers, (undecided.guard, answer))) for answer in (True, False))
            return False if yes is False and no is False else (undecided.guard, yes, no)
        except OperatorError:
            return False
        return True


def _required(outcome: _Outcome) -> Iterator[Requirement]:
    """The requirements of a decision tree; below a guard with two accepted answers, requirements are conditional.

    A dynamic size is not broadcast: guards that compare it with 1 are answered no.
    """
    if isinstance(outcome, bool):
        return
    guard, yes, no = outcome
    if yes is False or no is False:
        yield Requirement(guard, no is False)
        yield from _required(yes if no is False else no)
        return
    if guard.kind == "eq" and any(x.kind == "const" and x.value == 1 for x in (guard.a, guard.b)):
        yield from _required(no)
        return
    below = {answer: list(_required(subtree)) for answer, subtree in ((True, yes), (False, no))}
    for answer, requirements in below.items():
        for r in requirements:
            conditions = r.conditions if r in below[not answer] else (*r.conditions, (guard, answer))
            yield Requirement(r.guard, r.holds, conditions)


def _types(call: Call) -> Any:
    return infer(call.record, call)


def _symbolic(call: Call, path: _Path) -> Call:
    """The call with symbolic sizes that take the answers of `path`."""
    operands = itertools.count()

    def stated(desc: TensorDesc) -> TensorDesc:
        operand = next(operands)
        sizes = [
            _SymbolicSize(Expr("size", (), dtypes.index, (operand, axis)), path) if size is None else size
            for axis, size in enumerate(desc.shape or ())
        ]
        return TensorDesc(tuple(sizes), desc.dtype)  # type: ignore[arg-type]

    inputs = {k: tuple(map(stated, v)) if isinstance(v, tuple) else v and stated(v) for k, v in call.inputs.items()}
    return Call(call.record, inputs, call.attrs)


class _Path:
    """A path of the decision tree: answers to guards; sizes that are equal by these have one name."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = {q.text: answer for q, answer in answers}
        equal = [(q.a, q.b) for q, answer in answers if answer and q.kind == "eq"]
        self.same = {_text(a): b for a, b in equal if a.kind == "size" and b.kind in ("size", "const")}

    def ask(self, kind: str, a: Expr, b: Expr) -> bool:
        """The answer to a guard.

        Raises:
            _OpenGuard: the path has none.
        """
        guard = Guard.of(kind, self._known(a), self._known(b))
        decided = guard.decided()
        answer = self.answers.get(guard.text) if decided is None else decided
        if answer is None:
            raise _OpenGuard(guard)
        return answer

    def _known(self, node: Expr) -> Expr:
        """An expression with one name for equal sizes."""
        while _text(node) in self.same:
            node = self.same[_text(node)]
        args = tuple(map(self._known, node.args))
        is_folded = len(args) == 2 and node.dtype is dtypes.index
        return folded(node.kind, *args) if is_folded else Expr(node.kind, args, node.dtype, node.value)


def _is_below(node: Expr, limit: int) -> bool:
    return node.kind == "const" and node.value < limit


def _ordered(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """The canonical order of an equality: sizes of later operands, of earlier operands, expressions, constants."""
    return (b, a) if _rank(b) > _rank(a) else (a, b)


def _rank(node: Expr) -> tuple[bool, bool, tuple[int, ...]]:
    plain = node.kind == "size"
    return node.kind != "const", plain, node.value if plain else ()


def _text(node: Expr) -> str:
    """The text of an expression, equal for structurally equal expressions."""
    return f"{node.kind}({', '.join(map(_text, node.args))})" if node.args else f"{node.kind}{node.value}"


def _expr(size: Any) -> Expr:
    if isinstance(size, _SymbolicSize):
        return size.expr
    return s.const(size, dtypes.float64) if isinstance(size, float) else as_expr(size)


def folded(kind: str, *operands: Expr) -> Expr:
    """An operation on sizes, with constants folded; operations on floating-point numbers are kept."""
    if len(operands) == 1 or any(x.dtype.is_float for x in operands):
        return operands[0].combine(kind, *operands)
    a, b = operands
    if kind == "sub" and b.kind == "const":
        return folded("add", a, as_expr(-b.value))
    if kind in ("add", "mul") and a.kind == "const" and b.kind != "const":
        a, b = b, a
    if (kind == "sub" and _text(a) == _text(b)) or (kind, _text(b)) in (("mul", "const0"), ("rem", "const1")):
        return as_expr(0)
    if kind == "add" and a.kind == "add" and a.args[1].kind == b.kind == "const":
        return folded("add", a.args[0], as_expr(a.args[1].value + b.value))
    return s.binary(kind, a, b)


def _operator(kind: str) -> Callable[[Any, Any], Any]:
    return lambda a, b: a.combine(kind, a, b)


def _reflected(kind: str) -> Callable[[Any, Any], Any]:
    return lambda a, b: a.combine(kind, b, a)


def _comparison(kind: str, swapped: bool, holds: bool) -> Callable[[Any, Any], Any]:
    """A comparison of Python as a guard; it is true where the guard's answer is `holds`."""

    def compare(a: Any, b: Any) -> Any:
        if not isinstance(b, (int, Expr, _SymbolicSize)):
            return NotImplemented
        first, second = (b, a) if swapped else (a, b)
        return a.path.ask(kind, _expr(first), _expr(second)) is holds

    return compare


class _SymbolicSize(SizeSymbol):
    """A dynamic size while a rule runs."""

    __slots__ = ("expr", "path")

    def __init__(self, expr: Expr, path: _Path) -> None:
        self.expr, self.path = expr, path

    def combine(self, kind: str, *operands: Any) -> Any:
        """The result of an operation, as an int or float where it is constant."""
        result = folded(kind, *map(_expr, operands))
        return result.value if result.kind == "const" else _SymbolicSize(result, self.path)

    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("sub"), _reflected("sub")
    __mul__, __rmul__ = _operator("mul"), _reflected("mul")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _reflected("floordiv")
    __eq__, __ne__ = _comparison("eq", False, True), _comparison("eq", False, False)
    __lt__, __ge__ = _comparison("lt", False, True), _comparison("lt", False, False)
    __gt__, __le__ = _comparison("lt", True, True), _comparison("lt", True, False)

    def __mod__(self, divisor: Any) -> Any:
        if is_natural(self.expr) and is_natural(_expr(divisor)):
            return self.combine("rem", self, divisor)
        return self - self // divisor * divisor

    def __rmod__(self, dividend: Any) -> Any:
        return dividend - dividend // self * self

    def __neg__(self) -> Any:
        return 0 - self

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __index__(self) -> int:
        raise _Undecidable

    def __hash__(self) -> int:
        raise _Undecidable

    def __str__(self) -> str:
        return "?"
