"""Errors that point at a line of the user's program."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from linecache import getline
from types import FrameType

from oneflow.dialect.deprecated import current_name
from oneflow.frontend.core.mode import tracing

#: Packages whose frames are not the user's; decorators such as `no_grad` call functions from `contextlib`.
_OURS = __name__.partition(".")[0], "contextlib"


@dataclass(frozen=True)
class SourceLocation:
    """A position in a Python program; `line` and `column` count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


#: The position in a foreign program that an importer has reached, in place of the position of the user's frame.
_IMPORTED: ContextVar[SourceLocation | None] = ContextVar("imported", default=None)


@contextmanager
def located(location: SourceLocation | None) -> Iterator[None]:
    """A context in which the user's position is `location`, a position in an imported program."""
    token = _IMPORTED.set(location)
    try:
        yield
    finally:
        _IMPORTED.reset(token)


class OneFlowError(ValueError, RuntimeError):
    """An error at a line of the user's program: what was expected, what was given, and a remedy.

    OneFlow and PyTorch raise RuntimeError, NumPy raises ValueError: programs that expect either catch the error.
    """

    def __init__(self, text: str, location: SourceLocation | None = None) -> None:
        source = getline(location.file, location.line).strip() if location else ""
        super().__init__((f"{location}: {text}" if location else text) + (f"\n    {source}" if source else ""))
        self.text, self.location = text, location

    def __getattr__(self, name: str) -> object:
        """The value of an attribute under its name in the previous release."""
        current = current_name("attribute of flow.OneFlowError", name)
        if current == name:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self, current)


class TraceError(OneFlowError):
    """A Python function cannot become a program."""


class CallError(OneFlowError):
    """A compiled function was called with illegal arguments."""


class OneFlowIndexError(OneFlowError, IndexError):
    """A dimension or position that a tensor does not have."""


class OneFlowTypeError(OneFlowError, TypeError):
    """An element type that a function does not take."""


class TraceIndexError(TraceError, OneFlowIndexError):
    """A dimension or position that a tensor of a trace does not have."""


class TraceTypeError(TraceError, OneFlowTypeError):
    """An element type that a function does not take, of a tensor of a trace."""


#: The classes of errors outside and inside of a trace, by the built-in class that they have in addition.
_CLASSES: dict[type[Exception], tuple[type[OneFlowError], type[TraceError]]] = {
    IndexError: (OneFlowIndexError, TraceIndexError),
    TypeError: (OneFlowTypeError, TraceTypeError),
    ValueError: (OneFlowError, TraceError),
}


def fail(
    text: str, location: SourceLocation | None = None, kind: type[Exception] | Exception = ValueError
) -> OneFlowError:
    """The error to raise at the user's line, or at `location`: `raise fail("expected .., got ..")`.

    The error is a `TraceError` while a function is traced. `kind` is IndexError, TypeError or ValueError, or an error
    of one of these classes.
    """
    given = kind if isinstance(kind, type) else type(kind)
    classes = next(classes for base, classes in _CLASSES.items() if issubclass(given, base))
    return classes[tracing()](text, location or user_location())


def refuse(text: str) -> RuntimeError:
    """The error to raise for illegal operations on eager tensors, at the user's line: `raise refuse("expected
    ..")`.
    """
    return RuntimeError(f"{user_location()}: {text}")


def called_by_user() -> bool:
    """Whether the function that calls the caller is outside of this package."""
    return not _is_ours(sys._getframe(2))


def _is_ours(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in _OURS


def user_location() -> SourceLocation:
    """The location of the innermost frame outside of this package, or a location in the imported program."""
    imported = _IMPORTED.get()
    if imported is not None:
        return imported
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return SourceLocation("<unknown>", 1, 1)
    line, _, column, _ = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    return SourceLocation(frame.f_code.co_filename, line or frame.f_lineno, (column or 0) + 1)
