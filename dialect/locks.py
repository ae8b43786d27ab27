"""Locks that are free in a forked process."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager


class Lock:
    """A lock, acquired by `with lock.held():`.

    Another thread may hold the lock while the process forks. The holding thread is not in the child process, so the
    child creates a new lock. One thread may acquire a `reentrant` lock several times. `raw` is the lock of
    `threading`, for `with lock.raw:` in functions whose time `held` would dominate.
    """

    def __init__(self, reentrant: bool = False) -> None:
        self._make = threading.RLock if reentrant else threading.Lock
        self.raw = self._make()
        _all.add(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Acquires the lock; releases the acquired lock, also in a child process that was forked meanwhile."""
        with self.raw:
            yield

    def renew(self) -> None:
        """Replaces the lock by a free one."""
        self.raw = self._make()


_all: weakref.WeakSet[Lock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_all):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
