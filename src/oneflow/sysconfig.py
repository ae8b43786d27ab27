"""Paths and flags for libraries of users: `flow.sysconfig`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend import sysconfig as _module
from oneflow.frontend.sysconfig import *  # noqa: F403

__all__ = _module.__all__
