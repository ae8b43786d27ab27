"""Samples of operators that read elements at computed positions, and of the adjoints."""

from oneflow.dialect.dtypes import bool_, float16, float32, int64
from oneflow.testing.sample import Bad, Sample, t

TYPES = (float32, float16, int64)
WINDOW = {"size": [2, 3], "stride": [2, 1], "storage_offset": 1}
TURNED = {"size": [3, 2], "stride": [1, 3]}
STEPS = {"dimension": 1, "size": 3, "step": 2}
KERNEL = {
    "data_format": "channels_first", "kernel_size": [2, 3], "padding": [1, 0], "strides": [2, 1],
    "dilation_rate": [1, 2],
}  # fmt: skip
PLAIN = {**KERNEL, "kernel_size": [2, 2], "padding": [0, 0], "strides": [1, 1], "dilation_rate": [1, 1]}

SAMPLES = [
    Sample("as_strided", [t(2, 4)], WINDOW, dtypes=TYPES),
    Sample("as_strided", [t(2, 3)], TURNED),
    Sample("as_strided", [t(0)], {"size": [0, 2], "stride": [1, 1]}),
    Sample("as_strided_grad", [t(2, 3), t(2, 4)], WINDOW, dtypes=TYPES),
    Sample("diag", [t(3)], {"diagonal": 1}, dtypes=(*TYPES, bool_)),
    Sample("diag", [t(3)], {"diagonal": -2}),
    Sample("diag", [t(3, 4)], {"diagonal": 2}),
    Sample("diag", [t(3, 4)], {"diagonal": -1}),
    Sample("diag", [t(2, 2)], {"diagonal": 3}),
    Sample("diag_grad", [t(4, 4), t(3)], {"diagonal": 1}),
    Sample("diag_grad", [t(3), t(3, 4)], dtypes=TYPES),
    Sample("diagonal", [t(3, 4, 3)], {"offset": 1}, dtypes=TYPES),
    Sample("diagonal", [t(3, 2)], {"offset": -1}),
    Sample("diagonal_grad", [t(3, 3), t(3, 4, 3)], {"offset": 1}, dtypes=TYPES),
    Sample("unfold_tensor", [t(3, 7)], STEPS, dtypes=TYPES),
    Sample("unfold_tensor", [t(4, 3)], {"dimension": 0, "size": 2, "step": 3}),
    Sample("unfold_tensor", [t(3, 3)], {"dimension": 1, "size": 2, "step": 2}),
    Sample("unfold_tensor_grad", [t(3, 3, 3), t(3, 7)], {**STEPS}, dtypes=TYPES),
    Sample("unfold", [t(3, 2, 3, 6)], KERNEL, dtypes=TYPES),
    Sample("unfold", [t(1, 1, 2, 2)], PLAIN),
    Sample("fold", [t(3, 12, 4)], {**KERNEL, "output_size": [3, 6]}, dtypes=TYPES),
]
BAD = [
    Bad("as_strided", [t(2, 2)], {"size": [2], "stride": [4]}, match="expected positions below 4"),
    Bad("as_strided", [t(2, 2)], {"size": [2], "stride": [1, 1]}, match="expected as many strides as sizes"),
    Bad("diag", [t(2, 2, 2)], match="expected a vector or a matrix"),
    Bad("diag_grad", [t(2), t(3, 4)], match="expected dy of type tensor<3xf32>, got tensor<2xf32>"),
    Bad("diagonal", [t(2)], match="expected a tensor of rank 2 or more"),
    Bad(
        "unfold_tensor",
        [t(2)],
        {"dimension": 0, "size": 3, "step": 1},
        match="expected size from 1 to the 2 elements",
    ),
    Bad(
        "unfold",
        [t(1, 1, 2, 2)],
        {**PLAIN, "kernel_size": [3, 1]},
        match="expected windows of at most the padded image",
    ),
    Bad("unfold", [t(1, 1, 2, 2)], {**PLAIN, "data_format": "channels_last"}, match="expected data_format"),
    Bad("unfold", [t(1, 1, 2, 2)], {**PLAIN, "strides": [0, 1]}, match="expected two positive numbers for each of"),
    Bad("fold", [t(1, 3, 1)], {**PLAIN, "output_size": [2, 2]}, match="columns of channels * [2, 2] elements"),
    Bad("fold", [t(1, 4, 2)], {**PLAIN, "output_size": [2, 2]}, match="expected x of type tensor<1x4x1xf32>"),
]
