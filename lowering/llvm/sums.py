"""Long floating-point sums: added up in blocks of blocks, so that errors do not grow with their length.

One running sum of n numbers is off by up to n roundings. Here a loop begins a fresh sum every `BLOCK` steps, adds
that to one that begins afresh every `FAN_IN` of those, and adds that to a total which keeps what rounding took from
it (Knuth's two-sum). Nothing of it depends on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.lowering.llvm.body import Lanes, LaneValue
from oneflow.lowering.llvm.writer import Index

#: Steps of the shortest sums, and how many of those make one of the next.
BLOCK, FAN_IN = 16, 16


@dataclass(frozen=True)
class Cascade:
    """How a sweep adds up: which loop is cut, into blocks of how many steps (smallest first).

    `compensated`: the total of the largest blocks carries an error term.
    """

    level: int
    blocks: tuple[int, ...]
    compensated: bool


def cascade(sizes: Sequence[Index], steps: Sequence[int], first: int = BLOCK) -> Cascade | None:
    """The cascade for nested loops of `sizes`, outermost first, that advance by `steps`; None for short ones."""
    counts = [math.ceil(n / step) if isinstance(n, int) else None for n, step in zip(sizes, steps, strict=True)]
    below = 1
    for level in reversed(range(len(counts))):
        count = counts[level]
        if count is None or below * count > 2 * first:
            block = max(first // below, 1)
            known = [c for c in counts if c is not None]
            long = len(known) < len(counts) or math.prod(known) > 2 * FAN_IN * below * block
            return Cascade(level, (block, block * FAN_IN) if long else (block,), long)
        below *= count
    return None


def compensated_cascade(loops: int) -> Cascade:
    """The cascade for sums of partial sums, which are few and large: every one is added with its error."""
    return Cascade(loops - 1, (1,), True)


def add(lanes: Lanes, a: LaneValue, b: LaneValue) -> LaneValue:
    """a + b, in this order."""
    return _arith(lanes, "addf", a, b)


def two_sum(lanes: Lanes, total: LaneValue, error: LaneValue, x: LaneValue) -> tuple[LaneValue, LaneValue]:
    """The rounded sum of `total` and `x`, and `error` with what rounding took."""
    both = add(lanes, total, x)
    second = _arith(lanes, "subf", both, total)
    first = _arith(lanes, "subf", both, second)
    lost = add(lanes, _arith(lanes, "subf", total, first), _arith(lanes, "subf", x, second))
    return both, add(lanes, error, lost)


def compensate(lanes: Lanes, total: LaneValue, error: LaneValue) -> LaneValue:
    """The total with its error; an infinite total has none."""
    kind = lanes.type(total.element, total.is_vector)
    corrected = add(lanes, total, error)
    known = lanes.writer.op(f"arith.cmpf ord, {error.name}, {error.name} : {kind}")
    masks = lanes.type("i1", total.is_vector)
    name = lanes.writer.op(f"arith.select {known}, {corrected.name}, {total.name} : {masks}, {kind}")
    return LaneValue(name, total.element, total.is_vector)


def _arith(lanes: Lanes, name: str, a: LaneValue, b: LaneValue) -> LaneValue:
    kind = lanes.type(a.element, a.is_vector)
    return LaneValue(lanes.writer.op(f"arith.{name} {a.name}, {b.name} : {kind}"), a.element, a.is_vector)
