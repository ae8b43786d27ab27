"""The share of a rank of the samples: `flow.utils.data.distributed`."""

from oneflow.frontend.data.samplers import DistributedSampler

__all__ = ["DistributedSampler"]
