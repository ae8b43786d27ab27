"""Calls on a device whose tensors from outside have the arrays of the call before: one look at these says so.

Guards look whether tensors lie in memory as they did, and a program whether arrays are those of its last run. Where
the program kept all of them since a run for which that guard held, they are one question.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.frontend.core.arrays import Data, is_on_ranks
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.alias_guards import Unaltered
from oneflow.frontend.tracing.guards import Guard
from oneflow.runtime.protocol import Executable, LastRun, Seen


class GuardFastPath:
    """What one specialization on a device knows of its tensors from outside, those at `numbers` among all inputs."""

    def __init__(
        self,
        guards: Sequence[Guard],
        executable: Executable,
        tensors: Sequence[EagerTensor],
        numbers: Sequence[int],
    ) -> None:
        found = next((g.get for g in guards if isinstance(g.get, Unaltered)), None)
        self._unaltered = found if found is not None and found.looks_at(tensors) else None
        #: The other guards, which are looked at in any case.
        self.guards = [g for g in guards if g.get is not self._unaltered]
        self._executable, self._numbers = executable, numbers
        self.last_run: LastRun | None = None
        self._seen: Seen | None = None

    def seen(self, arrays: Sequence[Data]) -> Seen | None:
        """The tensors' arrays as those of the last run, if they are and the tensors have the leaves that they had."""
        seen = self._seen
        if seen is None or self._unaltered is None:
            return None
        return seen if seen.holds(arrays) and self._unaltered.has_leaves else None

    def holds(self, arrays: Sequence[Data]) -> bool:
        """Whether the tensors, whatever their arrays are now, lie as they did, and on no ranks."""
        unaltered = self._unaltered is None or self._unaltered()
        return unaltered and not any(map(is_on_ranks, arrays))

    def note(self, arrays: Sequence[Data]) -> None:
        """Notes that a run, for which all of that held and which is known as `last_run`, had those arrays."""
        self.last_run = last = self._executable.last_run
        seen = None if last is None or self._unaltered is None else last.seen(self._numbers)
        self._seen = seen if seen is not None and seen.holds(arrays) else None
