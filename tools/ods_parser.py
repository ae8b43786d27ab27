"""The part of TableGen's language that definitions of operators are written in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from oneflow.tools.command import CommandError

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*|\[\{.*?\}\])|(?P<string>"(?:[^"\\]|\\.)*")|"""
    r"""(?P<word>\$?[\w.]+(?:::\w+)*|-?\d+)|(?P<sign>[<>\[\](){},:;=])""",
    re.DOTALL,
)


class OdsError(CommandError):
    """A `.td` file that cannot be understood; file and line are named."""


@dataclass(frozen=True)
class Term:
    """A name with arguments: `Optional<OneFlow_Tensor>`."""

    name: str
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}<{', '.join(map(str, self.args))}>" if self.args else self.name


@dataclass
class Definition:
    """`def NAME : BASE<"op", [traits]> { let field = value; .. }`; `fields` are numbers, text, or dags."""

    name: str
    base: str
    op_name: str
    traits: list[Term]
    where: str
    fields: dict[str, Any] = field(default_factory=dict)

    def dag(self, name: str, kind: str) -> list[tuple[Term, str]]:
        """The types and names of a field such as `(ins OneFlow_Tensor:$x)`, none where it is missing.

        Raises:
            OdsError: the field is something else.
        """
        value = self.fields.get(name, (kind, []))
        if not isinstance(value, tuple) or value[0] != kind:
            raise OdsError(f"{self.where}: expected {name} of {self.name} to be ({kind} ..)")
        return list(value[1])


def parse(text: str, file: str) -> list[Definition]:
    """The definitions of a file; preprocessor lines, comments and code blocks are skipped.

    Raises:
        OdsError: the text is not what is described here.
    """
    return list(_Parser(text, file).definitions())


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.tokens: list[tuple[str, int]] = []
        self.at = 0
        position, line = 0, 1
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise OdsError(f"{file}:{line}: unexpected character {text[position]!r}")
            if match.lastgroup != "skip":
                self.tokens.append((match.group(), line))
            line += match.group().count("\n")
            position = match.end()

    def where(self) -> str:
        number = min(self.at, len(self.tokens) - 1)
        return f"{self.file}:{self.tokens[number][1] if self.tokens else 1}"

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        """The next token, one of `wanted` if any are given."""
        token = self.peek()
        if not token or (wanted and token not in wanted):
            expected = " or ".join(wanted) or "more"
            raise OdsError(f"{self.where()}: expected {expected}, got {token or 'the end of the file'}")
        self.at += 1
        return token

    def word(self, what: str) -> str:
        """The next token, a word."""
        if not re.match(r"\$?\w", self.peek()):
            raise OdsError(f"{self.where()}: expected {what}, got {self.peek() or 'the end of the file'}")
        return self.take()

    def string(self) -> str:
        """The next token, a string, without its quotes."""
        if not self.peek().startswith('"'):
            raise OdsError(f"{self.where()}: expected a string, got {self.peek() or 'the end of the file'}")
        return re.sub(r"\\(.)", r"\1", self.take()[1:-1])

    def definitions(self) -> Iterator[Definition]:
        while self.peek():
            if self.take("include", "def") == "include":
                self.string()
            else:
                yield self.definition()

    def definition(self) -> Definition:
        where, name = self.where(), self.word("a name")
        self.take(":")
        base = self.word("a class")
        self.take("<")
        op_name, traits = self.string(), []
        if self.peek() == ",":
            self.take()
            traits = self.listed("[", "]", self.term)
        self.take(">")
        made = Definition(name, base, op_name, traits, where)
        if self.take("{", ";") == "{":
            while self.peek() != "}":
                self.let(made)
            self.take("}")
        return made

    def let(self, made: Definition) -> None:
        self.take("let")
        name = self.word("a field")
        self.take("=")
        made.fields[name] = self.value() if self.peek() != ";" else ""
        self.take(";")

    def value(self) -> Any:
        """A dag as (kind, [(type, name)]), a list, a number or text."""
        token = self.peek()
        if token == "(":
            self.take()
            kind = self.word("ins or outs")
            return kind, self.listed("", ")", self.named)
        if token == "[":
            return self.listed("[", "]", self.term)
        if token.startswith('"'):
            return self.string()
        word = self.word("a value")
        return int(word) if word.isdecimal() else word

    def named(self) -> tuple[Term, str]:
        kind = self.term()
        self.take(":")
        name = self.word("$name")
        if not name.startswith("$"):
            raise OdsError(f"{self.where()}: expected a name such as $x, got {name}")
        return kind, name[1:]

    def term(self) -> Term:
        name = self.word("a type or trait")
        if self.peek() != "<":
            return Term(name)
        return Term(name, tuple(self.listed("<", ">", self.argument)))

    def argument(self) -> Any:
        if self.peek().startswith('"'):
            return self.string()
        return self.listed("[", "]", self.term) if self.peek() == "[" else self.term()

    def listed(self, opening: str, closing: str, read: Any) -> list[Any]:
        """What `read` finds between brackets, separated by commas."""
        if opening:
            self.take(opening)
        found: list[Any] = []
        while self.peek() != closing:
            found.append(read())
            if self.peek() != closing:
                self.take(",", closing)
        self.take(closing)
        return found
