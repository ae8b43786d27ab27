"""Annotations of job functions: `import oneflow.typing as tp`, `x: tp.Numpy.Placeholder((5,))`."""

from oneflow.frontend.oneflow_v0.jobs import Numpy

__all__ = ["Numpy"]
