"""What carries collectives out: worlds of ranks, and the way between the members of one group of them.

A `World` is all ranks of a job; one process runs one of them (`mpi`) or all (`threads`). A `Transport` moves and
adds flat, contiguous arrays between the members of a group; packing pieces of tensors is done above it
(`operations`). Imports NumPy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import numpy as np

T = TypeVar("T")
Array = np.ndarray
#: One side of an exchange: which members, and the arrays that go to them or come from them.
Parcels = Sequence[tuple[int, Array]]


class WorldError(RuntimeError):
    """Ranks that do not fit together: other programs, other sizes, a rank that failed or did not come."""


class Transport(ABC):
    """One rank's way to the members of a group, which are numbered from 0; all of them call the same method.

    Arrays are flat and contiguous. Sums are of element types that are added as they are: no 16-bit floats.
    """

    @abstractmethod
    def all_reduce(self, source: Array, target: Array, reduce: str = "sum") -> None:
        """Puts the sum (or "max", of integers) of all members' `source` into every `target`."""

    @abstractmethod
    def reduce_scatter(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """Puts the sum of all members' `source` in pieces of `counts` elements into the members' `target`."""

    @abstractmethod
    def all_gather(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """Puts all members' `source`, of `counts` elements, one behind the other into every `target`."""

    @abstractmethod
    def all_to_all(self, source: Array, target: Array, sent: Sequence[int], received: Sequence[int]) -> None:
        """Sends member i the next `sent[i]` elements of `source`; `target` gets `received[i]` from member i."""

    @abstractmethod
    def exchange(self, sends: Parcels, receives: Parcels) -> None:
        """Sends arrays to members, and receives arrays from members."""

    @abstractmethod
    def broadcast(self, array: Array, root: int) -> None:
        """Makes every member's `array` that of member `root`."""


class World(ABC):
    """All ranks of a job.

    Attributes:
        size: how many there are.
        here: those that this process runs.
    """

    size: int
    here: tuple[int, ...]

    @abstractmethod
    def transport(self, rank: int, members: Sequence[int]) -> Transport:
        """The way of `rank`, which this process runs, to `members`, of which it is one."""

    @abstractmethod
    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The results of tasks, one for each rank in `here`, which may meet."""

    @abstractmethod
    def gather(self, text: str) -> list[str]:
        """The texts of all ranks, the same for each that this process runs."""

    def step(self, rank: int, number: int, text: str) -> AbstractContextManager[None]:
        """Notes that `rank` is at a step, for the message should it not return."""
        return nullcontext()

    def agree(self, what: str, text: str) -> None:
        """Checks that all ranks have the same `text`.

        Raises:
            WorldError: they have not; the ranks are named.
        """
        found = self.gather(text)
        others = [r for r, t in enumerate(found) if t != found[0]]
        if others:
            raise WorldError(
                f"expected all ranks to have the same {what}, but rank {others[0]} has another than rank 0"
            )
