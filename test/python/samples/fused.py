"""Samples of fused operators."""

from oneflow.dialect.dtypes import bool_, float16, float32, float64, int32
from oneflow.testing.sample import Bad, Sample, t

HALVES = (float32, float16)
AGAIN = "its operators are operators of a gradient that is checked"
LOW, HIGH = t(2, low=0.0, high=1.0), t(2, low=1.5, high=3.0)
CORNERS = [LOW, HIGH, LOW, HIGH, LOW, HIGH, LOW, HIGH]
SIDES = [t(2, low=0.5, high=2.0)] * 4
EPS = {"eps": 0.125}
MASK, SOFT = t(2, 1, 4, dtype=bool_), {"scale_value": 0.5, "mask_fill_value": -3.0}

SAMPLES = [
    Sample("fused_get_center_dist", CORNERS, dtypes=(float32, float16)),
    Sample("fused_get_intersection_area", CORNERS, second_order=False, why="bends"),
    Sample("fused_get_convex_diagonal_squared", CORNERS, EPS, second_order=False, why="bends"),
    Sample("fused_get_iou", [*SIDES, t(2, low=0.1, high=0.4)], EPS),
    Sample("fused_get_ciou_diagonal_angle", SIDES, EPS),
    Sample("fused_get_center_dist_grad", [t(2, 2), t(2), t(), *[t(2, 2)] * 6], gradient=False, why=AGAIN),
    *[Sample(f"fused_get_{name}_grad", [*CORNERS, t(2)], gradient=False, why=AGAIN)
      for name in ("center_dist", "intersection_area")],
    Sample("fused_get_convex_diagonal_squared_grad", [t(2), *CORNERS], EPS, gradient=False, why=AGAIN),
    Sample("fused_get_iou_grad", [t(2), *SIDES, t(2, low=0.1, high=0.4)], EPS, gradient=False, why=AGAIN),
    Sample("fused_get_ciou_diagonal_angle_grad", [*SIDES, t(2)], EPS, gradient=False, why=AGAIN),
    Sample("fused_scale_mask_softmax", [t(2, 2, 4), t(2, 2, 4, dtype=bool_)], SOFT, dtypes=(float32, float16)),
    Sample("fused_scale_mask_softmax", [t(2, 2, 4), MASK], SOFT),
    Sample("fused_scale_mask_softmax_grad", [t(2, 2, 4, low=0.0, high=1.0), t(2, 2, 4), t(2, 2, 4, dtype=bool_)],
           {"scale_value": 0.5}),
    Sample("fused_scale_mask_bias_softmax", [t(2, 2), t(1, 2), t(2, 1)], {"scale": 0.5}),
    Sample("fused_scale_mask_bias_softmax_grad", [t(2, 4, low=0.0, high=1.0), t(2, 4)], {"scale": 0.5}),
    Sample("fused_bias_add_gelu", [t(2, 3), t(3)], {"axis": 1}, dtypes=(float32, float16)),
    Sample("fused_bias_add_gelu_grad", [t(2, 3), t(3), t(2, 3)], {"axis": 1}, gradient=False, why=AGAIN),
    Sample("fused_bias_add_mask_scale", [t(3, 2), t(2), t(3, 2, dtype=bool_), t(3, 2)], {"axis": 1, "scale": 1.5},
           dtypes=HALVES),
    Sample("fused_bias_add_mask_scale", [t(2), t(2), t(2, dtype=bool_)], gradient=False, why="as above"),
    Sample("fused_scale_tril", [t(3, 3, 4)], {"diagonal": 1, "floating_scale_value": 0.5,
           "is_floating_scale_value": True}, dtypes=(float32, float16)),
    Sample("fused_scale_tril", [t(3, 2, 2)], {"integer_fill_value": 3, "integer_scale_value": 2},
           dtypes=(float32, int32), second_order=False, why="linear"),
    Sample("fused_cast_scale", [t(3, 2), t(1, dtype=float64)], {"scale": 0.5}, dtypes=(float32, float16)),
    *[Sample("fused_clip_grad", [[t(2, 3), t(3)]], {"max_norm": 0.5, "norm_type": order})
      for order in (2.0, 1.0, 3.0, float("inf"), float("-inf"))],
    Sample("fused_clip_grad", [[t(2), t(2)]], {"max_norm": 0.5, "norm_type": 0.0}),
    Sample("fused_clip_grad", [[t(2)]], {"max_norm": 50.0}, dtypes=(float32, float16)),
    Sample("fused_get_boundding_boxes_coord", [t(2)] * 8, dtypes=(float32, float16)),
    Sample("fused_get_boundding_boxes_coord_grad", [t(2)] * 8),
    Sample("fused_get_ciou_result", [LOW, t(2, low=-0.5, high=0.5), LOW, HIGH], EPS, gradient=False,
           why="alpha is a constant to the gradient"),
    Sample("fused_get_ciou_result_grad", [t(3), t(3), t(3), t(3, low=1.5, high=3.0)]),
    Sample("fused_fast_gelu_mul", [t(2, 3), t(2, 3)], dtypes=(float32, float16)),
    Sample("fused_fast_gelu_mul_grad", [t(2, 3), t(2, 3), t(2, 3)], gradient=False, why=AGAIN),
    Sample("cast_like", [t(2, 3), t(dtype=float64)]),
    Sample("cast_like", [t(2), t(2, dtype=int32)], gradient=False, why="rounds"),
    Sample("dot", [t(3), t(3)], dtypes=(float32, float16, int32)),
    Sample("fused_weighted_sum", [[t(2, 3), t(2, 3)]], {"weights": [0.5, -2.0], "alpha": 2.0}, dtypes=HALVES),
    Sample("sqrt_square_sum", [t(2, 2)]),
    Sample("tuple_identity", [[t(2), t(2)]]),
]  # fmt: skip
BAD = [
    Bad("fused_cast_scale", [t(2), t(2)], match="expected the size of scale_by_tensor to be 1, got 2"),
    Bad("fused_clip_grad", [[t(2), t(2, dtype=float64)]], match="expected operands of one data type"),
    Bad("fused_get_boundding_boxes_coord", [*[t(2)] * 7, t(3)], match="expected h2 of type tensor<2xf32>"),
    Bad(
        "fused_scale_mask_softmax",
        [t(2, 3), t(2, 2, dtype=bool_)],
        SOFT,
        match="axis 1 of mask to be 3",
    ),
    Bad(
        "fused_weighted_sum",
        [[t(2), t(2)]],
        {"weights": [1.0]},
        match="expected a weight for each of 2 tensors, got 1",
    ),
    Bad("fused_weighted_sum", [[t(2, 3), t(3)]], {"weights": [1.0, 1.0]}, match="expected tensors of one shape, got"),
    Bad("dot", [t(2), t(3)], match="expected the size of y to be 2, got 3"),
]
