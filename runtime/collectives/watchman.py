"""The watchman: a process beside the ranks of one machine, which ends them all with one message when one fails.

    python -m oneflow.runtime.collectives.watchman FOLDER ROWS SECONDS

A rank that waits inside of a collective cannot watch over the others, and launchers kill ranks before they can say
anything; so this is a process of its own, outside of the ranks' process groups. It sleeps until a rank ends, or has
waited for too long, and ends with the last rank. Imports `progress` alone, to start fast.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TextIO

from oneflow.runtime.collectives.progress import ENDED, FAILED, WAITING, Row, Table, now

#: How often waiting ranks are looked at, in seconds.
INTERVAL = 0.25
#: How long ranks may wait for one that has ended, or whose run has failed.
GRACE = 1.0
#: How long to wait for another's message, in seconds: it is lost with a process that ends in the middle of it.
PATIENCE = 5.0
#: What launchers are called.
LAUNCHERS = ("mpiexec", "mpirun", "orterun", "prterun")


class Watch:
    """The ranks of one machine, while any of them runs."""

    def __init__(self, folder: Path, rows: int, limit: float) -> None:
        self.folder, self.limit = folder, limit
        self.table = Table(folder / "table", rows)
        self.stream = launcher_stream(self.table.read(0).process) or sys.stderr
        self.poll = select.epoll()
        self.running: dict[int, int] = {}
        for number, row in enumerate(self.table.all()):
            try:
                handle = os.pidfd_open(row.process)
            except ProcessLookupError:
                self.end(number)
                continue
            self.running[handle] = number
            self.poll.register(handle, select.EPOLLIN)

    def run(self) -> None:
        """Watches until no rank runs any more."""
        while self.running:
            for handle, _ in self.poll.poll(INTERVAL, maxevents=1):
                number = self.running.pop(handle)
                self.poll.unregister(handle)
                self.end(number)
            self.look()
        shutil.rmtree(self.folder, ignore_errors=True)

    def end(self, number: int) -> None:
        """A rank's process has ended."""
        row = self.table.read(number)
        if row.state not in (ENDED, FAILED):
            self.stop(f"rank {row.rank} (process {row.process}) died {_where(row)}")

    def look(self) -> None:
        """Looks for ranks that wait in vain."""
        rows = self.table.all()
        gone = [r for r in rows if r.state == ENDED]
        most = max(rows, key=lambda r: r.failures)
        for row in rows:
            waited = now() - row.since
            if row.state != WAITING:
                continue
            if waited > self.limit:
                behind = min(rows, key=lambda r: (r.step, r.state == WAITING))
                there = f"rank {behind.rank} is {_where(behind)}"
                self.stop(f"rank {row.rank} has waited {waited:.0f} s {_where(row)}; {there}")
            elif gone and waited > GRACE:
                self.stop(f"rank {row.rank} waits {_where(row)}, but rank {gone[0].rank} has ended {_where(gone[0])}")
            elif most.failures > row.failures and waited > GRACE:
                self.stop(f"rank {row.rank} waits {_where(row)}, but the run of rank {most.rank} has failed")

    def stop(self, message: str) -> None:
        """Says what is wrong, unless somebody has, and ends all ranks."""
        say(self.folder, f"oneflow: error: {message}; all ranks are ended", self.stream)
        for handle in self.running:
            try:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            except ProcessLookupError:
                continue
        shutil.rmtree(self.folder, ignore_errors=True)
        sys.exit(1)


def launcher_stream(process: int) -> TextIO | None:
    """Where the launcher of a process prints errors, if it runs on this machine.

    What a rank and the processes beside it print goes through the launcher, which stops to pass it on when a rank
    dies.
    """
    while process > 1:
        here = Path(f"/proc/{process}")
        try:
            if (here / "comm").read_text().startswith(LAUNCHERS):
                handle = os.open(here / "fd" / "2", os.O_WRONLY | os.O_APPEND)
                return os.fdopen(handle, "w", encoding="utf-8")
            process = int((here / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            return None
    return None


def say(folder: Path, message: str, stream: TextIO) -> None:
    """Prints what went wrong, unless another does: ranks may end when this returns, and no message is lost."""
    said, limit = folder / "said", now() + PATIENCE
    if claim(folder):
        print(message, file=stream, flush=True)
        with contextlib.suppress(OSError):
            said.touch()
    while folder.exists() and not said.exists() and now() < limit:
        time.sleep(INTERVAL / 10)


def claim(folder: Path) -> bool:
    """Whether this process is the first to say what went wrong."""
    try:
        os.close(os.open(folder / "claimed", os.O_CREAT | os.O_EXCL))
    except OSError:
        return False
    return True


def _where(row: Row) -> str:
    if not row.step:
        return "before the first step"
    return f"at {row.text}" if row.state == WAITING else f"after {row.text}"


if __name__ == "__main__":
    Watch(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])).run()
