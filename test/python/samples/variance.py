"""Samples of the variance."""

from oneflow.dialect.dtypes import FLOATS, float64, int32
from oneflow.testing.sample import Bad, Sample, t

RUNNING = {"dtype": "dtype"}
SAMPLES = [
    Sample("var", [t(2, 3, 2)], {"dim": [1], **RUNNING}, dtypes=FLOATS),
    Sample("var", [t(2, 3, 2)], {"dim": [0, -1], "keepdim": True, **RUNNING}),
    Sample("var", [t(3, 4)], {"dim": [], "unbiased": False, **RUNNING}),
    Sample("var", [t(0, 3)], {"dim": [1], **RUNNING}),
    Sample(
        "var", [t(3, 1)], {"dim": [1], **RUNNING}, gradient=False, why="one element has no unbiased variance: NaN"
    ),
]
BAD = [
    Bad("var", [t(2, 3)], {"dim": [2], **RUNNING}, match="expected dim in [-2, 2), got 2"),
    Bad("var", [t(2, 3)], {"dim": [1], "dtype": float64}, match="expected input of type f64, got f32"),
    Bad("var", [t(2, 3)], {"dim": [1], **RUNNING}, dtype=int32, match="expected input of type f16"),
]
