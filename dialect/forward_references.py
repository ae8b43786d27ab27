"""Finds names of values that a text may use before it defines the names.

MLIR's parser binds such a use to a later definition in any region. When the parser then fails inside that region, the
parser frees the definition before the use, and writes to freed memory. The search reads tokens and knows no syntax of
operations: an operation that defines names in a form of its own counts as a use of the names.
"""

from __future__ import annotations

import re

from oneflow.dialect.text_validation import STRING

_NAME = r"%[\w$.-]+"
_TOKEN = re.compile(
    rf"{STRING}|//[^\n]*"
    r"|(?P<function>\.func\b[^\n@(]*@[\w$.-]+\s*\()|(?P<label>(?:^|(?<=\{))[ \t]*\^[\w$.-]+\s*\()"
    # Possessive, so that the time is linear in the names of a list.
    rf"|(?P<names>{_NAME}(?::\d+)?(?:\s*,\s*{_NAME}(?::\d+)?)*+)(?P<defines>\s*=(?!=))?|[(){{}}]",
    re.M,
)
_NAMES = re.compile(_NAME)
_TYPED = re.compile(r"\s*:")


def find_forward_reference(text: str) -> int | None:
    """The position of the first name that may be used before its definition; None without such a name."""
    if "%" not in text:
        return None
    search = _Search(text)
    positions = (search.forward_reference(token) for token in _TOKEN.finditer(text))
    return next((position for position in positions if position is not None), None)


class _Search:
    """The names that are defined at a position: one set for each pair of braces around the position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.scopes: list[set[str]] = [set()]
        #: The open parentheses in a list of arguments; 0 outside of such lists.
        self.depth = 0

    def forward_reference(self, token: re.Match[str]) -> int | None:
        """The position of the first use in a token whose name is not defined; definitions of the token are added."""
        if token["defines"]:
            self.scopes[-1].update(_NAMES.findall(token["names"]))
        elif token["names"]:
            names = _NAMES.finditer(self.text, *token.span("names"))
            return next((name.start() for name in names if self._is_forward(name)), None)
        elif token["function"] or token["label"]:
            self.depth = 1
            if token["function"]:
                self.scopes[-1].clear()
        else:
            self._bracket(token[0])
        return None

    def _is_forward(self, name: re.Match[str]) -> bool:
        """Whether a name is used before its definition; an argument of a list with types is defined here."""
        if self.depth and _TYPED.match(self.text, name.end()):
            self.scopes[-1].add(name[0])
            return False
        return not any(name[0] in scope for scope in self.scopes)

    def _bracket(self, token: str) -> None:
        if token == "{":
            self.scopes.append(set())
        elif token == "}" and len(self.scopes) > 1:
            self.scopes.pop()
        elif self.depth:
            self.depth += {"(": 1, ")": -1}.get(token, 0)
