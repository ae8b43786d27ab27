"""The functional API under PyTorch's name for it: `import oneflow.nn.functional as F`."""

from oneflow.frontend import api, functional  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.functional import *  # noqa: F403
from oneflow.frontend.nn.attention import scaled_dot_product_attention

__all__ = [*functional.__all__, "scaled_dot_product_attention"]
