"""Samples of fused linear layers, gated units and weights of few bits."""

from typing import Any

from oneflow.dialect.dtypes import bfloat16, float16, float32, float64, int8, int32, uint8
from oneflow.testing.sample import Bad, Sample, t, v

HALVES = (float32, float16)
FEWER: dict[str, Any] = {"second_order": False, "why": "as of linear layers"}
X, WEIGHTS, BIASES = t(3, 2), [t(2, 2), t(1, 2)], [t(2), t(1)]
MASK = v([[1, 0, 0, 0], [3, 0, 0, 0], [-2, 0, 0, 0]], int32)
HIDDEN = [t(3, 2), t(3, 1)]
SMALL = v([[2, 0, 0, 0], [1, 0, 0, 0]], int32)
RATES = {"dropout_rate_list": [0.25, 0.25], "seed": 5}

SAMPLES = [
    Sample("cublas_fused_mlp", [X, WEIGHTS, BIASES], dtypes=HALVES, **FEWER),
    Sample("cublas_fused_mlp", [X, [t(2, 2)], [t(2)]], {"skip_final_activation": True}, **FEWER),
    Sample("cublas_fused_mlp", [t(1, 1), [t(140, 1)], [t(140)]], gradient=False, why="bits of several words"),
    Sample("fused_matmul_bias_add_relu_dropout", [X, [t(2, 2), t(4, 2)], [t(2, low=0.5), t(4, low=0.5)]], RATES,
           **FEWER),
    Sample("fused_matmul_bias_add_relu_dropout", [t(2, 2), WEIGHTS, BIASES], {"dropout_rate_list": [0.0, 0.5],
           "skip_final_activation": True, "seed": 3}, gradient=False, why="as of the other sample"),
    Sample("fused_relu_dropout_grad", [t(3, 2), MASK], {"scale": 1.5}, dtypes=HALVES),
    Sample("fused_relu_dropout_grad", [t(1, 70), v([[-5, 1 << 30, -2, 0]], int32)], {"scale": 2.0}, gradient=False,
           why="as of the other sample"),
    Sample("cublas_matmul_bias_add_grad", [t(3, 2), t(3, 4)], dtypes=HALVES),
    Sample("cublas_bias_add_relu_matmul_grad", [t(3, 3), t(3, 2), MASK], {"alpha": 1.5}, dtypes=HALVES),
    Sample("cublas_fused_mlp_grad", [t(3, 1), X, WEIGHTS, [MASK, MASK], HIDDEN], {"alpha_list": [1.5]}, **FEWER),
    Sample("grouped_matmul_bias", [[t(3, 2), t(3, 2)], [t(3, 2), t(4, 2)], [t(3), t(4)]], dtypes=HALVES, **FEWER),
    Sample("grouped_matmul_bias", [[t(2, 2), t(2, 2, 2)], [t(2, 2), t(2, 2)]], gradient=False, why="as above"),
    Sample("fused_glu", [t(3, 2), t(4, 2), t(4)], {"activation": "gelu", "has_bias": True}, dtypes=HALVES, **FEWER),
    Sample("fused_glu", [t(2, 2), t(3, 2), None, t(3, 2)], {"is_split": True}, **FEWER),
    Sample("fused_glu", [t(2, 2), t(2, 2), t(2), t(2, 2), t(2)],
           {"activation": "silu", "has_bias": True, "is_split": True}, **FEWER),
    *[Sample("fused_glu_without_linear_grad", [t(3, 2), t(3, 2), t(3, 2)], {"activation": name}, **FEWER)
      for name in ("none", "sigmoid", "relu", "gelu", "fast_gelu", "silu")],
    Sample("fused_glu_without_linear_grad", [t(3, 2), t(3, 4)], {"activation": "silu"}, dtypes=HALVES),
    Sample("groupwise_dequantize", [t(3, 4, dtype=uint8, high=256), t(3, 2)], {"group_dim": 1, "group_size": 2},
           dtypes=HALVES),
    Sample("groupwise_dequantize", [t(2, 2, dtype=int8, low=-128, high=127), t(1, 2)],
           {"group_dim": 0, "group_size": 2}),
    Sample("groupwise_dequantize", [t(2, 2, dtype=uint8, high=256), t(2, 2), t(2, 2)],
           {"group_dim": -1, "group_size": 2, "num_bits": 4, "symmetric": False}),
    *[Sample("groupwise_dequantize", [t(1, 2, dtype=kind, low=-128, high=127), t(1, 1)],
             {"group_dim": 1, "group_size": 4, "num_bits": 4}) for kind in (int8, uint8)],
    Sample("fused_linear_with_groupwise_quantized_weight",
           [t(3, 4), t(3, 4, dtype=uint8, high=256), t(3, 2), t(3, 2), t(3)],
           {"group_dim": 1, "group_size": 2, "symmetric": False}, dtypes=HALVES, **FEWER),
    Sample("fused_linear_with_groupwise_quantized_weight", [t(2, 4), t(4, 2, dtype=int8, low=-128), t(2, 4)],
           {"group_dim": 0, "group_size": 2, "num_bits": 4}, **FEWER),
    Sample("fused_linear_with_groupwise_quantized_weight",
           [t(2, 64), t(5, 32, dtype=uint8, high=256), t(5, 2), t(5, 2), t(5)],
           {"group_dim": 1, "group_size": 32, "num_bits": 4, "symmetric": False}, dtypes=(bfloat16,),
           gradient=False, why="as above"),
]  # fmt: skip
BAD = [
    Bad("cublas_fused_mlp", [X, [t(2, 3)], [t(2)]], match="expected weight 0 of type tensor<?x2xf32>"),
    Bad("cublas_fused_mlp", [X, WEIGHTS, [t(2), t(2)]], match="expected bias 1 of type tensor<1xf32>"),
    Bad("fused_matmul_bias_add_relu_dropout", [X, WEIGHTS, BIASES], {"dropout_rate_list": [0.5]},
        match="expected dropout_rate_list of 2 rates"),
    Bad("fused_relu_dropout_grad", [t(3, 2), t(3, 1, dtype=int32)], match="static type tensor<3x4xi32> of mask"),
    Bad("cublas_fused_mlp_grad", [t(3, 1), X, WEIGHTS, [MASK, MASK], HIDDEN], {"alpha_list": []},
        match="expected alpha_list of 1 numbers"),
    Bad("grouped_matmul_bias", [[t(3, 2)], [t(3, 4)]], match="expected weight 0 of type tensor<?x2xf32>"),
    Bad("fused_glu", [t(3, 2), t(4, 2)], {"activation": "tanh"}, match="got 'tanh'"),
    Bad("fused_glu", [t(3, 2), t(3, 2)], match="even number of rows of w without v"),
    Bad("groupwise_dequantize", [t(3, 4, dtype=uint8), t(3, 2)], {"group_dim": 1, "group_size": 3},
        match="expected a group_size that divides 4, got 3"),
    Bad("groupwise_dequantize", [t(3, 4, dtype=int8), t(3, 2)],
        {"group_dim": 1, "group_size": 2, "symmetric": False}, match="expected in of type ui8"),
    Bad("groupwise_dequantize", [t(3, 4, dtype=uint8), t(3, 2, dtype=float64), t(3, 2)],
        {"group_dim": 1, "group_size": 2}, match="expected zero exactly where symmetric is false"),
    Bad("fused_linear_with_groupwise_quantized_weight", [t(3, 5), t(3, 4, dtype=uint8), t(3, 2)],
        {"group_dim": 1, "group_size": 2}, match="expected x of type tensor<3x4xf32>"),
]  # fmt: skip
