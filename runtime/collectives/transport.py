"""Worlds of ranks, and transports: the communication between the members of a group of ranks.

A `World` has all ranks of a job; a process runs one of them (`mpi`) or all (`threads`). A `Transport` moves and adds
flat, contiguous arrays between the members of a group. `operations` packs the shards of tensors into such arrays.
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
#: The characters of differing lines that a message shows, and how many of them precede the first difference.
EXCERPT_LENGTH, EXCERPT_LEAD = 100, 60
ORDER = "all ranks have to make the same calls, of the same types and layouts, in the same order"
#: Packages whose stack frames do not belong to the user.
OWN_PACKAGES = __name__.partition(".")[0], "contextlib"
#: Packing buffers are multiples of this many bytes.
ALIGNMENT = 256
#: A side of an exchange: the members, and the arrays sent to them or received from them.
Messages = Sequence[tuple[int, Array]]


class WorldError(RuntimeError):
    """Ranks disagree (different programs or sizes), or a rank failed or did not arrive."""


class Transport(ABC):
    """The collectives of one rank within a group whose members are counted from 0; all members call the same method.

    Arrays are flat and contiguous. Arrays of a device transport are in device memory: nothing but `copy`, `clear`,
    `fetch` and `store` may access the elements.

    Attributes:
        sums_16_bit: whether 16-bit floats are added as they are.
        max_packed_bytes: tensors of at most this many bytes are packed into one call: the latency exceeds a copy.
    """

    sums_16_bit: bool = False
    max_packed_bytes: int = 1 << 14

    @property
    def host(self) -> Transport:
        """The transport between the same members for host arrays."""
        return self

    def on_stream(self, stream: int | None, workspace: int = 0) -> AbstractContextManager[None]:
        """The context of a collective: work is enqueued on a device stream, with a packing buffer at `workspace`."""
        return nullcontext()

    def grouped(self) -> AbstractContextManager[None]:
        """The context of calls that the transport may execute as one at its end."""
        return nullcontext()

    def empty(self, shape: Sequence[int], dtype: np.dtype) -> Array:
        """A packing buffer, valid until the collective is done."""
        return np.empty(shape, dtype)

    def copy(self, target: Array, source: Array) -> None:
        """Copies the elements of one view to another of the same shape."""
        target[...] = source

    def clear(self, target: Array) -> None:
        """Writes zeros to all elements of contiguous `target`."""
        target[...] = 0

    def fetch(self, array: Array) -> Array:
        """The elements on the host, read-only."""
        return array

    def store(self, target: Array, array: Array) -> None:
        """Writes elements of a host array to flat `target`."""
        target[...] = array

    @abstractmethod
    def all_reduce(self, source: Array, target: Array, reduce: str = "sum") -> None:
        """Puts the sum (or "max", of integers) of all members' `source` into every `target`."""

    @abstractmethod
    def reduce_scatter(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """Puts the sum of all members' `source` in shards of `counts` elements into the members' `target`."""

    @abstractmethod
    def all_gather(self, source: Array, target: Array, counts: Sequence[int]) -> None:
        """Puts all members' `source`, of `counts` elements, one after the other into every `target`."""

    @abstractmethod
    def all_to_all(self, source: Array, target: Array, sent: Sequence[int], received: Sequence[int]) -> None:
        """Sends member i the next `sent[i]` elements of `source`; `target` gets `received[i]` from member i."""

    @abstractmethod
    def exchange(self, sends: Messages, receives: Messages) -> None:
        """Sends arrays to members, and receives arrays from members."""

    @abstractmethod
    def broadcast(self, array: Array, root: int) -> None:
        """Overwrites every member's `array` with the array of member `root`."""


def aligned_bytes(size: int) -> int:
    """The bytes of a packing buffer for `size` bytes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class World(ABC):
    """All ranks of a job.

    Attributes:
        size: the number of ranks.
        local_ranks: the ranks that this process runs.
    """

    size: int
    local_ranks: tuple[int, ...]

    @abstractmethod
    def transport(self, rank: int, members: Sequence[int]) -> Transport:
        """The transport of `rank`, which this process runs, to `members`, which include `rank`."""

    @abstractmethod
    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The results of tasks, one for each rank in `local_ranks`; the tasks may communicate."""

    def local_rank_and_size(self) -> tuple[int, int]:
        """The local rank of this process (among the ranks of its node), and the number of local ranks.

        Raises:
            WorldError: this process runs several ranks.
        """
        if self.size == 1:
            return 0, 1
        raise WorldError(
            f"expected a process for each of the {self.size} ranks on GPUs; run the script with mpirun -n {self.size}"
            f" or oneflow-run --nproc {self.size}"
        )

    @abstractmethod
    def gather(self, text: str, why: str) -> list[str]:
        """The texts of all ranks; all ranks of this process have the same text. `why` names the step in messages."""

    def step(self, rank: int, index: int, text: str, count: int = 1) -> AbstractContextManager[None]:
        """Notes that `rank` is at a step, the last of `count`; the watchdog names the step if the step does not
        return.
        """
        return nullcontext()

    def check_agreement(self, what: str, text: str) -> None:
        """Checks that all ranks call this with the same `what` and the same `text`.

        Raises:
            WorldError: the ranks disagree; the message names the ranks and the difference.
        """
        line = _user_line()
        digests = self.gather(hashlib.sha256(f"{what}: {text}".encode()).hexdigest(), f"comparing {what} at {line}")
        others = [r for r, t in enumerate(digests) if t != digests[0]]
        if not others:
            return
        wanted = self.gather(what, "comparing calls")
        if len(set(wanted)) > 1:
            raise WorldError(_disagreement(self.gather(f"{what} at {line}", "comparing calls")))
        texts = self.gather(text, "comparing calls")
        one, other = _difference(texts[0], texts[others[0]])
        raise WorldError(
            f"expected all ranks to have the same {what}, but rank {others[0]} has {other!r} where rank 0 has"
            f" {one!r}; {ORDER}"
        )


def _disagreement(requests: Sequence[str]) -> str:
    """The message about ranks that make different calls."""
    ranks: dict[str, list[str]] = {}
    for rank, request in enumerate(requests):
        ranks.setdefault(request, []).append(str(rank))
    requests_of_ranks = [
        f"rank{'s' * (len(who) > 1)} {' and '.join(who)} request{'s' * (len(who) == 1)} {request}"
        for request, who in ranks.items()
    ]
    return f"expected all ranks to request the same, but {', '.join(requests_of_ranks)}; {ORDER}"


def _user_line() -> str:
    """The innermost line of the stack outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OWN_PACKAGES:
        frame = frame.f_back
    return "an unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _difference(one: str, other: str) -> tuple[str, str]:
    """Excerpts of the first lines in which two texts differ."""
    lines = itertools.zip_longest(one.splitlines(), other.splitlines(), fillvalue="")
    a, b = next((a.strip(), b.strip()) for a, b in lines if a != b)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
    begin = max(same - EXCERPT_LEAD, 0)
    return a[begin : begin + EXCERPT_LENGTH], b[begin : begin + EXCERPT_LENGTH]
