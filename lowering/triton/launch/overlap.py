"""Overlap of computation with external kernels, above all collectives, by the lifetimes of buffers.

A plan is a sequence, but on a device an operation waits only for operations that use the same memory. So memory of an
external kernel, or of an operation that depends on such a kernel, is not reused by operations that do not depend on
the kernel until the next external kernel is called. Operations after that seldom run at the same time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from oneflow.dialect._mlir import ir
from oneflow.lowering.buffer_assignment import Buffer, Liveness
from oneflow.lowering.kernels.graph import is_external_call

#: The index in place of an external call, for an operation that depends on none.
NONE = -1


def extend_lifetimes(ops: Sequence[ir.Operation], liveness: Liveness) -> None:
    """Extends the lifetimes of buffers of an entry."""
    waits_for, ends = _last_external_calls(ops), _next_external_calls(ops)
    ending: dict[int, list[Buffer]] = defaultdict(list)
    for buffer in liveness.buffers:
        if buffer.kind == "temporary" and not buffer.dynamic and 0 <= buffer.last < len(ops):
            ending[buffer.last].append(buffer)
    for op, buffers in ending.items():
        if waits_for[op] == NONE:
            continue
        concurrent = [later for later in range(op + 1, ends[op]) if waits_for[later] < waits_for[op]]
        for buffer in buffers if concurrent else ():
            buffer.last = concurrent[-1]


def _last_external_calls(ops: Sequence[ir.Operation]) -> list[int]:
    """For each operation the last call of an external kernel that it depends on, directly or not, or that it is."""
    last_calls: list[int] = []
    by_value: dict[ir.Value, int] = {}
    for index, op in enumerate(ops):
        latest = max((by_value.get(v, NONE) for v in op.operands), default=NONE)
        last_calls.append(index if is_external_call(op) else latest)
        by_value.update(dict.fromkeys(op.results, last_calls[-1]))
    return last_calls


def _next_external_calls(ops: Sequence[ir.Operation]) -> list[int]:
    """For each operation the next call of an external kernel after it, or the end."""
    ends, end = [0] * len(ops), len(ops)
    for index in reversed(range(len(ops))):
        ends[index] = end
        end = index if is_external_call(ops[index]) else end
    return ends
