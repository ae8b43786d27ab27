"""OneFlow's settings of collectives: `flow.boxing.nccl`."""

from oneflow.frontend import collective_settings as _module
from oneflow.frontend.collective_settings import *  # noqa: F403

__all__ = _module.__all__
