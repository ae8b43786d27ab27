"""The current builder decides whether functions of tensors run at once or become part of a program."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

#: The current builder; None stands for the builder of eager mode.
BUILDER: ContextVar[Any] = ContextVar("oneflow_builder", default=None)


def tracing() -> bool:
    """Whether the current builder is the builder of a trace."""
    builder = BUILDER.get()
    return builder is not None and not builder.eager
