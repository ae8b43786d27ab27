"""Samples of gradients of few rows of a table."""

from oneflow.dialect.dtypes import float16, float32, int32, int64
from oneflow.testing.sample import Bad, Sample, t, v

#: Rows of a table of 5, with a repeated row.
AT = v([3, 0, 3, 1], int32)
SQUARE = v([[3, 0], [3, 1]], int64)
RATE = v([0.1], float32)
TYPES = (float32, float16)

SAMPLES = [
    Sample("indexed_slices_reduce_sum", [v([7, 2, 7, 5], int64), t(4, 3)], dtypes=(*TYPES, int32)),
    Sample("indexed_slices_reduce_sum", [SQUARE, t(2, 2, 3, 2)]),
    Sample("indexed_slices_reduce_sum", [t(0, dtype=int32), t(0, 3)]),
    Sample("indexed_slices_sgd_update", [t(5, 3), AT, t(4, 3), RATE], {"weight_decay": 0.5}, dtypes=TYPES),
    Sample("indexed_slices_sgd_update", [t(5, 3), SQUARE, t(2, 2, 3), RATE], {"learning_rate_scale": 2.0}),
    Sample("indexed_slices_sgd_update", [t(5), AT, t(4), RATE]),
    Sample(
        "indexed_slices_momentum_update", [t(5, 3), AT, t(4, 3), RATE, t(5, 3)], {"weight_decay": 0.5}, dtypes=TYPES
    ),
    Sample(
        "indexed_slices_momentum_update", [t(5, 3), AT, t(4, 3), RATE, t(5, 3)], {"nesterov": True, "dampening": 0.5}
    ),
    Sample(
        "indexed_slices_adam_update",
        [t(5, 3), AT, t(4, 3), RATE, None, None, t(5, 3), t(5, 3, low=0.1)],
        {"epsilon": 1e-3, "weight_decay": 0.5},
        dtypes=TYPES,
    ),
    Sample(
        "indexed_slices_adam_update",
        [t(5, 2), AT, t(4, 2), RATE, RATE, RATE, t(5, 2), t(5, 2, low=0.1), t(5, 2, low=0.1)],
        {"epsilon": 1e-3, "amsgrad": True},
    ),
]
BAD = [
    Bad("indexed_slices_reduce_sum", [t(3, dtype=int64), t(4, 3)], match="expected dimension 0 of x_values to be 3"),
    Bad("indexed_slices_reduce_sum", [t(3, dtype=int64), t(3)], match="expected x_values of rank 2 or more"),
    Bad(
        "indexed_slices_sgd_update",
        [t(5, 3), AT, t(4, 2), RATE],
        match="expected dimension 1 of model to be 2, got 3",
    ),
    Bad(
        "indexed_slices_sgd_update",
        [t(5, 3), t(4), t(4, 3), RATE],
        match="expected model_diff_indices of type i32, i64",
    ),
    Bad("indexed_slices_momentum_update", [t(5, 3), AT, t(4, 3), RATE, t(4, 3)], match="expected momentum of type"),
]
