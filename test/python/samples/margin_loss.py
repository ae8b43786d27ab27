"""Samples of margins of face recognition."""

from oneflow.dialect.dtypes import float16, float32, int32
from oneflow.testing.sample import Bad, Sample, t, v

LABELS = v([1, 3, 7], int32)
MARGINS = {"m1": 1.5, "m2": 0.25, "m3": 0.125, "depth": 4}

SAMPLES = [
    Sample("combined_margin_loss", [t(3, 4, low=-0.9, high=0.9), LABELS], MARGINS, dtypes=(float32, float16)),
    Sample("combined_margin_loss_grad", [t(3, 4), LABELS, t(3, low=0.5, high=2.5)], MARGINS),
]
BAD = [
    Bad("combined_margin_loss", [t(3, 5), LABELS], MARGINS, match="expected the last axis of x to be 4, got 5"),
    Bad("combined_margin_loss", [t(2, 4), LABELS], match="expected label of type tensor<2xi32>"),
]
