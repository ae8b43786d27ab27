"""The targets that programs are compiled for: one CPU and one GPU at a time.

    with using_cpu(cpu_target_named("x86-64-v3")), using_gpu(gpu_target_named("sm_80")):
        pipeline.run(module)

A caller selects a target with `using_cpu` and `using_gpu`. Without a selection the CPU is `$ONEFLOW_TARGET` or the
host, and the GPU is `DEFAULT_GPU`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TypeVar

from oneflow.dialect.record import suggestion
from oneflow.lowering.targets.cpu import CPU_TARGETS, CpuTarget
from oneflow.lowering.targets.gpu import GPU_TARGETS, GpuTarget
from oneflow.lowering.targets.host import host_architecture, host_target, missing_features

T = TypeVar("T")

#: The environment variable that names the CPU target.
VARIABLE = "ONEFLOW_TARGET"
CPU_NAMES = ("native", *CPU_TARGETS)
#: The GPU of programs that are compiled without a GPU.
DEFAULT_GPU = "sm_90"
_selected_cpu: ContextVar[CpuTarget | None] = ContextVar("cpu_target", default=None)
_selected_gpu: ContextVar[GpuTarget | None] = ContextVar("gpu_target", default=None)


class TargetError(ValueError):
    """A target that is unknown, or whose code the host cannot run."""


def cpu_target_named(name: str) -> CpuTarget:
    """The CPU target of a name: `native` (the host), or a name in the table.

    Raises:
        TargetError: the name is unknown.
    """
    if name == "native":
        return host_target()
    if name not in CPU_TARGETS:
        known = ", ".join(CPU_NAMES)
        raise TargetError(f"expected a target out of {known}, got {name!r}{suggestion(name, CPU_NAMES)}")
    return CPU_TARGETS[name]


def gpu_target_named(arch: str) -> GpuTarget:
    """The GPU target of an architecture; `sm_90a` and `sm_90f` are `sm_90`.

    Raises:
        TargetError: the architecture is unknown.
    """
    name = arch.rstrip("af")
    if name not in GPU_TARGETS:
        known = ", ".join(GPU_TARGETS)
        raise TargetError(f"expected one of the architectures {known}, got {arch!r}{suggestion(arch, GPU_TARGETS)}")
    return GPU_TARGETS[name]


def cpu_target() -> CpuTarget:
    """The CPU target that programs are compiled for.

    Raises:
        TargetError: `$ONEFLOW_TARGET` names an unknown target.
    """
    chosen = _selected_cpu.get()
    if chosen is not None:
        return chosen
    try:
        return cpu_target_named(os.environ.get(VARIABLE) or "native")
    except TargetError as error:
        raise TargetError(f"{VARIABLE}: {error}") from None


def gpu_target() -> GpuTarget:
    """The GPU target that kernels are compiled for."""
    return _selected_gpu.get() or GPU_TARGETS[DEFAULT_GPU]


def gpu_target_on(device: GpuTarget) -> GpuTarget:
    """The target for programs on a device: the target of the device, with the overrides of the chosen target, and
    with its fitted values if the architectures are equal.
    """
    chosen = gpu_target()
    fitted = chosen.fitted if chosen.arch == device.arch else device.fitted
    return replace(device, fitted=fitted, overrides=chosen.overrides)


def using_cpu(target: CpuTarget) -> AbstractContextManager[None]:
    """Compiles programs for the CPU `target` inside, in this thread."""
    return _using(_selected_cpu, target)


def using_gpu(target: GpuTarget) -> AbstractContextManager[None]:
    """Compiles kernels for the GPU `target` inside, in this thread."""
    return _using(_selected_gpu, target)


@contextmanager
def _using(variable: ContextVar[T | None], target: T) -> Iterator[None]:
    before = variable.set(target)
    try:
        yield
    finally:
        variable.reset(before)


def check_runs_on_host(target: CpuTarget) -> None:
    """Rejects a CPU target whose code the host cannot run.

    Raises:
        TargetError: the host has another architecture, or lacks features.
    """
    if target.arch != host_architecture():
        got = f"a machine of {host_architecture()}"
    elif missing := missing_features(target):
        got = f"a machine without {', '.join(missing)}"
    else:
        return
    raise TargetError(
        f"expected a machine that runs code for the target {target.name}, got {got}; choose `native`, or read the "
        "code alone (oneflow-opt --stage llvm)"
    )
