"""The functional API under PyTorch's name for it: `import oneflow.nn.functional as F`."""

from oneflow.frontend import api, functional  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.functional import *  # noqa: F403

__all__ = [*functional.__all__]
