"""Locks that are free in a forked process."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager


class Lock:
    """A lock to hold with `with lock.held():`.

    Another thread may hold it while the process forks. The holding thread is not in the child process, so the child
    makes the lock anew. A `reentrant` one may be held several times by one thread. `now` is what is held, for `with
    lock.now:` where every call counts.
    """

    def __init__(self, reentrant: bool = False) -> None:
        self._make = threading.RLock if reentrant else threading.Lock
        self.now = self._make()
        _all.add(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds the lock; releases the one that was taken, also in a child forked meanwhile."""
        with self.now:
            yield

    def renew(self) -> None:
        """Replaces the lock by a free one."""
        self.now = self._make()


_all: weakref.WeakSet[Lock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_all):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
