"""The memory of a run: what a program takes by its plan, and arguments whose memory results take."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from oneflow.dialect.tensor_desc import TensorDesc, count
from oneflow.runtime.arguments import address_of
from oneflow.runtime.spans import overlapping_pairs

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class Footprint:
    """The bytes of one run: of arguments, of results with memory of their make_writable, of results in the memory of
    arguments (`in_place`), and of the workspace. Tensors whose size only a run knows are not counted; `dynamic` says
    that there are some.
    """

    arguments: int
    results: int
    in_place: int
    workspace: int
    dynamic: bool = False

    @classmethod
    def of(
        cls, arguments: Sequence[TensorDesc], results: Sequence[TensorDesc], donated: Container[int], workspace: int
    ) -> Footprint:
        """The footprint of a program; results `donated` lie in arguments."""
        owned = [d for n, d in enumerate(results) if n not in donated]
        donated_descs = [d for n, d in enumerate(results) if n in donated]
        dynamic = not all(d.is_static for d in (*arguments, *results))
        return cls(_bytes(arguments), _bytes(owned), _bytes(donated_descs), workspace, dynamic)

    @property
    def total(self) -> int:
        """Everything that is there while the program runs."""
        return self.arguments + self.results + self.workspace

    def __str__(self) -> str:
        donated_descs = f" and {_readable(self.in_place)} in arguments" if self.in_place else ""
        more = ", and what has sizes known only in a run" if self.dynamic else ""
        return (
            f"arguments {_readable(self.arguments)}, results {_readable(self.results)}{donated_descs}, "
            f"workspace {_readable(self.workspace)}{more}"
        )


def _bytes(descs: Iterable[TensorDesc]) -> int:
    return sum((count(d.shape or ()) or 0) * d.dtype.numpy.itemsize for d in descs if d.is_static)


def _readable(size: float) -> str:
    unit = 0
    while size >= 1024 and unit + 1 < len(_UNITS):
        size, unit = size / 1024, unit + 1
    return f"{size:.4g} {_UNITS[unit]}"


class Donated:
    """The arguments that results lie in, by result; `make_writable` makes sure that a run may write into them."""

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        self.by_result: dict[int, int] = dict(pairs)
        self._disjoint: list[int] | None = None

    def make_writable(self, arrays: list[np.ndarray], addresses: list[int]) -> None:
        """Copies donated arrays that are read-only, or share memory with another argument, in both lists.

        Then the result is the copy. Arguments at the same places as in the last run are not looked at again.
        """
        for number in self.by_result.values():
            if not arrays[number].flags.writeable:
                _copy(arrays, addresses, number)
        if addresses == self._disjoint:
            return
        shared = _shared(arrays, addresses) & set(self.by_result.values())
        for number in shared:
            _copy(arrays, addresses, number)
        self._disjoint = None if shared else list(addresses)


def _copy(arrays: list[np.ndarray], addresses: list[int], number: int) -> None:
    arrays[number] = arrays[number].copy()
    addresses[number] = address_of(arrays[number])


def _shared(arrays: Sequence[np.ndarray], addresses: Sequence[int]) -> set[int]:
    """The arrays whose memory overlaps that of another."""
    spans = [(None, at, at + array.nbytes) for at, array in zip(addresses, arrays, strict=True)]
    return set(itertools.chain.from_iterable(overlapping_pairs(spans)))
