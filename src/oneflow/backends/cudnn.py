"""Settings of kernels: `flow.backends.cudnn.deterministic`, `flow.backends.cudnn.benchmark`."""

import sys
from typing import TYPE_CHECKING

from oneflow.frontend.backend_settings import CudnnSettings

if TYPE_CHECKING:  # properties of the module's class
    deterministic: bool
    benchmark: bool
    enabled: bool

    def is_available() -> bool: ...


sys.modules[__name__].__class__ = CudnnSettings
