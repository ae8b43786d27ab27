"""Jacobians, Hessians and products with them: `flow.autograd.functional`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.tracing import functional_gradients
from oneflow.frontend.tracing.functional_gradients import *  # noqa: F403

__all__ = functional_gradients.__all__
