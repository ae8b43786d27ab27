"""Samples of operators that order elements. Rows of 40 are sorted by merging runs, shorter rows by counting."""

from math import inf, nan

from oneflow.dialect import dtypes as dt
from oneflow.dialect.dtypes import bool_, float32, int32, int64
from oneflow.testing.sample import Bad, Sample, t, v

TYPES = (float32, dt.float16, dt.uint8, int64)
UP, DOWN = {"direction": "ASCENDING"}, {"direction": "DESCENDING"}
SPECIAL = v([[nan, 1.0, -inf, -0.0, 0.0, inf, nan, 1.0]])
TIES = t(2, 40, low=0.0, high=5.0, dtype=int32)
WHY = "ties and NaN have no difference quotient"
ROWS = v([[-1.0, 0.5, 0.5, 2.0, 2.0, 2.0, 7.0], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
SOUGHT = v([[-3.0, 0.5, 9.0], [2.0, 5.5, 6.0]])
OUT = {"out_idx": int64}

SAMPLES = [
    Sample("arg_sort", [t(2, 3, 5)], UP, dtypes=TYPES),
    Sample("arg_sort", [TIES], DOWN),
    Sample("arg_sort", [SPECIAL], DOWN),
    Sample("arg_sort", [t(7, dtype=bool_)], UP),
    Sample("sort", [t(3, 5)], UP, dtypes=TYPES),
    Sample("sort", [t(40)], DOWN),
    Sample("sort", [SPECIAL], UP, gradient=False, why=WHY),
    Sample("sort", [t(2, 0)], UP),
    Sample("top_k", [t(3, 5)], {"k": 2}, dtypes=TYPES),
    Sample("top_k", [t(3)], {"k": 7}),
    Sample("top_k", [t(3, 40)], {"k": 3}, dtypes=TYPES),
    Sample("top_k", [TIES], {"k": 4}),
    Sample("top_k", [v([[nan, 1.0, -inf, -0.0, 0.0, inf, nan, *[-inf] * 20]])], {"k": 9}),
    Sample("top_k", [t(20, dtype=bool_)], {"k": 5}),
    Sample("top_k", [t(2, 90)], {"k": 20}, dtypes=TYPES),
    Sample("top_k", [t(2, 40, low=0.0, high=9.0, dtype=int64)], {"k": 35}),
    Sample("top_k", [t(2, 40)], {"k": 0}),
    Sample("in_top_k", [v([1, 0, 2, 3], int32), t(4, 5)], {"k": 2}),
    Sample("in_top_k", [v([0, 0], int64), v([[1.0, inf], [1.0, 1.0]])], {"k": 1}),
    Sample("median", [t(3, 4)], dtypes=TYPES),
    Sample("median", [t()]),
    Sample("median", [SPECIAL], gradient=False, why=WHY),
    Sample("median_with_indices", [t(3, 4)], dtypes=TYPES),
    Sample("median_with_indices", [SPECIAL], gradient=False, why=WHY),
    Sample("mode", [t(3, 4)], dtypes=(float32, int64)),
    Sample("mode", [TIES]),
    Sample("mode", [SPECIAL], gradient=False, why=WHY),
    Sample("searchsorted", [ROWS, SOUGHT]),
    Sample("searchsorted", [ROWS, SOUGHT], {"right": True, "out_int32": True}),
    Sample("searchsorted", [v([1, 2, 2, 5], int64), t(2, 3, low=0, high=7, dtype=int64)]),
    Sample("searchsorted", [t(0), t(2)]),
    Sample("searchsorted_scalar", [v([1.0, 2.0, 2.0, 5.0])], {"values": 2.0}, dtypes=(float32, int64)),
    Sample("searchsorted_scalar", [v([1.0, 2.0, 2.0, 5.0])], {"values": 2.0, "right": True, "out_int32": True}),
    Sample("unique", [t(9, low=0, high=4, dtype=int32)], OUT),
    Sample("unique", [v([nan, 2.0, nan, 2.0, -1.0])], OUT),
    Sample("unique", [t(0)], OUT),
    Sample("unique_with_counts", [t(9, low=0, high=4, dtype=int64)], {"out_idx": int32}),
    Sample("argwhere", [t(2, 3, dtype=bool_)], {"dtype": int64}),
    Sample("argwhere", [v([0.0, 1.0, nan, 0.0])], {"dtype": int32}),
    Sample("argwhere", [t(0, 2)], {"dtype": int32}),
    Sample("bincount", [t(7, low=0, high=5, dtype=int64)], {"size": 6}),
    Sample("bincount", [t(6, low=0, high=3, dtype=int32), t(6)], {"size": 3}, dtypes=(float32, dt.float16)),
    Sample("bincount", [t(0, dtype=int64)], {"size": 0}),
]
BAD = [
    Bad("arg_sort", [t()], UP, match="expected in of rank 1 or more"),
    Bad("sort", [t(2)], {"direction": "UP"}, match="expected direction ASCENDING or DESCENDING, got 'UP'"),
    Bad("top_k", [t(2)], {"k": -1}, match="expected k of at least 0, got -1"),
    Bad("in_top_k", [t(2, dtype=int64), t(3, 2)], {"k": 1}, match="expected the rows of predictions to be 2, got 3"),
    Bad("median", [t(0)], match="expected at least one element in input"),
    Bad("mode", [t(2, 0)], match="expected rows of at least one element in input"),
    Bad("searchsorted", [t(2, 3), t(3, 3)], match="expected axis 0 of values to be 2, got 3"),
    Bad("searchsorted", [t(3), t(3, dtype=int32)], match="expected values of type f32"),
    Bad("unique", [t(2, 2)], OUT, match="expected x of rank 1"),
    Bad("unique", [t(2)], {"out_idx": float32}, match="expected out_idx of type i32 or i64"),
    Bad("argwhere", [t(2)], {"dtype": float32}, match="expected dtype i32 or i64"),
    Bad("bincount", [t(2)], {"size": 2}, match="expected in of type"),
    Bad("bincount", [t(2, dtype=int32), t(3)], {"size": 2}, match="expected the size of weight to be 2, got 3"),
]
