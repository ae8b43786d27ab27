"""Signless integer types: linalg on tensors has no unsigned integers, so `ui8` becomes `i8`."""

from __future__ import annotations

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir


def make_signless(root: ir.Operation) -> None:
    """Makes the unsigned integer types of values and of functions signless."""
    signless = {ir.IntegerType.get_unsigned(d.bits): ir.IntegerType.get_signless(d.bits) for d in dtypes.UNSIGNED}

    def retyped(kind: ir.Type) -> ir.Type:
        element = kind.element_type if isinstance(kind, ir.ShapedType) else kind
        if element not in signless:
            return kind
        if isinstance(kind, ir.RankedTensorType):
            return ir.RankedTensorType.get(kind.shape, signless[element])
        if isinstance(kind, ir.UnrankedTensorType):
            return ir.UnrankedTensorType.get(signless[element])
        return signless[element]

    def visit(op: ir.Operation) -> ir.WalkResult:
        arguments = [a for region in op.regions for block in region for a in block.arguments]
        for value in (*op.results, *arguments):
            kind = retyped(value.type)
            if kind != value.type:
                value.set_type(kind)
        if op.name == "func.func":
            kind = op.attributes["function_type"].value
            types = (list(map(retyped, part)) for part in (kind.inputs, kind.results))
            op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
        return ir.WalkResult.ADVANCE

    with ir.Location.unknown():
        root.walk(visit)
