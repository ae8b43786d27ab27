"""Samples of arithmetic of tensors that OneFlow reads by their strides."""

from oneflow.dialect.dtypes import float16, float32
from oneflow.testing.sample import Bad, Sample, t

NAME, RIGHT = "noncontiguous_binary_op", t(3, 2, low=0.5, high=2.0)
SAMPLES = [
    *[Sample(NAME, [t(3, 2), RIGHT], {"op": op}, dtypes=(float32, float16)) for op in ("add", "sub", "mul", "div")],
    *[Sample(f"{NAME}_grad", [t(3, 2), t(3, 2), RIGHT], {"op": op}) for op in ("div", "mul", "add", "sub")],
]
BAD = [
    Bad(NAME, [t(3), t(1)], match="expected rhs of type tensor<3xf32>"),
    Bad(NAME, [t(3), t(3)], {"op": "pow"}, match="expected op to be one of add, sub, mul, div, got 'pow'"),
    Bad(NAME, [t(3), t(3)], {"inplace": True}, match="expected inplace to be false"),
]
