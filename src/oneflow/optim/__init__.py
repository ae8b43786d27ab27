"""Optimizers, and schedules of their learning rates in `lr_scheduler`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.optim import lr_scheduler
from oneflow.frontend.optim.algorithms import LAMB, SGD, Adagrad, Adam, AdamW, RMSprop
from oneflow.frontend.optim.optimizer import Optimizer

Lamb = LAMB

__all__ = ["LAMB", "SGD", "Adagrad", "Adam", "AdamW", "Lamb", "Optimizer", "RMSprop", "lr_scheduler"]
