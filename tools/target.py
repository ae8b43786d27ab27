"""The options `--target` and `--gpu-arch` of the commands: the CPU and the GPU that programs are compiled for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oneflow.lowering.targets.selection import (
    CPU_NAMES,
    VARIABLE,
    TargetError,
    cpu_target,
    cpu_target_named,
    gpu_target,
    gpu_target_named,
    using_cpu,
    using_gpu,
)
from oneflow.tools.command import UsageError

HELP = f"compile for a processor: {', '.join(CPU_NAMES)} (default: ${VARIABLE}, else native)"


@contextmanager
def for_targets(cpu: str | None, gpu: str | None = None) -> Iterator[None]:
    """Compiles programs inside for the targets that `--target` and `--gpu-arch` name; None is the default.

    Raises:
        UsageError: the target is unknown.
    """
    try:
        cpu_choice = cpu_target_named(cpu) if cpu else cpu_target()
    except TargetError as error:
        raise UsageError(f"--target: {error}" if cpu else str(error)) from None
    try:
        gpu_choice = gpu_target_named(gpu) if gpu else gpu_target()
    except TargetError as error:
        raise UsageError(f"--gpu-arch: {error}") from None
    with using_cpu(cpu_choice), using_gpu(gpu_choice):
        yield
