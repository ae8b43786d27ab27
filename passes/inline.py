"""Inlining: calls replaced by the bodies of the called functions.

MLIR's own `inline` leaves operations of dialects defined in Python alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.passes.base import PassError
from oneflow.passes.walk import gather

CALL, RETURN, CONSTANT = "func.call", "func.return", "func.constant"


def functions_of(module: ir.Module) -> dict[str, ir.Operation]:
    """The functions of a module by name."""
    operations = (op.operation for op in module.body.operations)
    return {op.attributes["sym_name"].value: op for op in operations if op.name == "func.func"}


def body_of(function: ir.Operation) -> ir.Block:
    """The one block of a function.

    Raises:
        PassError: the function is a declaration, or has branches.
    """
    blocks = list(function.regions[0].blocks)
    if len(blocks) != 1:
        what = "branches between blocks; run lift-cf-to-scf first" if blocks else "no body"
        name = function.attributes["sym_name"].value
        raise PassError(f"expected a function of one block, but @{name} has {what}", function.location)
    return blocks[0]


def inline_calls(function: ir.Operation, functions: Mapping[str, ir.Operation], kept: Collection[str] = ()) -> None:
    """Replaces every call in `function` recursively, except calls of functions in `kept`.

    Raises:
        PassError: a function called has no body, several blocks, or calls itself.
    """
    name = function.attributes["sym_name"].value
    for call in _calls(function, kept):
        _expand(call, functions, kept, (name,))


def keep_entry(module: ir.Module, entry: str) -> None:
    """Leaves function `entry` in the module, with declarations and the bodies that operators name; calls are inlined.

    Raises:
        PassError: a function called has several blocks, calls itself, or is a value.
    """
    functions = functions_of(module)
    declared = {name for name, op in functions.items() if not len(op.regions[0].blocks)}
    kept: set[str] = set()
    pending = [entry]
    while pending:
        kept.add(name := pending.pop())
        inline_calls(functions[name], functions, declared)
        refuse_function_values(functions[name])
        pending += [body for body in named_bodies(functions[name]) if body in functions and body not in kept]
    for name, op in functions.items():
        if name not in kept and name not in declared:
            op.erase()


def named_bodies(function: ir.Operation) -> set[str]:
    """The functions that operators of a function name as their bodies."""
    bodies: set[str] = set()
    dialect.walk(function, lambda op: bodies.update(dialect.named_functions(op).values()))
    return bodies


def refuse_function_values(root: ir.Operation) -> None:
    """Refuses functions that are taken as values, whose types passes cannot change.

    Raises:
        PassError: there is a call cycle.
    """
    for constant in _operations_named(root, CONSTANT):
        raise PassError("expected calls of functions by name, got one taken as a value", constant.location)


def _calls(root: ir.Operation, kept: Collection[str]) -> list[ir.Operation]:
    return [op for op in _operations_named(root, CALL) if op.attributes["callee"].value not in kept]


def _operations_named(root: ir.Operation, name: str) -> list[ir.Operation]:
    return gather(root, lambda op: op.name == name)


def _expand(
    call: ir.Operation, functions: Mapping[str, ir.Operation], kept: Collection[str], outer: tuple[str, ...]
) -> None:
    name = call.attributes["callee"].value
    if name in outer:
        cycle = " -> ".join((*outer[outer.index(name) :], name))
        raise PassError(f"cannot inline @{name}: it calls itself, by {cycle}", call.location)
    if name not in functions:
        raise PassError(f"cannot inline @{name}: there is no such function", call.location)
    block = body_of(functions[name])
    values = dict(zip(block.arguments, call.operands, strict=True))
    copies: list[ir.Operation] = []
    with ir.InsertionPoint(call):
        for view in block.operations:
            op = view.operation
            if op.name == RETURN:
                for old, new in zip(call.results, op.operands, strict=True):
                    old.replace_all_uses_with(values.get(new, new))
            else:
                copies.append(clone_with(op, values))
    call.erase()
    # Only now: `values` holds results of the copies.
    for inner in [c for copy in copies for c in _calls(copy, kept)]:
        _expand(inner, functions, kept, (*outer, name))


def clone_with(op: ir.Operation, values: dict[ir.Value, ir.Value], inside: bool = True) -> ir.Operation:
    """A copy of `op` at the insertion point, with the operands of `values`; the results of the copy are added to
    `values`.

    Without `inside` no operation in its regions reads any of these values.
    """
    copy = op.clone(ir.InsertionPoint.current).operation

    def remap_operands(inner: ir.Operation) -> ir.WalkResult:
        for index, operand in enumerate(inner.operands):
            if operand in values:
                inner.operands[index] = values[operand]
        return ir.WalkResult.ADVANCE

    copy.walk(remap_operands) if inside and len(copy.regions) else remap_operands(copy)
    values.update(zip(op.results, copy.results, strict=True))
    return copy
