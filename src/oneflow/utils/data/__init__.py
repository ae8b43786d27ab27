"""Data sets, samplers and loaders of batches: `flow.utils.data`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.data import datasets, loader, samplers
from oneflow.frontend.data.datasets import *  # noqa: F403
from oneflow.frontend.data.loader import *  # noqa: F403
from oneflow.frontend.data.samplers import *  # noqa: F403
from oneflow.utils.data import dataloader, dataset, distributed, sampler

__all__ = ["dataloader", "dataset", "distributed", "sampler"]
__all__ += datasets.__all__
__all__ += loader.__all__
__all__ += samplers.__all__
