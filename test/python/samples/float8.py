"""Samples of floats of 8 bits: conversions at the ends of the formats, and operators that move elements."""

import numpy as np

from oneflow.dialect.dtypes import (
    FLOAT8,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
)
from oneflow.testing.sample import Bad, Sample, t, v

WHY = "the gradient of floats of 8 bits is rounded to 8 bits"
#: Numbers around the largest ones, the smallest ones, and ties.
ENDS = [448, 464, 464.1, -480, np.inf, -np.inf, np.nan, 57344, 61439, -61440, 2**-9, 2**-10, 2**-17, -(2**-18),
        1.0625, 1.1875, -0.0]  # fmt: skip


def _moving(op, operands, attrs=None):
    return Sample(op, operands, attrs or {}, dtypes=FLOAT8, gradient=False, why=WHY)


def _cast(values, dtypes, to):
    return Sample("cast", [v(values)], {"dtype": to}, dtypes=dtypes, gradient=False, why=WHY)


SAMPLES = [
    *[_cast(ENDS, (float32, float64, float16, bfloat16), d) for d in FLOAT8],
    *[_cast([-3, 0, 17, 90], (uint8, int64), d) for d in FLOAT8],
    *[_cast([-1.75, 0.0, 96, 2**-9], FLOAT8, d) for d in (float32, float16, bfloat16, float64, int32, bool_)],
    *[_cast([-1.75, 208, 300, np.nan], (a,), b) for a, b in (FLOAT8, FLOAT8[::-1])],
    _moving("reshape", [t(2, 3)], {"shape": [3, 2]}),
    _moving("transpose", [t(2, 3)], {"perm": [1, 0]}),
    _moving("slice", [t(5)], {"start": [1], "stop": [5], "step": [2]}),
    _moving("cat", [[t(2, 3), t(1, 3)]], {"axis": 0}),
    _moving("expand", [t(2, 1)], {"expand_shape": [2, 3]}),
    _moving("gather", [t(4, 2), v([3, 0], int64)], {"axis": 0}),
    _moving("flip", [t(5)], {"dims": [0]}),
    _moving("where", [v([True, False, True], bool_), t(3), t(1)]),
    _moving("pad", [t(3)], {"padding_before": [1], "padding_after": [2], "floating_constant_value": 0.3}),
    _moving(
        "constant", [], {"dtype": float8_e4m3fn, "shape": (2,), "is_floating_value": True, "floating_value": 1e3}
    ),
    _moving("tril", [t(3, 3)], {"diagonal": 0}),
]
BAD = [
    Bad("broadcast_add", [t(2), t(2)], match="got f8E4M3FN", dtype=float8_e4m3fn),
    Bad("reduce_max", [t(2)], {"axis": [0]}, match="got f8E5M2", dtype=float8_e5m2),
    Bad("arg_sort", [t(2)], {"direction": "ASCENDING"}, match="a type that is computed with, got tensor<2xf8E5M2>",
        dtype=float8_e5m2),
    Bad("sort", [t(2)], {"direction": "ASCENDING"}, match="expected a type that is computed with", dtype=float8_e5m2),
    Bad("det", [t(2, 2)], match="got", dtype=float8_e4m3fn),
]  # fmt: skip
