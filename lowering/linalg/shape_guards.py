"""What an operator's types ask of sizes that are only known at run time.

Types refuse static sizes that do not fit; what they would say of unknown ones has to be checked when a program runs.
The rule is run with sizes that stand for themselves: each comparison of them is a question, which is answered both
ways. Where one answer is always refused, the other is a requirement. So rules are written for numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.compute import as_expr, is_natural
from oneflow.dialect.record import Call, OperatorError, flatten, infer
from oneflow.dialect.scalar import Expr
from oneflow.dialect.tensor_desc import TensorDesc

#: The most times that a rule is run for one call.
_MOST = 500


@dataclass(frozen=True)
class Question:
    """Whether `a` equals `b` (`eq`, in a set order) or is less than it (`lt`). What is asked alike is equal."""

    kind: str
    a: Expr = field(compare=False)
    b: Expr = field(compare=False)
    text: str

    @staticmethod
    def of(kind: str, a: Expr, b: Expr) -> Question:
        """The question about two expressions."""
        a, b = _ordered(a, b) if kind == "eq" else (a, b)
        while a.kind == "add" and a.args[1].kind == b.kind == "const":
            a, b = a.args[0], as_expr(b.value - a.args[1].value)
        return Question(kind, a, b, f"{_text(a)} {kind} {_text(b)}")

    @property
    def condition(self) -> Expr:
        """The question as a bool expression."""
        return s.binary(self.kind, self.a, self.b)

    def decided(self) -> bool | None:
        """The answer where all sizes give the same."""
        a, b = self.a, self.b
        if a.kind == b.kind == "const":
            return bool(a.value == b.value if self.kind == "eq" else a.value < b.value)
        if _text(a) == _text(b):
            return self.kind == "eq"
        if self.kind == "lt" and _is_below(a, 0) and is_natural(b):
            return True
        least = 0 if self.kind == "eq" else 1
        apart = (is_natural(a) and _is_below(b, least)) or (self.kind == "eq" and is_natural(b) and _is_below(a, 0))
        return False if apart else None


#: A question and what it is to be answered.
Answer: TypeAlias = tuple[Question, bool]


@dataclass(frozen=True)
class Requirement:
    """An answer that sizes have to give, where they give the `others`."""

    question: Question
    holds: bool
    others: tuple[Answer, ...] = ()

    def where(self, value: Expr, otherwise: Expr) -> Expr:
        """`value` where the requirement is asked for."""
        for question, holds in self.others:
            both = (value, otherwise) if holds else (otherwise, value)
            value = s.where(question.condition, *both)
        return value


def requirements(call: Call) -> list[Requirement]:
    """What the types of a call on descriptions ask of the sizes that are unknown.

    Nothing where the rule wants a number for one (which Python tells it by a TypeError, where it does what sizes
    cannot, such as times 1.5), or asks too many questions.
    """
    if all(d.is_static for d in flatten(call.inputs.values())):
        return []
    try:
        return list(dict.fromkeys(_required(_Tree(call).grow(()))))
    except (_UndecidableError, TypeError):
        return []


class _Asked(Exception):
    """A question that no answer is given for."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.question = question


class _UndecidableError(Exception):
    """A rule that wants the number of an unknown size, or asks too many questions."""


#: What comes of a rule: whether it allows the call, or a question and what comes of yes and of no.
_Outcome: TypeAlias = "bool | tuple[Question, _Outcome, _Outcome]"


@dataclass
class _Tree:
    """Every way through the rule of a call."""

    call: Call
    runs: int = 0

    def grow(self, answers: tuple[Answer, ...]) -> _Outcome:
        """What comes after these answers."""
        self.runs += 1
        if self.runs > _MOST:
            raise _UndecidableError
        try:
            _run(self.call, _Way(answers))
        except _Asked as asked:
            yes, no = (self.grow((*answers, (asked.question, answer))) for answer in (True, False))
            return False if yes is no is False else (asked.question, yes, no)
        except OperatorError:
            return False
        return True


def _required(outcome: _Outcome) -> Iterator[Requirement]:
    """The requirements of a tree; those of either answer are asked for beside it, if both are allowed.

    A size that is unknown is none that is repeated: where it could be 1, it is not.
    """
    if isinstance(outcome, bool):
        return
    question, yes, no = outcome
    if yes is False or no is False:
        yield Requirement(question, no is False)
        yield from _required(yes if no is False else no)
        return
    if question.kind == "eq" and any(x.kind == "const" and x.value == 1 for x in (question.a, question.b)):
        yield from _required(no)
        return
    found = {answer: list(_required(below)) for answer, below in ((True, yes), (False, no))}
    for answer, those in found.items():
        for one in those:
            others = one.others if one in found[not answer] else (*one.others, (question, answer))
            yield Requirement(one.question, one.holds, others)


def _run(call: Call, way: _Way) -> None:
    """Runs the rule on sizes that answer as `way` does."""
    numbers = iter(range(len(call.operands)))

    def stated(desc: TensorDesc) -> TensorDesc:
        number = next(numbers)
        sizes = [
            _Size(Expr("size", (), dtypes.index, (number, axis)), way) if size is None else size
            for axis, size in enumerate(desc.shape or ())
        ]
        return TensorDesc(tuple(sizes), desc.dtype)  # type: ignore[arg-type]

    inputs = {k: tuple(map(stated, v)) if isinstance(v, tuple) else v and stated(v) for k, v in call.inputs.items()}
    infer(call.record, Call(call.record, inputs, call.attrs))


class _Way:
    """Answers to questions; sizes that are equal by them are one."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = {q.text: answer for q, answer in answers}
        equal = [(q.a, q.b) for q, answer in answers if answer and q.kind == "eq"]
        self.same = {_text(a): b for a, b in equal if a.kind == "size" and b.kind in ("size", "const")}

    def ask(self, kind: str, a: Expr, b: Expr) -> bool:
        """The answer to a question.

        Raises:
            _Asked: there is none yet.
        """
        question = Question.of(kind, self._known(a), self._known(b))
        decided = question.decided()
        answer = self.answers.get(question.text) if decided is None else decided
        if answer is None:
            raise _Asked(question)
        return answer

    def _known(self, node: Expr) -> Expr:
        """A size with one name for all that are equal."""
        while _text(node) in self.same:
            node = self.same[_text(node)]
        return combined(node.kind, *map(self._known, node.args)) if node.args else node


def _is_below(node: Expr, limit: int) -> bool:
    return node.kind == "const" and node.value < limit


def _ordered(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """What is held against what: sizes of later operands first, then of earlier ones, then others, numbers last."""
    return (b, a) if _rank(b) > _rank(a) else (a, b)


def _rank(node: Expr) -> tuple[bool, bool, tuple[int, ...]]:
    plain = node.kind == "size"
    return node.kind != "const", plain, node.value if plain else ()


def _text(node: Expr) -> str:
    """Equal for expressions that are written alike."""
    return f"{node.kind}({', '.join(map(_text, node.args))})" if node.args else f"{node.kind}{node.value}"


def _expr(size: Any) -> Expr:
    return size.expr if isinstance(size, _Size) else as_expr(size)


def combined(kind: str, a: Expr, b: Expr) -> Expr:
    """Arithmetic on sizes, numbers put together where they can be."""
    if kind == "sub" and b.kind == "const":
        return combined("add", a, as_expr(-b.value))
    if kind in ("add", "mul") and a.kind == "const" and b.kind != "const":
        a, b = b, a
    if (kind == "sub" and _text(a) == _text(b)) or (kind, _text(b)) in (("mul", "const0"), ("rem", "const1")):
        return as_expr(0)
    if kind == "add" and a.kind == "add" and a.args[1].kind == b.kind == "const":
        return combined("add", a.args[0], as_expr(a.args[1].value + b.value))
    return s.binary(kind, a, b)


def _arithmetic(kind: str) -> Callable[[Any, Any], Any]:
    return lambda a, b: a.combine(kind, a, b)


def _reflected(kind: str) -> Callable[[Any, Any], Any]:
    return lambda a, b: a.combine(kind, b, a)


def _comparison(kind: str, swapped: bool, holds: bool) -> Callable[[Any, Any], Any]:
    """Python's comparison as one of the questions, and whether it is true where the answer is yes."""

    def compare(a: Any, b: Any) -> Any:
        if not isinstance(b, (int, Expr, _Size)):
            return NotImplemented
        first, second = (b, a) if swapped else (a, b)
        return a.way.ask(kind, _expr(first), _expr(second)) is holds

    return compare


class _Size:
    """An unknown size while a rule runs."""

    __slots__ = ("expr", "way")

    def __init__(self, expr: Expr, way: _Way) -> None:
        self.expr, self.way = expr, way

    def combine(self, kind: str, a: Any, b: Any) -> Any:
        """The result of arithmetic: a number where it is known."""
        result = combined(kind, _expr(a), _expr(b))
        return result.value if result.kind == "const" else _Size(result, self.way)

    __add__, __radd__ = _arithmetic("add"), _reflected("add")
    __sub__, __rsub__ = _arithmetic("sub"), _reflected("sub")
    __mul__, __rmul__ = _arithmetic("mul"), _reflected("mul")
    __floordiv__, __rfloordiv__ = _arithmetic("floordiv"), _reflected("floordiv")
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
        raise _UndecidableError

    def __hash__(self) -> int:
        raise _UndecidableError

    def __str__(self) -> str:
        return "?"
