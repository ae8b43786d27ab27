"""Calls replaced by the bodies of the functions they call.

MLIR's own `inline` leaves operations of dialects defined in Python alone. Imports the pass interface.
"""

from __future__ import annotations

from collections.abc import Mapping

from oneflow.dialect._mlir import ir
from oneflow.passes.base import PassError

CALL, RETURN = "func.call", "func.return"


def functions_of(module: ir.Module) -> dict[str, ir.Operation]:
    """The functions of a module by name."""
    found = (op.operation for op in module.body.operations)
    return {op.attributes["sym_name"].value: op for op in found if op.name == "func.func"}


def body_of(function: ir.Operation) -> ir.Block:
    """The one block of a function.

    Raises:
        PassError: it is a declaration, or has branches.
    """
    blocks = list(function.regions[0].blocks)
    if len(blocks) != 1:
        what = "branches between blocks" if blocks else "no body"
        name = function.attributes["sym_name"].value
        raise PassError(f"expected a function of one block, but @{name} has {what}", function.location)
    return blocks[0]


def inline_calls(function: ir.Operation, functions: Mapping[str, ir.Operation]) -> None:
    """Replaces every call in `function`, and every call in what replaces it.

    Raises:
        PassError: a function called has no body, several blocks, or calls itself.
    """
    for call in _calls(function):
        _expand(call, functions, ())


def _calls(root: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == CALL:
            found.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(visit)
    return found


def _expand(call: ir.Operation, functions: Mapping[str, ir.Operation], outer: tuple[str, ...]) -> None:
    name = call.attributes["callee"].value
    if name in outer:
        raise PassError(f"cannot inline @{name}: it calls itself, by {' -> '.join((*outer, name))}", call.location)
    if name not in functions:
        raise PassError(f"cannot inline @{name}: there is no such function", call.location)
    block = body_of(functions[name])
    values = dict(zip(block.arguments, call.operands, strict=True))
    copies: list[ir.Operation] = []
    for view in block.operations:
        op = view.operation
        if op.name == RETURN:
            for old, new in zip(call.results, op.operands, strict=True):
                old.replace_all_uses_with(values.get(new, new))
        else:
            copies.append(_copy(op, call, values))
    call.erase()
    # Only now: `values` holds results of the copies.
    for inner in [c for copy in copies for c in _calls(copy)]:
        _expand(inner, functions, (*outer, name))


def _copy(op: ir.Operation, before: ir.Operation, values: dict[ir.Value, ir.Value]) -> ir.Operation:
    """A copy of `op` before another operation, on `values` for those that it names; its results are added."""
    copy = op.clone(ip=ir.InsertionPoint(before)).operation

    def place(inner: ir.Operation) -> ir.WalkResult:
        for number, operand in enumerate(inner.operands):
            if operand in values:
                inner.operands[number] = values[operand]
        return ir.WalkResult.ADVANCE

    copy.walk(place)
    values.update(zip(op.results, copy.results, strict=True))
    return copy
