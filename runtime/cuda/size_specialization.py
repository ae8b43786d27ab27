"""Programs for a device, compiled for each set of sizes (see `runtime.size_specialization`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.runtime.arguments import bind
from oneflow.runtime.cuda.array import CudaArray
from oneflow.runtime.cuda.executable import CudaExecutable, compile_cuda
from oneflow.runtime.cuda.replay_cache import ReplayCache
from oneflow.runtime.size_specialization import SizeSpecialized, is_specialized_for_sizes


def compile_cuda_program(
    module: ir.Module, entry: str = "main", registry: Registry = REGISTRY, device: int = 0
) -> CudaExecutable:
    """Compiles a function of a module for a device, for each set of sizes if need be; see `compile_cuda`."""

    def compile_static(made: ir.Module) -> CudaExecutable:
        return compile_cuda(made, entry, registry=registry, device=device)

    if not is_specialized_for_sizes(module, registry):
        return compile_static(module)
    return SizeSpecializedCudaExecutable(module, entry, registry, compile_static)


class SizeSpecializedCudaExecutable(SizeSpecialized[CudaExecutable], CudaExecutable):
    """A program for a device, compiled for each set of sizes."""

    last_run: ReplayCache | None = None

    def __call__(self, *arrays: Any, **named: Any) -> list[Any]:
        """Runs the program for the sizes of the arguments; see `CudaExecutable`."""
        arguments = bind(self.inputs, arrays, named)
        return self._program_for(arguments)(*arguments)

    def run(self, arrays: Sequence[Any]) -> list[CudaArray]:
        """Starts the program for the sizes of the arguments."""
        return self._program_for(arrays).run(arrays)
