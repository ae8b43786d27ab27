"""Samples of adaptive max pooling."""

from oneflow.dialect.dtypes import FLOATS, bfloat16, float32, int32, int64
from oneflow.testing.sample import Bad, Sample, t, v

FIRST, LAST = {"data_format": "channels_first"}, {"data_format": "channels_last"}
ONE = {"output_size": [2], **FIRST}
#: Positions in an image of 3 elements that several windows may name.
PLACES = v([[[0, 2], [1, 1], [2, 0]]], int64)

SAMPLES = [
    Sample("adaptive_max_pool1d", [t(1, 3, 5)], {"output_size": [3], **FIRST}, dtypes=(*FLOATS, int32)),
    Sample("adaptive_max_pool1d", [t(1, 4, 3)], {"output_size": [2], **LAST}),
    Sample("adaptive_max_pool1d", [v([[[1.0, float("nan"), 2.0, 2.0]]])], ONE, gradient=False, why="NaN"),
    Sample("adaptive_max_pool2d", [t(2, 3, 4, 5)], {"output_size": [2, 3], **FIRST}),
    Sample("adaptive_max_pool2d", [t(3, 2, 3, 4)], {"output_size": [1, 2], **FIRST}),
    Sample("adaptive_max_pool2d", [t(0, 2, 3, 3)], {"output_size": [2, 2], **FIRST}),
    Sample("adaptive_max_pool3d", [t(1, 3, 3, 2, 4)], {"output_size": [2, 1, 2], **FIRST}),
    Sample("adaptive_max_pool1d_grad", [t(1, 3, 2), t(1, 3, 3), PLACES], FIRST, dtypes=(float32, bfloat16)),
    Sample(
        "adaptive_max_pool2d_grad", [t(1, 3, 1, 2), t(1, 3, 1, 3), v([[[[0, 2]], [[1, 1]], [[2, 0]]]], int64)], FIRST
    ),
    Sample(
        "adaptive_max_pool3d_grad",
        [t(1, 3, 1, 2, 1), t(1, 2, 1, 3, 1), v([[[[[0], [1]]], [[[5], [3]]], [[[2], [0]]]]], int64)],
        LAST,
    ),
]
BAD = [
    Bad("adaptive_max_pool2d", [t(1, 2, 4, 4)], ONE, match="expected 2 numbers in output_size, got [2]"),
    Bad("adaptive_max_pool1d", [t(1, 2, 0)], ONE, match="expected spatial sizes of at least 1"),
    Bad(
        "adaptive_max_pool1d_grad",
        [t(1, 2, 2), t(1, 3, 4), t(1, 2, 2, dtype=int64)],
        FIRST,
        match="expected the channels of dy to be 3, got 2",
    ),
    Bad(
        "adaptive_max_pool1d_grad",
        [t(1, 3, 2), t(1, 3, 4), t(1, 3, 3, dtype=int64)],
        FIRST,
        match="expected index of type tensor<1x3x2xi64>",
    ),
]
