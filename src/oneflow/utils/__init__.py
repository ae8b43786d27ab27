"""Data loading, and tensors of other libraries: `flow.utils`."""

from oneflow.utils import data, global_view, tensor

__all__ = ["data", "global_view", "tensor"]
