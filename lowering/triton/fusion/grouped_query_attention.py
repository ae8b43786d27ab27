"""Keys and values that are repeated for the query heads that share them, and their gradients, sums over those heads.

key[:, :, None].expand(batch, groups, share, ..).reshape(batch, groups * share, ..)   ->   key
"""

from __future__ import annotations

import math

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Call
from oneflow.lowering.triton.fusion.attention_pattern import Graph, Matrix

#: Operators that keep elements in their order.
RESHAPES = ("reshape", "expand_dims", "squeeze")


def repeated(graph: Graph, matrix: Matrix) -> ir.Value | None:
    """What (batch, heads, rows, columns) repeats each head of, as often as another head follows; None for others."""
    reshape = None if matrix.flipped else graph.made_by(matrix.value, *RESHAPES)
    spread = None if reshape is None else graph.made_by(reshape.operands[0].handle, "expand")
    if spread is None:
        return None
    value, wide, shape = spread.operands[0].handle, spread.results[0].shape, graph.desc(matrix.value).shape
    narrow = graph.desc(value).shape
    axes = [i for i, (a, b) in enumerate(zip(narrow, wide, strict=False)) if a != b]
    if len(narrow) != len(wide) or len(shape) != 4 or len(axes) != 1 or shape[1] % wide[axes[0]]:
        return None
    wanted = (shape[0], shape[1] // wide[axes[0]], *shape[2:])
    return _of_shape(graph, value, wanted) if math.prod(wide[: axes[0]]) == math.prod(wanted[:2]) else None


def _of_shape(graph: Graph, value: ir.Value, shape: tuple[int, ...]) -> ir.Value | None:
    """The value with a shape that a value has the elements of, in their order."""
    while graph.desc(value).shape != shape:
        call = graph.made_by(value, *RESHAPES)
        if call is None:
            return None
        value = call.operands[0].handle
    return value


def summed(graph: Graph, op: ir.Operation, transposed: bool, heads: int, share: int) -> ir.Operation | None:
    """The sum over the heads that share a key of a gradient, which nothing else reads; `heads` are those of a batch.

    `transposed` is whether the gradient is the transposed one.
    """
    while (call := _only_user(graph, op)) is not None:
        op = graph.ops.owners[call.results[0].handle]
        if call.record.name == "transpose":
            axes = list(range(len(call.perm)))
            if not transposed or list(call.perm) != [*axes[:-2], axes[-1], axes[-2]]:
                return None
            transposed = False
        elif transposed or call.record.name not in RESHAPES:
            return op if not transposed and _adds(call, heads // share, share) else None
    return None


def _only_user(graph: Graph, op: ir.Operation) -> Call | None:
    users = graph.all_users(op.results[0])
    names = ("transpose", *RESHAPES, "reduce_sum", "reduce_sum_like")
    return graph.call(users[0], *names) if len(users) == 1 else None


def _adds(call: Call, groups: int, share: int) -> bool:
    """Whether a sum is over the heads of each group."""
    shape = call.operands[0].shape
    axes = [a % len(shape) for a in call.axis]
    return len(axes) == 1 and shape[axes[0]] == share and math.prod(shape[: axes[0]]) == groups
