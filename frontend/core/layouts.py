"""Layouts of traced functions: the placements of a program, and the SBP annotations of its arguments and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import NdSbp, write_nd_sbp
from oneflow.passes.sbp import annotations as sbp_annotations
from oneflow.passes.sbp.submeshes import WHOLE, crosses, placement_of, write_submeshes
from oneflow.runtime.global_array import Placement

#: The placement of an argument or result, None for the home, and its layout, None for a layout to be inferred.
ValueLayout = tuple[Placement | None, NdSbp | None]


@dataclass(frozen=True)
class ProgramPlacements:
    """The placements of a program.

    `home` is the placement of the mesh of the program, and of values without a placement; `named` are parts of the
    mesh, by the names in the program.
    """

    home: Placement
    named: Mapping[str, Placement] = field(default_factory=dict)

    def name(self, placement: Placement | None) -> str | None:
        """The name of a placement; None for the home, and for None."""
        return next((n for n, p in self.named.items() if p == placement), None)


@dataclass
class PlacementCollector:
    """The placements that occur while a function is traced; `default` is the placement of tensors without one."""

    default: Placement | None
    known: list[Placement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.add(self.default)

    def add(self, placement: Placement | None) -> str:
        """The name of a placement, "" for None.

        Raises:
            ValueError: its ranks are on another kind of device than the ranks of the other placements.
        """
        if placement is None:
            return ""
        if placement not in self.known:
            self.known.append(placement)
        if placement.type != self.known[0].type:
            raise ValueError(f"expected placements of one type in a function, got {self.known[0]} and {placement}")
        return f"p{self.known.index(placement)}"

    def named(self, name: str) -> Placement:
        """The placement of a name that `add` returned."""
        return self.known[int(name.removeprefix("p"))]

    def with_axes_of(self, sbp: object) -> Placement | None:
        """A placement whose mesh has as many axes as a layout; else any placement, None without placements."""
        axes = len(sbp) if isinstance(sbp, Sequence) else 1
        return next((p for p in self.known if len(p.mesh) == axes), next(iter(self.known), None))

    def program_placements(self) -> ProgramPlacements | None:
        """All placements of the program; None where no tensor is global."""
        if len(self.known) < 2:
            return ProgramPlacements(self.known[0]) if self.known else None
        ranks = sorted({r for p in self.known for r in p.members})
        covers = self.default is not None and set(ranks) == set(self.default.members)
        home = self.default if self.default is not None and covers else Placement(self.known[0].type, ranks)
        return ProgramPlacements(home, {f"p{i}": p for i, p in enumerate(self.known) if p != self.default})


def annotate(
    entry: ir.Operation,
    program_placements: ProgramPlacements,
    arguments: Sequence[ValueLayout],
    results: Sequence[ValueLayout],
) -> None:
    """Writes the placements as attributes of a module, and the layouts of the arguments and results of its entry."""
    module, at = entry.parent, program_placements.home.members.index
    assert module is not None
    sbp_annotations.write_mesh(module, program_placements.home.mesh)
    if program_placements.named:
        ranks = {name: np.vectorize(at)(p.ranks) for name, p in program_placements.named.items()}
        write_submeshes(module, ranks)
    _name_placements(entry, program_placements)
    for side, layouts in ((sbp_annotations.ARGUMENTS, arguments), (sbp_annotations.RESULTS, results)):
        attributes_of_values = [_layout_attributes(program_placements, *at) for at in layouts]
        sbp_annotations.annotate_values(entry, side, len(attributes_of_values), attributes_of_values.__getitem__)


def _layout_attributes(
    program_placements: ProgramPlacements, placement: Placement | None, nd: NdSbp | None
) -> dict[str, ir.Attribute]:
    name = program_placements.name(placement)
    attributes = {} if name is None else {sbp_annotations.PLACEMENT: ir.StringAttr.get(name)}
    return attributes if nd is None else {sbp_annotations.ND_SBP: write_nd_sbp(nd), **attributes}


def _name_placements(entry: ir.Operation, program_placements: ProgramPlacements) -> None:
    """Removes the placement of casts where there is only one, and sets the fixed name on casts to the home."""

    def visit(op: ir.Operation) -> ir.WalkResult:
        if crosses(op) and placement_of(op) not in program_placements.named:
            if program_placements.named:
                op.attributes["placement"] = ir.StringAttr.get(WHOLE)
            else:
                del op.attributes["placement"]
        return ir.WalkResult.ADVANCE

    entry.walk(visit)
