"""Global arrays: arrays on a mesh of ranks, of which this process has shards."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.nd_sbp import Mesh, NdSbp, devices, format_nd_sbp, group, problem
from oneflow.dialect.sbp import S, Sbp
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.runtime.array_properties import ArrayProperties
from oneflow.runtime.backends import ACCELERATORS
from oneflow.runtime.collectives.nccl import gpus
from oneflow.runtime.collectives.resharding import Sharding
from oneflow.runtime.collectives.transport import World
from oneflow.runtime.device_array import DeviceArray
from oneflow.runtime.ranks import local_rank_and_size, world_of, world_size
from oneflow.runtime.shards import MeshLayout, Shards, collect, move_shards


@dataclass(frozen=True)
class Placement:
    """The ranks of a mesh: `Placement("cpu", ((0, 1), (2, 3)))`, or any nesting of lists.

    OneFlow's older form has the devices of each machine and the sizes of the mesh, and warns:
    `Placement(device_type="cpu", device_ids={0: [0, 1]}, hierarchy=(2,))`.

    Attributes:
        type: the kind of device: "cpu", or "cuda" for ranks that are processes with a GPU each.
        mesh: the sizes of the mesh axes.
        members: the rank of the job at each index of the mesh, in row-major order.
    """

    type: str
    mesh: Mesh
    members: tuple[int, ...]

    def __init__(
        self,
        type: str | None = None,
        ranks: Any = None,
        hierarchy: Any = None,
        *,
        device_type: str | None = None,
        device_ids: Any = None,
    ) -> None:
        if hierarchy is not None or device_type is not None or device_ids is not None or isinstance(ranks, dict):
            _warn_older("placement(device_type, device_ids, hierarchy)", "placement(type, ranks)")
            type = _one_of(type, device_type, "device_type")
            ranks = _ranks_of_machines(_one_of(ranks, device_ids, "device_ids"), hierarchy)
        try:
            array = np.asarray(ranks)
        except ValueError:  # rows of different lengths
            array = np.array(None)
        members = tuple(int(r) for r in array.reshape(-1)) if array.dtype.kind in "iu" else ()
        if type not in ("cpu", "cuda"):
            raise ValueError(f'expected the placement type "cpu" or "cuda", got {type!r}')
        if not array.ndim or not members or min(members) < 0 or len(set(members)) < len(members):
            raise ValueError(f"expected ranks such as [0, 1] or [[0, 1], [2, 3]], each once, got {ranks!r}")
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "mesh", array.shape)
        object.__setattr__(self, "members", members)

    @classmethod
    def all(cls, type: str = "cpu") -> Placement:
        """All ranks of the job, along one axis."""
        return cls(type, range(world_size()))

    @property
    def ranks(self) -> np.ndarray:
        """The ranks in the shape of the mesh."""
        return np.array(self.members).reshape(self.mesh)

    @property
    def device_type(self) -> str:
        """OneFlow's older name of `type`."""
        _warn_older("placement.device_type", "placement.type")
        return self.type

    @property
    def hierarchy(self) -> Mesh:
        """OneFlow's older name of `ranks.shape`."""
        _warn_older("placement.hierarchy", "placement.ranks.shape")
        return self.mesh

    @functools.cached_property
    def world(self) -> World:
        """The world of the ranks: the MPI job of this process, or threads of this process.

        Raises:
            WorldError: the job has fewer ranks.
        """
        return world_of(devices(self.mesh), self.members)

    def within(self, world: World) -> Placement:
        """The placement in a given world, such as one whose ranks are threads of this process."""
        placement = Placement(self.type, self.ranks)
        vars(placement)["world"] = world
        return placement

    def part(self, indices: np.ndarray) -> Placement:
        """The ranks at mesh indices, in the shape of the array of indices."""
        return Placement(self.type, np.array(self.members)[indices]).within(self.world)

    @property
    def local_indices(self) -> list[int]:
        """The mesh indices of the ranks that this process runs."""
        return [p for p, r in enumerate(self.members) if r in self.world.local_ranks]

    def layout(self, sbp: Any, desc: TensorDesc) -> NdSbp:
        """The layout for tensors of a type from one SBP, or one SBP for each mesh axis.

        Raises:
            TypeError: an entry is no SBP.
            ValueError: the number of SBPs or an axis does not match.
        """
        entries = (sbp,) if isinstance(sbp, Sbp) else tuple(sbp or ())
        if not entries or not all(isinstance(s, Sbp) for s in entries):
            raise TypeError(f"expected flow.sbp.split(axis), flow.sbp.broadcast or flow.sbp.partial_sum, got {sbp!r}")
        nd = tuple(S(s.axis + desc.rank) if s.axis is not None and s.axis < 0 else s for s in entries)
        wrong = problem(nd, desc, self.mesh)
        if wrong is not None:
            raise ValueError(f"{wrong} for {desc}")
        return nd

    def to_devices(self, shards: Shards) -> Shards:
        """Moves the shards of this process to its GPU if the placement is of type "cuda".

        Raises:
            WorldError: there are too few GPUs.
        """
        if self.type == "cpu":
            return shards
        return {p: ACCELERATORS[self.type].to_device(a, gpus(self.world).device.ordinal) for p, a in shards.items()}

    def sharding(self, nd: NdSbp) -> Sharding:
        """The sharding of a layout over the ranks of the job."""
        return Sharding(self.mesh, nd, self.members)

    def __str__(self) -> str:
        return f'oneflow.placement(type="{self.type}", ranks={self.ranks.tolist()})'

    __repr__ = __str__


def _warn_older(form: str, form_of_today: str) -> None:
    """Warns of a form that OneFlow deprecates, at the line that calls the caller."""
    warnings.warn(f"flow.{form} is deprecated in OneFlow; write flow.{form_of_today}", DeprecationWarning, 3)


def _one_of(value: Any, older: Any, name: str) -> Any:
    """An argument under one of its two names."""
    if value is not None and older is not None:
        raise TypeError(f"expected one value of {name}, got {value!r} and {older!r}")
    return older if value is None else value


def _ranks_of_machines(device_ids: Any, hierarchy: Any) -> np.ndarray:
    """The ranks of devices that are given by machine, as one number or several, in the shape of the mesh.

    Raises:
        ValueError: the devices are no numbers by machine, or their number is not that of the mesh.
    """
    listed = list(device_ids.items()) if isinstance(device_ids, dict) else []
    pairs = [(m, d) for m, ids in listed for d in (ids if isinstance(ids, (list, tuple, range)) else [ids])]
    if not pairs or not all(isinstance(number, int) and number >= 0 for pair in pairs for number in pair):
        raise ValueError(f"expected the devices of each machine, such as {{0: [0, 1]}}, got {device_ids!r}")
    ranks = np.array([machine * local_rank_and_size()[1] + device for machine, device in pairs])
    sizes = tuple(hierarchy or (len(pairs),))
    if math.prod(sizes) != len(pairs):
        raise ValueError(f"expected a hierarchy of {len(pairs)} ranks, got {hierarchy}")
    return ranks.reshape(sizes)


class GlobalArray(ArrayProperties):
    """An array on the ranks of a placement, with a layout of one SBP for each mesh axis.

    Attributes:
        placement: the ranks.
        layout: the type of the whole array, and its layout.
        shards: the shards of the ranks of this process, by mesh index.
        shape: the shape of the whole array.
        dtype: the element type.
        nd: the SBP for each mesh axis.
    """

    __slots__ = ("__weakref__", "dtype", "layout", "nd", "placement", "shape", "shards")

    def __init__(self, placement: Placement, layout: MeshLayout, shards: Shards) -> None:
        self.placement, self.layout, self.shards = placement, layout, shards
        self.shape, self.dtype, self.nd = layout.shape, layout.desc.dtype, layout.nd

    @classmethod
    def of(cls, array: np.ndarray, placement: Placement, nd: NdSbp) -> GlobalArray:
        """A global array from a whole array, which is the same on all ranks."""
        layout = MeshLayout(TensorDesc(array.shape, dtypes.from_numpy(array.dtype)), nd)
        shards = {p: np.array(layout.shard(array, placement.mesh, p), order="C") for p in placement.local_indices}
        return cls(placement, layout, placement.to_devices(shards))

    @classmethod
    def of_shard(cls, shard: np.ndarray | DeviceArray, placement: Placement, layout: MeshLayout) -> GlobalArray:
        """A global array from the shard of the first rank of this process.

        Other ranks of this process get copies of the shard where the array is replicated, and zeros elsewhere.
        """
        first, mesh = placement.local_indices[0], placement.mesh
        alike = group(first, mesh, [k for k, s in enumerate(layout.nd) if s.kind == "B"])
        others = placement.local_indices[1:]
        shards = {p: shard.copy() if p in alike else layout.zeros(mesh, p) for p in others}
        return cls(placement, layout, {first: shard, **shards})

    def __repr__(self) -> str:
        return f"{self.layout.desc}, {self.placement}, sbp={format_nd_sbp(self.nd)}"

    def numpy(self) -> np.ndarray:
        """The whole array on every rank. A collective call: all ranks have to make it.

        Raises:
            WorldError: ranks make different calls.
        """
        whole = self.gather()
        assert whole is not None
        return whole

    def gather(self, root: int | None = None) -> np.ndarray | None:
        """The whole array on every rank, or on rank `root` alone and None elsewhere. A collective call.

        Raises:
            WorldError: ranks make different calls.
        """
        at = self.placement
        return collect(at.world, at.mesh, at.members, self.layout, self.shards, root)

    def local_values(self) -> np.ndarray | None:
        """The whole array where the shards of this process determine it, without communication; else None."""
        if len(self.shards) == len(self.placement.members):
            return self.numpy()
        if not self.shards or any(s.kind != "B" for s in self.nd):
            return None
        shard = self.local()
        return shard.numpy() if isinstance(shard, DeviceArray) else shard

    def copy(self) -> GlobalArray:
        """A copy in new memory."""
        return GlobalArray(self.placement, self.layout, {p: a.copy() for p, a in self.shards.items()})

    def take(self, source: np.ndarray | GlobalArray) -> None:
        """Adopts the values of another array of the same shape and type; the shards may be shared."""
        if not isinstance(source, GlobalArray) or source.placement != self.placement or source.nd != self.nd:
            logical = source.numpy() if isinstance(source, GlobalArray) else source
            source = GlobalArray.of(logical, self.placement, self.nd)
        self.shards = source.shards

    def to(self, placement: Placement, nd: NdSbp) -> GlobalArray:
        """The array resharded to another placement or layout. A collective call: all ranks have to make it.

        A layout with partial sums gathers the whole array first.
        """
        if (placement, nd) == (self.placement, self.nd):
            return self
        if any(s.kind not in "SB" for s in nd):
            return GlobalArray.of(self.numpy(), placement, nd)
        layout = MeshLayout(self.layout.desc, nd)
        worlds = self.placement.world, placement.world
        made = move_shards(
            max(worlds, key=lambda w: w.size),
            self.layout,
            self.placement.sharding(self.nd),
            placement.sharding(nd),
            self.shards,
        )
        return GlobalArray(placement, layout, placement.to_devices(made))

    def local(self) -> np.ndarray | DeviceArray:
        """The shard of the first rank of this process.

        Raises:
            ValueError: this process has no shard.
        """
        if not self.shards:
            raise ValueError(f"expected a rank of {self.placement}, got rank {self.placement.world.local_ranks[0]}")
        shard: np.ndarray | DeviceArray = next(iter(self.shards.values()))
        return shard


def shared(array: np.ndarray, at: Placement, nd: NdSbp) -> np.ndarray:
    """Broadcasts the array of rank 0 of the job to every rank of a placement.

    Raises:
        WorldError: other ranks make another call.
    """
    world = at.world
    everyone: Sequence[int] = range(world.size)
    if len(world.local_ranks) == world.size:
        return array
    desc = TensorDesc(array.shape, dtypes.from_numpy(array.dtype))
    world.check_agreement(f"{desc} of rank 0 on {at.sharding(nd)}", "")
    copy = np.array(array, order="C")
    with world.step(world.local_ranks[0], 0, "broadcasting a tensor of rank 0"):
        world.transport(world.local_ranks[0], tuple(everyone)).broadcast(copy.reshape(-1), 0)
    return copy
