"""Operations as calls of functions of the module: one function for each vector type, which LLVM inlines."""

from __future__ import annotations

from collections.abc import Callable

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import func, ir
from oneflow.lowering.llvm.arithmetic import Math
from oneflow.lowering.llvm.writer import reference

FLOAT_NAMES = frozenset(d.mlir for d in dtypes.DTYPES if d.is_float)


def float_shape(value_type: ir.Type) -> tuple[str, int] | None:
    """The float element type and the vector length (0 for a scalar) of a type; None for other types."""
    lanes, element_type = 0, value_type
    if isinstance(value_type, ir.VectorType):
        if value_type.rank != 1 or value_type.scalable:
            return None
        lanes, element_type = value_type.shape[0], value_type.element_type
    element = str(element_type)
    return (element, lanes) if element in FLOAT_NAMES else None


def call_inlined(
    module: ir.Module, op: ir.Operation, function: Callable[..., str], name: str, defined: set[str]
) -> None:  # fmt: skip
    """Replaces an operation by a call of `name`; `function` writes the body unless `name` is in `defined`."""
    if name not in defined:
        defined.add(name)
        module.body.append(ir.Operation.parse(_function_text(op, function, name)))
    with ir.InsertionPoint(op), op.location:
        call = func.CallOp([op.results[0].type], name, list(op.operands))
    op.results[0].replace_all_uses_with(call.operation.results[0])
    op.erase()


def _function_text(op: ir.Operation, function: Callable[..., str], name: str) -> str:
    """The function for one vector type as MLIR text."""
    shape = float_shape(op.operands[0].type)
    assert shape is not None
    element, lanes = shape
    m, kind = Math(lanes or None, base=element), op.results[0].type
    names = ["%x", "%y", "%z"][: len(op.operands)]
    result = function(m, *names)
    parameters = ", ".join(f"{n}: {m.type()}" for n in names)
    head = f"func.func private {reference(name)}({parameters}) -> {kind} attributes {{"
    options = "llvm.linkage = #llvm.linkage<internal>, llvm.always_inline} {"
    return "\n".join([head + options, m.writer.text(), f"return {result} : {kind}", "}"])
