"""`flow.utils.checkpoint.checkpoint`: a part of a model whose values are computed again in the backward pass."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.tracing.activation_checkpointing import checkpoint

__all__ = ["checkpoint"]
