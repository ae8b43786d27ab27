"""Annotations of global functions: `import oneflow.typing as tp`, `x: tp.Numpy.Placeholder((5,))`."""

from oneflow.frontend.global_function import Numpy

__all__ = ["Numpy"]
