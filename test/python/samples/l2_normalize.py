"""Samples of normalization by the root of the sum of squares."""

from oneflow.dialect.dtypes import FLOATS, int32
from oneflow.testing.sample import Bad, Sample, t, v

EPSILON = {"epsilon": 1e-5}


def sums(*shape):
    """An operand of sums of squares."""
    return t(*shape, low=0.5, high=2.0)


SAMPLES = [
    Sample("l2_normalize", [t(3, 4)], {"axis": 1, **EPSILON}, dtypes=FLOATS),
    Sample("l2_normalize", [t(2, 3, 2)], {"axis": -2, **EPSILON}),
    Sample("l2_normalize", [v([[3.0, 0.1], [1.0, 0.2]])], {"epsilon": 1.0}),
    *[Sample("l2_normalize", [t(*shape)], EPSILON) for shape in ((3,), (0, 3), (2, 0))],
    Sample("l2_normalize", [v([[3.0, 4.0], [0.0, 0.0]])], {"axis": 1, **EPSILON}, gradient=False, why="the edge"),
    Sample("l2_normalize_grad", [t(3, 4), t(3, 4), sums(3, 1)], {"axis": 1, **EPSILON}, dtypes=FLOATS),
    Sample("l2_normalize_grad", [t(2, 3, 2), t(2, 3, 2), sums(2, 1, 2)], {"axis": -2, **EPSILON}),
    Sample("l2_normalize_grad", [t(3, 4), t(3, 4), sums(1, 4)], {"epsilon": 1.2}),
    *[
        Sample("l2_normalize_grad", [t(*shape), t(*shape), sums(1, *shape[1:])], EPSILON)
        for shape in ((3,), (0, 3), (2, 0))
    ],
]
BAD = [
    Bad("l2_normalize", [t(3, 4)], match="expected an epsilon above 0, got 0.0"),
    Bad("l2_normalize", [t(3, 4)], {"axis": 2, **EPSILON}, match="expected axis in [-2, 2), got 2"),
    Bad("l2_normalize", [t(3)], EPSILON, dtype=int32, match="expected x of type f16, bf16, f32, f64, got i32"),
    Bad("l2_normalize_grad", [t(3), t(3, 4), t(1, 4)], EPSILON, match="expected dy of type tensor<3x4xf32>"),
    Bad(
        "l2_normalize_grad",
        [t(3, 4), t(3, 4), t(3, 1)],
        EPSILON,
        match="expected square_x_sum of type tensor<1x4xf32>",
    ),
]
