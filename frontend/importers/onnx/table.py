"""The table of operators: which function builds an ONNX operator, from which version of its operator set on.

    @builder("LeakyRelu")
    def _leaky_relu(x, *, alpha=0.01):
        return F.leaky_relu(x, alpha)

Parameters by position are operands: tensors, or None for an omitted operand. Operands named in `known` are arrays
of the host: shapes and positions follow from them. Parameters by keyword are attributes. An attribute of an older
version that is an operand today (`axes`) is passed as that operand. `node` is the node itself. A tuple is several
results.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

#: The default domain, and its other names.
DOMAINS = {"ai.onnx": ""}


@dataclass(frozen=True)
class Builder:
    """A row: a function, and how its parameters are passed.

    Attributes:
        operands: the names of parameters by position.
        variadic: whether the last parameter takes all further operands.
        required: how many of these have no default.
        known: operands that are passed as arrays of the host.
        attributes: the names of parameters by keyword.
        mandatory: the attributes without a default.
        raw: whether operands are passed as they are: lists, tensors of small types, arrays of the host.
        renamed: operands that were attributes, by the attribute names.
    """

    function: Callable[..., Any]
    since: int
    operands: tuple[str, ...]
    variadic: bool
    required: int
    known: frozenset[str]
    attributes: frozenset[str]
    mandatory: frozenset[str]
    takes_node: bool
    raw: bool
    renamed: dict[str, str]


_TABLE: dict[tuple[str, str], list[Builder]] = {}


def builder(
    names: str,
    since: int = 1,
    *,
    domain: str = "",
    known: str = "",
    raw: bool = False,
    renamed: dict[str, str] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a function to the table, for operators whose names are separated by spaces."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        row = _row(function, since, frozenset(known.split()), raw, renamed or {})
        for name in names.split():
            rows = _TABLE.setdefault((domain, name), [])
            rows.append(row)
            rows.sort(key=lambda r: r.since)
        return function

    return add


def rows(functions: dict[str, Callable[..., Any]], since: int = 1) -> None:
    """Adds functions of operands without attributes."""
    for name, function in functions.items():
        builder(name, since)(function)


def _row(
    function: Callable[..., Any], since: int, known: frozenset[str], raw: bool, renamed: dict[str, str]
) -> Builder:
    parameters = inspect.signature(function).parameters.values()
    by_position = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    by_keyword = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    optional = {p.name for p in parameters if p.default is not p.empty}
    required = sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in by_position)
    variadic = any(p.kind is p.VAR_POSITIONAL for p in by_position)
    operands = tuple(p.name for p in by_position)
    attributes = frozenset(by_keyword - {"node"})
    takes_node = "node" in by_keyword
    return Builder(
        function, since, operands, variadic, required, known, attributes, attributes - optional, takes_node, raw,
        renamed,
    )  # fmt: skip


def find_builder(domain: str, name: str, version: int) -> Builder | None:
    """The row of an operator for a version of its operator set; None without a row."""
    fitting = [r for r in _TABLE.get((DOMAINS.get(domain, domain), name), ()) if r.since <= version]
    return fitting[-1] if fitting else None


def operator_names(domain: str = "") -> Iterable[str]:
    """The names of the operators of a domain that are in the table."""
    return sorted(name for of, name in _TABLE if of == domain)
