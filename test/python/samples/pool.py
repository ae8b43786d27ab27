"""Samples of pooling: the whole small space of padding, stride, dilation and ceil mode, and its edges."""

import itertools

from oneflow.dialect.dtypes import FLOATS, bool_, int32, int64
from oneflow.testing.sample import NUMERIC, Bad, Sample, t, v

NAN, INF = float("nan"), float("inf")


def windows(*kernel, stride=1, padding=0, last=False, **more):
    """Attributes of windows that are equal in every spatial dimension."""
    count = len(kernel)
    return {
        "kernel_size": list(kernel),
        "stride": [stride] * count,
        "padding": [padding] * count,
        "data_format": "channels_last" if last else "channels_first",
        **more,
    }


def dilated(*kernel, dilation=1, **more):
    """Attributes of max pooling."""
    return windows(*kernel, dilation=[dilation] * len(kernel), **more)


CEIL = {"ceil_mode": True}
MAX_SPACE = [
    dilated(kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil)
    for kernel, stride, padding, dilation, ceil in itertools.product((2, 3), (1, 2, 3), (0, 1), (1, 2), (False, True))
]
AVG_SPACE = [
    windows(kernel, stride=stride, padding=padding, ceil_mode=ceil, count_include_pad=include)
    for kernel, stride, padding, ceil, include in itertools.product(
        (2, 3), (1, 2, 3), (0, 1), (False, True), (False, True)
    )
]
#: Positions inside the windows of 2 that move by 2 over 8 elements, and of 2x2 over 3x3.
PLACES = v([[[0, 3, 4, 7], [1, 2, 5, 6]]], int64)
#: Inside the windows of 2x1x2 over 2x2x2.
VOLUME = v([[[[[1], [6]]]]], int64)
PLANES = v([[[[0], [2]], [[4], [8]]]], int64)

SAMPLES = [
    *(Sample("max_pool_1d", [t(1, 2, 5)], attrs) for attrs in MAX_SPACE),
    Sample("max_pool_1d", [t(2, 5, 3)], dilated(2, last=True, stride=2, **CEIL), dtypes=NUMERIC),
    Sample(
        "max_pool_1d",
        [v([[[1.0, NAN, 3.0, -INF, -INF, NAN]]])],
        dilated(2, stride=2),
        dtypes=FLOATS,
        gradient=False,
        why="NaN and infinities",
    ),
    Sample("max_pool_1d", [v([[[3, 3, 1, 1]]])], dilated(2), dtypes=(int32,)),
    Sample(
        "max_pool_1d",
        [t(1, 1, 1)],
        dilated(2, padding=1, dilation=2),
        gradient=False,
        why="a window without elements has an infinite value",
    ),
    Sample("max_pool_2d", [t(3, 3, 4, 5)], dilated(3, 2, stride=2, padding=1, return_indices=True)),
    Sample("max_pool_2d", [t(1, 4, 4, 2)], dilated(2, 3, padding=1, last=True)),
    Sample("max_pool_2d", [t(1, 1, 3, 2)], dilated(2, 2), dtypes=NUMERIC),
    Sample("max_pool_3d", [t(1, 1, 2, 3, 2)], dilated(2, 2, 1), dtypes=NUMERIC),
    Sample("max_pool_3d", [t(0, 1, 2, 2, 2)], dilated(2, 2, 1)),
    Sample("max_pool_1d", [t(0, 2, 3)], dilated(2)),
    Sample("max_pool_2d", [t(0, 2, 3, 3)], dilated(2, 2)),
    Sample("max_pool_2d", [t(2, 0, 3, 3)], dilated(2, 2)),
    Sample("max_pool_3d", [t(1, 2, 3, 2, 3)], dilated(2, 2, 2, padding=1, stride=2, **CEIL)),
    Sample("max_pool_1d_grad", [t(1, 2, 8), PLACES, t(1, 2, 4)], dilated(2, stride=2), dtypes=FLOATS),
    Sample("max_pool_2d_grad", [t(1, 3, 3, 1), PLANES, t(1, 2, 2, 1)], dilated(2, 2, last=True), dtypes=FLOATS),
    Sample(
        "max_pool_3d_grad", [t(1, 3, 2, 2, 2), v([[[[[1], [6]]]] * 3], int64), t(1, 3, 1, 2, 1)], dilated(2, 1, 2)
    ),
    Sample("max_pool_3d_grad", [t(1, 1, 2, 2, 2), VOLUME, t(1, 1, 1, 2, 1)], dilated(2, 1, 2), dtypes=FLOATS),
    Sample("max_pool_1d_grad", [t(0, 2, 3), t(0, 2, 2, dtype=int64), t(0, 2, 2)], dilated(2)),
    Sample("avg_pool_1d", [t(2, 5, 3)], windows(2, last=True, stride=2, **CEIL), dtypes=FLOATS),
    *(Sample("avg_pool_1d", [t(1, 2, 5)], attrs) for attrs in AVG_SPACE),
    Sample("avg_pool_1d", [t(1, 2, 5)], windows(2, divisor_override=3, padding=1)),
    Sample("avg_pool_2d", [t(3, 3, 4, 5)], windows(3, 2, stride=2, padding=1)),
    Sample("avg_pool_2d", [t(1, 4, 4, 2)], windows(2, 3, padding=1, last=True, count_include_pad=True, **CEIL)),
    Sample("avg_pool_2d", [t(1, 1, 3, 2)], windows(2, 2), dtypes=FLOATS),
    Sample("avg_pool_3d", [t(1, 1, 2, 3, 2)], windows(2, 2, 1), dtypes=FLOATS),
    Sample("avg_pool_3d", [t(0, 1, 2, 2, 2)], windows(2, 2, 1)),
    Sample("avg_pool_1d", [t(0, 2, 3)], windows(2)),
    Sample("avg_pool_2d", [t(0, 2, 3, 3)], windows(2, 2)),
    Sample("avg_pool_3d", [t(1, 2, 3, 2, 3)], windows(2, 2, 2, padding=1, stride=2, **CEIL)),
    *(
        Sample("avg_pool_1d_grad", [t(1, 2, 5), t(1, 2, 3)], attrs)
        for attrs in (windows(2, stride=2, padding=1), windows(2, stride=2, **CEIL), windows(3, divisor_override=2))
    ),
    Sample(
        "avg_pool_2d_grad",
        [t(3, 4, 5, 2), t(3, 2, 3, 2)],
        windows(3, 2, stride=2, padding=1, last=True),
        dtypes=FLOATS,
    ),
    Sample("avg_pool_1d_grad", [t(1, 1, 3), t(1, 1, 2)], windows(2), dtypes=FLOATS),
    Sample("avg_pool_1d_grad", [t(0, 2, 3), t(0, 2, 2)], windows(2)),
    Sample("avg_pool_3d_grad", [t(1, 3, 2, 2, 2), t(1, 3, 1, 1, 1)], windows(2, 2, 2)),
    Sample("avg_pool_3d_grad", [t(1, 2, 2, 2, 2), t(1, 2, 1, 1, 1)], windows(2, 2, 2), dtypes=FLOATS),
]
BAD = [
    Bad(
        "max_pool_2d",
        [t(1, 2, 4, 4)],
        dilated(2, 2, padding=2),
        match="expected padding of at most half of kernel_size (2, 2), got (2, 2)",
    ),
    Bad("max_pool_2d", [t(1, 2, 4, 4)], dilated(5, 2), match="expected spatial sizes of at least 5, got 4"),
    Bad("max_pool_2d", [t(1, 2, 4)], dilated(2, 2), match="expected x of rank 4, got tensor<1x2x4xf32>"),
    Bad("max_pool_2d", [t(1, 2, 4, 4)], dilated(2), match="expected 2 numbers in kernel_size, got [2]"),
    Bad("max_pool_2d", [t(1, 2, 4, 4)], dilated(2, 2, stride=0), match="expected numbers of at least 1 in stride"),
    Bad(
        "max_pool_2d", [t(1, 2, 4, 4)], dilated(2, 2, dilation=0), match="expected numbers of at least 1 in dilation"
    ),
    Bad("max_pool_2d", [t(1, 2, 4, 4)], dilated(2, 2, padding=-1), match="expected numbers of at least 0 in padding"),
    Bad(
        "max_pool_2d", [t(1, 2, 4, 4)], dilated(2, 2, data_format="NHWC"), match="expected data_format channels_first"
    ),
    Bad("max_pool_2d", [t(1, 2, 4, 4)], dilated(2, 2), dtype=bool_, match="expected x of type ui8"),
    Bad(
        "max_pool_1d_grad",
        [t(1, 2, 4), t(1, 2, 3, dtype=int64), t(1, 2, 2)],
        dilated(2),
        match="expected dy of type tensor<1x2x3xf32>",
    ),
    Bad(
        "max_pool_1d_grad",
        [t(1, 2, 4), t(1, 2, 3), t(1, 2, 3)],
        dilated(2),
        match="expected indice of type tensor<1x2x3xi64>",
    ),
    Bad(
        "avg_pool_1d", [t(1, 2, 4)], windows(2), dtype=int32, match="expected x of type f16, bf16, f32, f64, got i32"
    ),
    Bad("avg_pool_1d_grad", [t(1, 2, 4), t(1, 2, 4)], windows(2), match="expected dy of type tensor<1x2x3xf32>"),
]
#: Windows side by side, whose gradient is read and not added up; and windows too large to be searched without a loop.
PACKED = [v([[[[0, 7], [8, 11]], [[5, 2], [9, 14]]]], int64), t(1, 2, 2, 2)]
SAMPLES += [
    Sample("max_pool_2d", [t(1, 2, 6, 4)], dilated(3, 2, stride=2)),
    Sample("max_pool_2d", [t(1, 2, 5, 5)], dilated(5, 4, stride=1)),
    Sample("max_pool_2d", [v([[[[1.0, NAN], [NAN, 2.0]], [[-INF, -INF], [3.0, 3.0]]]])], dilated(2, 2, stride=2),
           dtypes=FLOATS, gradient=False, why="NaN and infinities"),
    Sample("max_pool_2d_grad", [t(1, 2, 4, 4), *PACKED], dilated(2, 2, stride=2), dtypes=FLOATS),
    Sample("max_pool_2d_grad", [t(1, 4, 4, 2), v([[[[0, 5], [2, 7]], [[9, 12], [10, 15]]]], int64), t(1, 2, 2, 2)],
           dilated(2, 2, stride=2, last=True)),
    Sample("avg_pool_2d_grad", [t(1, 2, 4, 6), t(1, 2, 2, 3)], windows(2, 2, stride=2), dtypes=FLOATS),
    Sample("avg_pool_2d_grad", [t(1, 4, 6, 2), t(1, 2, 3, 2)], windows(2, 2, stride=2, last=True)),
]  # fmt: skip
