"""The option `--target`: the processor for which programs are compiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oneflow.lowering.targets.choice import NAMES, VARIABLE, TargetError, cpu_target, cpu_target_named, using
from oneflow.tools.command import UsageError

HELP = f"compile for a processor: {', '.join(NAMES)} (default: ${VARIABLE}, else native)"


@contextmanager
def for_target(name: str | None) -> Iterator[None]:
    """Within the block, programs are compiled for the target that `--target` names, or for the default.

    Raises:
        UsageError: there is no such target.
    """
    try:
        target = cpu_target_named(name) if name else cpu_target()
    except TargetError as error:
        raise UsageError(f"--target: {error}" if name else str(error)) from None
    with using(target):
        yield
