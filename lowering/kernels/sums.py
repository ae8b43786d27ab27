"""Element-wise sums of two tensors in linalg."""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.dialect._mlir import ir
from oneflow.passes.walk import gather_named

ADDITIONS = ("arith.addf", "arith.addi")
CONVERSIONS = ("arith.extf", "arith.truncf")


def sums_in(module: ir.Module) -> list[ir.Operation]:
    """Every sum of two tensors, in program order."""
    return list(filter(is_sum, gather_named(module.operation, {"linalg.generic"})))


def is_sum(op: ir.Operation) -> bool:
    """Whether each element of an operation is the sum of its operands' elements."""
    maps = [a.value for a in op.attributes["indexing_maps"]]
    if len(maps) != 3 or len({v.type for v in (*op.operands, *op.results)}) != 1:
        return False
    if not all(is_identity_map(m, op.results[0].type.shape) for m in maps):
        return False
    block = op.regions[0].blocks[0]
    yielded = _before_conversions(block.operations[len(block.operations) - 1].operands[0])
    if isinstance(yielded, ir.BlockArgument) or yielded.owner.name not in ADDITIONS:
        return False
    return {_before_conversions(v) for v in yielded.owner.operands} == set(list(block.arguments)[:2])


def is_identity_map(affine_map: ir.AffineMap, shape: Sequence[int]) -> bool:
    """Whether an indexing map is the identity, apart from dimensions of size 1."""
    if len(affine_map.results) != affine_map.n_dims:
        return False
    return all(d == ir.AffineExpr.get_dim(i) or shape[i] == 1 for i, d in enumerate(affine_map.results))


def _before_conversions(value: ir.Value) -> ir.Value:
    """The value before float conversions."""
    while not isinstance(value, ir.BlockArgument) and value.owner.name in CONVERSIONS:
        value = value.owner.operands[0]
    return value
