"""The legality check before lowering: what no program may have."""

from __future__ import annotations

import math
from collections.abc import Iterator

from oneflow.dialect import dtypes
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.passes.base import PassError
from oneflow.passes.walk import gather

#: Operations that take functions as values.
_FUNCTIONS = frozenset({"func.constant", "func.call_indirect"})

#: Signed integers of 64 bits count the bytes of fewer elements, whatever their type.
MOST_ELEMENTS = 2**63 // max(dtype.numpy.itemsize for dtype in dtypes.BY_NAME.values())


def check_legal(module: ir.Module) -> None:
    """Refuses nested modules, functions as values, operators on unranked tensors, encodings, and too large tensors.

    Raises:
        PassError: the program has one, at the location of the error.
    """
    root = module.operation
    for op in gather(root, lambda op: _problem(op, root) is not None)[:1]:
        raise PassError(_problem(op, root) or "", op.location)


def _problem(op: ir.Operation, root: ir.Operation) -> str | None:
    if op.name == "builtin.module":
        return None if op == root else "expected functions in one module, got a module in it: lower each module alone"
    if op.name in _FUNCTIONS:
        return f"{op.name}: expected calls of functions by name, got one taken as a value"
    if op.name.startswith(dialect.PREFIX) and any(map(_is_unranked, op.operands)):
        return f"{op.name}: operand of unknown rank; run oneflow-infer-types first"
    if op.name == "tensor.dim" and (reason := _dim_problem(*op.operands)):
        return reason
    kinds = (v.type for v in _values(op))
    reasons = (_tensor_problem(k) for k in kinds if isinstance(k, ir.RankedTensorType))
    return next((f"{op.name}: {reason}" for reason in reasons if reason is not None), None)


def _tensor_problem(kind: ir.RankedTensorType) -> str | None:
    if kind.encoding is not None:
        return f"expected tensors without an encoding, got {kind}"
    elements = math.prod(n for n in kind.shape if n >= 0)
    return f"expected tensors of less than 2^59 elements, got {kind}" if elements >= MOST_ELEMENTS else None


def _dim_problem(tensor: ir.Value, axis: ir.Value) -> str | None:
    """The error of a `tensor.dim` whose constant dimension is not in the range of a known rank; else None."""
    if isinstance(axis.owner, ir.Block) or axis.owner.name != "arith.constant":
        return None
    dim = ir.IntegerAttr(axis.owner.attributes["value"]).value
    if not isinstance(tensor.type, ir.RankedTensorType) or 0 <= dim < tensor.type.rank:
        return None
    return f"tensor.dim: expected a dimension from 0 to {tensor.type.rank - 1} of {tensor.type}, got {dim}"


def _is_unranked(value: ir.Value) -> bool:
    """Whether a tensor's rank is unknown, also before casts."""
    return isinstance(value.type, ir.UnrankedTensorType) and dialect.desc_of(value).shape is None


def _values(op: ir.Operation) -> Iterator[ir.Value]:
    """The results of an operation, and the arguments of its blocks."""
    yield from op.results
    yield from (a for region in op.regions for block in region for a in block.arguments)
