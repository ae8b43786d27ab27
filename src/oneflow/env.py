"""The rank of this process in its job: `flow.env`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend import env as _module
from oneflow.frontend.env import *  # noqa: F403

__all__ = _module.__all__
