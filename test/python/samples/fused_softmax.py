"""Samples of fused softmaxes."""

from oneflow.dialect.dtypes import bool_, float16, float32, int32
from oneflow.testing.sample import Bad, Sample, t

HALVES = (float32, float16)
X, KEPT, SOFT = t(2, 3, 4), t(2, 3, 4, dtype=bool_), t(2, 3, 4, low=0.0, high=1.0)
MASK = t(2, 1, 4, dtype=bool_)
SCALES = {"scale_value": 0.5, "mask_fill_value": -3.0, "dropout_scale_value": 1.5}
SLOPES = {"scale_value": 0.5, "dropout_scale_value": 1.5}
TRIANGLE = {"diagonal": 1, "tril_fill_value": -2.0, "tril_scale_value": 0.5, "mask_scale_value": 1.5}
BELOW = {n: x for n, x in TRIANGLE.items() if n != "tril_fill_value"}

SAMPLES = [
    Sample("fused_scale_mask_softmax_dropout", [X, MASK, KEPT], SCALES, dtypes=HALVES),
    Sample("fused_scale_mask_softmax_dropout_grad", [SOFT, X, MASK, KEPT], SLOPES),
    Sample("fused_bias_add_scale_mask_softmax_dropout", [X, t(3, 1), t(2, 1, 4, dtype=int32, low=0), KEPT], SCALES,
           second_order=False, why="as of the softmax without a bias"),
    Sample("fused_tril_scale_softmax_mask_scale", [X, KEPT], TRIANGLE),
    Sample("fused_tril_scale_softmax_mask_scale_grad", [SOFT, X, KEPT], BELOW),
]  # fmt: skip
BAD = [
    Bad("fused_scale_mask_softmax_dropout", [X, MASK, t(2, 3, dtype=bool_)], match="expected dropout_mask of type"),
    Bad("fused_bias_add_scale_mask_softmax_dropout", [X, t(2), MASK, KEPT], match="operands that broadcast"),
    Bad("fused_bias_add_scale_mask_softmax_dropout", [t(1, 4), t(2, 4), t(4, dtype=bool_), t(1, 4, dtype=bool_)],
        match="expected bias of a shape that broadcasts"),
    Bad("fused_tril_scale_softmax_mask_scale", [X, MASK], match="expected mask of type"),
]  # fmt: skip
