"""Numbers that kernels take and give as tensors of no dimension: `index` as i64."""

from __future__ import annotations

from oneflow.dialect._mlir import ir, tensor

_INDEX, _STORED_AS = "index", "i64"


def is_number(kind: ir.Type) -> bool:
    """Whether this is the type of a single number."""
    return isinstance(kind, (ir.IndexType, ir.IntegerType, ir.FloatType))


def storage_type(kind: ir.Type) -> ir.Type:
    """The type of the tensor that holds a number; a tensor's own."""
    if isinstance(kind, ir.RankedTensorType):
        return kind
    element = ir.Type.parse(_STORED_AS) if str(kind) == _INDEX else kind
    return ir.RankedTensorType.get([], element, loc=ir.Location.unknown())


def extract_number(storage: ir.Value, wanted: ir.Type) -> ir.Value:
    """What a tensor of `storage_type` holds, at the insertion point."""
    if storage.type == wanted:
        return storage
    return _converted(tensor.ExtractOp(storage, []).result, wanted)


def insert_number(value: ir.Value, destination: ir.Value) -> ir.Value:
    """A number in a tensor of its `storage_type`, at the insertion point; a tensor as it is."""
    if isinstance(value.type, ir.RankedTensorType):
        return value
    return tensor.InsertOp(_converted(value, destination.type.element_type), destination, []).result


def _converted(value: ir.Value, wanted: ir.Type) -> ir.Value:
    return value if value.type == wanted else ir.Operation.create("arith.index_cast", [wanted], [value]).results[0]
