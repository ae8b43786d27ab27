"""All ranks as threads of one process: for tests, and for meshes larger than the machine.

Members of a group publish their arrays, wait for each other, and copy what they need. Sums are computed in the order
of the ranks.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from oneflow.runtime.collectives.mpi import timeout
from oneflow.runtime.collectives.transport import Array, Messages, Transport, World, WorldError

T = TypeVar("T")


class _Rendezvous:
    """The slots and the barrier of one group."""

    def __init__(self, count: int) -> None:
        self.slots: list[Any] = [None] * count
        self.barrier = threading.Barrier(count, timeout=timeout())


class ThreadTransport(Transport):
    """Collectives of one thread with the other threads of its group."""

    def __init__(self, rendezvous: _Rendezvous, index: int) -> None:
        self._rendezvous, self._index = rendezvous, index

    @contextmanager
    def _exchange(self, contributions: Any) -> Iterator[list[Any]]:
        """The contributions of all members, valid within the block.

        Raises:
            WorldError: another rank has failed.
        """
        try:
            self._rendezvous.slots[self._index] = contributions
            self._rendezvous.barrier.wait()
            yield list(self._rendezvous.slots)
            self._rendezvous.barrier.wait()
        except threading.BrokenBarrierError:
            raise WorldError("another rank has failed, or does not reach this collective") from None

    def all_reduce(self, source: Array, target: Array, reduce: str = "sum") -> None:
        """The sum, in the order of the ranks, or the maximum."""
        with self._exchange(source) as terms:
            total = np.maximum.reduce(terms) if reduce == "max" else _sum(terms)
        target[:] = total

    def reduce_scatter(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """The sum of the elements of this member."""
        end = sum(counts[: self._index + 1])
        with self._exchange(source) as terms:
            target[:] = _sum([t[end - counts[self._index] : end] for t in terms])

    def all_gather(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """All shards, copied."""
        with self._exchange(source) as shards:
            np.concatenate(shards, out=target)

    def all_to_all(self, source: Array, target: Array, sent: Sequence[int], received: Sequence[int]) -> None:
        """The elements that all members send to this member, copied."""
        shards = np.split(source, list(itertools.accumulate(sent))[:-1])
        with self._exchange(shards) as contributions:
            np.concatenate([p[self._index] for p in contributions], out=target)

    def exchange(self, sends: Messages, receives: Messages) -> None:
        """Messages between two members keep their order."""
        with self._exchange(sends) as contributions:
            arriving = {
                sender: iter([a for to, a in transfers if to == self._index])
                for sender, transfers in enumerate(contributions)
            }
            for sender, into in receives:
                into[:] = next(arriving[sender])

    def broadcast(self, array: Array, root: int) -> None:
        """A copy of the array of the root."""
        with self._exchange(array) as arrays:
            if self._index != root:
                array[:] = arrays[root]


def _sum(terms: Sequence[Array]) -> Array:
    total = terms[0].copy()
    with np.errstate(all="ignore"):
        for term in terms[1:]:
            total += term
    return total


class ThreadWorld(World):
    """A world whose ranks are all threads of this process."""

    def __init__(self, size: int) -> None:
        self.size, self.local_ranks = size, tuple(range(size))
        self._rendezvous: dict[tuple[int, ...], _Rendezvous] = {}
        self._lock = threading.Lock()

    def transport(self, rank: int, members: Sequence[int]) -> Transport:
        """The transport to other threads."""
        with self._lock:
            rendezvous = self._rendezvous.setdefault(tuple(members), _Rendezvous(len(members)))
        return ThreadTransport(rendezvous, members.index(rank))

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Runs every task in a thread, a single one in this thread; after a failure the other tasks do not wait.

        Raises:
            Exception: the first exception that a task raised.
        """
        if len(tasks) == 1:
            return [tasks[0]()]
        failures: list[BaseException] = []

        def guarded(task: Callable[[], T]) -> T | None:
            try:
                return task()
            except BaseException as error:
                failures.append(error)
                for rendezvous in list(self._rendezvous.values()):
                    rendezvous.barrier.abort()
                return None

        with ThreadPoolExecutor(len(tasks)) as pool:
            results = list(pool.map(guarded, tasks))
        if failures:
            for rendezvous in self._rendezvous.values():
                rendezvous.barrier.reset()
            raise failures[0]
        return results  # type: ignore[return-value]

    def gather(self, text: str, why: str) -> list[str]:
        """The text of every rank, which is the same in one process."""
        return [text] * self.size
