"""Walks: the operations of a program that a pass rewrites, gathered before the first change."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection

from oneflow.dialect._mlir import ir


def gather(
    root: ir.Operation,
    wanted: Callable[[ir.Operation], object] = lambda op: True,
    order: ir.WalkOrder = ir.WalkOrder.POST_ORDER,
) -> list[ir.Operation]:
    """The selected operations among `root` and all in its regions, in program order.

    An operation follows the operations in its regions, or with `ir.WalkOrder.PRE_ORDER` before them.
    """
    operations: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if wanted(op):
            operations.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(visit, order)
    return operations


def gather_named(root: ir.Operation, names: Collection[str]) -> list[ir.Operation]:
    """The operations that have one of the names, in program order; operations in the body of a `linalg.generic`,
    which compute elements, are left out.
    """
    return _gather_named(root, names, lambda name: name != "linalg.generic")


def gather_direct(function: ir.Operation, names: Collection[str]) -> list[ir.Operation]:
    """The operations of a function's own block that have one of the names, in program order."""
    return _gather_named(function, names, lambda name: name == "func.func")


def _gather_named(
    root: ir.Operation, names: Collection[str], is_entered: Callable[[str], bool]
) -> list[ir.Operation]:
    """The operations that have one of the names, within operations whose name `is_entered` allows.

    The walk holds no object for the other operations: objects of all operations of a large block leave the caches.
    """
    operations: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = op.name
        if name in names:
            operations.append(op)
        return ir.WalkResult.ADVANCE if is_entered(name) else ir.WalkResult.SKIP

    root.walk(visit, ir.WalkOrder.PRE_ORDER)
    return operations


def is_used_once(value: ir.Value) -> bool:
    """Whether one operand is the value; a value that many are is not counted through."""
    return len(list(itertools.islice(value.uses, 2))) == 1


def returned_values(block: ir.Block) -> list[ir.Value]:
    """The returned values of a function's block."""
    return list(block.operations[len(block.operations) - 1].operands)
