"""Shards of arrays on the ranks of a mesh: cut by a layout, resharded between layouts, and gathered."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect.nd_sbp import Mesh, NdSbp, broadcast, group, local_region, local_shape
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.runtime.collectives.operations import run_collective
from oneflow.runtime.collectives.resharding import Resharding, Sharding
from oneflow.runtime.collectives.transport import Array, World
from oneflow.runtime.device_array import DeviceArray

#: The shards of one tensor, on the host or a GPU, by the mesh index of each rank that this process runs.
Shards = dict[int, Any]


@dataclass(frozen=True)
class MeshLayout:
    """The type and the layout of a tensor on a mesh."""

    desc: TensorDesc
    nd: NdSbp

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """The logical shape, which is static."""
        return tuple(d or 0 for d in self.desc.shape or ())

    def shard(self, array: Array, mesh: Mesh, mesh_index: int) -> Array:
        """The shard of a whole array at a mesh index. Of a partial sum the first rank of a group has all, the others
        zeros.
        """
        sums = [k for k, s in enumerate(self.nd) if s.kind == "P"]
        if group(mesh_index, mesh, sums)[0] != mesh_index:
            return self.zeros(mesh, mesh_index)
        region = local_region(self.shape, self.nd, mesh, mesh_index)
        within: Any = (*(slice(b, b + n) for b, n in region), ...)
        shard: Array = array[within]
        return shard

    def zeros(self, mesh: Mesh, mesh_index: int) -> Array:
        """A shard of zeros."""
        return np.zeros(local_shape(self.shape, self.nd, mesh, mesh_index), self.desc.dtype.numpy)


def collect(
    world: World, mesh: Mesh, ranks: Sequence[int], layout: MeshLayout, shards: Shards, root: int | None = None
) -> Array | None:
    """Gathers a whole array from `shards`: on all ranks, or on rank `root` alone (None on the others)."""
    receivers = tuple(range(world.size)) if root is None else (root,)
    first = world.local_ranks[0]
    if all(s.kind == "B" for s in layout.nd) and set(receivers) <= set(ranks):
        return on_host(world, shards[ranks.index(first)]) if first in receivers else None
    after = Sharding((len(receivers),), broadcast((1,)), receivers)
    moved = move_shards(world, layout, Sharding(mesh, layout.nd, tuple(ranks)), after, shards)
    return moved[receivers.index(first)] if first in receivers else None


def on_host(world: World, shard: Array | DeviceArray) -> Array:
    """A shard as a host array, after a device has computed it."""
    if not isinstance(shard, DeviceArray):
        return shard
    with world.step(world.local_ranks[0], 0, "waiting for a GPU"):
        return shard.numpy()


def move_shards(world: World, layout: MeshLayout, before: Sharding, after: Sharding, shards: Shards) -> Shards:
    """Reshards an array from `before` to `after`, which has no partial sums; returns the shards of this process.

    Raises:
        WorldError: other ranks make another call.
    """
    world.check_agreement(f"{layout.desc} moved from {before} to {after}", "")
    move, everyone = Resharding(layout.shape, before, after), tuple(range(world.size))
    sources, targets = ({r: p for p, r in enumerate(side.member_at)} for side in (before, after))

    def take(rank: int) -> Array | None:
        shard = target = None
        if rank in sources:
            shard = _reduced(world, before, sources[rank], on_host(world, shards[sources[rank]]))
        if rank in targets:
            shape = [n for _, n in after.region(layout.shape, targets[rank])]
            target = np.empty(shape, layout.desc.dtype.numpy)
        with world.step(rank, 0, "moving a tensor between ranks"):
            move.run(world.transport(rank, everyone), rank, shard, target)
        return target

    moved = world.run([functools.partial(take, r) for r in world.local_ranks])
    return {targets[r]: a for r, a in zip(world.local_ranks, moved, strict=True) if a is not None}


def _reduced(world: World, before: Sharding, mesh_index: int, shard: Array) -> Array:
    """The shard at a mesh index, all-reduced along the mesh axes of partial sums and maxima."""
    for letter, kind in (("P", "sum"), ("M", "max")):
        axes = [k for k, s in enumerate(before.nd) if s.kind == letter]
        members = [before.member_at[p] for p in group(mesh_index, before.mesh, axes)]
        if len(members) > 1:
            total, transport = np.empty_like(shard, order="C"), world.transport(before.member_at[mesh_index], members)
            with world.step(before.member_at[mesh_index], 0, "reducing the partial sums of a tensor"):
                run_collective(
                    "ccl_all_reduce", transport, {"reduce_type": kind}, [np.ascontiguousarray(shard)], [total]
                )
            shard = total
    return shard
