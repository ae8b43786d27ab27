"""Samples of images read at computed positions."""

from oneflow.dialect.dtypes import float16, float32
from oneflow.testing.sample import Bad, Sample, t

BENDS = "the second derivative jumps at elements"


def _modes(mode, padding, align=False):
    return {"interpolation_mode": mode, "padding_mode": padding, "align_corners": align}


IMAGES, GRID = t(2, 2, 2, 3), t(2, 1, 1, 2, low=-1.3, high=1.3)
ONE, POINTS = t(1, 1, 2, 3), t(1, 1, 1, 2, low=-1.6, high=1.6)
VOLUME, SPACE = t(1, 1, 1, 2, 2), t(1, 1, 1, 1, 3, low=-1.0, high=1.0)
SIZE = {"size": [2, 3, 2, 3]}

SAMPLES = [
    Sample("grid_sample", [IMAGES, GRID], _modes("bilinear", "zeros"), dtypes=(float32, float16)),
    Sample("grid_sample", [ONE, POINTS], _modes("bilinear", "border", True), second_order=False, why=BENDS),
    Sample("grid_sample", [ONE, POINTS], _modes("bilinear", "reflection"), second_order=False, why=BENDS),
    Sample("grid_sample", [ONE, POINTS], _modes("nearest", "reflection", True), second_order=False, why=BENDS),
    Sample("grid_sample", [ONE, POINTS], _modes("bicubic", "zeros"), second_order=False, why=BENDS),
    Sample("grid_sample", [VOLUME, SPACE], _modes("bilinear", "zeros", True), second_order=False, why=BENDS),
    Sample(
        "grid_sample_grad", [t(1, 1, 1, 1), ONE, POINTS], _modes("bilinear", "zeros"), second_order=False, why=BENDS
    ),
    Sample("affine_grid", [t(2, 2, 3)], SIZE, dtypes=(float32, float16)),
    Sample("affine_grid", [t(1, 3, 4)], {"size": [1, 1, 2, 1, 3], "align_corners": True}),
    Sample("affine_grid_grad", [t(2, 2, 3, 2)], SIZE),
]
BAD = [
    Bad(
        "grid_sample",
        [t(1, 1, 2, 2), t(2, 1, 1, 2)],
        _modes("bilinear", "zeros"),
        match="the number of images, to be 1, got 2",
    ),
    Bad("grid_sample", [t(1, 1, 2, 2), t(1, 1, 1, 3)], _modes("bilinear", "zeros"), match="coordinates, to be 2"),
    Bad(
        "grid_sample", [t(1, 1, 2, 2), t(1, 1, 1, 2)], _modes("linear", "zeros"), match="expected interpolation_mode"
    ),
    Bad(
        "grid_sample", [t(1, 1, 2, 2), t(1, 1, 1, 2)], _modes("nearest", "same"), match="expected padding_mode zeros"
    ),
    Bad("affine_grid", [t(2, 2, 2)], SIZE, match="expected theta of shape 2x2x3 for size [2, 3, 2, 3]"),
    Bad("affine_grid", [t(2, 2, 3)], {"size": [2, 3]}, match="expected a size of 4 or 5 positive numbers"),
]
