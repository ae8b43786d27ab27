"""Boxing steps as operators of one rank, and the check that all ranks issue the same collectives.

The operators named here are the collectives and the operators that slice and pad shards: `narrow`, `pad`,
`zero_like`. `insert_boxing.py` decides where a step is inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.nd_sbp import Mesh, NdSbp, Region, group, local_region, local_shape
from oneflow.dialect.record import Registry
from oneflow.dialect.sbp import B, Sbp
from oneflow.passes.base import PassError
from oneflow.passes.sbp.boxing import BoxingStep
from oneflow.passes.sbp.submeshes import Submesh


@dataclass(frozen=True)
class RankStep:
    """A rank's part in a step for a tensor of logical `shape`."""

    step: BoxingStep
    shape: tuple[int, ...]
    mesh: Mesh
    rank: int
    ranks: tuple[int, ...] = ()

    @property
    def members(self) -> list[int]:
        """The mesh ranks of the group."""
        return group(self.rank, self.mesh, self.step.axes)

    @property
    def group(self) -> dict[str, Any]:
        """The attributes of all collectives; `ranks` is present if the group belongs to a submesh."""
        members = self.members
        named = {"ranks": [self.ranks[m] for m in members]} if self.ranks else {}
        return {"mesh_axes": self.step.axes, "members": len(members), "index": members.index(self.rank), **named}

    @property
    def source_sbp(self) -> Sbp:
        """The SBP along the mesh axes that the step changes, before the step."""
        return self.step.source[self.step.axes[0]]

    @property
    def target_sbp(self) -> Sbp:
        """The SBP along the mesh axes that the step changes, after the step."""
        return self.step.target[self.step.axes[0]]

    def sizes(self, sbp: Sbp, nd: tuple[Sbp, ...]) -> tuple[int, ...]:
        """The sizes of the members' shards along the axis of `sbp`."""
        assert sbp.axis is not None, sbp
        return tuple(local_shape(self.shape, nd, self.mesh, m)[sbp.axis] for m in self.members)

    def regions(self) -> tuple[Region, Region]:
        """The regions of this rank's shards before and after the step."""
        before, after = (
            local_region(self.shape, n, self.mesh, self.rank) for n in (self.step.source, self.step.target)
        )
        return before, after


def emit_step(ops: Builder, x: Value, rank_step: RankStep) -> Value:
    """The shard of the rank after the step, from `x`, the shard before the step."""
    if rank_step.step.kind in BUCKETED_STEPS:
        return emit_joined_step(ops, [x], [rank_step])[0]
    return x if len(rank_step.members) == 1 else _RULES[rank_step.step.kind](ops, x, rank_step)


def emit_joined_step(ops: Builder, xs: Sequence[Value], rank_steps: Sequence[RankStep]) -> Sequence[Value]:
    """The shards of several tensors after one collective; the steps have one kind of `BUCKETED_STEPS` and the same
    axes.
    """
    first = rank_steps[0]
    return xs if len(first.members) == 1 else BUCKETED_STEPS[first.step.kind](ops, xs, rank_steps)


def _all_reduce(ops: Builder, xs: Sequence[Value], rank_steps: Sequence[RankStep]) -> Sequence[Value]:
    return ops.call("ccl_all_reduce", xs, **rank_steps[0].group)


def _all_max(ops: Builder, xs: Sequence[Value], rank_steps: Sequence[RankStep]) -> Sequence[Value]:
    return ops.call("ccl_all_reduce", xs, reduce_type="max", **rank_steps[0].group)


def _reduce_scatter(ops: Builder, xs: Sequence[Value], rank_steps: Sequence[RankStep]) -> Sequence[Value]:
    axis, sizes = rank_steps[0].target_sbp.axis, [n for p in rank_steps for n in p.sizes(p.target_sbp, p.step.target)]
    return ops.call("ccl_reduce_scatter", xs, axis=axis, sizes=sizes, **rank_steps[0].group)


def _all_gather(ops: Builder, xs: Sequence[Value], rank_steps: Sequence[RankStep]) -> Sequence[Value]:
    axis, sizes = rank_steps[0].source_sbp.axis, [n for p in rank_steps for n in p.sizes(p.source_sbp, p.step.source)]
    return ops.call("ccl_all_gather", xs, axis=axis, sizes=sizes, **rank_steps[0].group)


def _all_to_all(ops: Builder, x: Value, rank_step: RankStep) -> Value:
    before = {
        "in_axis": rank_step.source_sbp.axis,
        "in_sizes": rank_step.sizes(rank_step.source_sbp, rank_step.step.source),
    }
    after = {
        "out_axis": rank_step.target_sbp.axis,
        "out_sizes": rank_step.sizes(rank_step.target_sbp, rank_step.step.target),
    }
    return ops.call("ccl_all_to_all", x, **before, **after, **rank_step.group)[0]


def _send_recv(ops: Builder, x: Value, rank_step: RankStep) -> Value:
    axes, step = rank_step.step.axes, rank_step.step
    others = tuple(B if k in axes else s for k, s in enumerate(step.source))
    attrs = {
        "shape": local_shape(rank_step.shape, others, rank_step.mesh, rank_step.rank),
        "mesh": [rank_step.mesh[k] for k in axes],
        "src_nd_sbp": [step.source[k] for k in axes],
        "dst_nd_sbp": [step.target[k] for k in axes],
    }
    return ops.call("ccl_send_recv", x, **attrs, **rank_step.group)[0]


def _narrow(ops: Builder, x: Value, rank_step: RankStep) -> Value:
    before, after = rank_step.regions()
    axis = rank_step.target_sbp.axis or 0
    start = after[axis][0] - before[axis][0]
    return ops.call("narrow", x, dim=axis, start=start, length=after[axis][1])[0]


def _pad(ops: Builder, x: Value, rank_step: RankStep) -> Value:
    before, after = rank_step.regions()
    front = [b - a for (b, _), (a, _) in zip(before, after, strict=True)]
    back = [m - f - n for (_, n), (_, m), f in zip(before, after, front, strict=True)]
    return ops.call("pad", x, padding_before=front, padding_after=back)[0]


def _keep_on_first_rank(ops: Builder, x: Value, rank_step: RankStep) -> Value:
    return x if rank_step.rank == rank_step.members[0] else ops.call("zero_like", x)[0]


#: Steps that are one collective for several tensors.
BUCKETED_STEPS: dict[str, Callable[[Builder, Sequence[Value], Sequence[RankStep]], Sequence[Value]]] = {
    "all_reduce": _all_reduce,
    "all_max": _all_max,
    "reduce_scatter": _reduce_scatter,
    "all_gather": _all_gather,
}
_RULES: dict[str, Callable[[Builder, Value, RankStep], Value]] = {
    "all_to_all": _all_to_all,
    "send_recv": _send_recv,
    "narrow": _narrow,
    "pad": _pad,
    "keep_first": _keep_on_first_rank,
}


@dataclass(frozen=True)
class TensorTransfer:
    """The transfer of a tensor of logical `shape` from one placement to another."""

    shape: tuple[int, ...]
    source: Submesh
    source_nd: NdSbp
    target: Submesh
    target_nd: NdSbp

    @property
    def is_local(self) -> bool:
        """Whether all target ranks have the whole tensor already."""
        return all(s == B for s in self.source_nd) and set(self.target.members) <= set(self.source.members)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that take part."""
        ranks = self.target.members if self.is_local else (*self.source.members, *self.target.members)
        return tuple(sorted(set(ranks)))

    def emit_step(self, ops: Builder, x: Value, rank: int) -> Value:
        """The shard of the participant `rank` after the transfer, from its shard before."""
        if not self.is_local:
            return ops.call("ccl_send_recv", x, **self._attributes(rank))[0]
        region = local_region(self.shape, self.target_nd, self.target.mesh, self.target.members.index(rank))
        for dim, ((start, length), size) in enumerate(zip(region, self.shape, strict=True)):
            if length != size:
                x = ops.call("narrow", x, dim=dim, start=start, length=length)[0]
        return x

    def _attributes(self, rank: int) -> dict[str, Any]:
        ranks = self.ranks
        return {
            "shape": self.shape,
            "mesh": self.source.mesh,
            "src_nd_sbp": list(self.source_nd),
            "src_members": [ranks.index(r) for r in self.source.members],
            "dst_mesh": self.target.mesh,
            "dst_nd_sbp": list(self.target_nd),
            "dst_members": [ranks.index(r) for r in self.target.members],
            "mesh_axes": [],
            "members": len(ranks),
            "index": ranks.index(rank),
            "ranks": ranks,
        }


def collectives_of(module: ir.Module | ir.Operation, registry: Registry) -> list[ir.Operation]:
    """The collectives of one rank's program, in program order."""
    program = module.operation
    operations: list[ir.Operation] = []

    def visit(op: ir.Operation) -> None:
        if "collective" in dialect.record_of(op, registry).traits:
            operations.append(op)

    dialect.walk(program, visit)
    return operations


def check_same_collectives(modules: Sequence[ir.Module | ir.Operation], registry: Registry, mesh: Mesh) -> None:
    """Checks that the programs of a mesh, in the order of ranks, issue the same collectives in the same order.

    Members of one group agree in all attributes but the index, and in element types; others may differ in sizes.

    Raises:
        PassError: ranks issue different collectives, or disagree on one; the message names both and the location.
    """
    programs = [collectives_of(m, registry) for m in modules]
    next_index = [0] * len(programs)
    while any(n < len(p) for n, p in zip(next_index, programs, strict=True)):
        waiting = [p[n] if n < len(p) else None for n, p in zip(next_index, programs, strict=True)]
        matched = next((g for r in range(len(waiting)) if (g := _matching_members(waiting, r, mesh))), None)
        if matched is None:
            _fail_mismatch(programs, next_index, mesh)
            return
        for rank in matched:
            _check_agreement(next_index[rank], (matched[0], waiting[matched[0]]), (rank, waiting[rank]))
            next_index[rank] += 1


def members_of(op: ir.Operation, rank: int, mesh: Mesh) -> list[int]:
    """The ranks of the group of `rank` at a collective of its program."""
    stated = list(op.attributes["ranks"]) if "ranks" in op.attributes else []
    return stated or group(rank, mesh, list(op.attributes["mesh_axes"]))


def _matching_members(waiting: Sequence[ir.Operation | None], rank: int, mesh: Mesh) -> list[int] | None:
    """The group of the collective at which `rank` waits, if all members wait at it; else None."""
    op = waiting[rank]
    if op is None:
        return None
    members = members_of(op, rank, mesh)
    return (
        members
        if all((o := waiting[m]) is not None and collective_text(o) == collective_text(op) for m in members)
        else None
    )


def _fail_mismatch(programs: Sequence[Sequence[ir.Operation]], next_index: Sequence[int], mesh: Mesh) -> None:
    """Raises the error that names the waiting ranks.

    Raises:
        PassError: always.
    """
    rank = next(r for r, n in enumerate(next_index) if n < len(programs[r]))
    op = programs[rank][next_index[rank]]
    for other in members_of(op, rank, mesh):
        other_op = programs[other][next_index[other]] if next_index[other] < len(programs[other]) else None
        if other_op is None:
            raise PassError(
                f"expected all ranks to issue the same collectives, got {len(programs[rank])} on rank {rank}"
                f" and {len(programs[other])} on rank {other}: rank {rank} waits at {collective_text(op)}",
                op.location,
            )
        if collective_text(other_op) != collective_text(op):
            raise PassError(
                f"expected all ranks to issue the same collective {next_index[rank]}, got {collective_text(op)} on"
                f" rank {rank} and {collective_text(other_op)} on rank {other}",
                op.location,
            )


def _check_agreement(index: int, one: tuple[int, Any], two: tuple[int, Any]) -> None:
    """Checks that two members of one group agree on a collective."""
    (a, x), (b, y) = ((rank, _agreed_attributes(op)) for rank, op in (one, two))
    for name in sorted(x.keys() | y.keys()):
        if x.get(name) != y.get(name):
            raise PassError(
                f"collective {index}, {two[1].name}: expected ranks {a} and {b} to have the same {name},"
                f" got {x.get(name)} and {y.get(name)}",
                two[1].location,
            )


def _agreed_attributes(op: ir.Operation) -> dict[str, str]:
    """The attributes on which all members of a group have to agree."""
    stated = {name: str(op.attributes[name]) for name in op.attributes if name != "index"}
    element = str(ir.ShapedType(op.operands[0].type).element_type)
    return stated | {"element type": element, "number of tensors": str(len(op.operands))}


def collective_text(op: ir.Operation) -> str:
    """The collective and its group as text, equal on all members."""
    if "ranks" in op.attributes:
        return f"{op.name} between ranks {list(op.attributes['ranks'])}"
    return f"{op.name} along mesh axes {op.attributes['mesh_axes']}"
