"""The functional API under PyTorch's name for it: `import oneflow.nn.functional as F`."""

from typing import TYPE_CHECKING, Any

from oneflow.frontend import api, functional  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.functional import *  # noqa: F403
from oneflow.frontend.nn.attention import scaled_dot_product_attention

if TYPE_CHECKING:  # mypy finds no names in the sum of lists of a package that is its own submodules

    def __getattr__(name: str) -> Any: ...


__all__ = ["scaled_dot_product_attention"]
__all__ += functional.__all__
