"""The distribution of integers by their probabilities: `flow.distributions.categorical`."""

from oneflow.frontend.distributions import Categorical

__all__ = ["Categorical"]
