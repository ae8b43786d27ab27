"""`oneflow-floats-to-bits`: 16-bit floats that are only moved, as integers.

LLVM moves an element of a vector of floats that the processor cannot compute with by converting it to f32 and back.
That is slow, calls a runtime library, and changes NaN.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather

_NARROW = re.compile(r"b?f16\b")
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
        for function in (o.operation for o in module.body.operations if o.operation.name == "llvm.func"):
            declared = str(function.attributes["function_type"])
            if _NARROW.search(declared) or gather(function, _introduces_narrow_floats):
                function.attributes["function_type"] = ir.Attribute.parse(_as_bits(declared))
                _rewrite(function)


def _as_bits(kind: str) -> str:
    """A type with i16 in place of 16-bit floats."""
    return _NARROW.sub("i16", kind)


def _is_narrow(value: ir.Value) -> bool:
    """Whether a value has 16-bit float elements."""
    return _NARROW.search(str(value.type)) is not None


def _introduces_narrow_floats(op: ir.Operation) -> bool:
    """Whether an operation brings 16-bit floats into a function."""
    return op.name in _SOURCES and any(map(_is_narrow, op.results))


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
    value.set_type(ir.Type.parse(_as_bits(str(value.type))))


def _replace_by_bits(value: ir.Value) -> None:
    """Replaces a value by its bits in all users."""
    with ir.InsertionPoint.after(value.owner), value.owner.location:
        bits = _cast(value, ir.Type.parse(_as_bits(str(value.type))))
    value.replace_all_uses_except(bits, bits.owner.operation)


def _cast(value: ir.Value, kind: ir.Type) -> ir.Value:
    """A bitcast at the insertion point."""
    return ir.Operation.create("llvm.bitcast", [kind], [value]).results[0]
