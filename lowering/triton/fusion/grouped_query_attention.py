"""Grouped-query attention: keys and values that are repeated for query heads that share them, and their gradients.

key[:, :, None].expand(batch, groups, share, ..).reshape(batch, groups * share, ..)   ->   key
"""

from __future__ import annotations

import math

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Call
from oneflow.lowering.triton.fusion.attention_pattern import Graph, Matrix

#: Operators that keep elements in their order.
RESHAPES = ("reshape", "expand_dims", "squeeze")


def unrepeat_heads(graph: Graph, matrix: Matrix) -> ir.Value | None:
    """The tensor whose heads a matrix (batch, heads, rows, columns) repeats; None without a repetition."""
    reshape = None if matrix.is_transposed else graph.producer(matrix.value, *RESHAPES)
    expand = None if reshape is None else graph.producer(reshape.operands[0].handle, "expand")
    if expand is None:
        return None
    value, wide, shape = expand.operands[0].handle, expand.results[0].shape, graph.shape(matrix.value)
    narrow = graph.shape(value)
    axes = [i for i, (a, b) in enumerate(zip(narrow, wide, strict=False)) if a != b]
    if len(narrow) != len(wide) or len(shape) != 4 or len(axes) != 1:
        return None
    batch, heads, rows, columns = shape
    share = wide[axes[0]]
    if heads is None or batch is None or heads % share:
        return None
    groups = heads // share
    origin = _reshaped_origin(graph, value, (batch, groups, rows, columns))
    return origin if math.prod(wide[: axes[0]]) == batch * groups else None


def _reshaped_origin(graph: Graph, value: ir.Value, shape: tuple[int | None, ...]) -> ir.Value | None:
    """The tensor of shape `shape` that a value is a chain of reshapes of; None without such a tensor."""
    while graph.shape(value) != shape:
        call = graph.producer(value, *RESHAPES)
        if call is None:
            return None
        value = call.operands[0].handle
    return value


def sum_over_shared_heads(
    graph: Graph, op: ir.Operation, transposed: bool, heads: int, share: int
) -> ir.Operation | None:
    """The sum of a gradient over the `share` heads that share a key; None where anything else uses the gradient.

    `heads` are the query heads of all batches. `transposed` says that the gradient is transposed.
    """
    while (call := _only_user(graph, op)) is not None:
        op = graph.ops.owners[call.results[0].handle]
        if call.record.name == "transpose":
            axes = list(range(len(call.perm)))
            if not transposed or list(call.perm) != [*axes[:-2], axes[-1], axes[-2]]:
                return None
            transposed = False
        elif transposed or call.record.name not in RESHAPES:
            return op if not transposed and _sums_groups(call, heads // share, share) else None
    return None


def _only_user(graph: Graph, op: ir.Operation) -> Call | None:
    users = graph.all_users(op.results[0])
    names = ("transpose", *RESHAPES, "reduce_sum", "reduce_sum_like")
    return graph.call(users[0], *names) if len(users) == 1 else None


def _sums_groups(call: Call, groups: int, share: int) -> bool:
    """Whether a sum is over the heads that share a key."""
    shape = call.operands[0].shape
    axes = [a % len(shape) for a in call.axis]
    return len(axes) == 1 and shape[axes[0]] == share and math.prod(shape[: axes[0]]) == groups
