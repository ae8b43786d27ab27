"""Samples of cells, of the inverse of max pooling, and of products with vectors."""

from typing import Any

from oneflow.dialect.dtypes import float16, float32, int64
from oneflow.testing.sample import Bad, Sample, t, v

FEWER: dict[str, Any] = {"second_order": False, "why": "as of the other sample"}
GATES = [t(3, 8), t(3, 8), t(3, 2)]
POOL = {"kernel_size": [2], "stride": [2], "padding": [0], "output_size": []}
AT = v([[[3, 0, 4]], [[1, 2, 5]]], int64)
SMALL = v([[[[1, 2]]]], int64)
CUBE = v([[[[[5, 0]]]]], int64)


def _pool(spatial, **sizes):
    return {**{k: v * spatial for k, v in POOL.items()}, **sizes}


SAMPLES = [
    Sample("fused_lstm_cell", [*GATES, t(8), t(8)], dtypes=(float32, float16), **FEWER),
    Sample("fused_lstm_cell", [t(1, 4), t(1, 4), t(1, 1)]),
    Sample("fused_gru_cell", [t(3, 6), t(3, 6), t(3, 2), t(6), t(6)], dtypes=(float32, float16), **FEWER),
    Sample("fused_gru_cell", [t(1, 3), t(1, 3), t(1, 1)]),
    Sample("fused_lstm_cell_grad", [*[t(3, 2)] * 4, t(3, 8)], dtypes=(float32, float16), **FEWER),
    Sample("fused_lstm_cell_grad", [*[t(1, 1)] * 4, t(1, 4)]),
    Sample("fused_gru_cell_grad", [t(3, 2), t(3, 10)], dtypes=(float32, float16)),
    Sample("max_unpool_1d", [t(2, 1, 3), AT], POOL, dtypes=(float32, float16)),
    Sample("max_unpool_1d_grad", [t(2, 1, 3), AT, t(2, 1, 6)]),
    Sample("max_unpool_2d", [t(1, 1, 1, 2), SMALL], _pool(2, has_output_size=True, output_size=[1, 1, 2, 3])),
    Sample("max_unpool_2d_grad", [t(1, 1, 1, 2), SMALL, t(1, 1, 2, 2)]),
    Sample("max_unpool_3d", [t(1, 1, 1, 1, 2), CUBE], _pool(3)),
    Sample("max_unpool_3d_grad", [t(1, 1, 1, 1, 2), CUBE, t(1, 1, 2, 2, 2)]),
    Sample("matrix_vector_product", [t(3, 4), t(4)], dtypes=(float32, float16)),
    Sample("matrix_vector_product_grad_a", [t(3), t(4)]),
    Sample("matrix_vector_product_grad_b", [t(3), t(3, 4)]),
    Sample("vector_matrix_product", [t(3), t(3, 4)], dtypes=(float32, float16)),
    Sample("vector_matrix_product_grad_a", [t(4), t(3, 4)]),
    Sample("vector_matrix_product_grad_b", [t(4), t(3)]),
]
BAD = [
    Bad("fused_gru_cell_grad", [t(3, 2), t(3, 8)], match="expected workspace of type tensor<3x10xf32>"),
    Bad("fused_lstm_cell", [t(3, 6), t(3, 8), t(3, 2)], match="expected the last axis of input_gates to be 8, got 6"),
    Bad("fused_gru_cell", [t(3, 6), t(3, 6), t(3, 2), t(6)], match="expected both biases or none, got one"),
    Bad("max_unpool_1d", [t(2, 1, 3), t(2, 1, 2, dtype=int64)], POOL, match="expected indices of the shape of x"),
    Bad("max_unpool_1d", [t(2, 1, 3), AT], {**POOL, "stride": []}, match="expected 1 numbers for each of"),
    Bad("matrix_vector_product", [t(3), t(3)], match="expected a of rank 2"),
]
