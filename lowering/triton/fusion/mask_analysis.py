"""Where scores of attention are hidden: what writes a low number in place of them.

A number that is not -inf hides as much where every row shows another score; a row that shows none has equal weights
by it, and none that are numbers by -inf.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import Call
from oneflow.passes import constants

#: What hides a score where every row shows another: exponentials of numbers so far below it are 0.
LOWEST = -1e4
#: Gives the array that a value always is, or None.
Known = Callable[[ir.Value], np.ndarray | None]


@dataclass(frozen=True)
class Hidden:
    """Where scores are a `number`: where `value` is true, or with `negated` where it is false.

    None stands for what is after the diagonal. Two that differ in their numbers are alike.
    """

    value: ir.Value | None
    negated: bool = False
    number: float = field(default=-math.inf, compare=False)


def hides(known: Known, call: Call, most: float) -> tuple[ir.Value, Hidden] | None:
    """What a call keeps, and where it writes a number of at most `most`; None where it does something else."""
    if call.record.name == "tril":
        written = call.floating_fill_value if call.is_floating_fill_value else float(call.integer_fill_value)
        return (call.in_.handle, Hidden(None, number=written)) if written <= most and call.diagonal == 0 else None
    if call.record.name == "masked_fill":
        is_float = not (call.has_bool_operand or call.has_int_operand)
        written = call.float_operand if is_float else float(call.int_operand)
        return (call.x.handle, Hidden(call.mask.handle, False, written)) if written <= most else None
    for kept, other, negated in ((call.y, call.x, False), (call.x, call.y, True)):
        filled = known(other.handle)
        if filled is not None and filled.size and constants.is_splat(filled) and (filled <= most).all():
            return kept.handle, Hidden(call.condition.handle, negated, float(filled.reshape(-1)[0]))
    return None


def seen(sizes: tuple[int, ...]) -> np.ndarray:
    """Where keys are not after their query."""
    return np.tri(*sizes, dtype=np.bool_)


def rounded(number: float, dtype: DType) -> float:
    """A number as scores of a type hold it: half floats have none below -65504."""
    with np.errstate(over="ignore"):
        return float(np.array(number).astype(dtype.numpy).astype(np.float64))
