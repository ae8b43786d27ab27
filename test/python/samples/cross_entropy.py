"""Samples of cross entropies."""

from oneflow.dialect.dtypes import FLOATS, float16, float32, float64, int8, int32, int64
from oneflow.testing.sample import Bad, Sample, t, v
from samples.loss import LABELS, TABLE, share

INF = float("inf")
MEAN = "binary_cross_entropy_with_logits_reduce_mean"
SPARSE = ("sparse_cross_entropy", "sparse_cross_entropy_ms")
SAMPLES = [
    Sample("softmax_cross_entropy", [t(3, 4), share(3, 4)], dtypes=FLOATS),
    *[Sample("softmax_cross_entropy", [t(*shape), t(*shape)]) for shape in ((2, 2, 3), (4,), (0, 3), (2, 0))],
    Sample(
        "softmax_cross_entropy", [v([[1000.0, 0.0], [-INF, 0.0]]), v([[0.0, 1.0], [0.0, 1.0]])],
        gradient=False, why="beyond the range of exp",
    ),
    Sample("softmax_cross_entropy_grad", [t(3), t(3, 4), t(3, 4)], dtypes=FLOATS),
    *[Sample("softmax_cross_entropy_grad", [t(*s[:-1]), t(*s), t(*s)]) for s in ((2, 2, 3), (4,), (0, 3))],
    *[Sample(name, [share(3, 4), LABELS], {"depth": 4}, dtypes=FLOATS) for name in SPARSE],
    *[Sample(name, [share(2, 2, 3), TABLE]) for name in SPARSE],
    *[Sample(name, [share(4), v(2, int64)]) for name in SPARSE],
    *[Sample(name, [share(0, 3), t(0, dtype=int32)]) for name in SPARSE],
    *[Sample(f"{name}_grad", [share(3, 4), LABELS, t(3)], {"depth": 4}, dtypes=FLOATS) for name in SPARSE],
    *[Sample(f"{name}_grad", [share(2, 2, 3), TABLE, t(2, 2)]) for name in SPARSE],
    *[Sample(f"{name}_grad", [share(0, 3), t(0, dtype=int32), t(0)]) for name in SPARSE],
    Sample(
        "sparse_cross_entropy", [v([[0.0, 1.0], [0.0, 1.0]]), v([0, 1], int64)], gradient=False, why="the least one"
    ),
    Sample(
        "sparse_cross_entropy_grad", [v([[0.0, 1.0], [0.0, 1.0]]), v([0, 1], int64), v([1e-3, 2.0])],
        gradient=False, why="the least one",
    ),
    Sample("sigmoid_cross_entropy", [t(2, 3), share(2, 3)], dtypes=FLOATS),
    *[Sample("sigmoid_cross_entropy", [t(2, 3), t(2, 3, low=0, dtype=d)], dtypes=FLOATS) for d in (int8, int32)],
    *[Sample("sigmoid_cross_entropy", [t(*shape), t(*shape)]) for shape in ((), (0, 3))],
    Sample("sigmoid_cross_entropy", [v([1000.0, -1000.0, 20.0]), v([0, 1, 1], int32)]),
    Sample("sigmoid_cross_entropy_grad", [t(2, 3), t(2, 3), share(2, 3)], dtypes=FLOATS),
    *[Sample("sigmoid_cross_entropy_grad", [t(2, 3), t(2, 3), t(2, 3, low=0, dtype=d)]) for d in (int8, int64)],
    Sample("sigmoid_cross_entropy_grad", [t(0, 3), t(0, 3), t(0, 3)]),
    Sample(MEAN, [t(2, 3), share(2, 3)], dtypes=FLOATS),
    Sample(MEAN, [t(), t()]),
    Sample(MEAN, [t(0, 3), t(0, 3)], gradient=False, why="an empty tensor has no mean"),
    Sample(MEAN, [v([1000.0, -1000.0]), v([0.0, 1.0])], gradient=False, why="no overflow"),
    Sample(f"{MEAN}_grad", [t(2, 3), share(2, 3), t()], dtypes=FLOATS),
    Sample("fused_bce_reduce_mean_fw_bw", [t(2, 3), share(2, 3)], {"out_dtype": "dtype", "constant_value": 0.5},
           dtypes=(float32, float16)),
    *[Sample(f"{MEAN}_grad", [t(*shape), t(*shape), t()]) for shape in ((), (0, 3))],
]  # fmt: skip
BAD = [
    Bad("sigmoid_cross_entropy", [t(2), t(3)], match="expected label of type tensor<2xf32>, got tensor<3xf32>"),
    Bad("sigmoid_cross_entropy", [t(2), t(2, dtype=float64)], match="expected label of type f32, ui8"),
    Bad("sigmoid_cross_entropy_grad", [t(2), t(3), t(2)], match="expected loss_diff of type tensor<2xf32>"),
    Bad(MEAN, [t(2), t(2, 1)], match="expected target of type tensor<2xf32>, got tensor<2x1xf32>"),
    Bad(f"{MEAN}_grad", [t(2), t(2), t(2)], match="expected dy of type tensor<f32>, got tensor<2xf32>"),
    Bad("softmax_cross_entropy", [t(3, 4), t(4)], match="expected label of type tensor<3x4xf32>, got tensor<4xf32>"),
    Bad("softmax_cross_entropy", [t(), t()], match="expected prediction of rank 1 or more"),
    Bad("softmax_cross_entropy", [t(3), t(3)], dtype=int32, match="expected prediction of type f16, bf16, f32, f64"),
    Bad("softmax_cross_entropy_grad", [t(4), t(3, 4), t(3, 4)], match="expected dy of type tensor<3xf32>"),
    Bad("sparse_cross_entropy", [t(3, 4), LABELS], {"depth": 5}, match="expected depth to be 4, got 5"),
    Bad("sparse_cross_entropy", [t(2, 4), LABELS], match="expected label of type tensor<2xi32>, got tensor<3xi32>"),
    Bad("sparse_cross_entropy_ms", [t(3, 4), t(3)], match="expected label of type i32, i64, got f32"),
    Bad("sparse_cross_entropy_grad", [t(3, 4), LABELS, t(2)], match="expected dy of type tensor<3xf32>"),
]
