"""Settings of matrix products: `flow.backends.cuda.matmul.allow_tf32`."""

import sys

from oneflow.frontend.backend_settings import CudaSettings

sys.modules[__name__].__class__ = CudaSettings
