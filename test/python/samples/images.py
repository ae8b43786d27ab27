"""Samples of batches of decoded images."""

from oneflow.dialect.dtypes import float16, float32, int8, int32, uint8
from oneflow.testing.sample import Bad, Sample, t, v

COLORS = {"mean": [0.5, 10.0, 20.0], "std": [2.0, 4.0, 0.5], "output_dtype": float32}
CROP = {**COLORS, "crop_h": 2, "crop_w": 3, "crop_pos_x": 1.0, "crop_pos_y": 0.0}
MIRROR = v([1, 0, 2], int8)
IMAGES = t(3, 3, 4, 3, low=0, high=255)
SMALL = {"color_space": "GRAY", "mean": [1.0], "std": [2.0], "output_dtype": float32, "output_layout": "NHWC"}
NAME, PART = "crop_mirror_normalize_from_uint8", "crop_mirror_normalize_from_tensorbuffer"
NORMAL = {"mean": [0.5, 1.0], "std": [2.0, 4.0]}
CODES, SIZES = v([1, 3, 2], int8), v([[5, 4], [3, 6], [8, 2]], int32)
ALIGNED = {"shape": [4, 4, 1], "alignment": 4}

SAMPLES = [
    Sample(NAME, [IMAGES, MIRROR], CROP, dtypes=(uint8,)),
    Sample(NAME, [IMAGES], {**COLORS, "output_layout": "NHWC", "color_space": "RGB"}, dtypes=(uint8,)),
    Sample(NAME, [t(3, 3, 3, 1, low=0, high=255), MIRROR], SMALL, dtypes=(uint8,)),
    Sample(NAME, [t(2, 3, 3, 1, low=0, high=255)], {**SMALL, "crop_h": 2, "crop_w": 9}, dtypes=(uint8,)),
    Sample(PART, [IMAGES, MIRROR], CROP, dtypes=(uint8,)),
    Sample("image_flip", [t(3, 3, 3, 1), CODES], dtypes=(float32, uint8)),
    Sample("image_normalize", [t(3, 2, 2, 2)], NORMAL, dtypes=(float32, float16)),
    Sample("image_normalize", [t(2, 2, 2, 2)], {**NORMAL, "mean": [0.0, 0.0]}),
    Sample("image_batch_align", [t(3, 3, 2, 1)], {**ALIGNED, "data_type": "dtype"}, dtypes=(float32, uint8)),
    Sample("image_batch_align", [t(2, 2, 3, 1, dtype=uint8)], {"shape": [2, 3, 1], "data_type": float32}),
    Sample("object_bbox_flip", [t(3, 3, 4), SIZES, CODES], dtypes=(float32, float16)),
    Sample("object_bbox_scale", [t(3, 3, 4), t(3, 2)], dtypes=(float32, float16)),
    Sample("object_segmentation_polygon_flip", [t(3, 3, 2), SIZES, CODES]),
    Sample("object_segmentation_polygon_scale", [t(3, 3, 2), t(3, 2)]),
]
BAD = [
    Bad(PART, [t(1, 2, 2, 3)], COLORS, dtype=uint8, match="expected a crop that fits into"),
    Bad("image_flip", [t(2, 2, 2, 1), t(1, dtype=int8)], match="expected flip_code of type tensor<2xi8>"),
    Bad("image_normalize", [t(1, 2, 2, 3)], NORMAL, match="expected the channels of in to be 2, got 3"),
    Bad("image_batch_align", [t(1, 3, 2, 1)], {**ALIGNED, "alignment": 3, "data_type": float32}, match="power of 2"),
    Bad(
        "image_batch_align", [t(1, 5, 2, 1)], {**ALIGNED, "data_type": float32}, match="expected the shape [8, 4, 1]"
    ),
    Bad("object_bbox_flip", [t(3, 3, 2), SIZES, CODES], match="expected the last axis of bbox to be 4, got 2"),
    Bad("object_bbox_scale", [t(3, 3, 4), t(2, 2)], match="expected scale of type tensor<3x2xf32>"),
    Bad(NAME, [t(1, 2, 2, 3)], COLORS, match="expected in of type ui8"),
    Bad(NAME, [t(1, 2, 2, 1)], COLORS, dtype=uint8, match="expected the channels of in to be 3, got 1"),
    Bad(NAME, [t(1, 2, 2, 3)], {**COLORS, "std": [0.0]}, dtype=uint8, match="expected std other than 0"),
    Bad(NAME, [t(1, 2, 2, 3)], {**COLORS, "mean": [1.0, 2.0]}, dtype=uint8, match="expected 1 or 3 numbers in mean"),
    Bad(NAME, [t(1, 2, 2, 3), t(2, dtype=int8)], COLORS, dtype=uint8, match="expected mirror of type tensor<1xi8>"),
]
