"""Early compilation: passes announce sources of kernels while the program is still being lowered.

with listening(compile_in_background):
    lower(module)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from oneflow.lowering.triton.source import Source

Listener = Callable[[Source], None]
_listener: ContextVar[Listener | None] = ContextVar("oneflow_kernels", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """A context in which `listener` receives each source that passes of this thread announce."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def has_listener() -> bool:
    """Whether a listener receives the announced sources."""
    return _listener.get() is not None


def announce(source: Source) -> None:
    """Announces a kernel that the program will most likely have, possibly under another name."""
    listener = _listener.get()
    if listener is not None:
        listener(source)
