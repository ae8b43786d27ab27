"""Stochastic weight averaging: `flow.optim.swa_utils`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.nn.weight_averaging import AveragedModel, update_bn
from oneflow.frontend.optim.averaging_schedule import SWALR

__all__ = ["SWALR", "AveragedModel", "update_bn"]
