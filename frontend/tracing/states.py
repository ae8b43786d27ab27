"""The values of captured memory in a trace, whichever tensors update it.

Tensors with the same elements share one state, unless gradients distinguish the tensors. States that overlap are
synchronized when they are read: each state receives the values of later updates of common elements, and the gradients
of states of its family. States that do not overlap cost nothing, however many parts of one buffer there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from oneflow.dialect.reverse import InPlaceUpdate
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.regions import Region, region_of
from oneflow.frontend.eager.tape import Leaf, enable_grad, no_grad
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.alias_guards import GradientOf
from oneflow.runtime.spans import SpanMap

#: The most runs that are combined by slices; more runs are gathered element by element.
MAX_SLICES = 64
_updates = itertools.count(1)


class Key(NamedTuple):
    """The key of a state: the region of its elements, and the family of tensors that gradients connect."""

    region: Region
    gradient_family: int


def key_of(tensor: EagerTensor) -> Key:
    """The key of a tensor. Gradients connect a view with its base, unless the view was made by `detach()` or within
    `no_grad`; gradients connect no other tensors that share memory.
    """
    held: Any = tensor.current if isinstance(tensor, GradientOf) else tensor
    return Key(region_of(tensor), id(held.view_meta.root if held.is_view() and held.view_meta.recorded else held))


def with_gradient_of(old: Tensor, value: Tensor) -> Tensor:
    """`value` as a tensor whose gradient flows to `old`."""
    fresh, builder = Tensor(value.builder, value.handle, value.desc), cast(Any, value.builder)
    with enable_grad():
        builder.record_entry(InPlaceUpdate((old,), (fresh,)))
    return fresh


class MemoryState:
    """Captured elements: a tensor with these elements, the program input, and the current value in the trace.

    Each leaf in that memory has the value as a separate object in `views`, which gradients distinguish from the other
    leaves and from tensors that require no grad. `overlapping` are the states that share elements with this one.
    `last_update` is the number of the last update of this state. `synchronized_at` is the number of the last update,
    of this state or an overlapping state, that the value includes.
    """

    def __init__(
        self, tensor: EagerTensor, argument: int, made: Tensor, key: Key, overlapping: Sequence[MemoryState] = ()
    ) -> None:
        self.tensor, self.argument = tensor, argument
        self.region, self.gradient_family = key
        self.input = self.current = made
        self.views: dict[Leaf, Tensor] = {}
        self.last_update = self.synchronized_at = 0
        self.overlapping = list(overlapping)
        for state in overlapping:
            state.overlapping.append(self)

    def write(self, value: Tensor) -> None:
        """Sets the value of the state."""
        self.current = value
        self.views.clear()
        self.last_update = self.synchronized_at = next(_updates)

    def write_unrecorded(self, value: Tensor) -> None:
        """Sets the value of the state to one whose gradient flows on to the current value, as in eager mode."""
        self.synchronize()
        self.write(with_gradient_of(self.current, value))

    def synchronize(self) -> None:
        """Applies the values of later updates of overlapping states.

        Raises:
            TraceError: an overlapping state has elements of another type or at other offsets.
        """
        later = sorted(
            (s for s in self.overlapping if s.last_update > self.synchronized_at), key=lambda s: s.last_update
        )
        for is_known, states in itertools.groupby(later, lambda s: s.gradient_family == self.gradient_family):
            self._take_values(list(states), is_known)

    def _take_values(self, others: Sequence[MemoryState], is_known: bool) -> None:
        """Writes values of overlapping states into this state; gradients flow to states of the same family."""
        for state in others:
            self._check_fits(state)
        with enable_grad() if is_known else no_grad():
            value = _combined(self, others)
        self.current = value if is_known else with_gradient_of(self.current, value)
        self.views.clear()
        self.synchronized_at = others[-1].last_update

    def _check_fits(self, other: MemoryState) -> None:
        if not self.region.is_element_aligned(other.region):
            raise fail(
                "expected captured tensors that share memory to have the same elements in that memory, got "
                f"{self.input.desc}, which is read or updated after {other.input.desc} in its memory was updated: "
                "use one of the two alone in the function, or a copy (clone()) of one made outside of it"
            )


class MemoryStates(dict[Key, MemoryState]):
    """The states of a trace, or of a part of a trace in which tensors have substitute values."""

    def __init__(self) -> None:
        super().__init__()
        self._placed: SpanMap[MemoryState] = SpanMap()

    def overlapping(self, region: Region) -> list[MemoryState]:
        """The states that share elements with a region."""
        return [s for s in self._placed.find(region.span) if region.overlaps(s.region)]

    def add(self, key: Key, state: MemoryState) -> MemoryState:
        """Adds a state and returns the state."""
        self._placed.add(state.region.span, state)
        self[key] = state
        return state


def changed_states(states: Iterable[MemoryState]) -> list[MemoryState]:
    """The states that get another value, without states whose elements are all part of other changed states."""
    changed = [s for s in states if s.last_update and s.current.handle != s.input.handle]
    kept: set[MemoryState] = set()
    for state in sorted(changed, key=lambda s: (-s.region.size, s.tensor.is_view())):
        if not any(s in kept and s.region.covers(state.region) for s in state.overlapping):
            kept.add(state)
    return [s for s in changed if s in kept]


def _combined(state: MemoryState, later: Sequence[MemoryState]) -> Tensor:
    """The value of a state with the values of other states in common elements; later updates replace earlier
    updates.
    """
    positions = state.region.positions()
    chosen, count = np.arange(positions.size), positions.size
    for other in later:
        indices = other.region.find(positions)
        chosen = np.where(indices >= 0, indices + count, chosen)
        count += other.region.size
    return _gathered(state.current, [state.current, *(s.current for s in later)], chosen)


def _gathered(like: Tensor, sources: Sequence[Tensor], indices: np.ndarray) -> Tensor:
    """A tensor of the elements with these indices, counted over all sources."""
    builder: Any = like.builder
    flat = [builder.call("reshape", x, shape=[x.desc.element_count])[0] for x in sources]
    runs = list(_runs(sources, indices))
    if len(runs) > MAX_SLICES:
        elements = builder.call("gather", builder.call("cat", flat, axis=0)[0], indices, axis=0)[0]
    else:
        parts = [builder.call("narrow", flat[i], dim=0, start=at, length=n)[0] for i, at, n in runs]
        elements = builder.call("cat", parts, axis=0)[0] if len(parts) > 1 else parts[0]
    result: Tensor = builder.call("reshape", elements, shape=list(like.desc.shape or ()))[0]
    return result


def _runs(sources: Sequence[Tensor], indices: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """The indices as runs of consecutive elements: the source, the first element, and the count."""
    ends = np.cumsum([x.desc.element_count for x in sources])
    source = np.searchsorted(ends, indices, "right")
    cuts = np.flatnonzero((np.diff(indices) != 1) | (np.diff(source) != 0)) + 1
    for first, last in itertools.pairwise([0, *cuts.tolist(), len(indices)]):
        at = int(source[first])
        yield at, int(indices[first] - ends[at] + sources[at].desc.element_count), last - first
