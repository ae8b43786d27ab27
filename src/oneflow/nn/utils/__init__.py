"""Clipping of gradients, computed weights, packed sequences: `flow.nn.utils`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.nn import utils as _module
from oneflow.frontend.nn.utils import *  # noqa: F403
from oneflow.nn.utils import rnn as rnn  # type: ignore[no-redef]  # the module of this package, not the frontend's

__all__ = _module.__all__
