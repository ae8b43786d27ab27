"""Samples of the integer types that other samples leave out, at the limits: 16 bits, and unsigned 32 and 64 bits."""

from typing import Any

import numpy as np

from oneflow.dialect.dtypes import float32, float64, int16, int64, uint16, uint32, uint64
from oneflow.testing.sample import Sample, t, v

from .scalar_ops import whole

TYPES = (int16, uint16, uint32, uint64)


def _ends(dtype):
    """The bounds of a type and the neighbouring numbers."""
    low, high = (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype is int16 else (0, (1 << dtype.bits) - 1)
    return np.array([low, high, low + 1, high - 1, 7, 3, high // 2, high // 2 + 1], dtype.numpy)


def _of_ends(op, attrs=None, operands=1, kinds=TYPES):
    """A call for each type at the limits of the type; a second operand has the limits in another order."""
    rows = [(d, _ends(d)) for d in kinds]
    return [Sample(op, [v(x, d), v(np.roll(x, 3), d)][:operands], attrs or {}, dtypes=(d,)) for d, x in rows]


BINARY = """
    broadcast_add broadcast_mul broadcast_maximum broadcast_less floordiv broadcast_fmod broadcast_bitwise_xor
""".split()
SAMPLES = [
    *[s for op in BINARY for s in _of_ends(op, operands=2)],
    *[s for to in (int64, float32, float64, uint16) for s in _of_ends("cast", {"dtype": to})],
    *[
        Sample("cast", [v([0.0, 7.9, 3e4])], {"dtype": d}, dtypes=(float32,), gradient=False, why="rounds")
        for d in TYPES
    ],
    *_of_ends("scalar_add", whole(3)),
    *[Sample("reduce_max", [v(_ends(d).reshape(2, 2, 2), d)], {"axis": [0, 1, 2]}, dtypes=(d,)) for d in TYPES],
    *_of_ends("reduce_sum", {"axis": [0]}),
    *_of_ends("arg_sort", {"direction": "ASCENDING"}),
    *_of_ends("cumsum", {"dim": 0}, kinds=(int16, uint32)),
    *_of_ends("negative", kinds=(int16,)),
    Sample(
        "gather",
        [t(4, 2, dtype=uint16), v([3, 0], int64)],
        {"axis": 0},
        gradient=False,
        why="integers have no gradients",
    ),
    Sample("matmul", [t(2, 3, dtype=uint32), t(3, 2, dtype=uint32)], dtypes=(uint32,)),
    Sample("constant", [], {"dtype": uint64, "shape": [2], "is_floating_value": False, "integer_value": 9}),
]
BAD: list[Any] = []
