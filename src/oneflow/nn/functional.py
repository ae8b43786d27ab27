"""The functional API under PyTorch's name for it: `import oneflow.nn.functional as F`."""

from typing import TYPE_CHECKING

from oneflow.frontend import api, functional  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.nn.attention import scaled_dot_product_attention as scaled_dot_product_attention

if TYPE_CHECKING:
    from oneflow._functions import *  # noqa: F403
    from oneflow._functions import _scaled_mm as _scaled_mm
else:
    from oneflow.frontend.functional import *  # noqa: F403

__all__ = ["scaled_dot_product_attention"]
__all__ += functional.__all__
