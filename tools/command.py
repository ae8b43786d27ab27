"""What the commands share: errors that end them, and ending.

Imports the errors of passes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from oneflow.passes.base import PassError, PipelineError


class CommandError(ValueError):
    """An error that ends a command; its text is all that is printed."""


class UsageError(CommandError):
    """A command line that cannot be understood."""


def print_error(message: str) -> None:
    """Prints an error on standard error."""
    print(message, file=sys.stderr)


def run_command(name: str, work: Callable[[], int], report: Callable[[str], None] = print_error) -> int:
    """The exit status of a command: that of `work`, or 1 after an error, which is reported."""
    try:
        status = work()
        sys.stdout.flush()
    except (CommandError, PassError, PipelineError) as error:
        report(f"{name}: error: {error}")
        return 1
    except BrokenPipeError:
        # Whoever read our output has left. Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status
