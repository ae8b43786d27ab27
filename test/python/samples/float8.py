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
#: Numbers around the largest and the smallest numbers, and ties.
ENDS = [448, 464, 464.1, -480, np.inf, -np.inf, np.nan, 57344, 61439, -61440, 2**-9, 2**-10, 2**-17, -(2**-18),
        1.0625, 1.1875, -0.0]  # fmt: skip


def _moving(op, operands, attrs=None, dtype=float8_e5m2):
    return Sample(op, operands, attrs or {}, dtypes=(dtype,), gradient=False, why=WHY)


def _casts(values, dtypes, to):
    return [Sample("cast", [v(values, d)], {"dtype": to}, dtypes=(d,), gradient=False, why=WHY) for d in dtypes]


SAMPLES = [
    *_casts(ENDS, (float32, float64, float16), float8_e4m3fn),
    *_casts(ENDS, (float32, float64, bfloat16), float8_e5m2),
    *_casts([3, 0, 17, 90], (uint8,), float8_e4m3fn),
    *_casts([3, 0, 17, 90], (int64,), float8_e5m2),
    *[s for to in (float32, float64, bool_) for s in _casts([-1.75, 0.0, 96, 2**-9], (float8_e4m3fn,), to)],
    *[s for to in (float16, int32) for s in _casts([-1.75, 0.0, 96, 2**-9], (float8_e5m2,), to)],
    *[s for a, b in (FLOAT8, FLOAT8[::-1]) for s in _casts([-1.75, 208, 300, np.nan], (a,), b)],
    _moving("reshape", [t(2, 3)], {"shape": [3, 2]}),
    _moving("transpose", [t(2, 3)], {"perm": [1, 0]}),
    _moving("slice", [t(5)], {"start": [1], "stop": [5], "step": [2]}),
    _moving("cat", [[t(2, 3), t(1, 3)]], {"axis": 0}),
    _moving("expand", [t(2, 1)], {"expand_shape": [2, 3]}),
    _moving("gather", [t(4, 2), v([3, 0], int64)], {"axis": 0}),
    _moving("unfold_tensor", [t(5)], {"dimension": 0, "size": 3, "step": 2}),
    _moving("flip", [t(5)], {"dims": [0]}),
    _moving("where", [v([True, False, True], bool_), t(3), t(1)]),
    _moving("pad", [t(3)], {"padding_before": [1], "padding_after": [2], "floating_constant_value": 0.3}),
    _moving("constant", [], {"dtype": "dtype", "shape": (2,), "is_floating_value": True, "floating_value": 1e3}),
    _moving("tril", [t(3, 3)], {"diagonal": 0}, float8_e4m3fn),
]
BAD = [
    Bad("broadcast_add", [t(2), t(2)], match="got f8E4M3FN", dtype=float8_e4m3fn),
    Bad("reduce_max", [t(2)], {"axis": [0]}, match="got f8E5M2", dtype=float8_e5m2),
    Bad("arg_sort", [t(2)], {"direction": "ASCENDING"}, match="a type that is computed with, got tensor<2xf8E5M2>",
        dtype=float8_e5m2),
    Bad("sort", [t(2)], {"direction": "ASCENDING"}, match="expected a type that is computed with", dtype=float8_e5m2),
    Bad("det", [t(2, 2)], match="got", dtype=float8_e4m3fn),
]  # fmt: skip


def _product(shapes, scales=((), ()), types=FLOAT8, out=float32, bias=None):
    """A product of matrices (m, k) and (k, n); scales are powers of two, so that sums of parts are exact."""
    a, b = (t(*shape, dtype=d) for shape, d in zip(shapes, types, strict=True))
    factors = [v(2.0 ** (np.arange(int(np.prod(s))) % 3 - 1).reshape(s), float32) for s in scales]
    return Sample("scaled_mm", [a, b, *factors, bias], {"out_dtype": out}, gradient=False, why="has none")


E4M3 = (float8_e4m3fn, float8_e4m3fn)
SAMPLES += [
    _product(((3, 4), (4, 5)), types=E4M3),
    _product(((3, 4), (4, 5)), out=float64, bias=t(5, dtype=float64)),
    _product(((3, 4), (4, 2)), ((3, 1), (1, 2))),
    _product(((2, 16), (16, 3)), ((1, 1), (1,)), types=E4M3, out=float8_e4m3fn),
]
BAD += [
    Bad("scaled_mm", [t(2, 3), t(3, 2), v(1.0), v(1.0)], {"out_dtype": float32}, "expected mat_a of type f8E4M3FN"),
    Bad("scaled_mm", [t(2, 3), t(4, 2), v(1.0, float32), v(1.0, float32)], {"out_dtype": float32},
        "expected dimension 0 of mat_b to be 3, got 4", float8_e4m3fn),
    Bad("scaled_mm", [t(2, 3), t(3, 2), t(2, dtype=float32), t(2, dtype=float32)], {"out_dtype": float32},
        "or scale_a of 2x1 for rows and scale_b of 1x2 for columns, got scale_a of tensor<2xf32>", float8_e4m3fn),
    Bad("scaled_mm", [t(2, 3), t(3, 2), v(1.0, float32), v(1.0, float32), t(3, dtype=float32)],
        {"out_dtype": float32}, "expected dimension 0 of bias to be 2, got 3", float8_e5m2),
    Bad("scaled_mm", [t(2, 3), t(3, 2), v(1.0, float32), v(1.0, float32)], {"out_dtype": int32}, "of type f16",
        float8_e5m2),
]  # fmt: skip
