"""Training on several ranks."""

from oneflow.frontend.nn.parallel import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
