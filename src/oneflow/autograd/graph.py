"""Hooks on the tensors that calls keep for their gradients: `flow.autograd.graph`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.eager.saved_tensors import saved_tensors_hooks

__all__ = ["saved_tensors_hooks"]
