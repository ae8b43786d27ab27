"""Samples of the checks and scalings of gradients before the update in a training step."""

from oneflow.dialect.dtypes import FLOATS, float32, float64, int32, int64
from oneflow.testing.sample import Bad, Sample, t, v

INF, NAN = float("inf"), float("nan")
WILD = v([[INF, 1.0, NAN], [-INF, 0.0, -2.0]])
PAIR = [t(3, 4), t(5, 2, 2)]
GOOD, FOUND = v([0], int64), v([3], int64)
PERIOD = {"increment_period": 5, "multiplier": 4.0}


def schedule(count, scale, steps):
    """A call with `count` and `scale`, after `steps` good steps."""
    return Sample("dynamic_loss_scale_schedule", [count, v([scale], float32), v([steps], int64)], PERIOD)


SAMPLES = [
    Sample("square_sum", [t(3, 4)], dtypes=FLOATS),
    Sample("square_sum", [t()]),
    Sample("square_sum", [t(0, 3)]),
    Sample("square_sum", [t(40, 33)]),
    Sample("multi_square_sum", [PAIR], dtypes=FLOATS),
    Sample("multi_square_sum", [[t(4)]]),
    Sample("multi_square_sum", [[t(), t(0, 2), t(3)]]),
    Sample("count_not_finite", [t(3, 4)], dtypes=FLOATS),
    Sample("count_not_finite", [WILD], dtypes=FLOATS),
    Sample("count_not_finite", [v(NAN)]),
    Sample("count_not_finite", [t(0)]),
    Sample("multi_count_not_finite", [[WILD, t(3, 4), v([INF])]], dtypes=FLOATS),
    Sample("multi_count_not_finite", [[v([NAN, 1.0, INF, 2.0])]]),
    schedule(GOOD, 1024.0, 2),
    schedule(GOOD, 1024.0, 4),
    schedule(GOOD, 3.0e38, 7),
    schedule(FOUND, 1024.0, 3),
    schedule(FOUND, 2.0, 4),
    Sample("dynamic_loss_scale_schedule", [v(1, int64), v(8.0, float32), v(2, int64)]),
    Sample("l1_l2_regularize_gradient", [t(3, 4), t(3, 4)], {"l1": 0.5, "l2": 0.25}, dtypes=FLOATS),
    Sample("l1_l2_regularize_gradient", [t(3, 4), t(3, 4)], {"l2": 0.25}),
    Sample("l1_l2_regularize_gradient", [v([0.0, 1.0, -1.0]), t(3)], {"l1": 0.5}, gradient=False, why="a step at 0"),
    Sample("l1_l2_regularize_gradient", [t(0, 2), t(0, 2)], {"l1": 0.5}),
]
BAD = [
    Bad("square_sum", [t(3)], dtype=int32, match="expected x of type f16, bf16, f32, f64, got i32"),
    Bad("multi_square_sum", [[t(3), t(3, dtype=float64)]], match="expected operands of one data type"),
    Bad("count_not_finite", [t(3)], dtype=int32, match="expected x of type f16, bf16, f32, f64, got i32"),
    Bad("multi_count_not_finite", [[t(3), t(3, dtype=int64)]], match="expected x of type f16"),
    Bad(
        "dynamic_loss_scale_schedule", [v([0, 1], int64), t(1), GOOD],
        match="expected count_not_finite of one element of i64, got tensor<2xi64>",
    ),
    Bad(
        "dynamic_loss_scale_schedule", [GOOD, t(1, dtype=float64), GOOD],
        match="expected loss_scale of one element of f32, got tensor<1xf64>",
    ),
    Bad("l1_l2_regularize_gradient", [t(3), t(4)], match="expected model_diff of type tensor<3xf32>, got tensor<4x"),
    Bad("l1_l2_regularize_gradient", [t(3), t(3)], dtype=int32, match="expected model of type f16"),
]  # fmt: skip
