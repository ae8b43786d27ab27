"""`oneflow-check-collectives`: the ranks of a program issue the same collectives, without deadlock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import devices
from oneflow.dialect.record import Registry
from oneflow.passes.base import Pass, PassError
from oneflow.passes.registry import register_pass
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.collectives import check_same_collectives
from oneflow.passes.to_physical import physical


@register_pass
@dataclass(frozen=True)
class CheckCollectives(Pass):
    """Checks that all ranks issue the same collectives in the same order; changes nothing.

    The module is a program with layouts and boxing, from which the pass writes the programs of all ranks, or a module
    with these programs as nested modules:

        module attributes {oneflow.mesh = array<i64: 2>} {
          module attributes {oneflow.rank = 0 : i64} { func.func @main(..) .. }
          module attributes {oneflow.rank = 1 : i64} { func.func @main(..) .. }
        }

    The members of a group must agree on element types and on all attributes of a collective, except the rank's index.
    """

    name: ClassVar[str] = "oneflow-check-collectives"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Compares the ranks.

        Raises:
            PassError: ranks would wait for each other for ever, or the module is neither kind of program.
        """
        mesh = notes.read_mesh(module.operation)
        if notes.RANK in module.operation.attributes:
            raise PassError("expected a program of all ranks, or a module of each; got the program of one rank")
        programs = [o.operation for o in module.body.operations if o.operation.name == "builtin.module"]
        if not programs:
            physical_programs = [physical(module, rank, registry) for rank in range(devices(mesh))]
            check_same_collectives(physical_programs, registry, mesh)
            return
        ranks = [_rank(p) for p in programs]
        if sorted(ranks) != list(range(devices(mesh))):
            raise PassError(f"expected a module of each of the {devices(mesh)} ranks of the mesh, got ranks {ranks}")
        ordered = [p for _, p in sorted(zip(ranks, programs, strict=True), key=lambda pair: pair[0])]
        check_same_collectives(ordered, registry, mesh)


def _rank(program: ir.Operation) -> int:
    """The rank whose program a module is."""
    if notes.RANK not in program.attributes:
        raise PassError(f"expected the rank of each module: the attribute {notes.RANK}", program.location)
    return int(ir.IntegerAttr(program.attributes[notes.RANK]).value)
