"""Samples of batches of decoded images."""

from oneflow.dialect.dtypes import float32, int8, uint8
from oneflow.testing.sample import Bad, Sample, t, v

COLORS = {"mean": [0.5, 10.0, 20.0], "std": [2.0, 4.0, 0.5], "output_dtype": float32}
CROP = {**COLORS, "crop_h": 2, "crop_w": 3, "crop_pos_x": 1.0, "crop_pos_y": 0.0}
MIRROR = v([1, 0, 2], int8)
IMAGES = t(3, 3, 4, 3, low=0, high=255)
SMALL = {"color_space": "GRAY", "mean": [1.0], "std": [2.0], "output_dtype": float32, "output_layout": "NHWC"}
NAME = "crop_mirror_normalize_from_uint8"

SAMPLES = [
    Sample(NAME, [IMAGES, MIRROR], CROP, dtypes=(uint8,)),
    Sample(NAME, [IMAGES], {**COLORS, "output_layout": "NHWC", "color_space": "RGB"}, dtypes=(uint8,)),
    Sample(NAME, [t(3, 3, 3, 1, low=0, high=255), MIRROR], SMALL, dtypes=(uint8,)),
    Sample(NAME, [t(2, 3, 3, 1, low=0, high=255)], {**SMALL, "crop_h": 2, "crop_w": 9}, dtypes=(uint8,)),
]
BAD = [
    Bad(NAME, [t(1, 2, 2, 3)], COLORS, match="expected in of type ui8"),
    Bad(NAME, [t(1, 2, 2, 1)], COLORS, dtype=uint8, match="expected the channels of in to be 3, got 1"),
    Bad(NAME, [t(1, 2, 2, 3)], {**COLORS, "std": [0.0]}, dtype=uint8, match="expected std other than 0"),
    Bad(NAME, [t(1, 2, 2, 3)], {**COLORS, "mean": [1.0, 2.0]}, dtype=uint8, match="expected 1 or 3 numbers in mean"),
    Bad(NAME, [t(1, 2, 2, 3), t(2, dtype=int8)], COLORS, dtype=uint8, match="expected mirror of type tensor<1xi8>"),
]
