"""Pruning of parameters: `flow.nn.utils.prune`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.nn import prune as _module
from oneflow.frontend.nn.prune import *  # noqa: F403
from oneflow.frontend.nn.prune import (  # noqa: F401  (which programs for PyTorch use)
    _compute_nparams_toprune,
    _validate_pruning_amount,
    _validate_pruning_amount_init,
)

__all__ = _module.__all__
