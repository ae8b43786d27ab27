"""Activity analysis: which results of a trace a gradient may flow from, and which captured tensors the gradient may
flow to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect.record import Call, zero_grad
from oneflow.dialect.reverse import Entry, OpaqueStep
from oneflow.frontend.eager.regions import region_of
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.capture import Captures
from oneflow.frontend.tracing.states import MemoryState


@dataclass(frozen=True)
class Activity:
    """Activity analysis: the values of one program that a gradient depends on.

    `tensors` are the captured tensors, one for each memory and leaf. `needs_grad` says which tensors get a gradient,
    `updated` which tensors the program updates, `results` from which result tensors a gradient may flow.
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
        """The activity of a trace.

        A backward walk over `tape` finds the leaves that `results` depend on, a forward walk the results that depend
        on leaves. `changed` are the states that the program updates.
        """
        differentiable = [e for e in tape if _is_differentiable(e)]
        result_ids = [id(r) for r in results]
        needed = set(result_ids)
        for entry in reversed(differentiable):
            if any(id(r) in needed for r in entry.results):
                needed.update(id(v) for v in entry.operands if v.dtype.is_inexact)
        views = [(v, leaf) for v, leaf in captures.leaves if id(v) in needed]
        dependent = {id(v) for v, _ in views}
        propagate(dependent, differentiable)
        leaves = {leaf for _, leaf in views}
        tensors = tuple(captures.guards.aliases.representatives())
        regions = {s.region for s in changed}
        return cls(
            tensors,
            tuple(t.variable.leaf in leaves for t in tensors),
            tuple(region_of(t) in regions for t in tensors),
            tuple(i in dependent for i in result_ids),
        )


def propagate(active: set[int], tape: Iterable[Entry]) -> None:
    """Adds to `active`, identities of values, every value of the tape that depends differentiably on a value in
    `active`.
    """
    for entry in tape:
        if _is_differentiable(entry) and any(id(v) in active for v in entry.operands):
            active.update(id(r) for r in entry.results if r.dtype.is_inexact)


def _is_differentiable(entry: Entry) -> bool:
    """Whether a gradient may flow through an entry of a tape."""
    return not (isinstance(entry, OpaqueStep) or (isinstance(entry, Call) and entry.record.grad is zero_grad))
