"""Layouts along one axis of a mesh: `flow.sbp`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend import sbp as _module
from oneflow.frontend.sbp import *  # noqa: F403

__all__ = _module.__all__
