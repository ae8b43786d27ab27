"""Operators whose kernels are NumPy and C."""

import numpy as np

import oneflow as flow


@flow.operator("lit_row_max(x) -> y")
class RowMax:
    """The largest element of each row."""

    types = lambda op: flow.TensorDesc(op.x.shape[:-1], op.x.dtype)  # noqa: E731
    kernel = flow.numpy_kernel(lambda x: np.max(x, axis=-1))


@flow.operator("lit_cap(x, limit: float = 1.0) -> y")
class Cap:
    """x, but at most limit."""

    types = "x"
    kernel = flow.c_kernel("for (int64_t i = 0; i < x_size; ++i) y[i] = x[i] > limit ? limit : x[i];")
