"""What carries collectives out: worlds of ranks, and the way between the members of one group of them.

A `World` is all ranks of a job; one process runs one of them (`mpi`) or all (`threads`). A `Transport` moves and
adds flat, contiguous arrays between the members of a group; packing pieces of tensors is done above it
(`operations`).
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import TypeVar

import numpy as np

T = TypeVar("T")
Array = np.ndarray
#: How much of lines that differ is shown: characters, and how many of them before the first that differs.
EXCERPT_LENGTH, EXCERPT_LEAD = 100, 60
ORDER = "all ranks have to make the same calls, of the same types and layouts, in the same order"
#: Packages whose frames are no user's.
OWN_PACKAGES = __name__.partition(".")[0], "contextlib"
#: Memory to pack into is taken in multiples of so many bytes.
ALIGNMENT = 256
#: One side of an exchange: which members, and the arrays that go to them or come from them.
Messages = Sequence[tuple[int, Array]]


class WorldError(RuntimeError):
    """Ranks that do not fit together: other programs, other sizes, a rank that failed or did not come."""


class Transport(ABC):
    """One rank's way to the members of a group, which are numbered from 0; all of them call the same method.

    Arrays are flat and contiguous. Sums are of element types that are added as they are: 16-bit floats where
    `sums_16_bit`. Tensors of at most `max_packed_bytes` bytes are packed to be one call: to wait for the others costs
    more than to copy them. `host` is the way for arrays on the host; where it is another, arrays are a device's, of
    which nothing but `copy`, `clear`, `fetch` and `store` may touch the elements.
    """

    sums_16_bit: bool = False
    max_packed_bytes: int = 1 << 14

    @property
    def host(self) -> Transport:
        """The way between the same members for arrays on the host."""
        return self

    def on_stream(self, stream: int | None, workspace: int = 0) -> AbstractContextManager[None]:
        """What a collective is carried out in: the order of a device's stream, with memory of it at `workspace`."""
        return nullcontext()

    def grouped(self) -> AbstractContextManager[None]:
        """What calls are made in that may be carried out as one when it ends."""
        return nullcontext()

    def empty(self, shape: Sequence[int], dtype: np.dtype) -> Array:
        """Memory to pack into, until the collective is done."""
        return np.empty(shape, dtype)

    def copy(self, target: Array, source: Array) -> None:
        """Copies the elements of one view to another of the same shape."""
        target[...] = source

    def clear(self, target: Array) -> None:
        """Writes zeros to all elements of contiguous `target`."""
        target[...] = 0

    def fetch(self, array: Array) -> Array:
        """The elements on the host; not to be written to."""
        return array

    def store(self, target: Array, array: Array) -> None:
        """Writes elements that the host has to flat `target`."""
        target[...] = array

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
    def exchange(self, sends: Messages, receives: Messages) -> None:
        """Sends arrays to members, and receives arrays from members."""

    @abstractmethod
    def broadcast(self, array: Array, root: int) -> None:
        """Makes every member's `array` that of member `root`."""


def aligned_bytes(size: int) -> int:
    """The bytes that are taken for `size` bytes of memory to pack into."""
    return -(-size // ALIGNMENT) * ALIGNMENT


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

    def local_rank(self) -> tuple[int, int]:
        """The number of this process's rank among those of this machine, and how many these are.

        Raises:
            WorldError: this process runs several.
        """
        raise WorldError(
            f"expected a process for each of the {self.size} ranks on GPUs; run them with mpirun -n {self.size}"
            f" or oneflow-run --nproc {self.size}"
        )

    @abstractmethod
    def gather(self, text: str, why: str) -> list[str]:
        """The texts of all ranks, the same for each that this process runs; `why` they are compared."""

    def step(self, rank: int, number: int, text: str, count: int = 1) -> AbstractContextManager[None]:
        """Notes that `rank` is at a step, the last of `count`, for the message should it not return."""
        return nullcontext()

    def agree(self, what: str, text: str) -> None:
        """Checks that all ranks want `what`, and have the same `text` for it.

        Raises:
            WorldError: they do not; the ranks are named, and where the texts differ or what they want.
        """
        found = self.gather(hashlib.sha256(f"{what}: {text}".encode()).hexdigest(), f"comparing {what}")
        others = [r for r, t in enumerate(found) if t != found[0]]
        if not others:
            return
        wanted = self.gather(what, "telling what is wanted")
        if len(set(wanted)) > 1:
            raise WorldError(_disagreement(self.gather(f"{what} at {_user_line()}", "telling what is wanted")))
        texts = self.gather(text, "telling what is wanted")
        one, other = _difference(texts[0], texts[others[0]])
        raise WorldError(
            f"expected all ranks to have the same {what}, but rank {others[0]} has {other!r} where rank 0 has"
            f" {one!r}; {ORDER}"
        )


def _disagreement(wishes: Sequence[str]) -> str:
    """The message about ranks that want different things."""
    ranks: dict[str, list[str]] = {}
    for rank, wish in enumerate(wishes):
        ranks.setdefault(wish, []).append(str(rank))
    told = [
        f"rank{'s' * (len(who) > 1)} {' and '.join(who)} want{'s' * (len(who) == 1)} {wish}"
        for wish, who in ranks.items()
    ]
    return f"expected all ranks to want the same, but {', '.join(told)}; {ORDER}"


def _user_line() -> str:
    """The line outside of this package that is being run."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OWN_PACKAGES:
        frame = frame.f_back
    return "an unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _difference(one: str, other: str) -> tuple[str, str]:
    """The first lines of two texts that differ, from shortly before they do."""
    lines = itertools.zip_longest(one.splitlines(), other.splitlines(), fillvalue="")
    a, b = next((a.strip(), b.strip()) for a, b in lines if a != b)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
    begin = max(same - EXCERPT_LEAD, 0)
    return a[begin : begin + EXCERPT_LENGTH], b[begin : begin + EXCERPT_LENGTH]
