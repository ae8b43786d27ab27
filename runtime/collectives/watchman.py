"""The watchman: a process beside the ranks of one machine, which ends them all with one message when one fails.

    python -m oneflow.runtime.collectives.watchman FOLDER ROWS SECONDS

A rank that waits inside of a collective cannot watch over the others, and launchers kill ranks before they can say
anything; so this is a process of its own, outside of the ranks' process groups. It sleeps until a rank ends, or has
waited for too long, and ends with the last rank. A launcher that prints into a file goes on there where it was, over
what others have written since, so that the message is written when the launcher has ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import stat
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
        launcher = launcher_of(self.table.read(0).process)
        stream = stream_of(launcher)
        self.stream, self.late = stream or sys.stderr, is_file(stream)
        self.launcher = os.pidfd_open(launcher) if launcher is not None and self.late else None
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
        self.leave()

    def leave(self) -> None:
        """Goes, when what was said can be read."""
        message = said(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        if message and self.launcher is not None:
            os.close(sys.stderr.fileno())  # the launcher waits for the end of what is printed there
            select.select([self.launcher], [], [], PATIENCE)
            print(message, file=self.stream, flush=True)

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
                behind = min(rows, key=lambda r: (r.step, r.state == WAITING, r.text == row.text))
                there = f"rank {behind.rank} is {_where(behind)}"
                self.stop(f"rank {row.rank} has waited {waited:.0f} s {_where(row)}; {there}")
            elif gone and waited > GRACE:
                self.stop(f"rank {row.rank} waits {_where(row)}, but rank {gone[0].rank} has ended {_where(gone[0])}")
            elif most.failures > row.failures and waited > GRACE:
                self.stop(f"rank {row.rank} waits {_where(row)}, but the run of rank {most.rank} has failed")

    def stop(self, message: str) -> None:
        """Says what is wrong, unless somebody has, and ends all ranks."""
        say(self.folder, f"oneflow: error: {message}; all ranks are ended", self.stream, self.late)
        for handle in self.running:
            try:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.leave()
        sys.exit(1)


def launcher_of(process: int) -> int | None:
    """The launcher of a process, if it runs on this machine."""
    while process > 1:
        here = Path(f"/proc/{process}")
        try:
            if (here / "comm").read_text().startswith(LAUNCHERS):
                return process
            process = int((here / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            return None
    return None


def stream_of(launcher: int | None) -> TextIO | None:
    """Where a launcher prints errors.

    What a rank and the processes beside it print goes through the launcher, which stops to pass it on when a rank
    dies.
    """
    try:
        handle = os.open(f"/proc/{launcher}/fd/2", os.O_WRONLY | os.O_APPEND)
    except OSError:
        return None
    return os.fdopen(handle, "w", encoding="utf-8")


def is_file(stream: TextIO | None) -> bool:
    """Whether a launcher prints into a file, where it keeps a place of its own."""
    return stream is not None and stat.S_ISREG(os.fstat(stream.fileno()).st_mode)


def say(folder: Path, message: str, stream: TextIO, late: bool = False) -> None:
    """Prints what went wrong, unless another does: ranks may end when this returns, and no message is lost.

    With `late` the watchman prints it when the launcher has ended.
    """
    limit = now() + PATIENCE
    if claim(folder):
        if not late:
            print(message, file=stream, flush=True)
        with contextlib.suppress(OSError):
            (folder / "saying").write_text(message, encoding="utf-8")
            (folder / "saying").rename(folder / "said")
    while folder.exists() and said(folder) is None and now() < limit:
        time.sleep(INTERVAL / 10)


def said(folder: Path) -> str | None:
    """What has been said, if anything."""
    try:
        return (folder / "said").read_text(encoding="utf-8")
    except OSError:
        return None


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
