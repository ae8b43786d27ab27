"""Samples of linear algebra and of sequences of labels."""

from oneflow.dialect.dtypes import complex64, float16, float32, float64, int32, int64
from oneflow.testing.sample import Bad, Sample, t, v

WIDE = (float32, float64)
AGAIN = "the gradient is the one for logarithms of probabilities that add up to 1"
#: Matrices far from singular.
MATRICES = v(
    [[[4.0, 1.0, -0.5], [0.5, -3.0, 1.0], [1.0, 0.25, 5.0]], [[0.0, 2.0, 1.0], [3.0, 0.5, 0.0], [1.0, 1.0, 4.0]]]
)
TURNED = v([[2.0 + 1.0j, 0.5], [-1.0 + 0.25j, 3.0 - 1.0j]])
MATRIX = v([[2.0, 0.5], [-1.0, 3.0]])
PROBS = t(4, 3, 3, low=-3.0, high=-0.2)
TARGETS, FLAT = v([[1, 2], [1, 1], [2, 0]], int64), v([1, 2, 1, 1, 2], int32)
LENGTHS = (v([4, 3, 2], int64), v([2, 2, 1], int64))
CTC = {"max_target_length": 2, "zero_infinity": True}
BOXES = v([[0.0, 0.0, 4.0, 4.0], [1.0, 0.5, 5.0, 4.0], [5.0, 5.0, 7.0, 8.0], [0.0, 0.0, 4.0, 3.9]])

SAMPLES = [
    Sample("inv", [MATRICES], dtypes=WIDE),
    Sample("inv", [MATRIX]),
    Sample("det", [MATRICES], dtypes=WIDE),
    Sample("det", [MATRIX]),
    Sample("det", [TURNED], dtypes=(complex64,)),
    Sample("slogdet", [MATRICES], dtypes=WIDE),
    Sample("slogdet", [TURNED], dtypes=(complex64,)),
    Sample("slogdet_of_pairs", [t(3, 2, 2, 2)], dtypes=WIDE),
    Sample("lu_decomposition", [MATRICES], dtypes=WIDE),
    Sample("linalg_cross", [t(2, 3, 3), t(2, 3, 3)], {"dim": 1}, dtypes=(float32, float16, int64)),
    Sample("ctc_loss", [PROBS, TARGETS, *LENGTHS], CTC, dtypes=WIDE, gradient=False, why=AGAIN),
    Sample("ctc_loss", [PROBS, FLAT, *LENGTHS], {"max_target_length": 2}, gradient=False, why=AGAIN),
    Sample("ctc_loss_grad", [t(3), PROBS, TARGETS, *LENGTHS, t(3, low=1.0, high=4.0), t(3, 4, 5)], CTC, dtypes=WIDE),
    Sample("ctc_greedy_decoder", [PROBS, LENGTHS[0]], {"merge_repeated": True}, dtypes=WIDE),
    Sample("ctc_greedy_decoder", [PROBS, LENGTHS[0]]),
    Sample("nms", [BOXES], {"iou_threshold": 0.5}, dtypes=WIDE),
    Sample("nms", [BOXES], {"iou_threshold": 0.95, "keep_n": 2}),
]
BAD = [
    Bad("inv", [t(2, 3)], match="expected square matrices"),
    Bad("det", [t(2)], match="expected x of rank 2 or more"),
    Bad("slogdet", [t(2, 3)], match="expected square matrices"),
    Bad("slogdet_of_pairs", [t(2, 3, 2)], match="expected square matrices"),
    Bad("lu_decomposition", [t(2, 2)], dtype=float16, match="expected x of type f32, f64, got f16"),
    Bad("linalg_cross", [t(2, 2), t(2, 2)], {"dim": 0}, match="expected three elements along dimension 0"),
    Bad("ctc_loss", [PROBS, TARGETS, *LENGTHS], {"max_target_length": 3}, match="expected targets of at least"),
    Bad("ctc_loss", [PROBS, TARGETS, *LENGTHS], {**CTC, "blank": 3}, match="blank in [0, 3), got 2 and 3"),
    Bad("nms", [t(2, 5)], match="expected the columns of in to be 4, got 5"),
]
