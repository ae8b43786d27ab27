"""Functions of repositories: `flow.hub`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend import hub as _module
from oneflow.frontend.hub import *  # noqa: F403

__all__ = _module.__all__
