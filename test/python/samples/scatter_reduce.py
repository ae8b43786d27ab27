"""Samples of operators that write, multiply or compare elements at positions along an axis."""

from oneflow.dialect.dtypes import float16, float32, int32, int64
from oneflow.testing.sample import Bad, Sample, t, v

TYPES = (float32, float16, int64)
AT = v([[0, 2, 0], [1, 1, 1]], int64)
FEWER = v([[1, 0]], int32)
DIM = {"dim": 0}
TWICE = v([[0, 0, 0], [2, 2, 1], [1, 0, 2]], int64)

SAMPLES = [
    *[
        sample
        for name in ("update", "mul", "amax", "amin")
        for sample in (
            Sample(f"dim_scatter_{name}", [t(3, 3), AT, t(2, 3)], DIM, dtypes=TYPES),
            Sample(f"dim_scatter_{name}", [t(3, 3), TWICE, t(3, 3)], {"dim": -1}),
        )
    ],
    Sample("dim_scatter_update", [t(2, 3), FEWER, t(2, 2)], {"dim": 1}),
    Sample(
        "dim_scatter_mul",
        [v([[2.0, 0.0, 3.0]]), v([[0, 2, 2]], int64), v([[0.0, 0.0, 5.0]])],
        {"dim": 1},
        second_order=False,
        why="zeros are counted, which has no slope",
    ),
    *[
        Sample(f"dim_scatter_{name}_scalar", [t(3, 3), TWICE], {"dim": 1, "src_scalar": 3.0}, dtypes=TYPES)
        for name in ("add", "update", "mul")
    ],
    Sample("tensor_scatter_nd_add", [t(4, 3), t(2, 3), v([[1], [1]], int64)], dtypes=TYPES),
    Sample("index_add", [t(4, 3), v([1, 1, 3], int64), t(3, 3)], {"dim": 0, "alpha": 2.0}, dtypes=TYPES),
    Sample("index_add", [t(3, 4), v([2], int32), t(3, 1)], {"dim": -1, "alpha": 1.0}),
    Sample("repeat_interleave", [t(3), v([2, 2, 5], int64)], {"repeat_num": 5}, dtypes=TYPES),
    Sample("embedding_renorm", [t(4, 3), v([2, 0, 2], int64)], {"max_norm": 0.5}, dtypes=(float32, float16)),
    Sample("embedding_renorm", [t(4, 3), v([1], int64)], {"max_norm": 1.0, "norm_type": 1.0}),
]
BAD = [
    Bad("dim_scatter_update", [t(2, 2), t(2, 2), t(2, 2)], DIM, match="expected index of type i32, i64"),
    Bad("dim_scatter_mul", [t(2, 2), t(2, 3, dtype=int64), t(2, 3)], DIM, match="expected index to fit into input"),
    Bad("dim_scatter_amax", [t(2, 2), t(2, 2, dtype=int64), t(1, 2)], DIM, match="expected index to fit into src"),
    Bad("dim_scatter_add_scalar", [t(2), t(2, dtype=int64)], {"dim": 1}, match="expected dim in [-1, 1), got 1"),
    Bad("tensor_scatter_nd_add", [t(4, 3), t(2, 2), t(2, 1, dtype=int64)], match="expected updates of type"),
    Bad(
        "index_add", [t(4, 3), t(2, dtype=int64), t(3, 3)], {"dim": 0, "alpha": 1.0}, match="axis 0 of source to be 2"
    ),
    Bad("index_add", [t(2), t(2, dtype=int64), t(2)], {"dim": 0, "alpha": 0.5}, "whole number alpha", int32),
    Bad("repeat_interleave", [t(3), t(2, dtype=int64)], match="expected the size of cumsum to be 3, got 2"),
    Bad("embedding_renorm", [t(3), t(2, dtype=int64)], match="expected in of rank 2"),
]
