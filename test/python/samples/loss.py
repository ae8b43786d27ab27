"""Samples of losses."""

from oneflow.dialect.dtypes import FLOATS, float32, int32, int64
from oneflow.testing.sample import Bad, Sample, t, v


def share(*shape):
    """An operand of probabilities away from 0 and 1."""
    return t(*shape, low=0.1, high=0.9)


LABELS = v([0, 3, 1], int32)
TABLE = v([[1, 0], [2, 2]], int64)
SAMPLES = [
    Sample("binary_cross_entropy", [share(2, 3), share(2, 3)], dtypes=FLOATS),
    Sample("binary_cross_entropy", [share(2, 3), share(2, 3), t(2, 3)]),
    Sample("binary_cross_entropy", [v([0.0, 1.0, 0.0, 1.0]), v([0.0, 0.0, 1.0, 1.0])], gradient=False, why="the cut"),
    Sample("binary_cross_entropy", [share(0, 3), share(0, 3)]),
    Sample("binary_cross_entropy_with_logits", [t(2, 3), share(2, 3)], dtypes=FLOATS),
    Sample("binary_cross_entropy_with_logits", [t(2, 3), share(2, 3), t(2, 3)]),
    Sample("binary_cross_entropy_with_logits", [t(2, 3), share(2, 3), None, share(2, 3)], {"has_pos_weight": True}),
    Sample("binary_cross_entropy_with_logits", [t(2), share(2), t(2), share(2)], {"has_pos_weight": True}),
    Sample(
        "binary_cross_entropy_with_logits", [v([1000.0, -1000.0]), v([0.0, 1.0])], gradient=False, why="no overflow"
    ),
    Sample("smooth_l1_loss", [t(3, 4), t(3, 4)], {"beta": 1.0}, dtypes=FLOATS),
    Sample("smooth_l1_loss", [t(3, 4), t(3, 4)]),
    Sample("kl_div_loss", [t(2, 3), share(2, 3)], dtypes=FLOATS),
    Sample("kl_div_loss", [t(2, 3), t(2, 3)], {"log_target": True}),
    Sample("kl_div_loss", [t(3), v([0.0, -1.0, 1.0])], gradient=False, why="the edge at 0"),
    Sample("sparse_softmax_cross_entropy", [t(3, 4), LABELS], {"depth": 4}, dtypes=FLOATS),
    Sample("sparse_softmax_cross_entropy", [t(2, 2, 3), TABLE]),
    Sample(
        "sparse_softmax_cross_entropy",
        [v([[1000.0, 0.0], [-1000.0, 0.0]]), v([1, 0], int64)],
        gradient=False,
        why="beyond the range of exp",
    ),
    Sample("sparse_softmax_cross_entropy", [t(4), v(2, int64)]),
    Sample("sparse_softmax_cross_entropy", [t(0, 3), t(0, dtype=int32)]),
    Sample("sparse_softmax_cross_entropy_grad", [LABELS, t(3), share(3, 4)], {"depth": 4}, dtypes=FLOATS),
    Sample("sparse_softmax_cross_entropy_ms_grad", [LABELS, t(3), share(3, 4)], {"depth": 4}, dtypes=FLOATS),
    Sample("sparse_softmax_cross_entropy_grad", [TABLE, t(2, 2), share(2, 2, 3)]),
    Sample("sparse_softmax_cross_entropy_ms", [t(3, 4), LABELS], dtypes=FLOATS),
    Sample("sparse_softmax_cross_entropy_ms", [t(2, 2, 3), TABLE], {"depth": 3}),
    Sample(
        "sparse_softmax_cross_entropy_grad",
        [LABELS, t(3), t(3, 2)],
        {"depth": 4, "logical_size": 4, "logical_begin": 1},
    ),
    Sample("nll", [t(3, 2), LABELS], {"ignore_index": -100, "logical_size": 4, "logical_begin": 1}),
    Sample(
        "nll",
        [t(3, 2), LABELS, t(4)],
        {"ignore_index": 3, "logical_size": 4, "logical_begin": 1},
        gradient=False,
        why="the weight's gradient is built of whole classes",
    ),
    Sample("nll_grad", [t(3), t(3, 2), LABELS], {"ignore_index": -1, "logical_size": 4, "logical_begin": 2}),
    Sample(
        "nll_grad",
        [t(3), t(3, 2), LABELS, t(4)],
        {"ignore_index": -1, "logical_size": 4, "logical_begin": 2},
        gradient=False,
        why="the weight's gradient is built of whole classes",
    ),
    Sample("nll", [t(3, 4), LABELS], {"ignore_index": -100}, dtypes=FLOATS),
    Sample("nll", [t(2, 2, 3), TABLE, t(3)], {"ignore_index": 2}),
    Sample("nll", [t(3, 4), v([-1, 3, -1], int64), t(4)], {"ignore_index": -1}),
    Sample("nll", [t(0, 3), t(0, dtype=int64)], {"ignore_index": -100}),
    Sample("nll_grad", [t(3), t(3, 4), LABELS], {"ignore_index": -100}, dtypes=FLOATS),
    Sample("nll_grad", [t(2, 2), t(2, 2, 3), TABLE, t(3)], {"ignore_index": 2}),
]
BAD = [
    Bad("binary_cross_entropy", [t(2, 3), t(3)], match="expected target of type tensor<2x3xf32>, got tensor<3xf32>"),
    Bad("binary_cross_entropy", [t(2), t(2), t(3)], match="expected weight of type tensor<2xf32>"),
    Bad(
        "binary_cross_entropy", [t(2), t(2)], dtype=int32, match="expected input of type f16, bf16, f32, f64, got i32"
    ),
    Bad("binary_cross_entropy_with_logits", [t(2), t(2), None, t(2)], match="expected pos_weight exactly with"),
    Bad(
        "binary_cross_entropy_with_logits",
        [t(2), t(2), t(2)],
        {"has_pos_weight": True},
        match="expected pos_weight exactly with has_pos_weight = true, got none",
    ),
    Bad("smooth_l1_loss", [t(2), t(2)], {"beta": -1.0}, match="expected beta of at least 0, got -1"),
    Bad("smooth_l1_loss", [t(2), t(2, 1)], match="expected target of type tensor<2xf32>, got tensor<2x1xf32>"),
    Bad("kl_div_loss", [t(2), t(2, dtype=int32)], match="expected target of type tensor<2xf32>, got tensor<2xi32>"),
    Bad("sparse_softmax_cross_entropy", [t(3, 4), LABELS], {"depth": 5}, match="expected depth to be 4, got 5"),
    Bad(
        "sparse_softmax_cross_entropy",
        [t(2, 4), LABELS],
        match="expected label of type tensor<2xi32>, got tensor<3xi32>",
    ),
    Bad("sparse_softmax_cross_entropy", [t(3, 4), t(3)], match="expected label of type i32, i64, got f32"),
    Bad("sparse_softmax_cross_entropy", [t(), v(0, int32)], match="expected prediction of rank 1 or more"),
    Bad("sparse_softmax_cross_entropy_grad", [LABELS, t(2), t(3, 4)], match="expected dy of type tensor<3xf32>"),
    Bad("nll", [t(3, 4), LABELS, t(3)], match="expected weight of type tensor<4xf32>, got tensor<3xf32>"),
    Bad("nll", [t(3, 4), t(3, dtype=float32)], match="expected target of type i32, i64, got f32"),
    Bad("nll_grad", [t(4), t(3, 4), LABELS], match="expected out_grad of type tensor<3xf32>, got tensor<4xf32>"),
]
PAIR = [share(2, 3), share(2, 3)]
SAMPLES += [
    Sample("binary_cross_entropy_grad", [*PAIR, None, t(2, 3)], dtypes=FLOATS),
    Sample("binary_cross_entropy_grad", [*PAIR, t(2, 3), t(2, 3)]),
    Sample(
        "binary_cross_entropy_grad", [v([0.0, 1.0, 0.0]), v([0.0, 1.0, 1.0]), None, v([1.0, 2.0, 0.5])],
        gradient=False, why="the least divisor",
    ),
    Sample("binary_cross_entropy_with_logits_grad", [t(2, 3), share(2, 3), None, None, t(2, 3)], dtypes=FLOATS),
    Sample(
        "binary_cross_entropy_with_logits_grad", [t(2, 3), share(2, 3), t(2, 3), share(2, 3), t(2, 3)],
        {"has_pos_weight": True},
    ),
    Sample("binary_cross_entropy_with_logits_grad", [v([1000.0, -1000.0]), v([0.0, 1.0]), None, None, t(2)]),
    Sample("smooth_l1_loss_grad", [t(3, 4), t(3, 4), t(3, 4)], {"beta": 1.0}, dtypes=FLOATS),
    Sample("smooth_l1_loss_grad", [t(3, 4), t(3, 4), t(3, 4)]),
    Sample("kl_div_loss_grad", [t(2, 3), share(2, 3), t(2, 3)], dtypes=FLOATS),
    Sample("kl_div_loss_grad", [t(2, 3), t(2, 3), t(2, 3)], {"log_target": True}),
]  # fmt: skip
BAD += [Bad("kl_div_loss_grad", [t(2), t(2), t(3)], match="expected operands of one shape")]
