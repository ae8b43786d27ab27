"""Samples of matrix products."""

from oneflow.dialect.dtypes import FLOATS, bool_, int32, uint8
from oneflow.testing.sample import NUMERIC, Bad, Sample, t

WHOLE = "expected alpha to be a whole number for a tensor of i32"
BOTH = {"transpose_a": True, "transpose_b": True, "alpha": 0.5}
SAMPLES = [
    Sample("matmul", [t(3, 4), t(4, 5)], dtypes=NUMERIC),
    Sample("matmul", [t(4, 3), t(4, 5)], {"transpose_a": True, "alpha": 0.5}),
    Sample("matmul", [t(3, 4), t(5, 4), t(3, 5)], {"transpose_b": True}, dtypes=FLOATS),
    Sample("matmul", [t(4, 3), t(5, 4)], BOTH),
    Sample("matmul", [t(3, 0), t(0, 5)]),
    Sample("matmul", [t(0, 3), t(3, 5)]),
    Sample("batch_matmul", [t(2, 3, 4), t(2, 4, 2)], dtypes=NUMERIC),
    Sample("batch_matmul", [t(2, 3, 4, 3), t(2, 3, 2, 4), t(2, 3, 3, 2)], BOTH),
    Sample("batch_matmul", [t(2, 3, 4), t(2, 2, 4)], {"transpose_b": True}),
    Sample("batch_matmul", [t(0, 3, 4), t(0, 4, 2)]),
    Sample("broadcast_matmul", [t(2, 3, 4), t(4, 2)], dtypes=NUMERIC),
    Sample("broadcast_matmul", [t(2, 3, 4), t(2, 4), t(2, 3, 2)], {"transpose_b": True, "alpha": 2.0}),
    Sample("broadcast_matmul", [t(3, 4), t(2, 4, 2)]),
    Sample("broadcast_matmul", [t(2, 1, 4, 3), t(3, 2, 4)], BOTH),
    Sample("broadcast_matmul", [t(2, 4, 3), t(4, 2)], {"transpose_a": True}),
    Sample("broadcast_matmul", [t(3, 4), t(4, 2)]),
    Sample("broadcast_matmul_grad_b", [t(2, 3, 4), t(2, 3, 2)], dtypes=NUMERIC),
    Sample("broadcast_matmul_grad_b", [t(3, 4), t(3, 2), t(4, 2)], {"alpha": 0.5}),
    Sample("broadcast_matmul_grad_b", [t(0, 3, 4), t(0, 3, 2)]),
    Sample("matmul", [t(3, 4), t(4, 5)], {"alpha": 3.0}, dtypes=(int32,)),
    Sample("broadcast_matmul", [t(2, 0, 4), t(4, 2)]),
    Sample("broadcast_matmul", [t(0, 3, 0), t(0, 2)]),
    Sample("row_products", [t(2, 3, 4), t(2, 2, 4)], dtypes=FLOATS),
    Sample("row_products", [t(0, 3, 4), t(0, 2, 4)]),
    Sample("fused_matmul_bias", [t(0, 4), t(2, 4), t(2)]),
    Sample("fused_matmul_bias", [t(3, 4), t(2, 4), t(2)], dtypes=FLOATS),
    Sample("fused_matmul_bias", [t(2, 3, 4), t(2, 4), t(2), t(2, 3, 2)], {"alpha": 0.5}),
    Sample("fused_matmul_bias", [t(3, 4), t(2, 4), t(2), t(3, 2)], {"beta": -0.5}, dtypes=FLOATS),
    Sample("bias_add", [t(2, 3, 4), t(3)], {"axis": 1}, dtypes=NUMERIC),
    Sample("bias_add", [t(2, 3), t(3)], {"axis": -1}),
    Sample("bias_add", [t(3), t(3)]),
    Sample("bias_add", [t(0, 3), t(3)], {"axis": 1}),
]
BAD = [
    Bad("matmul", [t(3, 4), t(5, 6)], match="expected the contracted dimension of b to be 4, got 5"),
    Bad("matmul", [t(3, 4, 1), t(5, 6)], match="expected a of rank 2, got tensor<3x4x1xf32>"),
    Bad("matmul", [t(3, 4), t(4)], match="expected b of rank 2, got tensor<4xf32>"),
    Bad("matmul", [t(3, 4), t(4, 5)], dtype=bool_, match="expected a of type ui8, ui16, ui32"),
    Bad("matmul", [t(3, 4), t(4, 5, dtype=int32)], match="expected operands of one data type, got f32 and i32"),
    Bad("matmul", [t(3, 4), t(4, 5), t(5)], match="expected _add_to_output of type tensor<3x5xf32>"),
    *(
        Bad("matmul", [t(3, 4), t(4, 5)], {"alpha": alpha}, dtype=int32, match=WHOLE)
        for alpha in (float("nan"), float("inf"), 0.5)
    ),
    Bad(
        "matmul", [t(3, 4), t(4, 5)], {"alpha": -1.0}, dtype=uint8, match="expected alpha to be a number in [0, 255]"
    ),
    Bad("batch_matmul", [t(2, 3, 4), t(2, 4, 5)], {"alpha": float("nan")}, dtype=int32, match=WHOLE),
    Bad("broadcast_matmul", [t(2, 3, 4), t(4, 5)], {"alpha": 1.5}, dtype=int32, match=WHOLE),
    Bad("broadcast_matmul_grad_b", [t(3, 4), t(3, 2)], {"alpha": float("inf")}, dtype=int32, match=WHOLE),
    Bad("batch_matmul", [t(2, 3, 4), t(3, 4, 5)], match="expected dimension 0 of b to be 2, got 3"),
    Bad("batch_matmul", [t(3, 4), t(4, 5)], match="expected a of rank 3 or more"),
    Bad("batch_matmul", [t(2, 3, 4), t(4, 5)], match="expected b of rank 3, got tensor<4x5xf32>"),
    Bad("broadcast_matmul", [t(2, 3, 4), t(3, 4, 5)], match="expected operands that broadcast"),
    Bad("broadcast_matmul", [t(4), t(4, 5)], match="expected a of rank 2 or more, got tensor<4xf32>"),
    Bad("broadcast_matmul_grad_b", [t(2, 3), t(3, 4)], match="expected dimension 0 of b to be 2, got 3"),
    Bad("row_products", [t(2, 3, 4), t(2, 2, 3)], match="expected the contracted dimension of b to be 4, got 3"),
    Bad("row_products", [t(3, 4), t(2, 4)], match="expected a of rank 3 or more"),
    Bad("fused_matmul_bias", [t(3, 4), t(2, 4), t(3)], match="expected dimension 0 of bias to be 2, got 3"),
    Bad("fused_matmul_bias", [t(3, 4), t(2, 5), t(2)], match="expected dimension 1 of weight to be 4, got 5"),
    Bad("bias_add", [t(2, 3), t(2)], {"axis": 1}, match="expected dimension 0 of b to be 3, got 2"),
    Bad("bias_add", [t(2, 3), t(2)], {"axis": 2}, match="expected axis in [-2, 2), got 2"),
]
