"""Optimizers, schedules of their learning rates in `lr_scheduler`, and averages of weights in `swa_utils`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.optim import lr_scheduler
from oneflow.frontend.optim.algorithms import LAMB, SGD, Adadelta, Adagrad, Adam, AdamW, RMSprop
from oneflow.frontend.optim.lbfgs import LBFGS
from oneflow.frontend.optim.optimizer import Optimizer
from oneflow.frontend.optim.composed_algorithms import Adamax, NAdam, RAdam, Rprop
from oneflow.optim import optimizer, swa_utils

Lamb = LAMB

__all__ = [
    "LAMB", "LBFGS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Lamb", "NAdam", "Optimizer", "RAdam", "RMSprop",
    "Rprop", "lr_scheduler", "optimizer", "swa_utils",
]  # fmt: skip
