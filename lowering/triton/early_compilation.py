"""Sources of kernels as soon as they are known, while the program that they are of is still being lowered.

    with told_to(begin):
        lower(module)

Passes announce them; who compiles kernels can begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from oneflow.lowering.triton.source import Source

Listener = Callable[[Source], None]
_listener: ContextVar[Listener | None] = ContextVar("oneflow_kernels", default=None)


@contextmanager
def told_to(listener: Listener) -> Iterator[None]:
    """Within it sources that passes of this thread announce are given to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def is_listened() -> bool:
    """Whether anyone wants to know."""
    return _listener.get() is not None


def announce(source: Source) -> None:
    """Says that a program will most likely have this kernel, under whatever name."""
    listener = _listener.get()
    if listener is not None:
        listener(source)
