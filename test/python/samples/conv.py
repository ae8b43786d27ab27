"""Samples of convolutions and their gradients."""

from oneflow.dialect.dtypes import FLOATS, int32
from oneflow.testing.sample import Bad, Sample, t


def windows(*kernel, stride=1, dilation=1, padding=0, last=False, **more):
    """Attributes of windows that are equal in every spatial dimension."""
    count = len(kernel)
    return {
        "kernel_size": list(kernel),
        "strides": [stride] * count,
        "dilation_rate": [dilation] * count,
        "padding_before": [padding] * count,
        "data_format": "channels_last" if last else "channels_first",
        **more,
    }


def grads(*kernel, **options):
    """Attributes of a gradient."""
    return windows(*kernel, **{"num_spatial_dims": len(kernel), "groups": 1, **options})


def back(*kernel, more=0, **options):
    """Attributes of a transposed convolution."""
    return windows(*kernel, **options, output_padding=[more] * len(kernel))


SAMPLES = [
    Sample("conv1d", [t(2, 3, 5), t(4, 3, 2), t(4)], windows(2, filters=4), dtypes=FLOATS),
    Sample("conv1d", [t(1, 2, 7), t(3, 2, 3)], windows(3, stride=2, dilation=2, padding=3, filters=3)),
    Sample("conv1d", [t(2, 5, 4), t(4, 2, 2), t(4)], windows(2, last=True, groups=2)),
    Sample("conv1d", [t(2, 2, 4), t(2, 2, 3)], windows(3)),
    Sample("conv1d", [t(0, 2, 3), t(2, 2, 2)], windows(2)),
    Sample("conv2d", [t(4, 2, 3, 3), t(2, 2, 2, 2)], windows(2, 2)),
    Sample("conv2d", [t(3, 2, 4, 3), t(3, 2, 2, 3), t(3), t(3, 3, 3, 1)], windows(2, 3), dtypes=FLOATS),
    Sample("conv2d", [t(1, 4, 4, 3), t(2, 2, 3, 2)], windows(3, 2, stride=2, padding=1, groups=2, filters=2)),
    Sample("conv2d", [t(1, 3, 3, 3), t(3, 1, 2, 2)], windows(2, 2, padding=2, dilation=2, groups=3)),
    Sample("conv2d", [t(2, 4, 3, 2), t(3, 2, 2, 2), t(3)], windows(2, 2, padding=1, last=True, filters=3)),
    Sample("conv2d", [t(1, 4, 3, 4), t(4, 2, 2, 2)], windows(2, 2, stride=2, padding=1, last=True, groups=2)),
    Sample("conv2d", [t(1, 1, 1, 1), t(1, 1, 1, 1)], windows(1, 1, padding=2)),
    Sample("conv2d", [t(0, 2, 3, 3), t(2, 2, 2, 2)], windows(2, 2)),
    Sample("conv2d", [t(2, 0, 3, 3), t(2, 0, 2, 2), t(2)], windows(2, 2)),
    Sample("conv2d", [t(2, 2, 3, 3), t(0, 2, 2, 2)], windows(2, 2)),
    Sample("conv3d", [t(1, 2, 3, 2, 3), t(2, 2, 2, 2, 2), t(2)], windows(2, 2, 2, padding=1, stride=2, filters=2)),
    Sample("conv3d", [t(2, 2, 2, 2, 2), t(2, 2, 2, 1, 2)], windows(2, 1, 2), dtypes=FLOATS),
    Sample("conv3d", [t(0, 1, 2, 2, 2), t(1, 1, 2, 2, 2)], windows(2, 2, 2)),
    Sample("conv3d", [t(1, 3, 2, 2, 2), t(2, 2, 2, 1, 2)], windows(2, 2, 1, last=True)),
    Sample("conv_data_grad", [t(2, 3, 3, 3), t(3, 2, 2, 2), t(2, 2, 4, 4)], grads(2, 2), dtypes=FLOATS),
    Sample(
        "conv_data_grad",
        [t(2, 2, 2, 2), t(2, 2, 3, 2), t(2, 4, 4, 3), t(2, 4, 4, 3)],
        grads(3, 2, stride=2, padding=1, groups=2),
    ),
    Sample("conv_data_grad", [t(1, 1, 2, 2), t(1, 1, 3, 3), t(1, 1, 4, 4)], grads(3, 3, stride=2, padding=1)),
    Sample("conv_data_grad", [t(1, 5, 3), t(3, 2, 2), t(1, 4, 2)], grads(2, padding=2, dilation=3, last=True)),
    Sample("conv_data_grad", [t(0, 3, 2), t(3, 2, 2), t(0, 2, 3)], grads(2)),
    Sample("deconv1d", [t(2, 3, 4), t(3, 2, 2)], back(2), dtypes=FLOATS),
    Sample(
        "deconv1d", [t(1, 4, 3), t(4, 2, 3)], back(3, stride=3, dilation=2, padding=1, more=2, groups=2, filters=4)
    ),
    Sample("deconv1d", [t(2, 3, 4), t(4, 2, 2)], back(2, stride=2, last=True)),
    Sample("deconv1d", [t(0, 3, 2), t(3, 2, 2)], back(2)),
    Sample("deconv2d", [t(4, 2, 3, 2), t(2, 2, 2, 3)], back(2, 3), dtypes=FLOATS),
    Sample("deconv2d", [t(2, 4, 2, 3), t(4, 2, 3, 2)], back(3, 2, stride=2, padding=1, groups=2, more=1, filters=4)),
    Sample("deconv2d", [t(1, 2, 3, 2), t(2, 2, 2, 3)], back(2, 2, stride=2, last=True, filters=3)),
    Sample("deconv3d", [t(1, 2, 2, 1, 2), t(2, 3, 2, 2, 2)], back(2, 2, 2, padding=1, stride=2, more=1)),
    Sample("conv_filter_grad", [t(2, 3, 3, 3), t(2, 2, 4, 4)], grads(2, 2), dtypes=FLOATS),
    Sample("conv_filter_grad", [t(2, 2, 2, 2), t(2, 4, 4, 3)], grads(3, 2, stride=2, padding=1, groups=2)),
    Sample("conv_filter_grad", [t(1, 5, 3), t(1, 4, 2)], grads(2, padding=2, dilation=3, last=True)),
    Sample("conv_filter_grad", [t(0, 3, 2), t(0, 2, 3)], grads(2)),
    Sample(
        "conv_bias_grad", [t(2, 3, 2, 2)], {"data_format": "channels_first", "num_spatial_dims": 2}, dtypes=FLOATS
    ),
    Sample("conv_bias_grad", [t(0, 3, 2)], {"data_format": "channels_first", "num_spatial_dims": 1}),
    Sample("conv_bias_grad", [t(2, 4, 3)], {"data_format": "channels_last", "num_spatial_dims": 1}),
]
IMAGES = [t(1, 2, 4, 4), t(3, 2, 2, 2)]
BACK = [t(1, 3, 2, 2), t(3, 2, 2, 2)]
BAD = [
    Bad("deconv2d", [t(1, 2, 2, 2), BACK[1]], back(2, 2), match="expected dimension 0 of weight to be 2, got 3"),
    Bad("deconv2d", BACK, back(2, 2, groups=2), match="expected a number of channels that 2 groups"),
    Bad("deconv2d", BACK, back(3, 2), match="expected kernel dimension 0 of weight to be 3, got 2"),
    Bad("deconv2d", BACK, back(2, 2, filters=4), match="expected filters to be 2, got 4"),
    Bad("deconv2d", BACK, back(2, 2, more=1), match="expected output_padding from 0 to below strides [1, 1]"),
    Bad("deconv2d", BACK, {**back(2, 2), "output_padding": [0]}, match="expected 2 numbers in output_padding"),
    Bad("deconv2d", BACK, back(2, 2, padding=2), match="expected spatial sizes of at least 1"),
    Bad("conv2d", IMAGES, windows(2, 2, data_format="NCHW"), match="expected data_format channels_first or"),
    Bad(
        "conv2d",
        [t(1, 3, 4, 4), t(3, 2, 2, 2)],
        windows(2, 2),
        match="expected channels of a group in weight to be 3, got 2",
    ),
    Bad("conv2d", IMAGES, windows(3, 2), match="expected kernel dimension 0 of weight to be 3, got 2"),
    Bad("conv2d", IMAGES, windows(2, 2, filters=4), match="expected filters to be 3, got 4"),
    Bad("conv2d", [*IMAGES, t(2)], windows(2, 2), match="expected dimension 0 of bias to be 3, got 2"),
    Bad("conv2d", [*IMAGES, None, t(3)], windows(2, 2), match="expected _add_to_output of type tensor<1x3x3x3xf32>"),
    Bad("conv2d", IMAGES, windows(2), match="expected 2 numbers in kernel_size, got [2]"),
    Bad("conv2d", IMAGES, windows(2, 2, stride=0), match="expected numbers of at least 1 in strides, got [0, 0]"),
    Bad("conv2d", IMAGES, windows(2, 2, dilation=0), match="expected numbers of at least 1 in dilation_rate"),
    Bad("conv2d", IMAGES, windows(2, 2, padding=-1), match="expected numbers of at least 0 in padding_before"),
    Bad("conv2d", IMAGES, windows(2, 2, groups=0), match="expected at least 1 group, got 0"),
    Bad("conv2d", IMAGES, windows(2, 2, groups=2), match="expected a number of channels that 2 groups divide, got 3"),
    Bad("conv2d", IMAGES, windows(2, 2, dilation=4), match="expected spatial sizes of at least 5, got 4"),
    Bad("conv2d", [t(2, 4, 4), IMAGES[1]], windows(2, 2), match="expected in of rank 4, got tensor<2x4x4xf32>"),
    Bad("conv1d", IMAGES, windows(2), match="expected in of rank 3, got tensor<1x2x4x4xf32>"),
    Bad("conv2d", IMAGES, windows(2, 2), dtype=int32, match="expected in of type f16, bf16, f32, f64, complex<f32>"),
    Bad(
        "conv_data_grad",
        [t(1, 3, 2, 3), IMAGES[1], IMAGES[0]],
        grads(2, 2),
        match="expected spatial dimension 0 of dy to be 3, got 2",
    ),
    Bad(
        "conv_data_grad",
        [t(1, 3, 3, 3), t(4, 2, 2, 2), IMAGES[0]],
        grads(2, 2),
        match="expected dimension 0 of filter to be 3, got 4",
    ),
    Bad(
        "conv_filter_grad", [t(2, 3, 3, 3), IMAGES[0]], grads(2, 2), match="expected dimension 0 of dy to be 1, got 2"
    ),
    Bad(
        "conv_filter_grad",
        [t(1, 3, 3, 3), IMAGES[0]],
        grads(2, 2, num_spatial_dims=4),
        match="expected num_spatial_dims of 1 to 3, got 4",
    ),
    *(
        Bad(
            "conv_bias_grad",
            [t(*[2] * (spatial + 2))],
            {"data_format": "channels_first", "num_spatial_dims": spatial},
            match=f"expected num_spatial_dims of 1 to 3, got {spatial}",
        )
        for spatial in (-1, 0, 4)
    ),
    Bad(
        "conv_bias_grad",
        [t(2, 3)],
        {"data_format": "channels_first", "num_spatial_dims": 1},
        match="expected dy of rank 3",
    ),
]
