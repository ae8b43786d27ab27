"""How far gradients reach in a trace: from which of its results, to which tensors from outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect.record import Call, zero_grad
from oneflow.dialect.reverse import Entry, Opaque
from oneflow.frontend.eager.regions import region_of
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.capture import Captures
from oneflow.frontend.tracing.states import MemoryState


@dataclass(frozen=True)
class Activity:
    """What a call of a program is recorded with.

    `tensors` are those that it takes from outside, one of each memory and leaf; `needs_grad` says which of them get a
    gradient, `updated` which get other values, `results` which of its result tensors the gradients come from.
    """

    tensors: tuple[EagerTensor, ...]
    needs_grad: tuple[bool, ...]
    updated: tuple[bool, ...]
    results: tuple[bool, ...]

    def __bool__(self) -> bool:
        return any(self.needs_grad)

    @classmethod
    def of(
        cls, captures: Captures, changed: Iterable[MemoryState], tape: Sequence[Entry], results: Iterable[Any]
    ) -> Activity:
        """The reach of gradients in what a tape has, back from results; `changed` get other values."""
        differentiable = [e for e in tape if _is_differentiable(e)]
        given = [id(r) for r in results]
        needed = set(given)
        for entry in reversed(differentiable):
            if any(id(r) in needed for r in entry.results):
                needed.update(id(v) for v in entry.operands if v.dtype.is_float)
        views = [(v, leaf) for v, leaf in captures.leaves if id(v) in needed]
        dependent = {id(v) for v, _ in views}
        propagate(dependent, differentiable)
        leaves = {leaf for _, leaf in views}
        tensors = tuple(captures.alias_guard.representatives())
        regions = {s.region for s in changed}
        return cls(
            tensors,
            tuple(t.variable.leaf in leaves for t in tensors),
            tuple(region_of(t) in regions for t in tensors),
            tuple(number in dependent for number in given),
        )


def propagate(seen: set[int], tape: Iterable[Entry]) -> None:
    """Adds to the identities of values those of all that a tape says gradients flow to them from."""
    for entry in tape:
        if _is_differentiable(entry) and any(id(v) in seen for v in entry.operands):
            seen.update(id(r) for r in entry.results if r.dtype.is_float)


def _is_differentiable(entry: Entry) -> bool:
    """Whether gradients may go through an entry."""
    return not (isinstance(entry, Opaque) or (isinstance(entry, Call) and entry.record.grad is zero_grad))
