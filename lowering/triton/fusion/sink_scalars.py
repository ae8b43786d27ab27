"""Single writes, and numbers that loops read of tensors, as parts of the loops' kernels: the host need not know
them.

    %i = tensor.extract %at[0] ; tensor.insert %v into %x[%i]
      ->   scf.for 0 to 1 { %i = tensor.extract %at[0] ; tensor.insert %v into %x[%i] }
"""

from __future__ import annotations

from collections.abc import Iterator

from oneflow.dialect._mlir import arith, ir, scf
from oneflow.passes.inline import clone_with
from oneflow.passes.walk import gather

#: What a number is computed by from one of a tensor.
COMPUTES = ("arith.", "math.", "tensor.extract", "func.call")


def sink_reads(block: ir.Block) -> None:
    """Makes loops of single writes of a function's block, and has loops that write read their numbers themselves."""
    for op in [o.operation for o in block.operations if o.operation.name == "tensor.insert"]:
        _wrap(op)
    for loop in [o.operation for o in block.operations if o.operation.name == "scf.for"]:
        inner = _innermost(loop)
        if inner is not None:
            _sink(loop, inner)


def _wrap(op: ir.Operation) -> None:
    """Puts a write in a loop of one step."""
    with ir.InsertionPoint(op), op.location:
        low, high = (arith.ConstantOp(ir.IndexType.get(), n).result for n in (0, 1))
        loop = scf.ForOp(low, high, high, [op.operands[1]])
        with ir.InsertionPoint(loop.body):
            values = {op.operands[1]: loop.inner_iter_args[0]}
            scf.YieldOp([clone_with(op, values).results[0]])
    op.results[0].replace_all_uses_with(loop.results[0])
    op.erase()


def _innermost(loop: ir.Operation) -> ir.Block | None:
    """The block of loops in each other that writes; None where there is more in them."""
    block = loop.regions[0].blocks[0]
    names = [o.operation.name for o in block.operations]
    if names == ["scf.for", "scf.yield"]:
        return _innermost(block.operations[0].operation)
    return block if names.count("tensor.insert") == 1 and "scf.for" not in names else None


def _sink(loop: ir.Operation, inner: ir.Block) -> None:
    """Has the block compute what it takes from the outside and what comes from elements of tensors."""
    outside = [o.operation for o in loop.block.operations]
    before = outside[: outside.index(loop)]
    read: list[ir.Operation] = []
    for op in before:
        if op.name == "tensor.extract" or (_computes(op) and any(_made_by(v, read) for v in op.operands)):
            read.append(op)
    needed = set(_used(inner))
    for op in reversed(read):
        if any(r in needed for r in op.results):
            needed.update(op.operands)
    wanted = [op for op in read if any(r in needed for r in op.results)]
    values = dict[ir.Value, ir.Value]()
    own = [o.operation for o in inner.operations]
    with ir.InsertionPoint.at_block_begin(inner):
        for op in wanted:
            clone_with(op, values)
    for op in own:
        for number, operand in enumerate(op.operands):
            if operand in values:
                op.operands[number] = values[operand]
    for op in reversed(wanted):
        if not any(True for r in op.results for _ in r.uses):
            op.erase()


def _computes(op: ir.Operation) -> bool:
    return op.name.startswith(COMPUTES) and bool(op.results) and not isinstance(op.results[0].type, ir.ShapedType)


def _made_by(value: ir.Value, ops: list[ir.Operation]) -> bool:
    return not isinstance(value, ir.BlockArgument) and value.owner in ops


def _used(block: ir.Block) -> Iterator[ir.Value]:
    """The values that operations of a block take."""
    for op in gather(block.owner):
        yield from op.operands
