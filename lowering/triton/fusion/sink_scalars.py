"""Moves single writes, and scalars that are read from tensors, into loops: kernels read the scalars, not the host.

%i = tensor.extract %at[0] ; tensor.insert %v into %x[%i]
  ->   scf.for 0 to 1 { %i = tensor.extract %at[0] ; tensor.insert %v into %x[%i] }
"""

from __future__ import annotations

from collections.abc import Iterator

from oneflow.dialect._mlir import arith, ir, scf
from oneflow.passes.inline import clone_with
from oneflow.passes.walk import gather, gather_direct

#: The operations that compute a scalar from an element of a tensor.
SCALAR_OPERATIONS = ("arith.", "math.", "tensor.extract", "func.call")


def sink_reads(function: ir.Operation) -> None:
    """Wraps single writes of a function in loops, and moves scalars into the loops that write with them."""
    for op in gather_direct(function, ("tensor.insert",)):
        _wrap(op)
    for loop in gather_direct(function, ("scf.for",)):
        inner = _innermost(loop)
        if inner is not None:
            _sink(loop, inner)


def _wrap(op: ir.Operation) -> None:
    """Wraps a write in a loop of one step."""
    with ir.InsertionPoint(op), op.location:
        zero, one = (arith.ConstantOp(ir.IndexType.get(), n).result for n in (0, 1))
        loop = scf.ForOp(zero, one, one, [op.operands[1]])
        with ir.InsertionPoint(loop.body):
            values = {op.operands[1]: loop.inner_iter_args[0]}
            scf.YieldOp([clone_with(op, values).results[0]])
    op.results[0].replace_all_uses_with(loop.results[0])
    op.erase()


def _innermost(loop: ir.Operation) -> ir.Block | None:
    """The innermost block of a nest with one write; None where the nest has more."""
    block = loop.regions[0].blocks[0]
    names = [o.operation.name for o in block.operations]
    if names == ["scf.for", "scf.yield"]:
        return _innermost(block.operations[0].operation)
    return block if names.count("tensor.insert") == 1 and "scf.for" not in names else None


def _sink(loop: ir.Operation, inner: ir.Block) -> None:
    """Moves the scalars that a block uses and that are computed from elements of tensors into the block."""
    siblings = [o.operation for o in loop.block.operations]
    before = siblings[: siblings.index(loop)]
    read: list[ir.Operation] = []
    for op in before:
        if op.name == "tensor.extract" or (_computes(op) and any(_is_result_of(v, read) for v in op.operands)):
            read.append(op)
    needed = set(_operands_of(inner))
    for op in reversed(read):
        if any(r in needed for r in op.results):
            needed.update(op.operands)
    sunk = [op for op in read if any(r in needed for r in op.results)]
    values = dict[ir.Value, ir.Value]()
    users = [o.operation for o in inner.operations]
    with ir.InsertionPoint.at_block_begin(inner):
        for op in sunk:
            clone_with(op, values)
    for op in users:
        for index, operand in enumerate(op.operands):
            if operand in values:
                op.operands[index] = values[operand]
    for op in reversed(sunk):
        if not any(True for r in op.results for _ in r.uses):
            op.erase()


def _computes(op: ir.Operation) -> bool:
    return (
        op.name.startswith(SCALAR_OPERATIONS)
        and bool(op.results)
        and not isinstance(op.results[0].type, ir.ShapedType)
    )


def _is_result_of(value: ir.Value, ops: list[ir.Operation]) -> bool:
    return not isinstance(value, ir.BlockArgument) and value.owner in ops


def _operands_of(block: ir.Block) -> Iterator[ir.Value]:
    """The operands of a block's operations."""
    for op in gather(block.owner):
        yield from op.operands
