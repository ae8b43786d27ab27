"""How the tensors of a traced function lie on ranks: `x.to_global(..)`, and annotations of arguments and results.

Imports `dispatch`, the annotations of `passes.sbp` and `runtime.global_array`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import NdSbp, write_nd_sbp
from oneflow.passes.sbp import annotations as notes
from oneflow.runtime.global_array import Placement


def one_placement(known: Placement | None, given: Placement | None, fail: Any) -> Placement | None:
    """The placement of a function, of which one is known and another may be given.

    Raises:
        Exception: they differ; made by `fail`.
    """
    if known is None or given is None or known == given:
        return known or given
    raise fail(
        f"expected all tensors of the function on one placement, got {known} and {given}; "
        "move them there with x.to_global(placement, sbp) before the call"
    )


def annotate(
    entry: ir.Operation, placement: Placement, arguments: Sequence[NdSbp | None], results: Sequence[NdSbp | None]
) -> None:
    """States the mesh of a module, and how arguments and results of its entry lie, where that is given."""
    module = entry.parent
    assert module is not None
    notes.write_mesh(module, placement.mesh)
    for side, layouts in ((notes.ARGUMENTS, arguments), (notes.RESULTS, results)):
        stated = [{} if nd is None else {notes.ND_SBP: write_nd_sbp(nd)} for nd in layouts]
        notes.annotate_values(entry, side, len(layouts), stated.__getitem__)
