"""Boxing steps as operators of one rank, and the check that all ranks issue the same collectives.

The operators named here are the collectives and what pieces are cut and padded with: `narrow`, `pad`,
`zero_like`. Imports `boxing`, `nd_sbp`, the builder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.nd_sbp import Mesh, Region, group, local_region, local_shape
from oneflow.dialect.record import Registry
from oneflow.dialect.sbp import B, Sbp
from oneflow.passes.base import PassError
from oneflow.passes.sbp.boxing import Step

COLLECTIVE = "ccl_"


@dataclass(frozen=True)
class Place:
    """One rank's part in a step for a tensor of logical `shape`."""

    step: Step
    shape: tuple[int, ...]
    mesh: Mesh
    rank: int

    @property
    def members(self) -> list[int]:
        """The ranks of the group."""
        return group(self.rank, self.mesh, self.step.axes)

    @property
    def group(self) -> dict[str, Any]:
        """The attributes that all collectives have."""
        members = self.members
        return {"mesh_axes": self.step.axes, "members": len(members), "index": members.index(self.rank)}

    @property
    def old(self) -> Sbp:
        """What the concerned mesh axes have before."""
        return self.step.source[self.step.axes[0]]

    @property
    def new(self) -> Sbp:
        """What they have after."""
        return self.step.target[self.step.axes[0]]

    def sizes(self, sbp: Sbp, nd: tuple[Sbp, ...]) -> tuple[int, ...]:
        """How long the members' pieces are along the axis of `sbp`."""
        assert sbp.axis is not None, sbp
        return tuple(local_shape(self.shape, nd, self.mesh, m)[sbp.axis] for m in self.members)

    def regions(self) -> tuple[Region, Region]:
        """Where this rank's pieces lie before and after."""
        before, after = (
            local_region(self.shape, n, self.mesh, self.rank) for n in (self.step.source, self.step.target)
        )
        return before, after


def carry_out(ops: Builder, x: Value, place: Place) -> Value:
    """What this rank has after the step, from `x`, which it has before."""
    if len(place.members) == 1:
        return x
    return _RULES[place.step.kind](ops, x, place)


def _all_reduce(ops: Builder, x: Value, place: Place) -> Value:
    return ops.call("ccl_all_reduce", x, **place.group)[0]


def _all_max(ops: Builder, x: Value, place: Place) -> Value:
    return ops.call("ccl_all_reduce", x, reduce_type="max", **place.group)[0]


def _reduce_scatter(ops: Builder, x: Value, place: Place) -> Value:
    sizes = place.sizes(place.new, place.step.target)
    return ops.call("ccl_reduce_scatter", x, axis=place.new.axis, sizes=sizes, **place.group)[0]


def _all_gather(ops: Builder, x: Value, place: Place) -> Value:
    sizes = place.sizes(place.old, place.step.source)
    return ops.call("ccl_all_gather", x, axis=place.old.axis, sizes=sizes, **place.group)[0]


def _all_to_all(ops: Builder, x: Value, place: Place) -> Value:
    before = {"in_axis": place.old.axis, "in_sizes": place.sizes(place.old, place.step.source)}
    after = {"out_axis": place.new.axis, "out_sizes": place.sizes(place.new, place.step.target)}
    return ops.call("ccl_all_to_all", x, **before, **after, **place.group)[0]


def _send_recv(ops: Builder, x: Value, place: Place) -> Value:
    axes, step = place.step.axes, place.step
    others = tuple(B if k in axes else s for k, s in enumerate(step.source))
    attrs = {
        "shape": local_shape(place.shape, others, place.mesh, place.rank),
        "mesh": [place.mesh[k] for k in axes],
        "src_nd_sbp": [step.source[k] for k in axes],
        "dst_nd_sbp": [step.target[k] for k in axes],
    }
    return ops.call("ccl_send_recv", x, **attrs, **place.group)[0]


def _narrow(ops: Builder, x: Value, place: Place) -> Value:
    before, after = place.regions()
    axis = place.new.axis or 0
    start = after[axis][0] - before[axis][0]
    return ops.call("narrow", x, dim=axis, start=start, length=after[axis][1])[0]


def _pad(ops: Builder, x: Value, place: Place) -> Value:
    before, after = place.regions()
    front = [b - a for (b, _), (a, _) in zip(before, after, strict=True)]
    back = [m - f - n for (_, n), (_, m), f in zip(before, after, front, strict=True)]
    return ops.call("pad", x, padding_before=front, padding_after=back)[0]


def _keep_first(ops: Builder, x: Value, place: Place) -> Value:
    return x if place.rank == place.members[0] else ops.call("zero_like", x)[0]


_RULES: dict[str, Callable[[Builder, Value, Place], Value]] = {
    "all_reduce": _all_reduce,
    "all_max": _all_max,
    "reduce_scatter": _reduce_scatter,
    "all_gather": _all_gather,
    "all_to_all": _all_to_all,
    "send_recv": _send_recv,
    "narrow": _narrow,
    "pad": _pad,
    "keep_first": _keep_first,
}


def collectives_of(module: ir.Module | ir.Operation, registry: Registry) -> list[ir.Operation]:
    """The collectives of one rank's program, in program order."""
    program = module.operation
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> None:
        if "collective" in dialect.record_of(op, registry).traits:
            found.append(op)

    dialect.walk(program, visit)
    return found


def check_same_collectives(modules: Sequence[ir.Module | ir.Operation], registry: Registry, mesh: Mesh) -> None:
    """Checks that the programs of all ranks of a mesh, in their order, issue the same collectives in the same order.

    Members of one group agree in all attributes but the index, and in element types; others may differ in sizes.

    Raises:
        PassError: ranks would not meet, or not understand each other; both and the place are named.
    """
    programs = [collectives_of(m, registry) for m in modules]
    counts = [len(p) for p in programs]
    if len(set(counts)) > 1:
        other = next(r for r, n in enumerate(counts) if n != counts[0])
        raise PassError(
            f"expected all ranks to issue the same collectives, got {counts[0]} on rank 0"
            f" and {counts[other]} on rank {other}"
        )
    for number, ops in enumerate(zip(*programs, strict=True)):
        _check_meeting(number, ops)
        for rank, op in enumerate(ops):
            first = group(rank, mesh, list(op.attributes["mesh_axes"]))[0]
            _check_agreement(number, (first, ops[first]), (rank, op))


def _check_agreement(number: int, one: tuple[int, ir.Operation], two: tuple[int, ir.Operation]) -> None:
    """Checks that two members of one group say the same of a collective."""
    (a, x), (b, y) = ((rank, _said(op)) for rank, op in (one, two))
    for name in sorted(x.keys() | y.keys()):
        if x.get(name) != y.get(name):
            raise PassError(
                f"collective {number}, {two[1].name}: expected ranks {a} and {b} to have the same {name},"
                f" got {x.get(name)} and {y.get(name)}",
                two[1].location,
            )


def _said(op: ir.Operation) -> dict[str, str]:
    """What all members of a group have to say alike."""
    stated = {name: str(op.attributes[name]) for name in op.attributes if name != "index"}
    return stated | {"element type": str(ir.RankedTensorType(op.operands[0].type).element_type)}


def meeting(op: ir.Operation) -> str:
    """Which collective this is, and with whom: the same on all ranks that meet."""
    return f"{op.name} along mesh axes {op.attributes['mesh_axes']}"


def _check_meeting(number: int, ops: Sequence[ir.Operation]) -> None:
    """Checks the collective that comes `number`-th on every rank."""
    meetings: dict[str, list[int]] = {}
    for rank, op in enumerate(ops):
        meetings.setdefault(meeting(op), []).append(rank)
    if len(meetings) > 1:
        (one, [a, *_]), (two, [b, *_]), *_ = meetings.items()
        raise PassError(
            f"collective {number}: rank {a} issues {one}, but rank {b} issues {two}",
            ops[a].location,
        )
