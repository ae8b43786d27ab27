"""Samples of norms of many tensors."""

from oneflow.dialect.dtypes import float16, float32, float64
from oneflow.testing.sample import Bad, Sample, t, v

PAIR = [t(3, 4), t(3)]
EXTREMES = [f"{local}multi_reduce_{kind}_abs" for local in ("", "local_") for kind in ("max", "min")]

SAMPLES = [
    Sample("multi_reduce_sum_pow_abs", [PAIR], {"p": 2.0}, dtypes=(float32, float16)),
    Sample("multi_reduce_sum_pow_abs", [[t(3), t(4, 3), t(4)]], {"p": 1.0}),
    Sample("multi_reduce_sum_pow_abs", [[v([0.0, 2.0, 0.0]), t(3, 4)]]),
    Sample("multi_reduce_sum_pow_abs", [PAIR], {"p": 3.5}),
    *[Sample(name, [[t(2, 2), t(2)]], dtypes=(float32, float16)) for name in EXTREMES],
    *[Sample(name, [[t(4)]]) for name in EXTREMES],
    *[Sample(name, [[t(2, 0), t(2)]]) for name in EXTREMES],
]
BAD = [
    Bad("multi_reduce_max_abs", [[t(3), t(3, dtype=float64)]], match="expected operands of one data type"),
]
