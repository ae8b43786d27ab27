"""Compilation of functions of modules, for a device or for the ranks of global tensors."""

from __future__ import annotations

from oneflow.dialect._mlir import ir
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.layouts import ProgramPlacements
from oneflow.runtime.backends import BACKENDS, HOST, RANKS
from oneflow.runtime.protocol import Executable

#: Attributes of every program for a device; `flow.cuda` sets these attributes.
COMPILE_OPTIONS: dict[str, str] = {}


def write_compile_options(module: ir.Module) -> None:
    """Writes `COMPILE_OPTIONS` as attributes of a module, where the module lacks these attributes."""
    for name, value in COMPILE_OPTIONS.items():
        if name not in module.operation.attributes:
            module.operation.attributes[name] = ir.StringAttr.get(value, module.context)


def set_compile_option(module: ir.Module, name: str, value: bool) -> None:
    """Writes an option that is on or off as an attribute of a module."""
    module.operation.attributes[name] = ir.StringAttr.get(str(bool(value)).lower(), module.context)


def compile_for(
    device: Device | ProgramPlacements, module: ir.Module, entry: str, strategy: str = "greedy"
) -> Executable:
    """Compiles a function of a module for a device, or for ranks with layouts that `strategy` chooses.

    Raises:
        CudaError: there is no such device.
        CompileError: a kernel does not compile.
        PassError: a pass failed.
        WorldError: the job has too few ranks, or other ranks have another program.
    """
    home = device.home if isinstance(device, ProgramPlacements) else device
    if home.type != HOST:
        write_compile_options(module)
    if isinstance(device, ProgramPlacements):
        return RANKS.compile_program(module, entry, device.home, device.named, strategy)
    return BACKENDS[device.type].compile_program(module, entry, device.index)
