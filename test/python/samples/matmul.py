"""Samples of matrix products."""

from oneflow.dialect.dtypes import FLOATS, int32
from oneflow.testing.sample import Bad, Sample, t

SAMPLES = [
    Sample("matmul", [t(3, 4), t(4, 5)], dtypes=(*FLOATS, int32)),
    Sample("matmul", [t(4, 3), t(4, 5)], {"transpose_a": True, "alpha": 0.5}),
    Sample("matmul", [t(3, 4), t(5, 4), t(3, 5)], {"transpose_b": True}),
    Sample("matmul", [t(3, 0), t(0, 5)]),
]
BAD = [
    Bad("matmul", [t(3, 4), t(5, 6)], match="expected the contracted dimension of b to be 4, got 5"),
    Bad("matmul", [t(3, 4, 1), t(5, 6)], match="expected a of rank 2, got tensor<3x4x1xf32>"),
]
