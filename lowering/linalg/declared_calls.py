"""Calls of functions that have a declaration alone: an attribute of the declaration says what a call runs."""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.dialect._mlir import ir
from oneflow.lowering.linalg.emit import Value


def call_declared(
    module: ir.Module, name: str, operands: Sequence[Value], destinations: Sequence[Value], attribute: str,
    description: ir.Attribute,
) -> list[Value]:  # fmt: skip
    """Declares the private function `name` with an attribute, and calls it at the current insertion point.

    A result has the type of its destination; destinations are the last operands.
    """
    passed, results = [*operands, *destinations], [v.type for v in destinations]
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get([v.type for v in passed], results)),
        "sym_visibility": ir.StringAttr.get("private"),
        attribute: description,
    }
    end = ir.InsertionPoint(module.body)
    ir.Operation.create("func.func", attributes=attributes, regions=1, ip=end, loc=ir.Location.unknown())
    called = {"callee": ir.FlatSymbolRefAttr.get(name)}
    return list(ir.Operation.create("func.call", results=results, operands=passed, attributes=called).results)
