"""Reverse mode: from the cotangents of some values of a program to the gradients of others.

A program is a list of entries in order: calls of operators on `Value`s, `Segment`s that are computed again instead of
kept, and `OpaqueStep`s through which no gradient flows. `pull_back` walks the list backwards with the records'
gradient slots; a `Builder` of any kind receives the new calls.

Only entries between the inputs and the values with a cotangent are visited, and only the gradients that lead to an
input are built. Cotangents of a value used several times are added at once, so that at most two are kept.

Values that may be infinite or NaN while the inputs are finite are tracked through the program, up to operators
that combine elements; element-wise gradients mask products with those (see `elementwise.scalar_gradient`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from oneflow.dialect import compute as c
from oneflow.dialect.builder import Builder, Value, describe
from oneflow.dialect.elementwise import instance
from oneflow.dialect.meaning import input_stages, stages
from oneflow.dialect.record import Absent, Call, OperatorError, distribute, flatten, zero_grad
from oneflow.dialect.tensor_desc import TensorDesc


class NotDifferentiable(OperatorError):
    """A gradient is required through an entry that has none, `entry`."""

    def __init__(self, text: str, entry: Entry) -> None:
        super().__init__(text)
        self.entry = entry


@dataclass(frozen=True, eq=False)
class OpaqueStep:
    """A step that is no operator, with its operands and results; `name` is its name in messages."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Alias:
    """A value with the elements of another value, possibly with another static type."""

    operands: tuple[Value]
    results: tuple[Value]


@dataclass(frozen=True, eq=False)
class InPlaceUpdate(Alias):
    """A value after an update in place. Gradients pass through to the value before the update."""


@dataclass(frozen=True, eq=False)
class Segment:
    """A checkpointed part of a program (activation checkpointing): the backward part computes it again, and no inner
    value is saved.

    `inputs` are the arguments; the entries may read further values from outside, and produce `results`.
    """

    entries: tuple[Entry, ...]
    inputs: tuple[Value, ...]
    results: tuple[Value, ...]

    name = "checkpoint"

    @property
    def operands(self) -> tuple[Value, ...]:
        """Every value from outside that the segment reads."""
        results = {id(r) for e in self.entries for r in e.results}
        read = {id(v): v for e in self.entries for v in e.operands if id(v) not in results}
        return tuple({**{id(v): v for v in self.inputs}, **read}.values())


@dataclass(frozen=True, eq=False)
class UnsavedSegment(Segment):
    """A segment whose results are not saved: the gradients of entries that read a result read a copy, which the
    backward part computes at the first of these gradients. The gradient of the segment itself reads the inner values.
    """


Entry = Call | OpaqueStep | Alias | Segment
Seeds = Sequence[tuple[Value, Value]]
#: Replacements of a program's values, by the identity of the value that is replaced.
ValueMap = dict[int, Value]


def name_of(entry: Entry) -> str:
    """The name of an entry in messages; empty for an alias."""
    if isinstance(entry, Alias):
        return ""
    return f"oneflow.{entry.record.name}" if isinstance(entry, Call) else entry.name


def one_of(ops: Builder, desc: TensorDesc) -> Value:
    """The cotangent of a result of one element: 1 in its type."""
    return ops.call("constant", dtype=desc.dtype, shape=desc.shape, is_floating_value=True, floating_value=1.0)[0]


def zeros_like(ops: Builder, value: Value) -> Value:
    """The gradient with respect to a value that nothing depends on."""
    return ops.call("zero_like", value)[0]


#: Maps a value and the sum of its cotangents to the cotangent that is used.
Finalize: TypeAlias = Callable[[Value, Value], Value]


def _unchanged(value: Value, cotangent: Value) -> Value:
    return cotangent


def pull_back(
    ops: Builder,
    entries: Sequence[Entry],
    seeds: Seeds,
    wrt: Sequence[Value],
    before: Callable[[Entry], None] = lambda entry: None,
    finalize: Finalize = _unchanged,
) -> list[Value | None]:
    """The gradients with respect to `wrt` of the values with the cotangents `seeds`: None for a value without
    influence.

    Args:
        ops: builds the gradients.
        entries: the program, in order.
        seeds: values and their cotangents, of one type each.
        wrt: values, of floats or complex numbers, that no entry produces.
        before: called with each entry whose gradient is about to be built.
        finalize: called with each value of the program and its complete cotangent; returns the cotangent to use.

    Raises:
        NotDifferentiable: a path leads through an operator without a gradient.
        OperatorError: a gradient rule returns values that are no gradients of its operands.
    """
    return _Reverse(ops, entries, wrt, before, finalize=finalize).run(seeds)


def shortened(path: Sequence[str]) -> str:
    """A path, shortened for messages."""
    return " -> ".join(path if len(path) <= 12 else [*path[:6], "..", *path[-6:]])


class _Reverse:
    """A pull-back. Values are known by identity; `entries` keeps the values alive."""

    def __init__(
        self,
        ops: Builder,
        entries: Sequence[Entry],
        wrt: Sequence[Value],
        before: Callable[[Entry], None],
        maybe_nonfinite: Iterable[int] = (),
        finalize: Finalize = _unchanged,
    ) -> None:
        self.ops, self.wrt, self.before, self.finalize = ops, wrt, before, finalize
        self.finalized: set[int] = set()
        self.producers: dict[int, Entry | None] = {id(v): None for v in wrt}
        self.users: dict[int, Entry | None] = {}
        self.maybe_nonfinite = set(maybe_nonfinite)
        self.grads: dict[int, Value | None] = {}
        self.zero_paths: set[int] = set()
        self.unsaved = {id(r): e for e in entries if isinstance(e, UnsavedSegment) for r in e.results}
        self.copies: ValueMap = {}
        self.active = [e for e in entries if self._enter(e)]

    def _enter(self, entry: Entry) -> bool:
        """Records which values depend on the inputs and which may not be finite; returns whether this entry depends
        on the inputs.
        """
        self._track_nonfinite(entry)
        if not any(id(v) in self.producers for v in entry.operands):
            return False
        for result in entry.results:
            if result.dtype.is_inexact:
                self.producers.setdefault(id(result), entry)
        return True

    def _track_nonfinite(self, entry: Entry) -> None:
        if isinstance(entry, Segment):
            for inner in entry.entries:
                self._track_nonfinite(inner)
            return
        numbers = frozenset(i for i, v in enumerate(entry.operands) if id(v) in self.maybe_nonfinite)
        if isinstance(entry, Call):
            entry.maybe_nonfinite = numbers
        if _may_give_nonfinite(entry) if isinstance(entry, Call) else numbers:
            self.maybe_nonfinite.update(map(id, entry.results))

    def run(self, seeds: Seeds) -> list[Value | None]:
        for value, cotangent in seeds:
            self._add(value, cotangent, None)
        for entry in reversed(self.active):
            cotangents = [self._final_cotangent(r) for r in entry.results]
            if any(g is not None for g in cotangents):
                self.before(entry)
                self._visit(entry, cotangents)
                self._forget(entry)
            elif any(id(r) in self.zero_paths for r in entry.results):
                self._mark_zero_path(entry)
        return [self._input_gradient(v) for v in self.wrt]

    def _input_gradient(self, value: Value) -> Value | None:
        """The gradient with respect to an input: zeros where every path leads through step functions."""
        grad = self._final_cotangent(value)
        if grad is None and id(value) in self.zero_paths:
            grad = self.finalize(value, zeros_like(self.ops, value))
        return grad

    def _mark_zero_path(self, entry: Entry) -> None:
        """Notes that a path leads on to the operands of an entry along which only zeros may flow."""
        if not (isinstance(entry, OpaqueStep) or (isinstance(entry, Call) and entry.record.grad is zero_grad)):
            self.zero_paths.update(id(v) for v in entry.operands if v.dtype.is_inexact)

    def _final_cotangent(self, value: Value) -> Value | None:
        """The cotangent of a value, to which nothing is added after this."""
        grad = self.grads.get(id(value))
        if grad is not None and id(value) not in self.finalized:
            self.finalized.add(id(value))
            grad = self.grads[id(value)] = self.finalize(value, grad)
        return grad

    def _forget(self, entry: Entry) -> None:
        """Frees the cotangents of results: earlier entries do not add to these cotangents."""
        for result in entry.results:
            if id(result) in self.grads and self.producers.get(id(result)) is not None:
                self.grads[id(result)] = None

    def _add(self, value: Value, grad: Value, user: Entry | None) -> None:
        """Adds a cotangent of `value`, if that depends on an input."""
        if id(value) not in self.producers:
            return
        known = self.grads.get(id(value))
        grad = self.ops.retype(grad, value.desc)
        self.users.setdefault(id(value), user)
        if known is not None:
            grad = self.ops.retype(self.ops.placed_like(known, value) + self.ops.placed_like(grad, value), value.desc)
        self.grads[id(value)] = grad

    def _visit(self, entry: Entry, cotangents: Sequence[Value | None]) -> None:
        if isinstance(entry, Call):
            self._visit_call(entry, cotangents)
        elif isinstance(entry, Alias) and cotangents[0] is not None:
            self._add(entry.operands[0], cotangents[0], entry)
        elif isinstance(entry, Segment):
            self._visit_segment(entry, cotangents)
        else:
            raise self._refused(entry, "the entry is no operator of the dialect")

    def _visit_call(self, op: Call, cotangents: Sequence[Value | None]) -> None:
        if isinstance(op.record.grad, Absent):
            raise self._refused(op, op.record.grad.reason)
        op.wanted = frozenset(i for i, v in enumerate(op.operands) if id(v) in self.producers)
        operands = op.operands
        for index, gradient in self.ops.operand_gradients(self._on_copies(op, cotangents), cotangents):
            self._add_forced(op, operands[index], gradient)
        if op.record.scalar is not None or "barrier" in op.record.traits:
            self._mark_zero_path(op)

    def _add_forced(self, op: Call, operand: Value, grad: Any) -> None:
        """Adds a gradient, computed only where the gradient leads to an input."""
        if id(operand) not in self.producers:
            return
        value = grad() if callable(grad) else grad
        if value is None:
            return
        if not value.desc.compatible(operand.desc):
            raise op.error(f"expected a gradient of type {operand.desc}, got {value.desc}")
        self._add(operand, value, op)

    def _visit_segment(self, segment: Segment, cotangents: Sequence[Value | None]) -> None:
        """Computes the segment again, on inputs that depend on the cotangents, and differentiates the copy."""
        mapping, entries = ValueMap(), segment.entries
        if not isinstance(segment, UnsavedSegment):
            mapping = self._copies_of(segment.operands, cotangents)
            mapping |= self._delayed([v for v in segment.inputs if id(v) not in mapping], cotangents)
            entries = tuple(replay(self.ops, segment.entries, mapping))
        seeds = [
            (substituted(r, mapping), g) for r, g in zip(segment.results, cotangents, strict=True) if g is not None
        ]
        wanted = [v for v in segment.operands if id(v) in self.producers]
        inputs = [mapping.get(id(v), v) for v in wanted]
        maybe_nonfinite = [id(mapping.get(id(v), v)) for v in segment.operands if id(v) in self.maybe_nonfinite]
        grads = _Reverse(self.ops, entries, inputs, self.before, maybe_nonfinite).run(seeds)
        for value, grad in zip(wanted, grads, strict=True):
            if grad is not None:
                self._add(value, grad, segment)

    def _delayed(self, values: Iterable[Value], cotangents: Sequence[Value | None]) -> ValueMap:
        """Values that are read after the cotangents are known."""
        after = next(g for g in cotangents if g is not None)
        return {id(v): self.ops.call("depend", v, after)[0] for v in values}

    def _copies_of(self, operands: Iterable[Value], cotangents: Sequence[Value | None]) -> ValueMap:
        """Copies of the operands that are not saved, computed again at the first use."""
        unsaved = [id(v) for v in operands if id(v) in self.unsaved]
        for index in unsaved:
            if index not in self.copies:
                segment = self.unsaved[index]
                replay(self.ops, segment.entries, mapping := self._delayed(segment.inputs, cotangents))
                self.copies.update((id(r), mapping[id(r)]) for r in segment.results)
        return {index: self.copies[index] for index in unsaved}

    def _on_copies(self, op: Call, cotangents: Sequence[Value | None]) -> Call:
        """The call on copies of the operands that are not saved."""
        copies = self._copies_of(op.operands, cotangents)
        if not copies:
            return op
        again = Call(op.record, {k: substituted(v, copies) for k, v in op.inputs.items()}, op.attrs, op.outputs)
        again.wanted, again.maybe_nonfinite = op.wanted, op.maybe_nonfinite
        return again

    def _refused(self, entry: Entry, reason: str) -> NotDifferentiable:
        """The error for an entry without a gradient, with the path from an input to a result."""
        path = [name for name in (*self._from_input(entry), *self._to_result(entry)) if name]
        text = f"{name_of(entry)} has no gradient: {reason}; the gradient is required along {shortened(path)}"
        return NotDifferentiable(text, entry)

    def _from_input(self, entry: Entry) -> list[str]:
        names: list[str] = []
        at: Entry | None = entry
        while at is not None:
            names.append(name_of(at))
            value = next(v for v in at.operands if id(v) in self.producers)
            at = self.producers[id(value)]
        index = next(i for i, v in enumerate(self.wrt) if v is value)
        return [f"input {index}", *reversed(names)]

    def _to_result(self, entry: Entry) -> list[str]:
        names: list[str] = []
        at: Entry | None = entry
        while at is not None:
            value = next(r for r in at.results if id(r) in self.grads)
            at = self.users[id(value)]
            names.append("result" if at is None else name_of(at))
        return names


def _may_give_nonfinite(op: Call) -> bool:
    """Whether results of a call may be infinite or NaN where they depend on the same position of an operand."""
    if op.record.scalar is not None:
        return not instance(op).finite
    return bool(op.maybe_nonfinite) and op.record.compute is not None and _moves_only(op)


def _moves_only(op: Call) -> bool:
    """Whether each element of the results is one element of an operand, so that nothing is combined."""
    described = Call(op.record, {k: describe(v) for k, v in op.inputs.items()}, op.attrs)
    results = stages(input_stages(described), [r.desc for r in op.results])
    return all(isinstance(stage, (c.Reshape, c.Place, c.ElementWise)) for stage in results)


def replay(ops: Builder, entries: Sequence[Entry], mapping: ValueMap) -> list[Entry]:
    """Builds entries again, on the replacements in `mapping`; adds the results of the new entries to `mapping`."""
    return [_replayed(ops, entry, mapping) for entry in entries]


def _replayed(ops: Builder, entry: Entry, mapping: ValueMap) -> Entry:
    replayed: Entry
    if isinstance(entry, Call):
        inputs = {k: substituted(v, mapping) for k, v in entry.inputs.items()}
        results = ops.call(entry.record.name, *inputs.values(), **entry.attrs)
        replayed = Call(entry.record, inputs, entry.attrs, _regrouped(entry, results))
    elif isinstance(entry, InPlaceUpdate):
        replayed = InPlaceUpdate(substituted(entry.operands, mapping), (_new_value(entry.results[0]),))
    elif isinstance(entry, Alias):
        source = substituted(entry.operands[0], mapping)
        replayed = Alias((source,), (_renamed(ops, source, entry.results[0].desc),))
    elif isinstance(entry, Segment):
        entries = tuple(replay(ops, entry.entries, mapping))
        replayed = Segment(entries, substituted(entry.inputs, mapping), substituted(entry.results, mapping))
    else:
        raise NotDifferentiable(
            f"{name_of(entry)} cannot be computed again: the entry is no operator of the dialect", entry
        )
    mapping.update((id(old), new) for old, new in zip(entry.results, replayed.results, strict=True))
    return replayed


def _regrouped(op: Call, results: Sequence[Value]) -> dict[str, Any]:
    sizes = [len(flatten([v])) for v in op.outputs.values()]
    return distribute(op.record.signature.outputs, results, sizes)


def _renamed(ops: Builder, source: Value, desc: TensorDesc) -> Value:
    """The elements of `source` as a new value of type `desc`."""
    return _new_value(ops.retype(source, desc))


def _new_value(value: Value) -> Value:
    return type(value)(value.builder, value.handle, value.desc)


def substituted(value: Any, mapping: Mapping[int, Value]) -> Any:
    """A slot of a call with its values replaced by the values that `mapping` names."""
    if isinstance(value, tuple):
        return tuple(mapping.get(id(v), v) for v in value)
    return None if value is None else mapping.get(id(value), value)
