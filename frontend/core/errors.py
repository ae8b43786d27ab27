"""Errors that point at a line of the user's program."""

from __future__ import annotations

import itertools
import linecache
import sys
from dataclasses import dataclass
from types import FrameType

from oneflow.frontend.core.mode import tracing

#: Modules whose frames are no user's; functions that `no_grad` and its like decorate are called from the second.
_OURS = __name__.partition(".")[0], "contextlib"


@dataclass(frozen=True)
class SourceLocation:
    """A position in a Python program; `line` and `column` count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class OneFlowError(ValueError):
    """Something that a line of the user's program asks for in vain: where, what, and what to write instead."""

    def __init__(self, text: str, location: SourceLocation | None = None) -> None:
        source = linecache.getline(location.file, location.line).strip() if location else ""
        super().__init__((f"{location}: {text}" if location else text) + (f"\n    {source}" if source else ""))
        self.text, self.location = text, location


class TraceError(OneFlowError):
    """The same while a Python function is traced: it cannot become a program."""


class CallError(OneFlowError):
    """A compiled function was called with arguments that it does not take."""


def fail(text: str, location: SourceLocation | None = None) -> OneFlowError:
    """The error at the user's line, or elsewhere, to raise: `raise fail("expected .., got ..")`."""
    return (TraceError if tracing() else OneFlowError)(text, location or user_location())


def refuse(text: str) -> RuntimeError:
    """The error of what tensors with values do not allow, at the user's line: `raise refuse("expected ..")`."""
    return RuntimeError(f"{user_location()}: {text}")


def called_by_user() -> bool:
    """Whether what called the caller is outside of this package."""
    return not _is_ours(sys._getframe(2))


def _is_ours(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in _OURS


def user_location() -> SourceLocation:
    """Where the innermost frame outside this package stands."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return SourceLocation("<unknown>", 1, 1)
    line, _, column, _ = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    return SourceLocation(frame.f_code.co_filename, line or frame.f_lineno, (column or 0) + 1)
