"""Settings of matrix products: `flow.backends.cuda.matmul.allow_tf32`."""

import sys
from typing import TYPE_CHECKING

from oneflow.frontend.backend_settings import CudaSettings, MatmulSettings

if TYPE_CHECKING:  # members of the module's class
    matmul: MatmulSettings

    def is_built() -> bool: ...



sys.modules[__name__].__class__ = CudaSettings
