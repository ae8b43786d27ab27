"""Samples of lists of tensors of one size."""

from oneflow.dialect.dtypes import float32, float64, int32, int64
from oneflow.testing.sample import Bad, Sample, t

LIST, PARTS = "tensor_buffer_to_list_of_tensors", "tensor_buffer_to_list_of_tensors_v2"
FILLED = {"shape": [2, 1], "shape_list": [[2], [2]], "value_list": [1.5, -2.0], "data_type": "dtype"}

SAMPLES = [
    Sample("tensor_to_tensor_buffer", [t(3, 2, 2)], {"instance_dims": 2}, dtypes=(float32, int32)),
    Sample(
        "tensor_buffer_to_tensor", [t(3, 2, 2)], {"instance_shape": [2, 2], "dtype": "dtype"}, dtypes=(float32, int32)
    ),
    Sample("tensor_buffer_to_tensor", [t(3)], {"instance_shape": [], "dtype": "dtype"}),
    Sample("gen_tensor_buffer", [], FILLED, dtypes=(float32, float64, int32, int64)),
    Sample("gen_tensor_buffer", [], {**FILLED, "shape": [1], "shape_list": [[]], "value_list": [3.0]}),
    Sample(LIST, [t(3, 2)], {"out_shape": [2], "out_dtype": "dtype"}, dtypes=(float32, int32)),
    Sample(LIST, [t(3, 1, 2)], {"out_shape": [2, 3, 1], "out_dtype": "dtype"}),
    Sample(PARTS, [t(2, 3)], {"out_shapes": [[3], [1, 3]], "out_dtypes": [int32] * 2}, dtypes=(int32,)),
]
BAD = [
    Bad(
        "tensor_to_tensor_buffer",
        [t(3)],
        {"instance_dims": 1},
        match="expected instance_dims from 0 to below the rank",
    ),
    Bad(
        "tensor_buffer_to_tensor",
        [t(3, 2)],
        {"instance_shape": [3], "dtype": float32},
        match="whose tensors have the shape [3], to be 3, got 2",
    ),
    Bad(
        "gen_tensor_buffer",
        [],
        {**FILLED, "shape_list": [[2], [3]], "data_type": int32},
        match="expected tensors of one shape",
    ),
    Bad(
        "gen_tensor_buffer",
        [],
        {**FILLED, "value_list": [1.0], "data_type": int32},
        match="got 2 shapes and 1 values",
    ),
    Bad(LIST, [t(3, 2)], {"out_shape": [4], "out_dtype": float32}, match="expected tensors of one size that make up"),
    Bad(
        PARTS,
        [t(2, 3)],
        {"out_shapes": [[2], [4]], "out_dtypes": [float32] * 2},
        match="expected tensors of one size",
    ),
    Bad(LIST, [t(2)], {"out_shape": [1], "out_dtype": int32}, match="expected tensors of type f32, got i32"),
]
