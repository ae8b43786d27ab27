"""Probability distributions: `flow.distributions`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend import distributions as _module
from oneflow.frontend.distributions import *  # noqa: F403
from oneflow.distributions import categorical

__all__ = _module.__all__
