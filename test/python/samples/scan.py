"""Samples of running sums and products."""

from oneflow.dialect.dtypes import FLOATS, bfloat16, bool_, float16
from oneflow.testing.sample import NUMERIC, Bad, Sample, t, v

HALVES = (float16, bfloat16)
NAN, INF = float("nan"), float("inf")
INFINITE = [[0.0, INF, 3.0], [-INF, 2.0, -4.0], [INF, -INF, 1.0], [0.0, 0.0, INF]]
SAMPLES = [
    Sample("cumsum", [t(2, 3, 2)], {"dim": 1}, dtypes=NUMERIC),
    Sample("cumsum", [t(2, 3)], {"dim": -1}),
    Sample("cumsum", [t(4)], {"dim": 0}),
    Sample("cumsum", [t(0, 3)], {"dim": 0}),
    Sample("cumsum", [v([1.0, NAN, 2.0])], {"dim": 0}, gradient=False, why="NaN"),
    Sample("cumprod", [t(2, 3, 2)], {"dim": 1}, dtypes=NUMERIC),
    Sample("cumprod", [v([[2.0, 0.0, 3.0, 0.0]])], {"dim": -1}),
    Sample("cumprod", [t(0, 3)], {"dim": 1}),
    Sample("cumprod_grad", [t(2, 3, 2), t(2, 3, 2), t(2, 3, 2)], {"dim": 1}, dtypes=FLOATS),
    Sample("cumprod_grad", [t(4), t(4), v([2.0, 0.0, 3.0, 0.0])], {"dim": 0}),
    Sample("product_of_others", [t(2, 3, 2)], {"axis": [1]}, dtypes=FLOATS),
    Sample("product_of_others", [t(2, 3)], {"axis": []}),
    Sample("product_of_others", [t()], {"axis": []}),
    Sample("product_of_others", [t(2, 3, 2)], {"axis": [-1, 0]}),
    Sample("product_of_others", [v([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0], [1.0, 2.0, 4.0]])], {"axis": [1]}),
    Sample("product_of_others", [v(INFINITE)], {"axis": [1]}, gradient=False, why="infinities", dtypes=FLOATS),
    Sample(
        "product_of_others",
        [v([2.0**15] * 9 + [2.0**-15] * 9)],
        {"axis": []},
        dtypes=HALVES,
        gradient=False,
        why="overflow",
    ),
    Sample("product_of_others", [t(0, 3)], {"axis": [0]}),
]
BAD = [
    Bad("cumsum", [t(2, 3)], {"dim": 2}, match="expected dim in [-2, 2), got 2"),
    Bad("cumsum", [t()], {"dim": 0}, match="expected dim in [0, 0), got 0"),
    Bad("cumsum", [t(2)], {"dim": 0}, dtype=bool_, match="expected x of type"),
    Bad("cumsum", [t(2)], match="expected the attribute dim: int64"),
    Bad("cumprod", [t(2, 3)], {"dim": -3}, match="expected dim in [-2, 2), got -3"),
    Bad("cumprod_grad", [t(2), t(2), t(3)], {"dim": 0}, match="expected input of type tensor<2xf32>"),
    Bad("product_of_others", [t(2, 3)], {"axis": [2]}, match="expected axis in [-2, 2), got 2"),
]
