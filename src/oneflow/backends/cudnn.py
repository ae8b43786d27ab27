"""Settings of kernels: `flow.backends.cudnn.deterministic`, `flow.backends.cudnn.benchmark`."""

import sys

from oneflow.frontend.backend_settings import CudnnSettings

sys.modules[__name__].__class__ = CudnnSettings
