"""Schedules of learning rates: `flow.optim.lr_scheduler`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.optim import lr_scheduler as _module
from oneflow.frontend.optim.lr_scheduler import *  # noqa: F403

__all__ = _module.__all__
