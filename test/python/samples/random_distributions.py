"""Samples of further random draws, and of draws for losses of many classes."""

from oneflow.dialect.dtypes import FLOATS, bool_, float32, float64, int32, int64
from oneflow.testing.sample import Bad, Sample, t, v

REAL = (float32, float64)
OFFSET = v(2**40, int64)
SLOPES = {"training": True, "seed": 3, "lower": 0.25, "upper": 0.5}
WEIGHTS = v([[0.0, 1.0, 3.0], [2.0, 0.0, 0.0]])
LABELS = v([4, 1, 4], int64)

SAMPLES = [
    Sample("exponential", [], {"dtype": "dtype", "out_shape": (4, 5), "lambd": 2.0}, dtypes=REAL),
    Sample("exponential", [OFFSET], {"dtype": "dtype", "out_shape": (3,), "seed": -1}),
    Sample("exponential", [OFFSET, t(4, 5)], {"dtype": "dtype", "out_shape": (), "lambd": 2.0}, dtypes=REAL),
    Sample("coin_flip", [], {"batch_size": 9, "probability": 0.25}),
    Sample("coin_flip", [OFFSET], {"batch_size": 9, "seed": 4, "has_seed": True}),
    Sample("randperm", [], {"n": 20, "seed": 7}),
    Sample("randperm", [OFFSET], {"n": 5}),
    Sample("randperm", [], {"n": 0}),
    Sample("generate_random_batch_permutation_indices", [t(9, 3)], {"seed": 7}),
    Sample("generate_random_batch_permutation_indices", [t(3, 1), OFFSET]),
    Sample("multinomial_with_replacement", [WEIGHTS], {"num_samples": 6}, dtypes=FLOATS),
    Sample("multinomial_with_replacement", [t(4, low=0.1), v([0.5, 1.0, 1.5, 2.0]), OFFSET], {"num_samples": 5}),
    Sample("rrelu", [t(3, 4)], SLOPES, dtypes=FLOATS),
    Sample("rrelu", [t(3, 4), OFFSET], SLOPES),
    Sample("rrelu", [t(2, 3)]),
    Sample("rrelu", [t(2, 2)], {**SLOPES, "logical_shape": (4, 6), "logical_begin": (2, 1)}),
    Sample("distributed_partial_fc_sample", [t(6, 3), LABELS], {"num_sample": 4, "seed": 2}, dtypes=(float32,)),
    Sample("distributed_partial_fc_sample", [t(6, 2), v([4, 1], int32), OFFSET], {"num_sample": 4}),
    Sample("distributed_partial_fc_sample_disable_boxing", [t(3, 2), v([4, 1, 0], int64)]),
    Sample("roc_auc_score", [v([1, 0, 1, 1, 0], int64), v([0.9, 0.3, 0.3, 0.5, 0.4])], dtypes=REAL),
    Sample("roc_auc_score", [v([[1.0], [0.0]]), v([0.1, 0.2])], dtypes=(float32,)),
    Sample("roc_auc_score", [v([True, False, True], bool_), t(3)]),
]  # fmt: skip
BAD = [
    Bad(
        "exponential",
        [],
        {"dtype": float32, "out_shape": (2,), "lambd": 0.0},
        match="expected a finite lambd above 0",
    ),
    Bad("coin_flip", [], {"probability": 1.5}, match="expected a probability of 0 to 1"),
    Bad("randperm", [], {"n": -1}, match="expected n of at least 0, got -1"),
    Bad("generate_random_batch_permutation_indices", [t()], match="expected x of rank 1 or more"),
    Bad("multinomial_with_replacement", [t(3)], {"replacement": False}, match="expected replacement to be true"),
    Bad("multinomial_with_replacement", [t(2, 0)], match="of at least one weight"),
    Bad("multinomial_with_replacement", [t(3), t(2)], match="expected prefix_sum of type tensor<3xf32>"),
    Bad("rrelu", [t(3)], {"lower": 1.0}, match="expected finite lower of at most upper, got 1.0 and"),
    Bad(
        "distributed_partial_fc_sample",
        [t(6, 3), LABELS],
        {"num_sample": 7},
        match="expected num_sample from 1 to the 6",
    ),
    Bad("roc_auc_score", [t(3), t(2)], match="expected as many elements in label as in pred"),
]
