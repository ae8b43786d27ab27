"""`flow.optim.optimizer.Optimizer`."""

from oneflow.frontend.optim.optimizer import Optimizer

__all__ = ["Optimizer"]
