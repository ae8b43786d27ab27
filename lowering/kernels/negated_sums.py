"""Sums of negated elements, which MLIR's canonicalization writes as differences.

    acc + (-x)   ->   acc - x        canonicalization
    acc - x      ->   acc + (-x)     this module, where acc is the accumulator of a reduction

Reductions are split, vectorized and recognized by the operation that combines two partial results, which is a sum.
"""

from __future__ import annotations

from collections.abc import Iterator

from oneflow.dialect._mlir import arith, ir
from oneflow.passes.walk import gather_named


def restore_sums(module: ir.Module) -> None:
    """Rewrites every such difference in a module."""
    for op in gather_named(module.operation, {"linalg.generic"}):
        for difference in list(_differences(op)):
            _restore(difference)


def _differences(op: ir.Operation) -> Iterator[ir.Operation]:
    """The operations of a body that yield an accumulator minus an element."""
    block = op.regions[0].blocks[0]
    for index, value in enumerate(block.operations[len(block.operations) - 1].operands):
        accumulator = block.arguments[len(block.arguments) - len(op.results) + index]
        if not isinstance(value, ir.BlockArgument) and value.owner.name == "arith.subf":
            left, right = value.owner.operands
            if left == accumulator and right != accumulator:
                yield value.owner


def _restore(difference: ir.Operation) -> None:
    accumulator, element = difference.operands
    with ir.InsertionPoint(difference), difference.location:
        flags = difference.attributes["fastmath"]
        total = arith.AddFOp(accumulator, arith.NegFOp(element).result, fastmath=flags).result
    difference.results[0].replace_all_uses_with(total)
    difference.erase()
