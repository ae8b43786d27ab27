"""Samplers: `flow.utils.data.sampler`."""

from oneflow.frontend.data import samplers
from oneflow.frontend.data.samplers import *  # noqa: F403

__all__ = samplers.__all__
