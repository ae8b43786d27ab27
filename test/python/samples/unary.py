"""Samples of element-wise operators of one operand."""

from oneflow.dialect.dtypes import FLOATS, NUMERIC, int32
from oneflow.testing.sample import Bad, Sample, t, v

SAMPLES = [
    Sample("tanh", [t(2, 3)], dtypes=FLOATS),
    Sample("negative", [t(2, 3)], dtypes=NUMERIC),
    Sample("leaky_relu", [t(2, 3)], {"alpha": 0.1}, dtypes=FLOATS),
    Sample("relu", [v([float("nan"), -0.0, float("inf"), -1.0])], gradient=False, why="NaN, and the edge at 0"),
]
BAD = [Bad("tanh", [t(2)], dtype=int32, match="expected x of type f16, bf16, f32, f64, got i32")]
