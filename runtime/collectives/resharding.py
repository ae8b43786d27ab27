"""Resharding: a tensor moves from one sharding to another, on the same ranks or on others.

A rank receives the elements that it lacks from one of the ranks that have them. Exchanges within a program, changes
of placement and the gathering of results use this.
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
    """A layout `nd` on a `mesh` whose rank i is member `members[i]` of a group; by default member i."""

    mesh: Mesh
    nd: NdSbp
    members: tuple[int, ...] = ()

    def __str__(self) -> str:
        ranks = np.array(self.member_at).reshape(self.mesh).tolist()
        return f"ranks {ranks} as {format_nd_sbp(self.nd)}"

    @functools.cached_property
    def member_at(self) -> tuple[int, ...]:
        """The member at each index of the mesh."""
        return self.members or tuple(range(devices(self.mesh)))

    def region(self, shape: tuple[int, ...], index: int) -> Region:
        """The region of a tensor of `shape` at an index of the mesh."""
        return local_region(shape, self.nd, self.mesh, index)

    @functools.cached_property
    def replicated_axes(self) -> list[int]:
        """The mesh axes along which the tensor is replicated."""
        return [k for k, s in enumerate(self.nd) if s.kind != "S"]

    def owners(self) -> list[list[int]]:
        """For each distinct shard the mesh indices that have it."""
        indices = range(devices(self.mesh))
        return [g for p in indices if (g := group(p, self.mesh, self.replicated_axes))[0] == p]


@dataclass(frozen=True)
class Transfer:
    """A part of a tensor that one member sends to another."""

    sender: int
    receiver: int
    region: Region
    source: tuple[slice, ...]
    target: tuple[slice, ...]


@dataclass(frozen=True)
class Resharding:
    """Moves a tensor of `shape` from sharding `before` to `after`; neither has partial sums."""

    shape: tuple[int, ...]
    before: Sharding
    after: Sharding

    def transfers(self) -> Iterator[Transfer]:
        """All transfers, in the same order on all members."""
        owners = self.before.owners()
        for index, receiver in enumerate(self.after.member_at):
            wanted = self.after.region(self.shape, index)
            for indices in owners:
                owner = self._owner(index, indices)
                held = self.before.region(self.shape, owner)
                common = _intersection(held, wanted)
                if common is not None:
                    slices = _slices(common, held), _slices(common, wanted)
                    yield Transfer(self.before.member_at[owner], receiver, common, *slices)

    def _owner(self, index: int, indices: list[int]) -> int:
        """The owner among `indices` that sends to the receiver at `index`: the receiver itself if it is an owner; for
        equal meshes the owner nearest in the mesh.
        """
        own = [p for p in indices if self.before.member_at[p] == self.after.member_at[index]]
        if own:
            return own[0]
        if self.before.mesh != self.after.mesh:
            return indices[index % len(indices)]
        coordinates, owner_index = coordinate(index, self.before.mesh), 0
        for axis in self.before.replicated_axes:
            owner_index = owner_index * self.before.mesh[axis] + coordinates[axis]
        return indices[owner_index]

    def run(self, transport: Transport, me: int, source: Array | None, target: Array | None) -> None:
        """Runs the part of member `me`, which has `source` and receives `target`; either may be None."""
        sends: list[tuple[int, Array]] = []
        receives: list[tuple[int, Array]] = []
        filled: list[tuple[Any, Array]] = []
        for transfer in self.transfers():
            outgoing, incoming = _within(transfer.source), _within(transfer.target)
            if transfer.sender == transfer.receiver == me:
                assert source is not None and target is not None
                transport.copy(target[incoming], source[outgoing])
            elif transfer.sender == me:
                assert source is not None
                sends.append((transfer.receiver, _contiguous(transport, source[outgoing])))
            elif transfer.receiver == me:
                assert target is not None
                into = target[incoming]
                buffer = into if into.flags.c_contiguous else transport.empty(into.shape, into.dtype)
                receives.append((transfer.sender, buffer.reshape(-1)))
                if buffer is not into:
                    filled.append((into, buffer))
        transport.exchange(sends, receives)
        for into, buffer in filled:
            transport.copy(into, buffer)


def _contiguous(transport: Transport, part: Array) -> Array:
    """The elements of a view as a flat array; no copy of a contiguous view."""
    packed = part
    if not part.flags.c_contiguous:
        packed = transport.empty(part.shape, part.dtype)
        transport.copy(packed, part)
    return packed.reshape(-1)


def _within(slices: tuple[slice, ...]) -> Any:
    """An index that yields a view, also for an array of rank 0."""
    return (*slices, ...)


def _intersection(one: Region, other: Region) -> Region | None:
    """The intersection of two regions; None if it is empty."""
    common = []
    for (a, m), (b, n) in zip(one, other, strict=True):
        begin, end = max(a, b), min(a + m, b + n)
        if end <= begin:
            return None
        common.append((begin, end - begin))
    return tuple(common)


def _slices(part: Region, of: Region) -> tuple[slice, ...]:
    """The slices of region `part` within region `of`."""
    return tuple(slice(b - a, b - a + n) for (b, n), (a, _) in zip(part, of, strict=True))
