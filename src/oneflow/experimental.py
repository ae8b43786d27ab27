"""Operators with kernels in Python: `flow.experimental`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend import experimental as _module
from oneflow.frontend.experimental import *  # noqa: F403

__all__ = _module.__all__
