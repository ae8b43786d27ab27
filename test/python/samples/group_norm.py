"""Samples of normalization over groups of channels and with running statistics."""

from oneflow.dialect.dtypes import FLOATS, bfloat16, float16, int32
from oneflow.testing.sample import Bad, Sample, t

from .norm import mean, scale

HALVES = float16, bfloat16
GROUPS = {"num_groups": 2, "epsilon": 1e-5}
BATCH = {"axis": 1, "epsilon": 1e-5}
TRAINING = {**BATCH, "training": True, "momentum": 0.9}
SAMPLES = [
    Sample("group_norm", [t(3, 4, 2), t(4), t(4)], {**GROUPS, "affine": True}, dtypes=FLOATS),
    Sample("group_norm", [t(2, 6, 2, 2)], {"num_groups": 3, "epsilon": 0.1}),
    Sample("group_norm", [t(3, 2, 4), t(4), t(4)], {**GROUPS, "affine": True, "data_format": "channels_last"}),
    Sample("group_norm", [t(2, 4)], {"num_groups": 1, "epsilon": 0.1}),
    Sample("group_norm", [t(0, 4, 2), t(4), t(4)], {**GROUPS, "affine": True}),
    Sample("group_norm_grad", [t(3, 4, 2), t(3, 4, 2), mean(3, 2), scale(3, 2), t(4)], GROUPS, dtypes=FLOATS),
    Sample("group_norm_grad", [t(2, 4), t(2, 4), mean(2, 2), scale(2, 2)], GROUPS),
    Sample("group_norm_param_grad", [t(3, 4, 2), t(3, 4, 2), mean(3, 2), scale(3, 2)], dtypes=FLOATS),
    Sample("normalization", [t(2, 3, 2), mean(3), scale(3), mean(3), mean(3)], BATCH, dtypes=FLOATS),
    Sample("normalization", [t(2, 3), mean(3), scale(3), mean(3), mean(3), t(2, 3)], {**BATCH, "axis": -1}),
    Sample("normalization", [t(0, 3), mean(3), scale(3), mean(3), mean(3)], BATCH),
    Sample("normalization", [t(3), mean(3), scale(3), mean(3), mean(3)], {**BATCH, "axis": 0}),
    Sample("normalization", [t(3, 4, 2), mean(4), scale(4), mean(4), mean(4)], TRAINING, dtypes=FLOATS),
    Sample("normalization", [t(5, 3), mean(3), scale(3), mean(3), mean(3), t(5, 3)], {**TRAINING, "axis": -1}),
    Sample("normalization", [t(64, 3, low=7, high=9), mean(3), scale(3), mean(3), mean(3)], TRAINING, dtypes=HALVES),
    Sample(
        "normalization",
        [t(16, 3, low=29800, high=30200), mean(3), scale(3), mean(3), mean(3)],
        TRAINING,
        dtypes=(float16,),
        gradient=False,
        why="differences of numbers that are far from 0 for how far they are from each other have few digits",
    ),
    Sample("normalization", [t(3, 6), None, None, mean(3), mean(3)], {"axis": 0, "epsilon": 0.1, "training": True}),
    Sample("normalization_grad", [t(3, 4, 2), t(3, 4, 2), mean(4), scale(4), mean(4)], {"axis": 1}, dtypes=FLOATS),
    Sample("normalization_grad", [t(4, 5), t(4, 5), mean(4), scale(4), mean(4)]),
]
BAD = [
    Bad(
        "group_norm",
        [t(2, 4, 2)],
        {"num_groups": 3},
        match="expected a number of channels that 3 groups divide, got 4",
    ),
    Bad("group_norm", [t(2, 4, 2)], match="expected at least 1 group, got 0"),
    Bad(
        "group_norm",
        [t(2, 4)],
        {**GROUPS, "activation": "silu"},
        match="expected activation 'none', got 'silu'; write the activation as an operator of its own",
    ),
    Bad("group_norm", [t(2, 4)], {**GROUPS, "data_format": "nhwc"}, match="expected data_format channels_first or"),
    Bad(
        "group_norm",
        [t(2, 3, 4), t(3), t(3)],
        {**GROUPS, "affine": True, "data_format": "channels_last"},
        match="expected beta of type tensor<4xf32>",
    ),
    Bad("group_norm", [t(4)], GROUPS, match="expected x of rank 2 or more"),
    Bad("group_norm", [t(2, 4), t(2), t(4)], {**GROUPS, "affine": True}, match="expected beta of type tensor<4xf32>"),
    Bad("group_norm", [t(2, 4), t(4), t(4)], GROUPS, match="expected affine = true with beta, got false"),
    Bad(
        "group_norm_grad", [t(2, 4), t(2, 4), t(2, 4), t(2, 2)], GROUPS, match="expected mean of type tensor<2x2xf32>"
    ),
    Bad("group_norm_param_grad", [t(2, 4), t(2, 4), t(2), t(2, 2)], match="expected mean of rank 2"),
    Bad("normalization", [t(2, 3), None, None, t(3), t(3)], BATCH, match="expected moving_mean without training"),
    Bad("normalization", [t(2, 3), t(3), None, t(3), t(3)], TRAINING, match="or neither, got no moving_variance"),
    Bad("normalization_grad", [t(2, 3), t(2, 3), t(3), t(2), t(3)], BATCH, match="expected inv_variance of type"),
    Bad("normalization_grad", [t(2, 3), t(3, 2), t(3), t(3), t(3)], BATCH, match="expected dy of type tensor<2x3x"),
    Bad(
        "normalization",
        [t(2, 3), t(3), t(2), t(3), t(3)],
        BATCH,
        match="expected moving_variance of type tensor<3xf32>",
    ),
    Bad("normalization", [t(2, 3), t(3), t(3), t(3), t(3)], {"axis": 2}, match="expected axis in [-2, 2), got 2"),
    Bad("normalization", [t(2, 3), t(3), t(3), t(3), t(3)], BATCH, dtype=int32, match="expected x of type f16"),
]
