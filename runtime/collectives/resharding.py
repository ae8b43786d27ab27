"""Pieces of one tensor from how they lie on some ranks to how they shall lie on the same or on others.

What a rank needs and does not have it is sent by one of those that have it. Used for exchanges within a program,
for tensors that go from one placement to another, and for gathering results.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect.nd_sbp import Mesh, NdSbp, Region, coordinate, devices, format_nd_sbp, group, local_region
from oneflow.runtime.collectives.transport import Array, Transport


@dataclass(frozen=True)
class Sharding:
    """How a tensor lies: `nd` on a `mesh` whose rank i is `members[i]`; by default members are the mesh's ranks."""

    mesh: Mesh
    nd: NdSbp
    members: tuple[int, ...] = ()

    def __str__(self) -> str:
        ranks = np.array(self.at).reshape(self.mesh).tolist()
        return f"ranks {ranks} as {format_nd_sbp(self.nd)}"

    @functools.cached_property
    def at(self) -> tuple[int, ...]:
        """The member at each place of the mesh."""
        return self.members or tuple(range(devices(self.mesh)))

    def region(self, shape: tuple[int, ...], place: int) -> Region:
        """The piece at a place of the mesh, in a tensor of `shape`."""
        return local_region(shape, self.nd, self.mesh, place)

    @functools.cached_property
    def repeated(self) -> list[int]:
        """The mesh axes along which the tensor is repeated."""
        return [k for k, s in enumerate(self.nd) if s.kind != "S"]

    def owners(self) -> list[list[int]]:
        """For each different piece the places that have it."""
        places = range(devices(self.mesh))
        return [g for p in places if (g := group(p, self.mesh, self.repeated))[0] == p]


@dataclass(frozen=True)
class Transfer:
    """A part of a tensor that goes from one member to another."""

    sender: int
    receiver: int
    region: Region
    source: tuple[slice, ...]
    target: tuple[slice, ...]


@dataclass(frozen=True)
class Resharding:
    """A tensor of `shape` from `before` to `after`; neither has partial sums."""

    shape: tuple[int, ...]
    before: Sharding
    after: Sharding

    def transfers(self) -> Iterator[Transfer]:
        """What goes from whom to whom, in an order that all members agree on."""
        owners = self.before.owners()
        for place, receiver in enumerate(self.after.at):
            wanted = self.after.region(self.shape, place)
            for places in owners:
                owner = self._owner(place, places)
                held = self.before.region(self.shape, owner)
                common = _common(held, wanted)
                if common is not None:
                    slices = _slices(common, held), _slices(common, wanted)
                    yield Transfer(self.before.at[owner], receiver, common, *slices)

    def _owner(self, place: int, places: list[int]) -> int:
        """Which of the owners at `places` sends to the receiver at `place`: itself, or where meshes agree the one at
        its own place.
        """
        mine = [p for p in places if self.before.at[p] == self.after.at[place]]
        if mine:
            return mine[0]
        if self.before.mesh != self.after.mesh:
            return places[place % len(places)]
        at, index = coordinate(place, self.before.mesh), 0
        for axis in self.before.repeated:
            index = index * self.before.mesh[axis] + at[axis]
        return places[index]

    def carry_out(self, transport: Transport, me: int, source: Array | None, target: Array | None) -> None:
        """The part of member `me`, which has `source` and gets `target`, where it has or gets anything."""
        sends: list[tuple[int, Array]] = []
        receives: list[tuple[int, Array]] = []
        filled: list[tuple[Any, Array]] = []
        for transfer in self.transfers():
            there, here = _within(transfer.source), _within(transfer.target)
            if transfer.sender == transfer.receiver == me:
                assert source is not None and target is not None
                transport.copy(target[here], source[there])
            elif transfer.sender == me:
                assert source is not None
                sends.append((transfer.receiver, _contiguous(transport, source[there])))
            elif transfer.receiver == me:
                assert target is not None
                into = target[here]
                buffer = into if into.flags.c_contiguous else transport.empty(into.shape, into.dtype)
                receives.append((transfer.sender, buffer.reshape(-1)))
                if buffer is not into:
                    filled.append((into, buffer))
        transport.exchange(sends, receives)
        for into, buffer in filled:
            transport.copy(into, buffer)


def _contiguous(transport: Transport, part: Array) -> Array:
    """The elements of a view one behind the other; no copy where they lie so."""
    packed = part
    if not part.flags.c_contiguous:
        packed = transport.empty(part.shape, part.dtype)
        transport.copy(packed, part)
    return packed.reshape(-1)


def _within(slices: tuple[slice, ...]) -> Any:
    """As an index that leaves a view, also where no axis is."""
    return (*slices, ...)


def _common(one: Region, other: Region) -> Region | None:
    """Where two regions overlap; None where they do not."""
    common = []
    for (a, m), (b, n) in zip(one, other, strict=True):
        begin, end = max(a, b), min(a + m, b + n)
        if end <= begin:
            return None
        common.append((begin, end - begin))
    return tuple(common)


def _slices(part: Region, of: Region) -> tuple[slice, ...]:
    """Where `part` lies within the piece `of`."""
    return tuple(slice(b - a, b - a + n) for (b, n), (a, _) in zip(part, of, strict=True))
