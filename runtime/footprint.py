"""The memory footprint of a run, and donated arguments."""

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
    """The memory of one run in bytes.

    Attributes:
        arguments: the bytes of arguments.
        results: the bytes of results with memory of their own.
        in_place: the bytes of results in the memory of donated arguments.
        workspace: the bytes of the workspace.
        dynamic: whether there are tensors of dynamic size, which are not counted.
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
        """The footprint of a program; the results with indices in `donated` are in the memory of arguments."""
        owned = [d for n, d in enumerate(results) if n not in donated]
        donated_descs = [d for n, d in enumerate(results) if n in donated]
        dynamic = not all(d.is_static for d in (*arguments, *results))
        return cls(_bytes(arguments), _bytes(owned), _bytes(donated_descs), workspace, dynamic)

    @property
    def total(self) -> int:
        """The bytes of arguments, results and workspace."""
        return self.arguments + self.results + self.workspace

    def __str__(self) -> str:
        donated = f" and {_readable(self.in_place)} in arguments" if self.in_place else ""
        more = ", and what has sizes known only in a run" if self.dynamic else ""
        return (
            f"arguments {_readable(self.arguments)}, results {_readable(self.results)}{donated}, "
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
    """The donated arguments by result."""

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        self.by_result: dict[int, int] = dict(pairs)
        self._disjoint: list[int] | None = None

    def make_writable(self, arrays: list[np.ndarray], addresses: list[int]) -> None:
        """Replaces donated arrays that are read-only or overlap another argument by copies, in both lists.

        The result is then the copy. Arguments at the same addresses as in the last run are not checked again.
        """
        for index in self.by_result.values():
            if not arrays[index].flags.writeable:
                _copy(arrays, addresses, index)
        if addresses == self._disjoint:
            return
        shared = _shared(arrays, addresses) & set(self.by_result.values())
        for index in shared:
            _copy(arrays, addresses, index)
        self._disjoint = None if shared else list(addresses)


def _copy(arrays: list[np.ndarray], addresses: list[int], index: int) -> None:
    arrays[index] = arrays[index].copy()
    addresses[index] = address_of(arrays[index])


def _shared(arrays: Sequence[np.ndarray], addresses: Sequence[int]) -> set[int]:
    """The arrays whose memory overlaps the memory of another array."""
    spans = [(None, at, at + array.nbytes) for at, array in zip(addresses, arrays, strict=True)]
    return set(itertools.chain.from_iterable(overlapping_pairs(spans)))
