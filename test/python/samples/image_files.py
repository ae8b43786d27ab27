"""Samples of images out of files, of images in other sizes, and of masks of polygons."""

import numpy as np
from png_bytes import png, rows

from oneflow.dialect.dtypes import float32, int32, int64, uint8
from oneflow.testing.sample import Bad, Sample, t, v

COLORS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
GRAYS = np.arange(6, dtype=np.uint8).reshape(3, 2, 1) * 40
FILES = v(rows([png(COLORS), png(GRAYS), png(COLORS[:1])]), uint8)
DECODED = {"data_type": "dtype", "max_size": [3, 4]}
IMAGES, SIZES = t(3, 4, 3, 3, low=0, high=255), v([[4, 2], [1, 3], [3, 3]], int32)
FIXED = {"target_width": 5, "target_height": 2, "data_type": "dtype"}
PARTS = {"random_area": [0.2, 0.9], "random_aspect_ratio": [0.5, 2.0], "seed": 3}
KEEP, TARGET = "image_resize_keep_aspect_ratio", "image_target_resize"
MASK = "object_segmentation_polygon_to_mask"
POINTS = [[0, 0], [4, 0.4], [4, 3], [1, 1], [3, 1], [2, 2]]
NUMBERS = [[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 0, 1], [1, 0, 1], [2, 0, 1]]
HOLE = [[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0]]
NO_POINTS = [*NUMBERS[:3], *[[-1] * 3] * 3]
OUTLINES = [v([POINTS] * 3, float32), v([NUMBERS, HOLE, NO_POINTS], int32), v([[5, 4], [4, 3], [5, 2]], int32)]

SAMPLES = [
    Sample("image_decode", [FILES], DECODED, dtypes=(uint8, float32)),
    Sample("image_decode", [FILES], {**DECODED, "color_space": "GRAY"}, dtypes=(uint8,)),
    Sample("image_random_crop", [IMAGES], PARTS, dtypes=(uint8,)),
    Sample("image_random_crop", [IMAGES, SIZES, v([7], int64)], {**PARTS, "num_attempts": 1}),
    Sample("image_resize_to_fixed", [IMAGES], {**FIXED, "interpolation_type": "auto"}, dtypes=(uint8, float32)),
    Sample("image_resize_to_fixed", [IMAGES, SIZES], FIXED, dtypes=(uint8,)),
    Sample("image_resize_to_fixed", [IMAGES], {**FIXED, "interpolation_type": "bicubic"}),
    Sample("image_resize_to_fixed", [IMAGES], {**FIXED, "interpolation_type": "area", "target_width": 2}),
    Sample(KEEP, [IMAGES], {"target_size": 2, "interpolation_type": "nn"}, dtypes=(uint8,)),
    Sample(KEEP, [IMAGES, SIZES], {"target_size": 4, "max_size": 6}, dtypes=(uint8,)),
    Sample(KEEP, [IMAGES, SIZES], {"target_size": 5, "resize_longer": True}),
    Sample(TARGET, [IMAGES], {"target_size": 5, "max_size": 6}, dtypes=(uint8,)),
    Sample(TARGET, [IMAGES, SIZES], {"target_size": 3, "max_size": 4}),
    Sample(MASK, OUTLINES, {"shape": [2, 4, 6]}),
]
BAD = [
    Bad("image_decode", [t(1, 9)], {**DECODED, "data_type": uint8}, match="expected in of type ui8"),
    Bad("image_decode", [FILES], {**DECODED, "data_type": int32}, match="expected data_type of type ui8"),
    Bad("image_decode", [FILES], {"data_type": uint8, "max_size": [3]}, match="as the most rows and columns"),
    Bad(
        "image_decode", [FILES], {**DECODED, "data_type": uint8, "color_space": "HSV"}, match="one of RGB, BGR, GRAY"
    ),
    Bad("image_random_crop", [IMAGES], {**PARTS, "random_area": [0.5, 0.2]}, match="expected random_area as two"),
    Bad("image_random_crop", [IMAGES, t(2, 2, dtype=int32)], PARTS, match="expected in_size of type tensor<3x2xi32>"),
    Bad("image_resize_to_fixed", [IMAGES], {**FIXED, "data_type": uint8, "target_width": 0}, match="of at least 1"),
    Bad("image_resize_to_fixed", [IMAGES], {**FIXED, "data_type": uint8, "channels": 1}, match="to be 1, got 3"),
    Bad(KEEP, [IMAGES], {"target_size": 2, "interpolation_type": "lanczos"}, match="one of bilinear"),
    Bad(KEEP, [IMAGES, SIZES], {"target_size": 2}, match="expected max_size above 0 for images of different sizes"),
    Bad(
        KEEP, [t(1, 9, 1, 3)], {"target_size": 2, "resize_longer": True}, match="expected a side of at least 1 pixel"
    ),
    Bad(TARGET, [IMAGES], {"target_size": 5, "max_size": 4}, match="max_size of at least that, got 5 and 4"),
    Bad(MASK, OUTLINES, {"shape": [2, 4]}, match="expected shape as the most objects, rows and columns"),
    Bad(MASK, [OUTLINES[0], OUTLINES[0], OUTLINES[2]], {"shape": [2, 4, 6]}, match="expected poly_index of type"),
]
