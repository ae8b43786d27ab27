"""Samples of batch normalization in parts."""

from oneflow.dialect.dtypes import float32, float64, int32
from oneflow.testing.sample import Bad, Sample, t, v

X, CHANNEL, INVERSE = t(3, 3, 2), t(3), t(3, low=0.5, high=2.0)
ROWS, BATCHES, COUNTS = t(3, 2), [t(3), t(2, 3), t(2, 3, low=0.5, high=2.0)], v([3.0, 6.0])

SAMPLES = [
    Sample("batch_norm_stats", [X], {"eps": 0.5}, dtypes=(float32, float64)),
    Sample("batch_norm_stats", [t(2, 3)], {"axis": 0}, gradient=False, why="as of the other sample"),
    Sample("batch_norm_gather_stats_with_counts", [*BATCHES, COUNTS], {"eps": 0.5}),
    Sample("batch_norm_gather_stats_with_counts", [t(2), t(1, 2), t(1, 2, low=0.5, high=2.0), v([4.0]), t(2), t(2)],
           {"momentum": 0.25}, second_order=False, why="as of the other sample"),
    Sample("batch_norm_elemt", [X, CHANNEL, CHANNEL, CHANNEL, INVERSE]),
    Sample("batch_norm_backward_reduce", [X, X, CHANNEL, INVERSE], second_order=False, why="products of sums"),
    Sample("batch_norm_backward_elemt", [ROWS, ROWS, t(2), t(2, low=0.5, high=2.0), *[t(2)] * 3, v([4, 2], int32)],
           second_order=False, why="products"),
]  # fmt: skip
BAD = [
    Bad("batch_norm_elemt", [X, t(2), CHANNEL, CHANNEL, INVERSE], match="expected weight of type tensor<3xf32>"),
    Bad("batch_norm_gather_stats_with_counts", [*BATCHES, COUNTS, t(3)], match="expected both of running_mean"),
    Bad("batch_norm_stats", [X], {"axis": 3}, match="expected axis in [-3, 3)"),
]
