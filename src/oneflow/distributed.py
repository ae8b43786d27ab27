"""The processes of a job and their collectives, under PyTorch's name: `flow.distributed`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend import comm as _module
from oneflow.frontend.comm import *  # noqa: F403
from oneflow.frontend.env import get_local_rank, get_rank, get_world_size

__all__ = [*_module.__all__, "get_local_rank", "get_rank", "get_world_size"]
