"""Placements within a program: parts of the program's mesh that are meshes themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import Mesh, devices
from oneflow.passes.base import PassError
from oneflow.passes.sbp import annotations as notes

#: The placement of all ranks of the mesh.
WHOLE = "mesh"


@dataclass(frozen=True)
class Submesh:
    """A part of the program's mesh in the shape of a mesh: `members` are ranks of the program."""

    name: str
    mesh: Mesh
    members: tuple[int, ...]

    @property
    def ranks(self) -> np.ndarray:
        """The members in the shape of the mesh."""
        return np.array(self.members).reshape(self.mesh)

    def index_of(self, rank: int) -> int | None:
        """The index of a rank of the program in this placement; None where the placement does not contain it."""
        return self.members.index(rank) if rank in self.members else None

    def __str__(self) -> str:
        return f"{self.name} (ranks {self.ranks.tolist()})"


Submeshes = Mapping[str, Submesh]


def read_submeshes(module: ir.Operation) -> dict[str, Submesh]:
    """The placements of a program by name, `mesh` first.

    Raises:
        PassError: the program has no mesh, or a placement is no array of different ranks of the mesh.
    """
    mesh = notes.read_mesh(module)
    submeshes = {WHOLE: Submesh(WHOLE, mesh, tuple(range(devices(mesh))))}
    if notes.PLACEMENTS in module.attributes:
        stated = module.attributes[notes.PLACEMENTS]
        if not isinstance(stated, ir.DictAttr):
            raise PassError(
                f"{notes.PLACEMENTS}: expected ranks by the name of a placement, got {stated}", module.location
            )
        for named in stated:
            submeshes[named.name] = _read_submesh(named, devices(mesh), module.location)
    return submeshes


def _read_submesh(named: ir.NamedAttribute, count: int, location: ir.Location) -> Submesh:
    ranks = _ranks_of(named.attr, count)
    members = tuple(int(r) for r in ranks.reshape(-1))
    if not ranks.ndim or len(set(members)) < len(members) or not all(0 <= r < count for r in members):
        raise PassError(
            f"{notes.PLACEMENTS}: expected {named.name} to be different ranks below {count}, the size of the mesh,"
            f" such as dense<[0, 1]> : tensor<2xi64>, got {named.attr}",
            location,
        )
    if named.name == WHOLE:
        raise PassError(f"{notes.PLACEMENTS}: expected other names than {WHOLE}, which are all ranks", location)
    return Submesh(named.name, notes.check_mesh(ranks.shape, str(named.attr)), members)


def _ranks_of(attribute: ir.Attribute, count: int) -> np.ndarray:
    """The integers of an attribute, of at most `count`; a scalar if the attribute is another one."""
    try:
        dense = ir.DenseIntElementsAttr(attribute)
        return np.array(dense) if len(dense) <= count else np.array(-1)
    except (TypeError, ValueError):
        return np.array(-1)


def write_submeshes(module: ir.Operation, submeshes: Mapping[str, np.ndarray]) -> None:
    """States the placements of a program: the ranks of each, in the shape of its mesh."""
    kind = ir.IntegerType.get_signless(64)
    attrs = {n: ir.DenseIntElementsAttr.get(np.asarray(r, np.int64), type=kind) for n, r in submeshes.items()}
    module.attributes[notes.PLACEMENTS] = ir.DictAttr.get(attrs)


def placements_of(function: ir.Operation, side: str, count: int) -> list[str]:
    """The placements of a function's arguments (`side` is `ARGUMENTS`) or results, `mesh` where none is stated."""
    if side not in function.attributes:
        return [WHOLE] * count
    dicts = function.attributes[side]
    return [ir.StringAttr(d[notes.PLACEMENT]).value if notes.PLACEMENT in d else WHOLE for d in dicts]


def placement_of(op: ir.Operation) -> str:
    """The placement of an operation and its results."""
    name = op.attributes.get(notes.PLACEMENT)
    if op.name == notes.PARALLEL_CAST and "placement" in op.attributes:
        name = op.attributes["placement"]
    return WHOLE if name is None else str(ir.StringAttr(name).value) or WHOLE


def write_placement(op: ir.Operation, placement: str) -> None:
    """States the placement of an operation."""
    if placement != WHOLE:
        op.attributes[notes.PLACEMENT] = ir.StringAttr.get(placement, op.context)


def crosses(op: ir.Operation) -> bool:
    """Whether an operation moves a tensor to another placement, once placements are assigned."""
    return op.name == notes.PARALLEL_CAST and "placement" in op.attributes
