"""Source text in scopes: loop-invariant values are written before the loop, equal expressions once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from oneflow.lowering.triton.source import TensorDescriptor

Axes = frozenset[str]
NONE: Axes = frozenset()


@dataclass(frozen=True)
class Value:
    """A value of a kernel: its variable, its MLIR element type, and the axes of the tile that it varies along."""

    name: str
    element: str
    axes: Axes = NONE


@dataclass
class Scope:
    """The lines of one scope: values that vary along an axis of `inner` belong to it.

    `known` has the variable of each expression that was written.
    """

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
        """A new name."""
        self.count += 1
        return f"{prefix}{self.count}"

    def scope(self, axes: Axes) -> Scope:
        """The outermost scope in which a value with these axes can be computed."""
        for scope in reversed(self.scopes):
            if scope.inner & axes:
                return scope
        return self.scopes[0]

    def define(self, text: str, element: str, axes: Iterable[Axes] | Axes = NONE, prefix: str = "v") -> Value:
        """The value of an expression without effects: a new variable, or that of an equal expression."""
        varying = axes if isinstance(axes, frozenset) else NONE.union(*axes)
        scope = self.scope(varying)
        name = scope.known.get(text)
        if name is None:
            name = scope.known[text] = self.fresh(prefix)
            scope.lines.append(f"{name} = {text}")
        return Value(name, element, varying)

    def line(self, text: str) -> None:
        """Writes a line with effects into the innermost scope."""
        self.scopes[-1].lines.append(text)

    def open(self, inner: Axes) -> None:
        """Begins a scope."""
        self.scopes.append(Scope(inner))

    def repeated(self, header: str, name: str, text: str) -> list[str]:
        """The lines of the innermost scope under `header`, where the variable `name` is `text`."""
        lines = (f"{name} = {text}" if line.startswith(f"{name} = ") else line for line in self.scopes[-1].lines)
        return [header, *(f"    {line}" for line in lines)]

    def close(self, header: str | None, before: Iterable[str] = (), after: Iterable[str] = ()) -> None:
        """Ends the innermost scope: writes its lines under `header`, between the lines `before` and `after`."""
        inner = self.scopes.pop()
        outer = self.scopes[-1].lines
        outer.extend(before)
        if header is None:
            outer.extend(inner.lines)
        elif inner.lines:
            outer.append(header)
            outer.extend(f"    {line}" for line in inner.lines)
        outer.extend(after)
