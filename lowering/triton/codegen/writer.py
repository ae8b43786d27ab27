"""Source text in scopes: what does not vary in a loop is written before it, and nothing is written twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from oneflow.lowering.triton.source import TensorDescriptor

Axes = frozenset[str]
NONE: Axes = frozenset()


@dataclass(frozen=True)
class V:
    """A value: its name, MLIR element type, and the axes of the tile that it varies along."""

    name: str
    element: str
    axes: Axes = NONE


@dataclass
class Scope:
    """The lines of one level; values that vary along an axis of `inner` belong to it."""

    inner: Axes
    lines: list[str] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)


@dataclass
class Writer:
    """Writes lines into the scope that a value's axes ask for; `descriptors` are made in the outermost one."""

    scopes: list[Scope] = field(default_factory=lambda: [Scope(NONE)])
    count: int = 0
    descriptors: dict[str, TensorDescriptor] = field(default_factory=dict)

    def fresh(self, prefix: str = "v") -> str:
        """A name not used before."""
        self.count += 1
        return f"{prefix}{self.count}"

    def scope(self, axes: Axes) -> Scope:
        """The outermost scope in which a value with these axes can be computed."""
        for scope in reversed(self.scopes):
            if scope.inner & axes:
                return scope
        return self.scopes[0]

    def define(self, text: str, element: str, axes: Iterable[Axes] | Axes = NONE, prefix: str = "v") -> V:
        """The value of an expression without effects: a new line, or the name of an equal one."""
        found = axes if isinstance(axes, frozenset) else NONE.union(*axes)
        scope = self.scope(found)
        name = scope.known.get(text)
        if name is None:
            name = scope.known[text] = self.fresh(prefix)
            scope.lines.append(f"{name} = {text}")
        return V(name, element, found)

    def line(self, text: str) -> None:
        """A line with effects, in the innermost scope."""
        self.scopes[-1].lines.append(text)

    def open(self, inner: Axes) -> None:
        """Begins a scope."""
        self.scopes.append(Scope(inner))

    def repeated(self, header: str, name: str, text: str) -> list[str]:
        """The lines of the innermost scope under `header`, with `text` for the value `name`."""
        lines = (f"{name} = {text}" if line.startswith(f"{name} = ") else line for line in self.scopes[-1].lines)
        return [header, *(f"    {line}" for line in lines)]

    def close(self, header: str | None, before: Iterable[str] = (), after: Iterable[str] = ()) -> None:
        """Ends the innermost scope: its lines under `header`, between lines `before` and `after`."""
        inner = self.scopes.pop()
        outer = self.scopes[-1].lines
        outer.extend(before)
        if header is None:
            outer.extend(inner.lines)
        elif inner.lines:
            outer.append(header)
            outer.extend(f"    {line}" for line in inner.lines)
        outer.extend(after)
