"""Neural networks: `flow.nn.functional`."""

from oneflow.nn import functional

__all__ = ["functional"]
