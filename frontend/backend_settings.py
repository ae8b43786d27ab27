"""`flow.backends`: settings of programs for GPUs under PyTorch's names.

flow.backends.cudnn.deterministic = True        as flow.cuda.set_deterministic(True)
flow.backends.cudnn.benchmark = True            as flow.cuda.set_autotune(True)
flow.backends.cuda.matmul.allow_tf32 = True     as flow.cuda.set_matmul_precision("tf32")
"""

from __future__ import annotations

from types import ModuleType

from oneflow.frontend import cuda
from oneflow.frontend.core.compilation import COMPILE_OPTIONS
from oneflow.lowering.options import AUTOTUNE, DETERMINISTIC, PRECISION

__all__ = ["CudaSettings", "CudnnSettings", "MatmulSettings"]


class CudnnSettings(ModuleType):
    """The module `flow.backends.cudnn`; its settings apply to all kernels of programs compiled afterwards."""

    def is_available(self) -> bool:
        """Whether there is a CUDA device."""
        return cuda.is_available()

    @property
    def enabled(self) -> bool:
        """Whether there is a CUDA device; this project's own kernels compute what cuDNN would."""
        return cuda.is_available()

    @property
    def deterministic(self) -> bool:
        """Whether every run gives the same bits: `flow.cuda.set_deterministic`."""
        return COMPILE_OPTIONS.get(DETERMINISTIC) == "true"

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        cuda.set_deterministic(value)

    @property
    def benchmark(self) -> bool:
        """Whether the fastest configurations of kernels are measured: `flow.cuda.set_autotune`."""
        return COMPILE_OPTIONS.get(AUTOTUNE) == "true"

    @benchmark.setter
    def benchmark(self, value: bool) -> None:
        cuda.set_autotune(value)


class MatmulSettings:
    """The settings of matrix products: `flow.backends.cuda.matmul`."""

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 use tensor cores: `flow.cuda.set_matmul_precision`."""
        return COMPILE_OPTIONS.get(PRECISION, "ieee") != "ieee"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        cuda.set_matmul_precision("tf32" if value else "ieee")


class CudaSettings(ModuleType):
    """The module `flow.backends.cuda`."""

    matmul = MatmulSettings()

    def is_built(self) -> bool:
        """True: programs for CUDA devices can be compiled everywhere."""
        return True
