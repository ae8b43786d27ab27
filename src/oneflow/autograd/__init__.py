"""Gradients of eager tensors: `flow.autograd.Function`, `backward`, `grad`."""

from oneflow.frontend import api, function  # noqa: F401  (`api` gives tensors their methods)
from oneflow.frontend.backward import backward, grad
from oneflow.frontend.function import Function
from oneflow.frontend.tape import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["Function", "backward", "enable_grad", "function", "grad", "inference_mode", "no_grad", "set_grad_enabled"]
