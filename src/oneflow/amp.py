"""Mixed precision: `flow.amp`."""

from oneflow.frontend import amp as _module
from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.amp import *  # noqa: F403

__all__ = _module.__all__
