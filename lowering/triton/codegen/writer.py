"""Source text in scopes: loop-invariant values are written before the loop, equal expressions once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from oneflow.lowering.triton.source import Statement, TensorDescriptor, nested

Axes = frozenset[str]
NONE: Axes = frozenset()


@dataclass(frozen=True)
class Value:
    """A value of a kernel: its variable, its MLIR element type, and the axes of the tile along which the value
    varies.
    """

    name: str
    element: str
    axes: Axes = NONE


@dataclass
class Scope:
    """The statements of one scope: values that vary along an axis of `inner` belong to the scope.

    Attributes:
        inner: the axes.
        lines: the statements.
        known: the variable of each expression that was written.
        assignments: the index of the line that assigns each variable of `known`.
        loads: the expressions of `known` that load from each pointer.
    """

    inner: Axes
    lines: list[Statement] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)
    assignments: dict[str, int] = field(default_factory=dict)
    loads: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Writer:
    """Writes statements into the outermost scope that the axes of a value allow.

    Attributes:
        scopes: the open scopes, outermost first.
        count: the number of names.
        calls: the names of the functions of the prelude that statements call.
        pointers: the parameters that statements address.
    """

    scopes: list[Scope] = field(default_factory=lambda: [Scope(NONE)])
    count: int = 0
    calls: set[str] = field(default_factory=set)
    pointers: set[str] = field(default_factory=set)

    @property
    def body(self) -> tuple[Statement, ...]:
        """The statements of the outermost scope."""
        return tuple(self.scopes[0].lines)

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

    def define(
        self, text: str, element: str, axes: Iterable[Axes] | Axes = NONE, prefix: str = "v", pointer: str = ""
    ) -> Value:
        """The value of an expression without effects: a new variable, or the variable of an equal expression.

        `pointer` is the parameter that the expression loads from, if any.
        """
        varying = axes if isinstance(axes, frozenset) else NONE.union(*axes)
        scope = self.scope(varying)
        name = scope.known.get(text)
        if name is None:
            name = scope.known[text] = self.fresh(prefix)
            scope.assignments[name] = len(scope.lines)
            scope.lines.append(f"{name} = {text}")
            if pointer:
                scope.loads.setdefault(pointer, []).append(text)
        return Value(name, element, varying)

    def declare_descriptor(self, descriptor: TensorDescriptor) -> str:
        """The name of a descriptor, which is created before all loops; equal descriptors are one variable."""
        scope, text = self.scopes[0], descriptor.expression
        if text not in scope.known:
            name = scope.known[text] = self.fresh("block")
            scope.lines.append(replace(descriptor, name=name))
        return scope.known[text]

    def call(self, function: str) -> str:
        """The name of a function of the prelude, for a statement that calls it."""
        self.calls.add(function)
        return function

    def address(self, pointer: str) -> str:
        """The name of a parameter, for a statement that addresses it."""
        self.pointers.add(pointer)
        return pointer

    def invalidate_loads(self, pointer: str) -> None:
        """Drops cached loads from a pointer after a write."""
        for scope in self.scopes:
            for text in scope.loads.pop(pointer, ()):
                del scope.known[text]

    def line(self, text: str) -> None:
        """Writes a line with effects into the innermost scope."""
        self.scopes[-1].lines.append(text)

    def open(self, inner: Axes) -> None:
        """Begins a scope."""
        self.scopes.append(Scope(inner))

    def loop_with(self, header: str, name: str, text: str) -> list[str]:
        """The lines of the innermost scope under `header`, where the variable `name` is `text`."""
        scope = self.scopes[-1]
        lines = list(scope.lines)
        if name in scope.assignments:
            lines[scope.assignments[name]] = f"{name} = {text}"
        return [header, *nested(lines)]

    def close(self, header: str | None, before: Iterable[str] = (), after: Iterable[str] = ()) -> None:
        """Ends the innermost scope: writes its lines under `header`, between the lines `before` and `after`."""
        inner = self.scopes.pop()
        outer = self.scopes[-1].lines
        outer.extend(before)
        if header is None:
            outer.extend(inner.lines)
        elif inner.lines:
            outer += [header, *nested(inner.lines)]
        outer.extend(after)
