"""Samples of normalization over trailing dimensions."""

from oneflow.dialect.dtypes import FLOATS, int32
from oneflow.testing.sample import Bad, Sample, T, t

LAST = {"begin_norm_axis": 1, "begin_params_axis": 1, "epsilon": 1e-5}
AFFINE = {"center": True, "scale": True}


class Wide(T):
    """An operand in the type that sums are computed in: f32 where the sample runs with f16 or bf16."""

    def array(self, dtype, rng):
        return super().array(dtype.accumulator, rng)


def mean(*shape):
    """Means."""
    return Wide(shape)


def scale(*shape):
    """Positive numbers: deviations, running variances."""
    return Wide(shape, 0.5, 1.5)


SAMPLES = [
    Sample("layer_norm", [t(3, 4), t(4), t(4)], {**LAST, **AFFINE}, dtypes=FLOATS),
    Sample("layer_norm", [t(3, 4)], LAST),
    Sample("layer_norm", [t(2, 3, 2), t(3, 2), None], {**LAST, "center": True}),
    Sample(
        "layer_norm",
        [t(2, 3, 4), None, t(4)],
        {"begin_norm_axis": -2, "begin_params_axis": -1, "scale": True, "epsilon": 0.1},
    ),
    Sample("layer_norm", [t(2, 3)], {"epsilon": 0.1}),
    Sample("layer_norm", [t(0, 3)], LAST),
    Sample(
        "layer_norm_grad",
        [t(3, 4), t(3, 4), mean(3), scale(3), t(4)],
        {"begin_norm_axis": 1},
        dtypes=FLOATS,
    ),
    Sample("layer_norm_grad", [t(2, 3, 2), t(2, 3, 2), mean(2), scale(2), None, t(2, 3, 2)], {"begin_norm_axis": 1}),
    Sample("layer_norm_grad", [t(2, 3), t(2, 3), mean(), scale()]),
    Sample("layer_norm_param_grad", [t(3, 4), t(3, 4), mean(3), scale(3)], {"begin_params_axis": 1}, dtypes=FLOATS),
    Sample("layer_norm_param_grad", [t(2, 3, 2), t(2, 3, 2), mean(2), scale(2)], {"begin_params_axis": 2}),
    Sample("layer_norm_param_grad", [t(0, 4), t(0, 4), mean(0), scale(0)], {"begin_params_axis": 1}),
    Sample("rms_norm", [t(3, 4), t(4)], {"normalized_shape": [4]}, dtypes=FLOATS),
    Sample("rms_norm", [t(2, 3, 2)], {"normalized_shape": [3, 2], "epsilon": 0.5}),
    Sample("rms_norm", [t(0, 3)], {"normalized_shape": [3], "epsilon": 0.5}),
    Sample("rms_norm_grad", [t(3, 4), t(3, 4), scale(3), t(4)], dtypes=FLOATS),
    Sample("rms_norm_grad", [t(2, 3, 2), t(2, 3, 2), scale(2)]),
    Sample("rms_norm_param_grad", [t(3, 4), t(3, 4), scale(3)], dtypes=FLOATS),
]
BAD = [
    Bad("layer_norm", [t(3, 4)], {"begin_norm_axis": 2}, match="expected begin_norm_axis in [-2, 2), got 2"),
    Bad("layer_norm", [t(3, 4)], {"begin_params_axis": -3}, match="expected begin_params_axis in [-2, 2), got -3"),
    Bad("layer_norm", [t(3, 4), t(3), None], {**LAST, "center": True}, match="expected beta of type tensor<4xf32>"),
    Bad("layer_norm", [t(3, 4), t(4), None], LAST, match="expected center = true with beta, got false"),
    Bad("layer_norm", [t(3, 4)], {**LAST, "scale": True}, match="expected gamma with scale = true, got none"),
    Bad("layer_norm", [t(3)], dtype=int32, match="expected x of type f16, bf16, f32, f64, got i32"),
    Bad("layer_norm_grad", [t(3, 4), t(3), t(3), t(3)], match="expected dy of type tensor<3xf32>"),
    Bad(
        "layer_norm_grad",
        [t(3, 4), t(3, 4), t(4), t(3)],
        {"begin_norm_axis": 1},
        match="expected mean of type tensor<3xf32>",
    ),
    Bad("layer_norm_param_grad", [t(3, 4), t(3, 4), t(3), t(4)], match="expected inv_variance of type tensor<3xf32>"),
    Bad("rms_norm", [t(3, 4), t(3)], {"normalized_shape": [4]}, match="expected weight of type tensor<4xf32>"),
    Bad("rms_norm", [t(3, 4)], {"normalized_shape": [3]}, match="expected dimension 1 of x to be 3, got 4"),
    Bad("rms_norm", [t(3)], {"normalized_shape": [1, 3]}, match="expected x of rank 2 or more"),
    Bad("rms_norm_grad", [t(3, 4), t(3, 4), t(4)], match="expected inv_rms of type tensor<3xf32>, got tensor<4xf32>"),
    Bad("rms_norm_param_grad", [t(3, 4), t(4, 4), t(4)], match="expected dy of type tensor<4x4xf32>"),
]
