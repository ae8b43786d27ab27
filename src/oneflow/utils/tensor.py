"""Tensors of PyTorch: `flow.utils.tensor`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.foreign_tensors import from_torch, to_torch

__all__ = ["from_torch", "to_torch"]
