"""Making one function of a program: calls of other functions of the module become their operations.

MLIR's own inliner does not know `func.call` in this wheel. Imports the MLIR seam and what outlining shares.
"""

from __future__ import annotations

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.outline import clone_with
from oneflow.passes.base import PassError


def keep_entry(module: ir.Module, entry: str) -> None:
    """Leaves function `entry` alone in the module, together with declarations; what it calls is inlined.

    Raises:
        PassError: a function calls itself.
    """
    functions = {_name(op): op for op in (o.operation for o in module.body.operations) if op.name == "func.func"}
    bodies = {name: op for name, op in functions.items() if len(op.regions[0].blocks)}
    _inline(bodies[entry], bodies, (entry,))
    for name, op in bodies.items():
        if name != entry:
            op.erase()


def _name(op: ir.Operation) -> str:
    return str(ir.StringAttr(op.attributes["sym_name"]).value)


def _inline(function: ir.Operation, bodies: dict[str, ir.Operation], path: tuple[str, ...]) -> None:
    for op in [o.operation for o in function.regions[0].blocks[0].operations]:
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value if op.name == "func.call" else None
        if callee not in bodies:
            continue
        if callee in path:
            raise PassError(
                f"expected functions that do not call themselves, got {' -> '.join([*path, callee])}", op.location
            )
        _inline(bodies[callee], bodies, (*path, callee))
        _replace(op, bodies[callee].regions[0].blocks[0])


def _replace(call: ir.Operation, block: ir.Block) -> None:
    """Puts the operations of `block` in the place of a call of its function."""
    env = dict(zip(block.arguments, call.operands, strict=True))
    *ops, last = [o.operation for o in block.operations]
    with ir.InsertionPoint(call):
        for op in ops:
            clone_with(op, env)
    for result, value in zip(call.results, last.operands, strict=True):
        result.replace_all_uses_with(env.get(value, value))
    call.erase()
