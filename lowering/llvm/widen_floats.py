"""`oneflow-widen-floats`: arithmetic on floats of 8 and 16 bits as arithmetic on f32.

Input and output are functions on scalars and vectors, after `oneflow-emit-kernels`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.lowering.llvm.inlined_functions import float_shape
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather

NARROW = frozenset(("f16", "bf16", *(d.mlir for d in dtypes.FLOAT8)))
#: Prefixes and suffixes of the operations that compute with floats, without conversions between floats.
_PREFIXES = ("math.", "vector.reduction", "arith.fpto")
_SUFFIXES = ("tofp", "addf", "subf", "mulf", "divf", "remf", "negf", "cmpf", "imumf", "numf")


@register_pass
@dataclass(frozen=True)
class WidenFloats(Pass):
    """Computes operations on floats of 8 and 16 bits in f32, and rounds each result.

    %z = arith.addf %x, %y : bf16   ->   %s = arith.addf %a, %b : f32, %z = arith.truncf %s : f32 to bf16
    """

    name: ClassVar[str] = "oneflow-widen-floats"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites every such operation in the module."""
        for op in gather(module.operation, _computes_narrow):
            _widen(op)


def _computes_narrow(op: ir.Operation) -> bool:
    """Whether an operation computes with floats of 8 or 16 bits."""
    name = op.name
    if not name.startswith(_PREFIXES) and not name.endswith(_SUFFIXES):
        return False
    return any(element_of(v.type) in NARROW for v in (op.results[0], op.operands[0]))


def element_of(value_type: ir.Type) -> str:
    """The element type of a float scalar or one-dimensional vector; an empty string for other types."""
    shape = float_shape(value_type)
    return shape[0] if shape else ""


def _widen(op: ir.Operation) -> None:
    """Rewrites one operation."""
    with ir.InsertionPoint(op), op.location:
        operands = [converted("arith.extf", v, widened(v.type)) if element_of(v.type) in NARROW else v
                    for v in op.operands]  # fmt: skip
        result = op.results[0]
        narrow = element_of(result.type) in NARROW
        attributes = {name: op.attributes[name] for name in op.attributes}
        kind = widened(result.type) if narrow else result.type
        wide = ir.Operation.create(op.name, [kind], operands, attributes).results[0]
        result.replace_all_uses_with(converted("arith.truncf", wide, result.type) if narrow else wide)
    op.erase()


def widened(kind: ir.Type) -> ir.Type:
    """The type with f32 as its element."""
    f32 = ir.F32Type.get()
    return ir.VectorType.get(kind.shape, f32) if isinstance(kind, ir.VectorType) else f32


def converted(name: str, value: ir.Value, kind: ir.Type) -> ir.Value:
    """A value converted by operation `name`, at the insertion point."""
    return ir.Operation.create(name, [kind], [value]).results[0]
