"""Norms, products and diagonals: `flow.linalg`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend import linalg as _module
from oneflow.frontend.linalg import *  # noqa: F403

__all__ = _module.__all__
