"""Tensors of PyTorch to and from tensors: `flow.utils.tensor`."""

from __future__ import annotations

import importlib
from typing import Any

from oneflow.frontend.core.errors import fail
from oneflow.frontend.eager.constructors import from_numpy
from oneflow.frontend.eager.tensor import EagerTensor

__all__ = ["from_torch", "to_torch"]


def from_torch(torch_tensor: Any) -> EagerTensor:
    """A tensor in the memory of one of PyTorch, without its gradient."""
    return from_numpy(torch_tensor.detach())


def to_torch(flow_tensor: EagerTensor) -> Any:
    """A tensor of PyTorch in the memory of a tensor, without its gradient.

    Raises:
        ImportError: PyTorch is not installed.
        OneFlowError: the argument is no tensor with values.
    """
    if not isinstance(flow_tensor, EagerTensor):
        raise fail(f"expected a tensor with values, got {flow_tensor!r}")
    return importlib.import_module("torch").from_dlpack(flow_tensor.detach())
