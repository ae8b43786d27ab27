"""Samples of assignments to tensors."""

from oneflow.dialect.dtypes import bool_, float32, int8, int64
from oneflow.testing.sample import Bad, Sample, t, v

SAMPLES = [
    Sample("assign", [t(3, 2), t(3, 2)], dtypes=(float32, int64)),
    Sample("assign_if", [t(3, 2), t(3, 2), v([1], int8)], dtypes=(float32, int64)),
    Sample("assign_if", [t(3, 2), t(3, 2), v([0], int8)]),
    Sample("assign_if", [t(2), t(2), v(True, bool_)]),
    Sample("assign_if_not", [t(3, 2), t(3, 2), v([0], int64)]),
    Sample("assign_if_not", [t(3, 2), t(3, 2), v([3], int64)]),
]
BAD = [
    Bad("assign", [t(2), t(3)], match="expected value of type tensor<2xf32>, got tensor<3xf32>"),
    Bad("assign_if", [t(2), t(2), t(2, dtype=int8)], match="expected condition of one element, got tensor<2xi8>"),
    Bad("assign_if_not", [t(2), t(2), t(1)], match="expected condition of type"),
]
