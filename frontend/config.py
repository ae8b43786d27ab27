"""Settings of the process: `flow.config`. Imports the loader of user libraries."""

from __future__ import annotations

from pathlib import Path

from oneflow.runtime.user_ops import library, rules


def load_library(path: str | Path) -> None:
    """Registers the operators of a library built with `flow.sysconfig`'s flags; again does nothing.

    Raises:
        LibraryError: it cannot be loaded; the message says why.
    """
    library.load_library(path)


def enable_debug_mode(on: bool = True) -> None:
    """Runs kernels of user libraries on guarded buffers: what they write out of bounds, or to inputs, is an error.

    $ONEFLOW_DEBUG=1 does so from the start.
    """
    rules.guard_kernels(on)
