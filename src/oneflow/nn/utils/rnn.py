"""Sequences of different lengths: `flow.nn.utils.rnn`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.nn import rnn_packing
from oneflow.frontend.nn.rnn_packing import *  # noqa: F403

__all__ = rnn_packing.__all__
