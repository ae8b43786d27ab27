"""Gathers from tables that are computed from integers: the elements are gathered first, and converted then.

table = float(codes) * scale                       8 bits -> 32 bits for each element of the table
table[i, j]                                   ->   float(codes[i, j]) * scale[i]
"""

from __future__ import annotations

import math

from oneflow.dialect._mlir import arith, ir, tensor
from oneflow.lowering.kernels.nodes import Linear, Node, find_node, loop_size
from oneflow.lowering.kernels.operand_fusion import conversion_of


def convert_gathered(op: ir.Operation) -> None:
    """Lets an operation gather from the sources of converted tables of more elements than the operation reads."""
    reader = find_node(op)
    if reader is None:
        return
    steps = [loop_size([reader], name) for name in reader.names]
    count = None if None in steps else math.prod(n for n in steps if n is not None)
    worklist = [o.operation for o in reader.body.operations if o.operation.name == "tensor.extract"]
    while worklist and count is not None:
        extract = worklist.pop()
        node, table = conversion_of(extract.operands[0]), extract.operands[0].type
        if node is not None and table.has_static_shape and count < math.prod(table.shape):
            worklist += _convert_after(extract, node)


def _convert_after(extract: ir.Operation, node: Node) -> list[ir.Operation]:
    """Replaces an element of a converted table by the conversion of elements; returns their extracts."""
    positions = dict(zip((f.dim for f in node.outputs[0].access), list(extract.operands)[1:], strict=True))
    with ir.InsertionPoint(extract), extract.location:
        extracts = [tensor.ExtractOp(u.value, [_position(f, positions) for f in u.access]) for u in node.inputs]
        env = dict(zip(node.body.arguments, (e.result for e in extracts), strict=False))
        *body, end = (o.operation for o in node.body.operations)
        for op in body:
            copy = op.clone()
            for number, operand in enumerate(op.operands):
                copy.operands[number] = env.get(operand, operand)
            env |= zip(op.results, copy.results, strict=True)
    extract.results[0].replace_all_uses_with(env[end.operands[0]])
    extract.erase()
    return [e.operation for e in extracts]


def _position(form: Linear, positions: dict[int | None, ir.Value]) -> ir.Value:
    """The value of a position, from the values of the loop dimensions."""
    total = arith.ConstantOp(ir.IndexType.get(), form.constant).result
    for dim, coefficient in form.terms:
        factor = arith.ConstantOp(ir.IndexType.get(), coefficient).result
        total = arith.AddIOp(total, arith.MulIOp(positions[dim], factor).result).result
    return total
