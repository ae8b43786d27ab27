"""Philox4x32-10, as scalar expressions and in NumPy, each written for itself.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import scalar as s
from oneflow.dialect.scalar import Expr

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
MASK = 0xFFFFFFFF


def philox(counter: Sequence[Expr], seed: int | Expr) -> tuple[Expr, ...]:
    """The four words that Philox4x32-10 makes of four; words are i64 in [0, 2**32), `seed` is the 64-bit key."""
    words = tuple(counter)
    high = s.shift_right_unsigned(seed, 32) if isinstance(seed, Expr) else seed >> 32
    for step in range(ROUNDS):
        key = [(half + step * KEY_STEPS[i]) & MASK for i, half in enumerate((seed & MASK, high))]
        first, second = (words[2 * i] * MULTIPLIERS[i] for i in range(2))
        words = (
            s.shift_right_unsigned(second, 32) ^ words[1] ^ key[0],
            second & MASK,
            s.shift_right_unsigned(first, 32) ^ words[3] ^ key[1],
            first & MASK,
        )
    return words


def numpy_philox(counter: Sequence[Any], seed: int) -> list[Any]:
    """`philox` on arrays of uint64."""
    low, bits = np.uint64(MASK), np.uint64(32)
    words = list(counter)
    keys = np.uint64(seed % 2**64) & low, np.uint64(seed % 2**64) >> bits
    for _ in range(ROUNDS):
        a, b = words[0] * np.uint64(MULTIPLIERS[0]), words[2] * np.uint64(MULTIPLIERS[1])
        words = [(b >> bits) ^ words[1] ^ keys[0], b & low, (a >> bits) ^ words[3] ^ keys[1], a & low]
        keys = (keys[0] + np.uint64(KEY_STEPS[0])) & low, (keys[1] + np.uint64(KEY_STEPS[1])) & low
    return words


def kept_scale(rate: float) -> float:
    """The factor of the elements that a dropout keeps."""
    return 1 / (1 - rate) if rate < 1 else 0.0
