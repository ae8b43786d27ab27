"""The modules of `flow.nn`."""

from oneflow import nn as _nn
from oneflow.nn import *  # noqa: F403

__all__ = _nn.__all__
