"""Signatures of operators, read from one line of text.

    matmul(a, b, _add_to_output?, transpose_a: bool = False, alpha: double = 1.0) -> out

A name alone is an operand; `?` makes it optional, `*` variadic, `+` variadic with at least one value and `+2`
with at least two; `**` is variadic with an element type and a rank for each value. A name with a kind is an
attribute, mandatory unless a default follows. Names after the arrow are results.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.attributes import KINDS, AttrKind, AttrValue, format_value


class SignatureError(ValueError):
    """The text of a signature, or a slot of an operator record, is not well formed."""


class _Mandatory:
    def __repr__(self) -> str:
        return "mandatory"


#: The default of an attribute that has none.
MANDATORY = _Mandatory()
#: The most tensors of a name with `**`.
MAX_MIXED_OPERANDS = 64


@dataclass(frozen=True)
class ArgDef:
    """An operand or result: `min_count` to `max_count` tensors (`max_count` None: any number).

    Variadic tensors share an element type and a rank unless the tensors are `mixed`; there are at most
    `MAX_MIXED_OPERANDS` mixed tensors.
    """

    name: str
    min_count: int = 1
    max_count: int | None = 1
    mixed: bool = False

    @property
    def is_single(self) -> bool:
        """Exactly one tensor."""
        return (self.min_count, self.max_count) == (1, 1)

    @property
    def is_optional(self) -> bool:
        """A tensor or none."""
        return (self.min_count, self.max_count) == (0, 1)

    @property
    def is_variadic(self) -> bool:
        """Any number of tensors, from `min_count` on."""
        return self.max_count is None

    def __str__(self) -> str:
        if self.is_single:
            return self.name
        if self.is_optional:
            return f"{self.name}?"
        if self.mixed:
            return f"{self.name}**"
        return self.name + {0: "*", 1: "+"}.get(self.min_count, f"+{self.min_count}")


@dataclass(frozen=True)
class AttrDef:
    """An attribute: its kind, and its default or `MANDATORY`."""

    name: str
    kind: AttrKind
    default: AttrValue | _Mandatory = MANDATORY

    @property
    def is_mandatory(self) -> bool:
        """Whether programs must state the attribute."""
        return self.default is MANDATORY

    def __str__(self) -> str:
        default = "" if self.is_mandatory else f" = {format_value(self.default)}"
        return f"{self.name}: {self.kind.name}{default}"


@dataclass(frozen=True)
class Signature:
    """Operands, results and attributes of an operator, in order."""

    name: str
    inputs: tuple[ArgDef, ...]
    outputs: tuple[ArgDef, ...]
    attrs: tuple[AttrDef, ...]

    def __str__(self) -> str:
        args = ", ".join(str(a) for a in (*self.inputs, *self.attrs))
        return f"{self.name}({args}) -> {', '.join(str(o) for o in self.outputs)}"

    @property
    def attr_by_name(self) -> dict[str, AttrDef]:
        """The attributes by name."""
        return {a.name: a for a in self.attrs}


#: Names have ASCII letters alone: MLIR refuses a dialect in which one operation has others.
_SIGNATURE = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*->\s*(.*?)\s*", re.DOTALL | re.ASCII)
_ARG = re.compile(r"([A-Za-z_]\w*)(\?|\*\*?|\+(\d*))?", re.ASCII)
_ATTR = re.compile(r"([A-Za-z_]\w*)\s*:\s*(\w+)\s*(?:=\s*(.+))?", re.DOTALL | re.ASCII)


#: Names of operations that MLIR accepts.
_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*_?")
#: Names of operands and results that MLIR accepts.
_OPERAND = re.compile(r"[a-z_][a-z0-9_]*")


def mlir_name(name: str) -> str:
    """The name that MLIR takes for the operator that OneFlow calls `name`."""
    return name if _NAME.fullmatch(name) else name.lstrip("_").lower()


def check_names(signature: Signature) -> None:
    """Checks the names of an operator, its operands, results and attributes.

    Raises:
        SignatureError: MLIR refuses a name; MLIR would then refuse all operators of the registry.
    """
    if not _NAME.fullmatch(signature.name):
        raise SignatureError(
            f"expected the name of an operator of lower-case letters, digits and single underscores, "
            f"got {signature.name!r}"
        )
    for arg in (*signature.inputs, *signature.outputs):
        if not _OPERAND.fullmatch(arg.name):
            raise SignatureError(
                f"operator {signature.name}: expected names of operands and results of lower-case ASCII letters, "
                f"digits and underscores, got {arg.name!r}"
            )
    for attr in signature.attrs:
        if not (attr.name.isascii() and attr.name.isidentifier()):
            raise SignatureError(
                f"operator {signature.name}: expected names of attributes of ASCII letters, digits and underscores, "
                f"got {attr.name!r}"
            )


def split_commas(text: str) -> list[str]:
    """The parts of `text` between commas that are outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def _parse_arg(text: str) -> ArgDef:
    match = _ARG.fullmatch(text)
    if match is None:
        raise SignatureError(f"expected an operand such as `x`, `x?`, `x*` or `x+2`, got {text!r}")
    name, suffix, min_count = match.groups()
    if suffix is None:
        return ArgDef(name)
    if suffix == "?":
        return ArgDef(name, 0, 1)
    return ArgDef(name, 0 if suffix[0] == "*" else int(min_count or 1), None, suffix == "**")


def _parse_default(text: str, kind: AttrKind) -> AttrValue:
    named: Any = dtypes.BY_NAME.get(text)
    if named is None:
        named = float(text) if text in ("inf", "-inf", "nan") else ast.literal_eval(text)
    return kind.check(named)


def _parse_attr(text: str) -> AttrDef:
    match = _ATTR.fullmatch(text)
    if match is None:
        raise SignatureError(f"expected an attribute such as `axis: int32 = -1`, got {text!r}")
    name, kind_name, default = match.groups()
    kind = KINDS.get(kind_name)
    if kind is None:
        raise SignatureError(f"attribute {name}: expected a kind out of {', '.join(KINDS)}, got {kind_name!r}")
    if default is None:
        return AttrDef(name, kind)
    try:
        return AttrDef(name, kind, _parse_default(default.strip(), kind))
    except (ValueError, SyntaxError) as error:
        raise SignatureError(f"attribute {name}: bad default {default!r}: {error}") from error


def parse_signature(text: str) -> Signature:
    """The signature that `text` writes.

    Raises:
        SignatureError: the text is malformed or uses a name twice.
    """
    match = _SIGNATURE.fullmatch(text)
    if match is None:
        raise SignatureError(f"expected `name(operands, attributes) -> results`, got {text!r}")
    name, args, results = match.groups()
    parts = split_commas(args)
    inputs = tuple(_parse_arg(p) for p in parts if ":" not in p)
    attrs = tuple(_parse_attr(p) for p in parts if ":" in p)
    outputs = tuple(_parse_arg(p) for p in split_commas(results))
    names = [*(a.name for a in (*inputs, *outputs)), *(a.name for a in attrs)]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise SignatureError(f"{name}: the name {twice[0]!r} is used twice")
    return Signature(name, inputs, outputs, attrs)


def counts_of(args: Sequence[ArgDef], total: int) -> list[int]:
    """The number of values of each name: the rest is divided evenly among variadic names, or assigned to open names
    in order.
    """
    least = sum(a.min_count for a in args)
    spare, counts = total - least, []
    variadic = sum(a.is_variadic for a in args)
    share = None if variadic < 2 or spare % variadic else spare // variadic
    for arg in args:
        if share is not None:
            more = share if arg.is_variadic else 0
        else:
            more = spare if arg.max_count is None else min(spare, arg.max_count - arg.min_count)
        counts.append(arg.min_count + more)
        spare -= more
    if spare or total < least:
        names = f" ({', '.join(map(str, args))})" if args else ""
        raise ValueError(f"expected {_total(args)}{names}, got {total}")
    return counts


def _total(args: Sequence[ArgDef]) -> str:
    """The number of values under all names together, in words."""
    least, most = sum(a.min_count for a in args), [a.max_count for a in args]
    if None in most:
        return f"at least {least}"
    top = sum(m for m in most if m is not None)
    return str(least) if top == least else f"{least} to {top}"


def expected_count(arg: ArgDef) -> str:
    """How many values a name may have, in words."""
    if arg.mixed:
        return f"at most {MAX_MIXED_OPERANDS}"
    if arg.max_count is None:
        return f"at least {arg.min_count}"
    return str(arg.min_count) if arg.min_count == arg.max_count else f"{arg.min_count} or {arg.max_count}"
