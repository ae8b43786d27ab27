"""All ranks in one process, one thread each: for tests, and for meshes larger than the machine.

Members of a group lay out what they have, wait for each other, and take what they need. Sums are formed in the order
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
from oneflow.runtime.collectives.transport import Array, Parcels, Transport, World, WorldError

T = TypeVar("T")


class _Table:
    """Where the members of one group meet."""

    def __init__(self, count: int) -> None:
        self.slots: list[Any] = [None] * count
        self.barrier = threading.Barrier(count, timeout=timeout())


class ThreadTransport(Transport):
    """One thread's way to the others of its group."""

    def __init__(self, table: _Table, index: int) -> None:
        self._table, self._index = table, index

    @contextmanager
    def _met(self, laid_out: Any) -> Iterator[list[Any]]:
        """What all members lay out; they may change it again when everybody has taken what they need.

        Raises:
            WorldError: another rank has failed.
        """
        try:
            self._table.slots[self._index] = laid_out
            self._table.barrier.wait()
            yield list(self._table.slots)
            self._table.barrier.wait()
        except threading.BrokenBarrierError:
            raise WorldError("another rank has failed, or does not come") from None

    def all_reduce(self, source: Array, target: Array, reduce: str = "sum") -> None:
        """The sum, in the order of the ranks, or the maximum."""
        with self._met(source) as terms:
            total = np.maximum.reduce(terms) if reduce == "max" else _sum(terms)
        target[:] = total

    def reduce_scatter(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """The same, of this member's elements."""
        end = sum(counts[: self._index + 1])
        with self._met(source) as terms:
            target[:] = _sum([t[end - counts[self._index] : end] for t in terms])

    def all_gather(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """All pieces, copied."""
        with self._met(source) as pieces:
            np.concatenate(pieces, out=target)

    def all_to_all(self, source: Array, target: Array, sent: Sequence[int], received: Sequence[int]) -> None:
        """The elements for this member out of everybody's, copied."""
        pieces = np.split(source, list(itertools.accumulate(sent))[:-1])
        with self._met(pieces) as laid_out:
            np.concatenate([p[self._index] for p in laid_out], out=target)

    def exchange(self, sends: Parcels, receives: Parcels) -> None:
        """Parcels between two members go in order."""
        with self._met(sends) as laid_out:
            arriving = {
                sender: iter([a for to, a in parcels if to == self._index]) for sender, parcels in enumerate(laid_out)
            }
            for sender, into in receives:
                into[:] = next(arriving[sender])

    def broadcast(self, array: Array, root: int) -> None:
        """A copy of the root's."""
        with self._met(array) as arrays:
            if self._index != root:
                array[:] = arrays[root]


def _sum(terms: Sequence[Array]) -> Array:
    total = terms[0].copy()
    with np.errstate(all="ignore"):
        for term in terms[1:]:
            total += term
    return total


class ThreadWorld(World):
    """All ranks in this process."""

    def __init__(self, size: int) -> None:
        self.size, self.here = size, tuple(range(size))
        self._tables: dict[tuple[int, ...], _Table] = {}
        self._lock = threading.Lock()

    def transport(self, rank: int, members: Sequence[int]) -> Transport:
        """The way to other threads."""
        with self._lock:
            table = self._tables.setdefault(tuple(members), _Table(len(members)))
        return ThreadTransport(table, members.index(rank))

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Runs every task in a thread; where one fails the others do not wait for it.

        Raises:
            Exception: what a task raised: the first that is not about another's failure.
        """
        failures: list[BaseException] = []

        def guarded(task: Callable[[], T]) -> T | None:
            try:
                return task()
            except BaseException as error:
                failures.append(error)
                for table in list(self._tables.values()):
                    table.barrier.abort()
                return None

        with ThreadPoolExecutor(len(tasks)) as pool:
            results = list(pool.map(guarded, tasks))
        if failures:
            for table in self._tables.values():
                table.barrier.reset()
            raise failures[0]
        return results  # type: ignore[return-value]

    def gather(self, text: str, why: str) -> list[str]:
        """The same text for every rank: one process has made it."""
        return [text] * self.size
