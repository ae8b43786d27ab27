"""Samples of adaptive average pooling."""

from oneflow.dialect.dtypes import FLOATS, int32
from oneflow.testing.sample import Bad, Sample, t

FIRST = {"data_format": "channels_first"}
LAST = {"data_format": "channels_last"}
SIZES = [(size, out) for size in (1, 2, 3, 5, 6) for out in (1, 2, 3, 5)]

SAMPLES = [
    Sample("adaptive_avg_pool2d", [t(2, 3, 4, 5)], {"output_size": [2, 3], **FIRST}, dtypes=FLOATS),
    *(Sample("adaptive_avg_pool1d", [t(1, 2, size)], {"output_size": [out], **FIRST}) for size, out in SIZES),
    Sample("adaptive_avg_pool1d", [t(1, 2, 3)], {"output_size": [2], **FIRST}, dtypes=FLOATS),
    Sample("adaptive_avg_pool1d", [t(0, 2, 3)], {"output_size": [2], **FIRST}),
    Sample("adaptive_avg_pool3d", [t(1, 1, 3, 2, 2)], {"output_size": [2, 1, 2], **FIRST}, dtypes=FLOATS),
    Sample("adaptive_avg_pool3d", [t(0, 1, 3, 2, 2)], {"output_size": [2, 1, 2], **FIRST}),
    Sample("adaptive_avg_pool2d", [t(3, 2, 3, 4)], {"output_size": [1, 1], **FIRST}),
    Sample("adaptive_avg_pool2d", [t(2, 4, 3, 2)], {"output_size": [2, 2], **LAST}),
    Sample("adaptive_avg_pool2d", [t(0, 2, 3, 3)], {"output_size": [2, 2], **FIRST}),
    Sample("adaptive_avg_pool3d", [t(1, 2, 3, 2, 4)], {"output_size": [2, 1, 2], **FIRST}),
    Sample(
        "adaptive_avg_pool2d_grad", [t(2, 3, 4, 5), t(2, 3, 2, 3)], {"output_size": [2, 3], **FIRST}, dtypes=FLOATS
    ),
    *(
        Sample("adaptive_avg_pool1d_grad", [t(1, 2, size), t(1, 2, out)], {"output_size": [out], **FIRST})
        for size, out in SIZES
    ),
    Sample("adaptive_avg_pool1d_grad", [t(1, 2, 3), t(1, 2, 2)], {"output_size": [2], **FIRST}, dtypes=FLOATS),
    Sample("adaptive_avg_pool1d_grad", [t(0, 2, 3), t(0, 2, 2)], {"output_size": [2], **FIRST}),
    Sample("adaptive_avg_pool2d_grad", [t(2, 4, 3, 2), t(2, 2, 2, 2)], {"output_size": [2, 2], **LAST}),
    Sample(
        "adaptive_avg_pool3d_grad",
        [t(1, 2, 3, 2, 2), t(1, 2, 2, 1, 2)],
        {"output_size": [2, 1, 2], **FIRST},
        dtypes=FLOATS,
    ),
]
BAD = [
    Bad(
        "adaptive_avg_pool2d",
        [t(1, 2, 4, 4)],
        {"output_size": [2], **FIRST},
        match="expected 2 numbers in output_size, got [2]",
    ),
    Bad(
        "adaptive_avg_pool2d",
        [t(1, 2, 4, 4)],
        {"output_size": [2, 0], **FIRST},
        match="expected numbers of at least 1 in",
    ),
    Bad(
        "adaptive_avg_pool2d",
        [t(1, 2, 0, 4)],
        {"output_size": [2, 2], **FIRST},
        match="expected spatial sizes of at least 1",
    ),
    Bad("adaptive_avg_pool2d", [t(2, 4, 4)], {"output_size": [2, 2], **FIRST}, match="expected x of rank 4"),
    Bad(
        "adaptive_avg_pool1d", [t(1, 2, 4)], {"output_size": [2], "data_format": "NWC"}, match="expected data_format"
    ),
    Bad(
        "adaptive_avg_pool1d",
        [t(1, 2, 4)],
        {"output_size": [2], **FIRST},
        dtype=int32,
        match="expected x of type f16",
    ),
    Bad(
        "adaptive_avg_pool1d_grad",
        [t(1, 2, 4), t(1, 2, 3)],
        {"output_size": [2], **FIRST},
        match="expected dy of type tensor<1x2x2xf32>",
    ),
]
