"""The guard fast path: one comparison instead of the alias guard and the checks of a run.

The alias guard asks whether captured tensors share memory as they did; the executable asks whether its inputs are the
arrays of its last run. Where the executable still knows the arrays of a run for which the alias guard held, one
comparison of arrays answers both.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.frontend.core.arrays import Data, is_on_ranks
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.alias_guards import AliasGuard
from oneflow.frontend.tracing.guards import Guard
from oneflow.runtime.protocol import Executable, LastRun, Seen


class GuardFastPath:
    """What one specialization on a device knows about its captured tensors, which are the inputs `numbers` of the
    program.
    """

    def __init__(
        self,
        guards: Sequence[Guard],
        executable: Executable,
        tensors: Sequence[EagerTensor],
        numbers: Sequence[int],
    ) -> None:
        alias_guard = next((g.get for g in guards if isinstance(g.get, AliasGuard)), None)
        self._alias_guard = alias_guard if alias_guard is not None and alias_guard.covers_exactly(tensors) else None
        #: The other guards, which every call evaluates.
        self.guards = [g for g in guards if g.get is not self._alias_guard]
        self._executable, self._numbers = executable, numbers
        self.last_run: LastRun | None = None
        self._seen: Seen | None = None

    def seen(self, arrays: Sequence[Data]) -> Seen | None:
        """The record of the last run, if `arrays` are those of that run and every tensor has the leaf that it was
        captured with; else None.
        """
        seen = self._seen
        if seen is None or self._alias_guard is None:
            return None
        return seen if seen.holds(arrays) and self._alias_guard.leaves_match else None

    def holds(self, arrays: Sequence[Data]) -> bool:
        """Whether the alias guard holds for the tensors as they are now, and none of their arrays is global."""
        unaliased = self._alias_guard is None or self._alias_guard()
        return unaliased and not any(map(is_on_ranks, arrays))

    def note(self, arrays: Sequence[Data]) -> None:
        """Takes `arrays` as those of the last run of the executable, for which all guards held."""
        self.last_run = last = self._executable.last_run
        seen = None if last is None or self._alias_guard is None else last.seen(self._numbers)
        self._seen = seen if seen is not None and seen.holds(arrays) else None
