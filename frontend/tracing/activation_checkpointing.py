"""Activation checkpointing: intermediate results are computed again for gradients and not kept.

y = flow.checkpoint(block)(x)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from oneflow.dialect.reverse import Segment, UnsavedSegment
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.pytree import flatten
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.tracing.autograd import current_value
from oneflow.frontend.tracing.builder import TraceBuilder
from oneflow.frontend.tracing.eager_autograd import recomputed

__all__ = ["checkpoint"]

Function = Callable[..., Any]


def checkpoint(
    fn: Function, *args: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True, **kwargs: Any
) -> Any:
    """Activation checkpointing: the function `fn`, computed again for its gradient, so that its intermediate results
    are not kept until then.

    With further arguments the function is called at once, like PyTorch's `checkpoint`. `use_reentrant` and
    `preserve_rng_state` are taken for programs of PyTorch: random numbers are the same when they are computed again.
    """

    @functools.wraps(fn)
    def function(*args: Any, **kwargs: Any) -> Any:
        builder = current_builder()
        if not isinstance(builder, TraceBuilder):
            return recomputed(fn, *args, **kwargs)
        return _traced_segment(builder, Segment, fn, args, kwargs)

    return function(*args, **kwargs) if args or kwargs else function


def unsaved(builder: TraceBuilder, fn: Function, *args: Any) -> Any:
    """The result of `fn` in a trace, computed again for gradients of its users, so that no result is kept."""
    return _traced_segment(builder, UnsavedSegment, fn, args, {})


def _traced_segment(builder: TraceBuilder, kind: type[Segment], fn: Function, args: Any, kwargs: Any) -> Any:
    """The result of `fn`, whose entries are one segment of the tapes."""
    operands = [v for v in flatten((args, kwargs))[0] if isinstance(v, Tensor)]
    with builder.isolated_tape() as inner:
        value = fn(*args, **kwargs)
    built = {id(r) for entry in inner for r in entry.results}
    results = tuple(v for v in (*map(current_value, flatten(value)[0]), *builder.live_tensors()) if id(v) in built)
    builder.record_entry(kind(tuple(inner), tuple(map(builder.read, operands)), results))
    return value
