"""Scalars as kernel arguments and results: tensors of rank 0, with `index` as i64."""

from __future__ import annotations

from oneflow.dialect._mlir import ir, tensor

_INDEX, _STORED_AS = "index", "i64"


def is_scalar(kind: ir.Type) -> bool:
    """Whether this is the type of a scalar."""
    return isinstance(kind, (ir.IndexType, ir.IntegerType, ir.FloatType))


def storage_type(kind: ir.Type) -> ir.Type:
    """The rank-0 tensor type for a scalar type; tensor types are returned unchanged."""
    if isinstance(kind, ir.RankedTensorType):
        return kind
    element = ir.Type.parse(_STORED_AS) if str(kind) == _INDEX else kind
    return ir.RankedTensorType.get([], element, loc=ir.Location.unknown())


def extract_scalar(storage: ir.Value, wanted: ir.Type) -> ir.Value:
    """The scalar of type `wanted` in a rank-0 tensor, at the insertion point; values of that type are returned as
    they are.
    """
    if storage.type == wanted:
        return storage
    return _converted(tensor.ExtractOp(storage, []).result, wanted)


def insert_scalar(value: ir.Value, destination: ir.Value) -> ir.Value:
    """A scalar stored in a rank-0 tensor, at the insertion point; tensors are returned unchanged."""
    if isinstance(value.type, ir.RankedTensorType):
        return value
    return tensor.InsertOp(_converted(value, destination.type.element_type), destination, []).result


def _converted(value: ir.Value, wanted: ir.Type) -> ir.Value:
    """A scalar cast between `index` and i64."""
    return value if value.type == wanted else ir.Operation.create("arith.index_cast", [wanted], [value]).results[0]
