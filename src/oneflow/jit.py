"""Marks of PyTorch's script compiler, which programs carry: `flow.compile` needs none, so that each gives what it
marks.
"""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F")

__all__ = ["export", "ignore", "is_scripting", "is_tracing", "script", "unused"]


def script(obj: F, *_: Any, **__: Any) -> F:
    """The function or module itself: `flow.compile` compiles it."""
    return obj


def ignore(drop: Any = False, **_: Any) -> Callable[[F], F] | Any:
    """The function itself; also with arguments, as a decorator."""
    return drop if callable(drop) else lambda function: function


def unused(function: F) -> F:
    """The function itself."""
    return function


def export(function: F) -> F:
    """The function itself."""
    return function


def is_scripting() -> bool:
    """False: nothing is compiled from source text."""
    return False


def is_tracing() -> bool:
    """False, in traced functions too: code for PyTorch's tracer is not needed there."""
    return False
