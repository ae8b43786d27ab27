"""The host as a backend: the functions of `runtime.backends.Backend`."""

from __future__ import annotations

from oneflow.dialect._mlir import ir
from oneflow.runtime import size_specialization
from oneflow.runtime.executable import CpuExecutable


def compile_program(module: ir.Module, entry: str, device: int = 0) -> CpuExecutable:
    """Compiles a function of a module for the CPU, for each set of sizes if need be.

    Raises:
        PassError: a pass failed.
    """
    return size_specialization.compile_program(module, entry)
