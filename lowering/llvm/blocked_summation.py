"""Blocked, compensated summation of long floating-point sums: errors do not grow with the length.

The error of one running sum of n elements is up to n roundings. Here a loop starts a new sum every `BLOCK` steps,
adds that sum to a second sum that restarts every `FAN_IN` blocks, and adds the second sum to a total with an error
term (Knuth's two-sum). The order does not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.lowering.llvm.lanes import Lanes, LaneValue
from oneflow.lowering.llvm.writer import Index

#: The length of the shortest sums in steps, and how many sums of one level are added to one sum of the next level.
BLOCK, FAN_IN = 16, 16


@dataclass(frozen=True)
class Cascade:
    """The blocked summation of an inner loop nest: the loop `level` that is split, and block lengths in steps,
    smallest first.

    `compensated`: the total of the largest blocks has an error term.
    """

    level: int
    blocks: tuple[int, ...]
    compensated: bool


def cascade(sizes: Sequence[Index], steps: Sequence[int], first: int = BLOCK) -> Cascade | None:
    """The cascade for nested loops of `sizes`, outermost first, with strides `steps`; None for short sums."""
    counts = [math.ceil(n / step) if isinstance(n, int) else None for n, step in zip(sizes, steps, strict=True)]
    below = 1
    for level in reversed(range(len(counts))):
        count = counts[level]
        if count is None or below * count > 2 * first:
            block = max(first // below, 1)
            static_counts = [c for c in counts if c is not None]
            is_long = len(static_counts) < len(counts) or math.prod(static_counts) > 2 * FAN_IN * below * block
            return Cascade(level, (block, block * FAN_IN) if is_long else (block,), is_long)
        below *= count
    return None


def compensated_cascade(loops: int) -> Cascade:
    """The cascade for sums of partial sums, which are few and large: each is added with its error term."""
    return Cascade(loops - 1, (1,), True)


def add(lanes: Lanes, a: LaneValue, b: LaneValue) -> LaneValue:
    """a + b, in this order."""
    return _arith(lanes, "addf", a, b)


def two_sum(lanes: Lanes, total: LaneValue, error: LaneValue, x: LaneValue) -> tuple[LaneValue, LaneValue]:
    """The rounded sum of `total` and `x`, and `error` plus the rounding error (Knuth's two-sum)."""
    rounded = add(lanes, total, x)
    second = _arith(lanes, "subf", rounded, total)
    first = _arith(lanes, "subf", rounded, second)
    lost = add(lanes, _arith(lanes, "subf", total, first), _arith(lanes, "subf", x, second))
    return rounded, add(lanes, error, lost)


def compensate(lanes: Lanes, total: LaneValue, error: LaneValue) -> LaneValue:
    """The total plus its error term; an infinite total is returned."""
    kind = lanes.type(total.element, total.is_vector)
    corrected = add(lanes, total, error)
    is_finite = lanes.writer.op(f"arith.cmpf ord, {error.name}, {error.name} : {kind}")
    masks = lanes.type("i1", total.is_vector)
    name = lanes.writer.op(f"arith.select {is_finite}, {corrected.name}, {total.name} : {masks}, {kind}")
    return LaneValue(name, total.element, total.is_vector)


def _arith(lanes: Lanes, name: str, a: LaneValue, b: LaneValue) -> LaneValue:
    """An `arith` operation on two values."""
    kind = lanes.type(a.element, a.is_vector)
    return LaneValue(lanes.writer.op(f"arith.{name} {a.name}, {b.name} : {kind}"), a.element, a.is_vector)
