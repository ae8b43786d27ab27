"""Barriers that hide the producer of an operand from MLIR's element-wise fusion: regions that yield the operand."""

from __future__ import annotations

from oneflow.dialect._mlir import ir, scf
from oneflow.passes.walk import gather_named


def add_fusion_barrier(op: ir.Operation, operand: int) -> None:
    """Hides the producer of the operand with index `operand` from fusion."""
    value = op.operands[operand]
    with ir.InsertionPoint(op), op.location:
        region = ir.Operation.create(
            "scf.execute_region", [value.type], [], {"no_inline": ir.UnitAttr.get()}, regions=1
        )
        with ir.InsertionPoint(region.regions[0].blocks.append()):
            scf.YieldOp([value])
        op.operands[operand] = region.results[0]


def remove_fusion_barriers(module: ir.Module) -> None:
    """Replaces all barriers by what they yield."""
    for op in gather_named(module.operation, {"scf.execute_region"}):
        block = op.regions[0].blocks[0]
        op.results[0].replace_all_uses_with(block.operations[len(block.operations) - 1].operands[0])
        op.erase()
