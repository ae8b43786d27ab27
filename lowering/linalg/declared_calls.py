"""Calls of functions that have a declaration alone: an attribute of the declaration says what a call runs.

    func.func private @<prefix>0(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> attributes {<attribute> = ..}
    %0 = call @<prefix>0(%x, %e)

Operands come first, then a destination for each result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import OperatorError
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.linalg.emit import Emitter, Value
from oneflow.passes.inline import functions_of


@dataclass
class DeclaredCalls:
    """Emits calls of functions `<prefix><number>` whose declarations have an attribute."""

    module: ir.Module
    emitter: Emitter
    prefix: str
    attribute: str

    def __post_init__(self) -> None:
        self._count = sum(self.attribute in function.attributes for function in functions_of(self.module).values())

    def destinations(self, descs: Iterable[TensorDesc]) -> list[Value]:
        """An empty tensor for each result."""
        e = self.emitter
        return [e.op("tensor.empty", e.tensor(d.shape or (), d.dtype), ()) for d in descs]

    def call(
        self, operands: Sequence[Value], destinations: Sequence[Value], description: ir.Attribute
    ) -> list[Value]:
        """Declares a function, and calls it at the insertion point; a result has the type of its destination."""
        name = f"{self.prefix}{self._count}"
        self._count += 1
        arguments, results = [*operands, *destinations], [v.type for v in destinations]
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get([v.type for v in arguments], results)),
            "sym_visibility": ir.StringAttr.get("private"),
            self.attribute: description,
        }
        end = ir.InsertionPoint(self.module.body)
        ir.Operation.create("func.func", attributes=attributes, regions=1, ip=end, loc=ir.Location.unknown())
        callee = {"callee": ir.FlatSymbolRefAttr.get(name)}
        return list(ir.Operation.create("func.call", results=results, operands=arguments, attributes=callee).results)


def check_static(name: str, what: str, descs: Iterable[TensorDesc]) -> None:
    """Refuses dynamic sizes in a call of operator `name`.

    Raises:
        OperatorError: a size is dynamic.
    """
    dynamic = next((d for d in descs if not d.is_static), None)
    if dynamic is not None:
        raise OperatorError(f"{name}: expected static shapes for {what}, got {dynamic}")
