"""Matches masks of attention scores that replace scores by a low number.

A finite low number masks like -inf in a row that has another score. In a fully masked row the finite number results
in equal weights, and -inf in NaN.
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

#: The highest number that masks a score in a row that has another: exponentials of numbers so far below it are 0.
MASK_THRESHOLD = -1e4
#: Returns the constant of a value, or None.
ConstantOf = Callable[[ir.Value], np.ndarray | None]


@dataclass(frozen=True)
class ScoreMask:
    """A mask that replaces scores by `number` where `value` is true, or with `negated` where `value` is false.

    None is the mask of the positions after the diagonal. Masks that differ only in `number` are equal.
    """

    value: ir.Value | None
    negated: bool = False
    number: float = field(default=-math.inf, compare=False)


def match_mask(known: ConstantOf, call: Call, most: float) -> tuple[ir.Value, ScoreMask] | None:
    """The operand whose scores a call keeps, and its mask; None where the call writes no number of at most `most`."""
    if call.record.name == "tril":
        written = call.floating_fill_value if call.is_floating_fill_value else float(call.integer_fill_value)
        return (call.in_.handle, ScoreMask(None, number=written)) if written <= most and call.diagonal == 0 else None
    if call.record.name == "masked_fill":
        is_float = not (call.has_bool_operand or call.has_int_operand)
        written = call.float_operand if is_float else float(call.int_operand)
        return (call.x.handle, ScoreMask(call.mask.handle, False, written)) if written <= most else None
    for kept, other, negated in ((call.y, call.x, False), (call.x, call.y, True)):
        filled = known(other.handle)
        if filled is not None and filled.size and constants.is_splat(filled) and (filled <= most).all():
            return kept.handle, ScoreMask(call.condition.handle, negated, float(filled.reshape(-1)[0]))
    return None


def causal_mask(sizes: tuple[int, ...]) -> np.ndarray:
    """The causal mask: true where the key is not after the query."""
    return np.tri(*sizes, dtype=np.bool_)


def round_to(number: float, dtype: DType) -> float:
    """A number rounded to a type: f16 has none below -65504 but -inf."""
    with np.errstate(over="ignore"):
        return float(np.array(number).astype(dtype.numpy).astype(np.float64))
