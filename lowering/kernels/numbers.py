"""Numbers that kernels take and give as tensors of no dimension: `index` as i64."""

from __future__ import annotations

from oneflow.dialect._mlir import ir, tensor

_INDEX, _HELD = "index", "i64"


def is_number(kind: ir.Type) -> bool:
    """Whether this is the type of a single number."""
    return isinstance(kind, (ir.IndexType, ir.IntegerType, ir.FloatType))


def held_type(kind: ir.Type) -> ir.Type:
    """The type of the tensor that holds a number; a tensor's own."""
    if isinstance(kind, ir.RankedTensorType):
        return kind
    element = ir.Type.parse(_HELD) if str(kind) == _INDEX else kind
    return ir.RankedTensorType.get([], element, loc=ir.Location.unknown())


def taken(held: ir.Value, wanted: ir.Type) -> ir.Value:
    """What a tensor of `held_type` holds, at the insertion point."""
    if held.type == wanted:
        return held
    return _converted(tensor.ExtractOp(held, []).result, wanted)


def put(value: ir.Value, destination: ir.Value) -> ir.Value:
    """A number in a tensor of its `held_type`, at the insertion point; a tensor as it is."""
    if isinstance(value.type, ir.RankedTensorType):
        return value
    return tensor.InsertOp(_converted(value, destination.type.element_type), destination, []).result


def _converted(value: ir.Value, wanted: ir.Type) -> ir.Value:
    return value if value.type == wanted else ir.Operation.create("arith.index_cast", [wanted], [value]).results[0]
