"""Work counted in calls of functions: the same on every machine, however busy that is."""

import contextlib
import functools
import sys


def calls_of(action, *arguments):
    """How many functions, of Python and of C, an action calls in this thread."""
    with counting() as count:
        action(*arguments)
        return count()


@contextlib.contextmanager
def counting():
    """A context that gives a function, which returns the number of calls so far."""
    calls = [0]

    def note(frame, event, argument):
        calls[0] += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        yield lambda: calls[0]
    finally:
        sys.setprofile(None)


def recorded(function, calls, note=lambda *arguments: arguments):
    """`function`, each call of which appends `note` of its arguments to `calls`."""

    @functools.wraps(function)
    def call(*arguments):
        calls.append(note(*arguments))
        return function(*arguments)

    return call
