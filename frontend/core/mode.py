"""Whether functions of tensors run at once or become part of a program: by the builder in force."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

#: The builder that functions build with; None for that of eager mode.
BUILDER: ContextVar[Any] = ContextVar("oneflow_builder", default=None)


def tracing() -> bool:
    """Whether a builder whose tensors have no values is in force."""
    builder = BUILDER.get()
    return builder is not None and not builder.eager
