"""Samples of pooling with TensorFlow's borders, and of these borders."""

from oneflow.dialect.dtypes import bfloat16, float16, float32, int32
from oneflow.testing.sample import Bad, Sample, t, v

HALF = (float32, float16)
ONCE = "the gradient of max pooling has none"


def windows(padding, pool, strides, before=(), after=(), ceil_mode=False, last=False):
    """The attributes of a pooling."""
    border = {"padding_before": list(before), "padding_after": list(after), "padding": padding}
    layout = "channels_last" if last else "channels_first"
    return {"pool_size": pool, "strides": strides, "ceil_mode": ceil_mode, "data_format": layout, **border}


VALID = windows("valid", [2], [1])
UPPER = windows("same_upper", [3], [2])
LOWER = windows("same_lower", [2], [1], last=True)
CEIL = windows("customized", [3], [2], [1], [0], ceil_mode=True)
BORDER = {
    "padding": "same_upper",
    "kernel_size": [3],
    "strides": [2],
    "dilation_rate": [1],
    "data_format": "channels_first",
}
TWO = windows("same_upper", [2, 3], [1, 2])
THREE = windows("customized", [2, 1, 2], [1, 1, 2], [1, 0, 0], [0, 0, 1])
#: Maxima that several elements of a window equal.
TIES = v([[[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 1.0], [2.0, 2.0, 1.0, 1.0]]])


def gradient(name, images, others, attrs, **slots):
    """A sample of a gradient, of `images`, and of `y` and `dy`."""
    return Sample(f"{name}_grad", [images, *others], attrs, **slots)


SAMPLES = [
    Sample("tf_avg_pool_1d", [t(1, 3, 4)], UPPER, dtypes=(*HALF, bfloat16)),
    Sample("tf_avg_pool_1d", [t(1, 4, 3)], LOWER),
    Sample("tf_avg_pool_1d", [t(1, 3, 6)], CEIL),
    Sample("tf_avg_pool_1d", [t(1, 3, 4)], VALID),
    Sample("tf_avg_pool_2d", [t(3, 1, 3, 4)], TWO),
    Sample("tf_avg_pool_3d", [t(1, 3, 2, 1, 3)], THREE),
    gradient("tf_avg_pool_1d", t(1, 3, 4), [t(1, 3, 2)] * 2, UPPER, dtypes=HALF),
    gradient("tf_avg_pool_2d", t(3, 1, 3, 4), [t(3, 1, 3, 2)] * 2, TWO),
    gradient("tf_avg_pool_3d", t(1, 3, 2, 1, 3), [t(1, 3, 2, 1, 2)] * 2, THREE),
    Sample("tf_max_pool_1d", [t(1, 3, 4)], UPPER, dtypes=HALF, second_order=False, why=ONCE),
    Sample("tf_max_pool_1d", [t(1, 4, 3)], LOWER, second_order=False, why=ONCE),
    Sample("tf_max_pool_1d", [t(1, 3, 6)], CEIL, second_order=False, why=ONCE),
    Sample("tf_max_pool_2d", [t(3, 1, 3, 4)], TWO, second_order=False, why=ONCE),
    Sample("tf_max_pool_3d", [t(1, 3, 2, 1, 3)], THREE, second_order=False, why=ONCE),
    gradient("tf_max_pool_1d", TIES, [v([[[3.0, 3.0], [0.0, 1.0], [2.0, 1.0]]]), t(1, 3, 2)], UPPER, dtypes=HALF),
    gradient("tf_max_pool_1d", TIES, [v([[[3.0, 3.0, 3.0], [0.0, 0.0, 1.0], [2.0, 2.0, 1.0]]]), t(1, 3, 3)], VALID),
    gradient("tf_max_pool_2d", v([[[[1.0, 3.0], [3.0, 2.0]]]] * 3), [v([[[[3.0], [3.0]]]] * 3), t(3, 1, 2, 1)], TWO),
    gradient(
        "tf_max_pool_3d",
        v([[[[[1.0, 1.0]]], [[[2.0, 0.0]]], [[[3.0, 4.0]]]]]),
        [v([[[[[1.0]]], [[[2.0]]], [[[4.0]]]]]), t(1, 3, 1, 1, 1)],
        windows("valid", [1, 1, 2], [1, 1, 2]),
    ),
    Sample("same_padding", [t(1, 3, 4)], BORDER, dtypes=(float32, float16, int32)),
    Sample(
        "same_padding",
        [t(3, 3, 2, 1)],
        {
            **BORDER,
            "padding": "same_lower",
            "kernel_size": [2, 2],
            "strides": [1, 1],
            "dilation_rate": [2, 1],
            "data_format": "channels_last",
        },
    ),
    Sample("same_padding_grad", [t(1, 3, 4), t(1, 3, 5)], BORDER, dtypes=(float32, float16)),
]
BAD = [
    Bad("tf_avg_pool_1d", [t(1, 2, 4)], {**VALID, "padding": "same"}, match="expected padding to be one of valid"),
    Bad("tf_avg_pool_1d", [t(1, 2, 4)], windows("valid", [5], [1]), match="expected every window to hold an element"),
    Bad("tf_max_pool_1d", [t(1, 2, 4)], windows("customized", [2], [1], [2], [0]), match="from -2 to 2 along"),
    Bad(
        "tf_max_pool_1d", [t(1, 2, 4)], windows("customized", [2], [1]), match="expected 1 numbers in padding_before"
    ),
    Bad(
        "tf_max_pool_1d_grad",
        [t(1, 2, 4), t(1, 2, 3), t(1, 2, 2)],
        VALID,
        match="expected dy of type tensor<1x2x3xf32>",
    ),
    Bad(
        "same_padding",
        [t(1, 2, 4)],
        {**BORDER, "padding": "valid"},
        match="expected padding same_upper or same_lower",
    ),
    Bad("same_padding", [t(1, 2, 4, 4)], BORDER, match="expected x of rank 3"),
    Bad("same_padding_grad", [t(1, 2, 4), t(1, 2, 4)], BORDER, match="expected dy of type tensor<1x2x5xf32>"),
]
