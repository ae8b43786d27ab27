"""Samples of normalizations with a skip connection, and of the joined gradients of a layer normalization."""

from typing import Any

from oneflow.dialect.dtypes import float16, float32
from oneflow.testing.sample import Bad, Sample, t

HALVES = (float32, float16)
X, LAST = t(3, 4), t(4)
ROW: dict[str, Any] = {"normalized_shape": [4]}
STATISTICS = [t(3), t(3, low=0.5, high=2.0)]
AXES = {"begin_norm_axis": 1, "begin_params_axis": 1}
FEWER: dict[str, Any] = {"second_order": False, "why": "as of the other sample"}

SAMPLES = [
    Sample("skip_layer_norm", [X, LAST, LAST, LAST, X], {"epsilon": 0.5, "alpha": 0.5}, dtypes=HALVES),
    Sample("skip_layer_norm", [t(3, 2), None, t(2)], **FEWER),
    Sample("skip_rms_norm", [X, LAST, LAST, X], {**ROW, "epsilon": 0.5, "alpha": 0.5}, dtypes=HALVES),
    Sample("skip_rms_norm", [t(3, 2)], {"normalized_shape": [2]}, **FEWER),
    Sample("fuse_layer_norm_grad", [t(3, 2), t(3, 2), *STATISTICS, t(2), t(3, 2)], AXES, **FEWER),
    Sample("fuse_layer_norm_grad", [t(2, 2), t(2, 2), t(2), t(2, low=0.5, high=2.0)], AXES),
]
BAD = [
    Bad("skip_layer_norm", [X, t(3)], match="expected gamma of type tensor<4xf32>"),
    Bad("skip_rms_norm", [X], {"normalized_shape": [3, 4]}, match="expected normalized_shape of the last axis"),
    Bad(
        "fuse_layer_norm_grad",
        [X, X, *STATISTICS],
        {"begin_norm_axis": 1},
        match="of one axis, got 1 and 0",
    ),
]
