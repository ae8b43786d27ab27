"""What runs beside kernels made elsewhere, collectives above all, does not wait for their memory.

A plan is in order, but on a device only what touches the same memory waits. So memory that such a kernel reads, or
what needs its results, is not given to an operation that needs them not, until the next of these kernels is called:
later ones seldom wait for it still.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from oneflow.dialect._mlir import ir
from oneflow.lowering.buffers import Buffer, Liveness
from oneflow.lowering.kernels.graph import is_external_call

#: What needs no kernel made elsewhere.
NONE = -1


def keep_beside(ops: Sequence[ir.Operation], liveness: Liveness) -> None:
    """Lets buffers of an entry live longer."""
    needs, ends = _needs(ops), _ends(ops)
    ending: dict[int, list[Buffer]] = defaultdict(list)
    for buffer in liveness.buffers:
        if buffer.kind == "temporary" and not buffer.dynamic and 0 <= buffer.last < len(ops):
            ending[buffer.last].append(buffer)
    for number, buffers in ending.items():
        if needs[number] == NONE:
            continue
        beside = [n for n in range(number + 1, ends[number]) if needs[n] < needs[number]]
        for buffer in buffers if beside else ():
            buffer.last = beside[-1]


def _needs(ops: Sequence[ir.Operation]) -> list[int]:
    """For each operation the last kernel made elsewhere that it needs, directly or not, or that it is."""
    found: list[int] = []
    by_value: dict[ir.Value, int] = {}
    for number, op in enumerate(ops):
        needed = max((by_value.get(v, NONE) for v in op.operands), default=NONE)
        found.append(number if is_external_call(op) else needed)
        by_value.update(dict.fromkeys(op.results, found[-1]))
    return found


def _ends(ops: Sequence[ir.Operation]) -> list[int]:
    """For each operation the next one that calls a kernel made elsewhere, or the end."""
    ends, end = [0] * len(ops), len(ops)
    for number in reversed(range(len(ops))):
        ends[number] = end
        end = number if is_external_call(ops[number]) else end
    return ends
