"""Functions under SciPy's names: `flow.special`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend import special as _module
from oneflow.frontend.special import *  # noqa: F403

__all__ = _module.__all__
