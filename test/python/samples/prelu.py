"""Samples of the rectifier with learnt slopes."""

from oneflow.dialect.dtypes import FLOATS, float16, float32, int32
from oneflow.testing.sample import Bad, Sample, t, v

CASES = (((2, 3), 3), ((2, 3, 2), 3), ((2, 3), 1), ((3,), 1), ((2, 1, 3), 1), ((0, 3), 3), ((0, 3), 1), ((2, 0), 0))
SAMPLES = [
    *[Sample("prelu", [t(*x), t(a)], dtypes=FLOATS) for x, a in CASES],
    *[Sample("prelu_grad", [t(*x), t(*x), t(a)], dtypes=FLOATS) for x, a in CASES],
    Sample("prelu", [v([[0.0, -0.0, -1.0, 2.0, 1.0]]), v([2.0])], gradient=False, why="the bend at 0"),
    Sample("prelu_grad", [t(2, 3), t(2, 3), t(3)], {"alpha_requires_grad": False}),
    Sample("tf_prelu", [t(3, 2, 3), t(2, 3)], dtypes=(float32, float16)),
    Sample("tf_prelu", [t(2, 3, 2), t(1, 2)]),
    Sample("tf_prelu_grad", [t(3, 2, 3), t(3, 2, 3), t(2, 3)], dtypes=(float32, float16)),
    Sample("tf_prelu_grad", [t(2, 3, 2), t(2, 3, 2), t(3, 1)]),
]
BAD = [
    Bad("prelu", [t(2, 3), t(2)], match="expected alpha of type tensor<3xf32>, got tensor<2xf32>"),
    Bad("prelu", [t(2, 3), t(1, 3)], match="expected alpha of rank 1"),
    Bad("prelu", [t(3), t(3)], match="expected x of rank 2 or more"),
    Bad("prelu", [t(), t(1)], match="expected x of rank 1 or more"),
    Bad("prelu", [t(2, 3), t(3)], dtype=int32, match="expected x of type f16, bf16, f32, f64, got i32"),
    Bad("prelu", [t(2, 3), t(1, dtype=int32)], match="expected alpha of type tensor<1xf32>, got tensor<1xi32>"),
    Bad("prelu_grad", [t(2), t(2, 3), t(3)], match="expected dy of type tensor<2x3xf32>, got tensor<2xf32>"),
    Bad("tf_prelu", [t(2, 3), t(2)], match="expected dimension 0 of alpha to be 3, got 2"),
    Bad("tf_prelu_grad", [t(2), t(2, 3), t(3)], match="expected dy of type tensor<2x3xf32>, got tensor<2xf32>"),
]
