"""Collectives between processes: `flow.comm`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend import comm as _module
from oneflow.frontend.comm import *  # noqa: F403

__all__ = _module.__all__
