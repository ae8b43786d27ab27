"""Shape assertions: the run-time checks of dynamic sizes, with texts that name the sizes (see `shape_guards`)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from oneflow.dialect import scalar as s
from oneflow.dialect.compute import as_expr, is_natural
from oneflow.dialect.record import Call, Rule
from oneflow.dialect.scalar import Expr
from oneflow.lowering.linalg.shape_guards import Requirement, requirements
from oneflow.lowering.linalg.stages import StageBuilder

_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "rem": "%", "div": "/"}
_FUNCTIONS = {"min": "the smaller of", "max": "the larger of"}


class ShapeAssertions:
    """The shape assertions of one module; requirements are cached by operator, descriptions and attributes."""

    def __init__(self) -> None:
        self._known: dict[Hashable, list[Requirement]] = {}

    def check(self, builder: StageBuilder, call: Call, rule: Rule | None = None) -> None:
        """Fails the run where `rule`, by default the rule of the types of `call`, would refuse the sizes.

        The operands of `builder` are the operands of the call.
        """
        key = (rule, call.record.name, tuple(call.inputs.items()), tuple(call.attrs.items()))
        if key not in self._known:
            self._known[key] = requirements(call, rule)
        for requirement in self._known[key]:
            _check(builder, requirement)


def _check(builder: StageBuilder, requirement: Requirement) -> None:
    guard, holds = requirement.guard, requirement.holds
    if guard.kind == "eq" and holds:
        got, wanted = guard.a, guard.b
        text = _size_text(got, builder.names)
        text += "" if wanted.kind == "const" else f", which is {_size_text(wanted, builder.names)}"
        builder.check_equal(requirement.where(got, wanted), wanted, text)
        return
    size, least = (guard.b, guard.a + 1) if holds else (guard.a, guard.b)
    if guard.kind == "eq":
        size, least = _bounds_of_difference(guard.a, guard.b)
    text = f"{_size_text(size, builder.names)}, which is too small"
    builder.check_at_least(requirement.where(size, least), least, text)


def _bounds_of_difference(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """A pair of expressions of which the first is at least the second exactly where `a` and `b` differ."""
    if is_natural(a) and b.kind == "const" and b.value == 0:
        return a, as_expr(1)
    return s.maximum(a - b, b - a), as_expr(1)


def _size_text(size: Expr, names: Sequence[str]) -> str:
    """A size as text for an error."""
    if size.kind == "const":
        return str(size.value)
    if size.kind == "size":
        operand, dim = size.value
        return f"dimension {dim} of {names[operand]}"
    texts = [_size_text(a, names) for a in size.args]
    if len(texts) == 1:
        return texts[0] if size.kind == "cast" else f"{size.kind}({texts[0]})"
    if size.kind in _FUNCTIONS:
        return f"{_FUNCTIONS[size.kind]} {texts[0]} and {texts[1]}"
    first, second = (
        f"({t})" if a.kind in {*_INFIX, *_FUNCTIONS} else t for t, a in zip(texts, size.args, strict=True)
    )
    if size.kind == "add" and second.startswith("-"):
        return f"{first} - {second[1:]}"
    return f"{first} {_INFIX[size.kind]} {second}"
