"""Which target programs are compiled for: what a caller chose, else `$ONEFLOW_TARGET`, else this machine.

with using(cpu_target_named("x86-64-v3")):
    pipeline.run(module)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from oneflow.dialect.record import suggestion
from oneflow.lowering.targets.cpu import CPU_TARGETS, CpuTarget
from oneflow.lowering.targets.machine import architecture, missing_features, native

#: What names a target where a caller chose none.
VARIABLE = "ONEFLOW_TARGET"
NAMES = ("native", *CPU_TARGETS)
_chosen: ContextVar[CpuTarget | None] = ContextVar("target", default=None)


class TargetError(ValueError):
    """A target that is not known, or not of this machine."""


def cpu_target_named(name: str) -> CpuTarget:
    """The target of a name in the table, or `native`.

    Raises:
        TargetError: there is none.
    """
    if name == "native":
        return native()
    if name not in CPU_TARGETS:
        raise TargetError(f"expected a target out of {', '.join(NAMES)}, got {name!r}{suggestion(name, NAMES)}")
    return CPU_TARGETS[name]


def cpu_target() -> CpuTarget:
    """The target that programs are compiled for.

    Raises:
        TargetError: $ONEFLOW_TARGET names none.
    """
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    try:
        return cpu_target_named(os.environ.get(VARIABLE) or "native")
    except TargetError as error:
        raise TargetError(f"{VARIABLE}: {error}") from None


@contextmanager
def using(target: CpuTarget) -> Iterator[None]:
    """Has programs compiled for `target` inside, in this thread."""
    before = _chosen.set(target)
    try:
        yield
    finally:
        _chosen.reset(before)


def expect_runs_here(target: CpuTarget) -> None:
    """Refuses a target whose code this machine does not run.

    Raises:
        TargetError: the machine has another architecture, or lacks features.
    """
    if target.arch != architecture():
        got = f"a machine of {architecture()}"
    elif missing := missing_features(target):
        got = f"a machine without {', '.join(missing)}"
    else:
        return
    raise TargetError(
        f"expected a machine that runs code for the target {target.name}, got {got}; choose `native`, or read the "
        "code alone (oneflow-opt --stage llvm)"
    )
