"""A parser for the part of TableGen that defines operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from oneflow.tools.command import CommandError

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<code>\[\{.*?\}\])|"""
    r"""(?P<word>[$!]?[\w.]+(?:::\w+)*|-?\d+)|(?P<sign>[<>\[\](){},:;=])""",
    re.DOTALL,
)


class OdsError(CommandError):
    """A malformed `.td` file; the message names file and line."""


@dataclass(frozen=True)
class Term:
    """A name with arguments: `Optional<OneFlow_Tensor>`."""

    name: str
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}<{', '.join(map(str, self.args))}>" if self.args else self.name


@dataclass(frozen=True)
class Dag:
    """`(ins OneFlow_Tensor:$x)`: a kind, and values with names ("" for an unnamed value)."""

    kind: str
    args: tuple[tuple[Any, str], ...] = ()


@dataclass(frozen=True)
class Bang:
    """An operation on values: `!listconcat(a, b)`."""

    name: str
    args: tuple[Any, ...]
    where: str


@dataclass(frozen=True)
class Template:
    """A `class` or a `def`.

    `parameters` are names with defaults (None without default), `bases` classes with arguments, `fields` what
    the body sets, and `declared` the fields whose type the body declares.
    """

    keyword: str
    name: str
    parameters: tuple[tuple[str, Any], ...]
    bases: tuple[Term, ...]
    fields: dict[str, Any]
    declared: frozenset[str]
    where: str


@dataclass(frozen=True)
class Include:
    """`include "OneFlow/OneFlowBase.td"`."""

    path: str
    where: str


def parse(text: str, file: str) -> list[Template | Include]:
    """The classes, definitions and includes of a file, in order.

    Preprocessor lines are skipped: the lines between these are read.

    Raises:
        OdsError: the text has another syntax.
    """
    return list(_Parser(text, file).items())


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
        """The next token, one of `wanted` if there are any."""
        token = self.peek()
        if not token or (wanted and token not in wanted):
            raise self.unexpected(" or ".join(wanted) or "more")
        self.at += 1
        return token

    def unexpected(self, wanted: str) -> OdsError:
        return OdsError(f"{self.where()}: expected {wanted}, got {self.peek() or 'the end of the file'}")

    def accept(self, sign: str) -> bool:
        """Consumes the next token if the token is `sign`."""
        if self.peek() != sign:
            return False
        self.at += 1
        return True

    def word(self, what: str) -> str:
        """The next token, a word."""
        if not re.match(r"[$!]?\w", self.peek()):
            raise self.unexpected(what)
        return self.take()

    def string(self) -> str:
        """The next token, a string, without its quotes."""
        if not self.peek().startswith('"'):
            raise self.unexpected("a string")
        return re.sub(r"\\(.)", r"\1", self.take()[1:-1])

    def items(self) -> Iterator[Template | Include]:
        while self.peek():
            where, keyword = self.where(), self.take("include", "class", "def")
            if keyword == "include":
                yield Include(self.string(), where)
            else:
                yield self.template(keyword, where)

    def template(self, keyword: str, where: str) -> Template:
        name = self.word("a name")
        parameters = self.listed(">", self.parameter) if self.accept("<") else []
        bases = [self.term()] if self.accept(":") else []
        while bases and self.accept(","):
            bases.append(self.term())
        fields: dict[str, Any] = {}
        declared = set()
        if self.take("{", ";") == "{":
            while not self.accept("}"):
                if not self.accept("let"):
                    self.kind()
                    declared.add(self.peek())
                field = self.word("a field")
                fields[field] = self.assigned()
                self.take(";")
        return Template(keyword, name, tuple(parameters), tuple(bases), fields, frozenset(declared), where)

    def kind(self) -> None:
        """The type of a parameter or field, such as `bits<8>`."""
        self.word("let or a type")
        if self.accept("<"):
            self.listed(">", self.kind)

    def parameter(self) -> tuple[str, Any]:
        self.kind()
        return self.word("a parameter"), self.assigned() if self.peek() == "=" else None

    def assigned(self) -> Any:
        self.take("=")
        return self.value()

    def value(self) -> Any:
        """A dag, a list, an operation, text, a number or a name."""
        token = self.peek()
        if self.accept("("):
            return Dag(self.word("ins or outs"), tuple(self.listed(")", self.named)))
        if self.accept("["):
            return self.listed("]", self.value)
        if token.startswith('"'):
            return "".join(self.strings())
        if token.startswith("[{"):
            return self.take()[2:-2]
        if token.startswith("!"):
            return self.bang()
        return int(self.take()) if re.fullmatch(r"-?\d+", token) else self.term()

    def strings(self) -> Iterator[str]:
        while self.peek().startswith('"'):
            yield self.string()

    def bang(self) -> Bang:
        where, name = self.where(), self.take()
        self.take("(")
        return Bang(name, tuple(self.listed(")", self.value)), where)

    def named(self) -> tuple[Any, str]:
        if self.peek().startswith("$"):
            return None, self.take()[1:]
        value = self.value()
        if not self.accept(":"):
            return value, ""
        name = self.word("$name")
        if not name.startswith("$"):
            raise OdsError(f"{self.where()}: expected a name such as $x, got {name}")
        return value, name[1:]

    def term(self) -> Term:
        name = self.word("a value")
        return Term(name, tuple(self.listed(">", self.value))) if self.accept("<") else Term(name)

    def listed(self, closing: str, read: Callable[[], Any]) -> list[Any]:
        """Comma-separated items, each parsed by `read`, up to the closing bracket."""
        items: list[Any] = []
        while not self.accept(closing):
            items.append(read())
            if self.peek() != closing:
                self.take(",", closing)
        return items
