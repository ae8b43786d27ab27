"""Diagnostics as MLIR's tools print them, and the `expected-error` comments of `--verify-diagnostics`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from oneflow.dialect.reader import Diagnostic
from oneflow.tools.command import CommandError


@dataclass(frozen=True)
class Source:
    """A file, for quotations in messages."""

    name: str
    text: str

    def format(self, severity: str, message: str, line: int, column: int) -> str:
        """A message with the quoted line and a caret under the column."""
        lines = self.text.split("\n")
        head = f"{self.name}:{line}:{column}: {severity}: {message}"
        if not 0 < line <= len(lines):
            return head
        return f"{head}\n{lines[line - 1]}\n{' ' * (column - 1)}^"

    def render(self, diagnostic: Diagnostic) -> str:
        """A diagnostic and its notes; lines of this file are quoted."""
        file, line, column = split_location(diagnostic.location)
        if file == self.name:
            own = self.format(diagnostic.severity, diagnostic.message, line, column)
        else:
            own = f"{diagnostic.location}: {diagnostic.severity}: {diagnostic.message}"
        return "\n".join([own, *map(self.render, diagnostic.notes)])


def split_location(location: str) -> tuple[str, int, int]:
    """Splits `file:line:col`; line and column are 0 if the location is unknown."""
    match = re.fullmatch(r"(.*):(\d+):(\d+)", location)
    return (match[1], int(match[2]), int(match[3])) if match else ("", 0, 0)


_EXPECTED = re.compile(
    r"expected-(?P<severity>error|warning|note|remark)(?P<regex>-re)?"
    r" *(?:@(?P<line>[+-]\d+|above|below|unknown))? *\{\{(?P<text>.*)\}\}$"
)


@dataclass
class Expectation:
    """An `expected-..` comment; `line` is the line of the diagnostic, 0 for a line outside of the file."""

    severity: str
    pattern: re.Pattern[str]
    text: str
    line: int
    at: tuple[int, int]
    met: bool = False

    def accepts(self, severity: str, message: str, line: int) -> bool:
        """Whether a diagnostic is the expected one."""
        return (severity, line) == (self.severity, self.line) and self.pattern.search(message) is not None


def _pattern(text: str, is_regex: bool) -> re.Pattern[str]:
    """The text as a pattern; with `-re`, text in double braces is a regular expression."""
    if not is_regex:
        return re.compile(re.escape(text))
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return re.compile("".join(p if i % 2 else re.escape(p) for i, p in enumerate(parts)))


def parse_expectations(source: Source) -> Iterator[Expectation]:
    """Every expectation in a file.

    `@above` is the last line without expectations, `@below` the next.

    Raises:
        CommandError: a regular expression is malformed; the message says where.
    """
    lines = source.text.split("\n")
    plain = [number for number, line in enumerate(lines, 1) if not _EXPECTED.search(line.rstrip())]
    for number, line in enumerate(lines, 1):
        match = _EXPECTED.search(line.rstrip())
        if match is None:
            continue
        above = max((n for n in plain if n < number), default=number)
        below = min((n for n in plain if n > number), default=number)
        stated = match["line"]
        named = {None: number, "above": above, "below": below, "unknown": 0}
        target = named[stated] if stated in named else number + int(stated)
        try:
            pattern = _pattern(match["text"], match["regex"] is not None)
        except re.error as error:
            raise CommandError(source.format("error", f"invalid regular expression: {error}", number, 1)) from None
        yield Expectation(match["severity"], pattern, match["text"], target, (number, match.start() + 1))


@dataclass
class Expectations:
    """The expectations of a file, compared with its diagnostics; with `unexpected`, other diagnostics are errors."""

    source: Source
    unexpected: bool = True
    pending: list[Expectation] = field(init=False)

    def __post_init__(self) -> None:
        self.pending = list(parse_expectations(self.source))

    def check(self, diagnostics: Sequence[Diagnostic]) -> list[str]:
        """Messages for unexpected diagnostics and for expectations that were not met.

        Unexpected notes are accepted where their diagnostic was expected.
        """
        problems = [p for d in diagnostics for p in self._unexpected(d) if self.unexpected]
        for e in self.pending:
            if not e.met:
                problems.append(
                    self.source.format("error", f'expected {e.severity} "{e.text}" was not produced', *e.at)
                )
        return problems

    def _unexpected(self, diagnostic: Diagnostic) -> list[str]:
        for note in diagnostic.notes:
            self._match(note)
        if self._match(diagnostic):
            return []
        file, line, column = split_location(diagnostic.location)
        text = f"unexpected {diagnostic.severity}: {diagnostic.message}"
        if file != self.source.name:
            return [f"{diagnostic.location}: error: {text}"]
        return [self.source.format("error", text, line, column)]

    def _match(self, diagnostic: Diagnostic) -> bool:
        file, line, _ = split_location(diagnostic.location)
        where = line if file == self.source.name else 0
        fitting = [e for e in self.pending if e.accepts(diagnostic.severity, diagnostic.message, where)]
        chosen = next((e for e in fitting if not e.met), fitting[0] if fitting else None)
        if chosen is not None:
            chosen.met = True
        return chosen is not None
