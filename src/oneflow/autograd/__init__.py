"""Gradients of eager tensors: `flow.autograd.Function`, `backward`, `grad`."""

from oneflow.frontend import api  # noqa: F401  (`api` gives tensors their methods)
from oneflow.frontend.eager import function  # noqa: F401  (`api` gives tensors their methods)
from oneflow.frontend.methods.backward import backward, grad
from oneflow.frontend.eager.function import Function
from oneflow.frontend.eager.tape import enable_grad, inference_mode, no_grad, set_grad_enabled
from oneflow.autograd import functional, graph

__all__ = ["Function", "backward", "enable_grad", "function", "functional", "grad", "graph", "inference_mode", "no_grad", "set_grad_enabled"]
