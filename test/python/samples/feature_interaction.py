"""Samples of interactions of features."""

from typing import Any

from oneflow.dialect.dtypes import float16, float32, int32
from oneflow.testing.sample import Bad, Sample, t, v

HALVES = (float32, float16)
FEWER: dict[str, Any] = {"second_order": False, "why": "products of features"}
DOTS, DOTS_GRAD = "fused_dot_feature_interaction", "fused_dot_feature_interaction_grad"
CROSS = "fused_cross_feature_interaction"
FEATURES, ROWS = [t(3, 1, 3), t(3, 2, 3)], v([[1], [0], [1]], int32)
SPARSE = [v([2], int32), t(2, 3), ROWS]

SAMPLES = [
    Sample(DOTS, [FEATURES, t(3, 2)], {"has_output_concat": True, "output_padding": 1}, dtypes=HALVES, **FEWER),
    Sample(
        DOTS, [[t(2, 1, 2)], None, v([2], int32), t(2, 2), v([[1], [0]], int32)], {"self_interaction": True}, **FEWER
    ),
    Sample(DOTS, [FEATURES], {"pooling": "sum"}, **FEWER),
    Sample(DOTS_GRAD, [t(3, 6), FEATURES], {"output_concat_grad_dim": 2}, **FEWER),
    Sample(
        DOTS_GRAD, [t(2, 3), [t(2, 1, 2)], None, t(2, 2), v([[1], [0]], int32)], {"self_interaction": True}, **FEWER
    ),
    Sample(DOTS_GRAD, [t(2, 2), [t(2, 2, 2)]], {"pooling": "sum"}, **FEWER),
    Sample(CROSS, [t(3, 2), t(1, 2), t(2), t(3, 2)], {"interaction_mode": "vector"}, dtypes=HALVES, **FEWER),
    Sample(CROSS, [t(3, 2), t(2, 2), t(2), t(3, 2)], {"interaction_mode": "matrix"}, **FEWER),
    Sample(f"{CROSS}_v1_grad", [t(3, 2), t(1, 2), t(3, 2), t(3, 2), t(3, 1)], **FEWER),
    Sample(f"{CROSS}_v2_grad", [t(3, 2), t(2, 2), t(2), *[t(3, 2)] * 3], **FEWER),
]
BAD = [
    Bad(DOTS, [[t(2, 1, 2), t(2, 1, 3)]], match="expected feature 1 of type tensor<2x1x2xf32>"),
    Bad(DOTS, [[t(1, 5000, 1)]], match="expected at most 4096 features, got 5000"),
    Bad(DOTS, [[t(2, 1, 2)]], match="expected at least two features, or self_interaction"),
    Bad(DOTS, [FEATURES, t(3, 2)], match="has_output_concat = true"),
    Bad(DOTS, [FEATURES, None, None, t(2, 3)], match="expected sparse_indices and pooling none"),
    Bad(DOTS_GRAD, [t(3, 2), FEATURES], match="expected a static axis 1 of dy, of at least 3"),
    Bad(CROSS, [t(3, 2), t(2, 2), t(2), t(3, 2)], {"interaction_mode": "vector"}, match="expected weight of type"),
    Bad(CROSS, [t(3, 2), t(2, 2), t(2), t(3, 2)], {"interaction_mode": "row"}, match="vector or matrix, got 'row'"),
]
