"""Work counted in calls of functions: the same on every machine, however busy that is."""

import contextlib
import sys


def calls_of(action, *arguments):
    """How many functions, of Python and of C, an action calls in this thread."""
    with counting() as count:
        action(*arguments)
        return count()


@contextlib.contextmanager
def counting():
    """Gives a function that says how many functions were called so far."""
    calls = [0]

    def note(frame, event, argument):
        calls[0] += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        yield lambda: calls[0]
    finally:
        sys.setprofile(None)
