"""What the commands share: errors that end them, and ending.

Whatever happens, a command ends with a line that says what went wrong; $ONEFLOW_TRACEBACK=1 lets faults of the
project itself show where they came from.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from oneflow.dialect.reader import place_of
from oneflow.passes.base import PassError, PipelineError
from oneflow.passes.pipeline import unforeseen


class CommandError(ValueError):
    """An error that ends a command; its text is all that is printed."""


class UsageError(CommandError):
    """A command line that cannot be understood."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are those of commands."""

    def error(self, message: str) -> NoReturn:
        """Ends the command."""
        raise UsageError(f"{message.removeprefix('argument ')}; see --help")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Ends the command after `--help` and its like."""
        raise Done(status)


class Done(Exception):
    """A command that has done what it was asked for."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def print_error(message: str) -> None:
    """Prints an error on standard error."""
    print(message, file=sys.stderr)


def run_command(name: str, work: Callable[[], int], report: Callable[[str], None] = print_error) -> int:
    """The exit status of a command: that of `work`, or 1 after an error, which is reported; 130 when interrupted."""
    try:
        status = work()
        if sys.stdout is not None:
            sys.stdout.flush()
    except Done as done:
        return done.status
    except (CommandError, PassError, PipelineError) as error:
        report(f"{name}: error: {_said(error)}")
        return 1
    except OSError as error:
        _leave_output()
        if not isinstance(error, BrokenPipeError):
            report(f"{name}: error: {error.filename or 'cannot write the output'}: {error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if os.environ.get("ONEFLOW_TRACEBACK", "0") != "0":
            raise
        report(f"{name}: internal error: {unforeseen(error)}")
        return 1
    return status


def _said(error: Exception) -> str:
    """An error as it is printed: with its place, where a pass tells that apart."""
    if isinstance(error, PassError) and error.location is not None:
        return f"{place_of(error.location)}: error: {error}"
    return str(error)


def _leave_output() -> None:
    """Lets standard output go nowhere: Python would complain once more when it closes one that is gone or full."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
