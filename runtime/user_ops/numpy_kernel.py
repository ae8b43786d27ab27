"""Kernels written with NumPy, for operators that users define: `dialect.numpy_kernel` under another name."""

from oneflow.dialect.numpy_kernel import NumpyKernel, numpy_kernel

__all__ = ["NumpyKernel", "numpy_kernel"]
