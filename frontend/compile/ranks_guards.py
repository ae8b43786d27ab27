"""Guards of warm calls of programs of several ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oneflow.frontend.compile.guarded_call import HostGuardCache, aliases_hold, current_tensor, memory_of
from oneflow.frontend.core.arrays import Data
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.alias_guards import AliasGuard


class RanksGuardCache(HostGuardCache):
    """The arrays for which the guards on captured tensors held last, for a program of several ranks.

    A global array keeps its placement and layout, so that equal arrays have equal layouts. `layouts_hold` says
    whether the captured tensors have the layouts of the trace.
    """

    def __init__(self, guard: AliasGuard, tensors: Sequence[EagerTensor], layouts_hold: Callable[[], bool]) -> None:
        super().__init__(guard, tensors, ())
        self._layouts_hold = layouts_hold

    def holds(self, arrays: Sequence[Data]) -> bool:
        """Whether the guards hold for the current tensors."""
        return self._layouts_hold() and aliases_hold(self._guard)


class UpdatingRanksGuardCache(RanksGuardCache):
    """The cache of a program that updates captured tensors."""

    def __init__(
        self,
        guard: AliasGuard,
        tensors: Sequence[EagerTensor],
        layouts_hold: Callable[[], bool],
        updated: Sequence[EagerTensor],
    ) -> None:
        super().__init__(guard, tensors, layouts_hold)
        self._updated = updated

    def disjoint(self, arguments: Sequence[Data], roots: Sequence[Data]) -> bool:
        """Whether no argument is a view, or the array of a tensor that the program updates."""
        updated = {id(part) for tensor in self._updated for part in memory_of(current_tensor(tensor))}
        return not roots and not any(id(array) in updated for array in arguments)
