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
    rf"|(?P<results>{_NAME}(?::\d+)?(?:\s*,\s*{_NAME}(?::\d+)?)*\s*=(?!=))|(?P<name>{_NAME})|[(){{}}]",
    re.M,
)
_NAMES = re.compile(_NAME)
_TYPED = re.compile(r"\s*:")


def find_forward_reference(text: str) -> int | None:
    """The position of the first name that may be used before its definition; None without such a name."""
    if "%" not in text:
        return None
    search = _Search(text)
    return next((m.start() for m in _TOKEN.finditer(text) if search.is_forward(m)), None)


class _Search:
    """The names that are defined at a position: one set for each pair of braces around the position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.scopes: list[set[str]] = [set()]
        #: The open parentheses in a list of arguments; 0 outside of such lists.
        self.depth = 0

    def is_forward(self, token: re.Match[str]) -> bool:
        """Whether a token is a use of a name that is not defined; otherwise its definitions are added."""
        if token["name"]:
            return self._is_use(token) and not any(token["name"] in scope for scope in self.scopes)
        if token["results"]:
            self.scopes[-1].update(_NAMES.findall(token["results"]))
        elif token["function"] or token["label"]:
            self.depth = 1
            if token["function"]:
                self.scopes[-1].clear()
        else:
            self._bracket(token[0])
        return False

    def _is_use(self, token: re.Match[str]) -> bool:
        if self.depth == 0 or _TYPED.match(self.text, token.end()) is None:
            return True
        self.scopes[-1].add(token["name"])
        return False

    def _bracket(self, token: str) -> None:
        if token == "{":
            self.scopes.append(set())
        elif token == "}" and len(self.scopes) > 1:
            self.scopes.pop()
        elif self.depth:
            self.depth += {"(": 1, ")": -1}.get(token, 0)
