"""`oneflow-floats-to-bits`: 16-bit floats that are only moved, as integers.

LLVM moves an element of a vector of floats that the processor cannot compute with by converting it to f32 and back.
The conversion is slow, calls a runtime library, and changes NaN.

Input and output are functions of the LLVM dialect.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir, llvm
from oneflow.dialect.record import Registry
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather

#: Operations whose results can be 16-bit floats.
_SOURCES = frozenset(
    f"llvm.{name}"
    for name in (
        "load mlir.constant mlir.undef mlir.poison bitcast fptrunc sitofp uitofp intr.masked.load call".split()
    )
)
#: Operations whose 16-bit results must keep a float type. MLIR folds integer to f32 to f16 into one conversion.
_FLOATS = frozenset({"llvm.fptrunc", "llvm.sitofp", "llvm.uitofp", "llvm.mlir.constant"})
#: Conversions whose 16-bit operand must keep a float type.
_READS_FLOAT = frozenset({"llvm.fpext", "llvm.fptosi", "llvm.fptoui"})


@register_pass
@dataclass(frozen=True)
class FloatsToBits(Pass):
    """Gives values of f16 and bf16 the type i16, except operands and results of conversions.

    %0 = llvm.load %p : !llvm.ptr -> vector<8xbf16>   ->   %0 = llvm.load %p : !llvm.ptr -> vector<8xi16>
    """

    name: ClassVar[str] = "oneflow-floats-to-bits"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites the functions with such values."""
        has_narrow = functools.cache(_has_narrow_floats)

        def introduces_narrow(op: ir.Operation) -> bool:
            return op.name in _SOURCES and any(has_narrow(result.type) for result in op.results)

        for function in (o.operation for o in module.body.operations if o.operation.name == "llvm.func"):
            declared = function.attributes["function_type"].value
            if has_narrow(declared) or gather(function, introduces_narrow):
                with function.location:
                    function.attributes["function_type"] = ir.TypeAttr.get(_as_bits(declared))
                    _rewrite(function)


def _as_bits(kind: ir.Type) -> ir.Type:
    """A type with i16 in place of 16-bit floats."""
    if isinstance(kind, (ir.F16Type, ir.BF16Type)):
        return ir.IntegerType.get_signless(16)
    if isinstance(kind, ir.VectorType):
        return ir.VectorType.get(kind.shape, _as_bits(kind.element_type), scalable=kind.scalable_dims)
    if isinstance(kind, llvm.ArrayType):
        return llvm.ArrayType.get(_as_bits(kind.element_type), kind.num_elements)
    if isinstance(kind, llvm.StructType):
        return llvm.StructType.get_literal([_as_bits(part) for part in kind.body], packed=kind.packed)
    if isinstance(kind, llvm.FunctionType):
        inputs = [_as_bits(part) for part in kind.inputs]
        return llvm.FunctionType.get(_as_bits(kind.return_type), inputs, is_var_arg=kind.is_var_arg)
    return kind


def _parts(kind: ir.Type) -> list[ir.Type]:
    """The types that a type consists of."""
    if isinstance(kind, (ir.VectorType, llvm.ArrayType)):
        return [kind.element_type]
    if isinstance(kind, llvm.StructType):
        return list(kind.body)
    return [kind.return_type, *kind.inputs] if isinstance(kind, llvm.FunctionType) else []


def _has_narrow_floats(kind: ir.Type) -> bool:
    """Whether a type has 16-bit floats."""
    return isinstance(kind, (ir.F16Type, ir.BF16Type)) or any(map(_has_narrow_floats, _parts(kind)))


def _is_narrow(value: ir.Value) -> bool:
    """Whether a value has 16-bit float elements."""
    return _has_narrow_floats(value.type)


def _rewrite(function: ir.Operation) -> None:
    """Gives every value of a function its new type, and casts operands and results of conversions."""
    ops = gather(function)
    extended = [(op, op.operands[0].type) for op in ops if op.name in _READS_FLOAT and _is_narrow(op.operands[0])]
    for argument in (a for block in function.regions[0].blocks for a in block.arguments if _is_narrow(a)):
        _retype(argument)
    for op in ops:
        for result in filter(_is_narrow, op.results):
            (_replace_by_bits if op.name in _FLOATS else _retype)(result)
    for op, kind in extended:
        with ir.InsertionPoint(op), op.location:
            op.operands[0] = _cast(op.operands[0], kind)


def _retype(value: ir.Value) -> None:
    """Sets a value's type to the integer type."""
    value.set_type(_as_bits(value.type))


def _replace_by_bits(value: ir.Value) -> None:
    """Replaces a value by its bits in all users."""
    with ir.InsertionPoint.after(value.owner), value.owner.location:
        bits = _cast(value, _as_bits(value.type))
    value.replace_all_uses_except(bits, bits.owner.operation)


def _cast(value: ir.Value, kind: ir.Type) -> ir.Value:
    """A bitcast at the insertion point."""
    return ir.Operation.create("llvm.bitcast", [kind], [value]).results[0]
