"""Data loading, and tensors of other libraries: `flow.utils`."""

from oneflow.utils import checkpoint, data, global_view, tensor

__all__ = ["checkpoint", "data", "global_view", "tensor"]
