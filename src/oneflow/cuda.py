"""Devices, streams, memory and settings of GPUs: `flow.cuda`."""

from typing import TYPE_CHECKING

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend import cuda as _module
from oneflow.frontend.cuda import *  # noqa: F403

if TYPE_CHECKING:
    from oneflow._tensor_types import *  # noqa: F403

__all__ = _module.__all__
