"""The common part of the commands: errors and exit statuses.

A failing command always ends with a line that states the failure; with $ONEFLOW_TRACEBACK=1 faults of the
project itself print their traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Callable
from typing import NoReturn

from oneflow.dialect.deprecated import DeprecatedName
from oneflow.dialect.reader import file_line_column
from oneflow.passes.base import PassError, PipelineError
from oneflow.passes.pipeline import unforeseen


class CommandError(ValueError):
    """An error that ends a command; only its message is printed."""


class UsageError(CommandError):
    """An invalid command line."""


class Parser(argparse.ArgumentParser):
    """A parser that raises `UsageError`."""

    def error(self, message: str) -> NoReturn:
        """Ends the command."""
        raise UsageError(f"{message.removeprefix('argument ')}; see --help")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Ends the command, for example after `--help`."""
        raise Done(status)


class Done(Exception):
    """Ends a command with an exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def print_error(message: str) -> None:
    """Prints an error on standard error, after all that was printed on standard output."""
    with contextlib.suppress(OSError):
        if sys.stdout is not None:
            sys.stdout.flush()
    print(message, file=sys.stderr)


def run_command(name: str, work: Callable[[], int], report: Callable[[str], None] = print_error) -> int:
    """Runs a command; returns the exit status of `work`, 1 after an error, which is reported, or 130 when
    interrupted.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", DeprecatedName)
            status = work()
        if sys.stdout is not None:
            sys.stdout.flush()
    except Done as done:
        return done.status
    except (CommandError, PassError, PipelineError) as error:
        report(f"{name}: error: {_message(error)}")
        return 1
    except OSError as error:
        _discard_output()
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


def _message(error: Exception) -> str:
    """The message of an error, with its source location if a pass reports one separately."""
    if isinstance(error, PassError) and error.location is not None:
        return f"{file_line_column(error.location)}: error: {error}"
    return str(error)


def _discard_output() -> None:
    """Redirects standard output to the null device: closing a broken one at exit would raise another error."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
