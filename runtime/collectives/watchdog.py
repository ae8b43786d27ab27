"""The watchdog: a process for the ranks of one node, which ends all ranks with one message when one fails.

    python -m oneflow.runtime.collectives.watchdog FOLDER ROWS SECONDS

A rank that waits inside a collective cannot watch the others, and launchers kill ranks before they can report an
error. The watchdog is therefore a process of its own, outside the process groups of the ranks. The watchdog sleeps
until a rank ends or has waited for too long, and ends with the last rank. A launcher whose output is a file keeps its
own file offset and overwrites what other processes append; in that case the message is written after the launcher has
ended.
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

from oneflow.runtime.collectives.progress import ENDED, FAILED, WAITING, ProgressTable, Row, now

#: The seconds between two checks of the waiting ranks.
INTERVAL = 0.25
#: The seconds that ranks may wait for a rank that has ended, or whose run has failed.
GRACE_SECONDS = 1.0
#: The seconds to wait for the report of another process, which would be lost if that process were ended.
REPORT_TIMEOUT = 5.0
#: The names of the launcher programs.
LAUNCHERS = ("mpiexec", "mpirun", "orterun", "prterun")


class Watchdog:
    """Watches the ranks of one node; a rank that waits longer than `limit` seconds is an error."""

    def __init__(self, folder: Path, rows: int, limit: float) -> None:
        self.folder, self.limit = folder, limit
        self.table = ProgressTable(folder / "table", rows)
        launcher = launcher_of(self.table.read(0).process)
        stream = stream_of(launcher)
        self.stream, self.is_deferred = stream or sys.stderr, is_file(stream)
        self.launcher = os.pidfd_open(launcher) if launcher is not None and self.is_deferred else None
        self.poll = select.epoll()
        self.running: dict[int, int] = {}
        for index, row in enumerate(self.table.all()):
            try:
                handle = os.pidfd_open(row.process)
            except ProcessLookupError:
                self.rank_ended(index)
                continue
            self.running[handle] = index
            self.poll.register(handle, select.EPOLLIN)

    def run(self) -> None:
        """Watches until no rank is running."""
        while self.running:
            for handle, _ in self.poll.poll(INTERVAL, maxevents=1):
                index = self.running.pop(handle)
                self.poll.unregister(handle)
                self.rank_ended(index)
            self.check_waiting()
        self.close()

    def close(self) -> None:
        """Removes the folder; prints a deferred message after the launcher has ended."""
        message = reported(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        if message and self.launcher is not None:
            os.close(sys.stderr.fileno())  # the launcher waits until all writers have closed the stream
            select.select([self.launcher], [], [], REPORT_TIMEOUT)
            print(message, file=self.stream, flush=True)

    def rank_ended(self, index: int) -> None:
        """Handles the end of the process of a rank."""
        row = self.table.read(index)
        if row.state not in (ENDED, FAILED):
            self.abort(f"rank {row.rank} (process {row.process}) died {_where(row)}")

    def check_waiting(self) -> None:
        """Aborts if a rank waits in vain."""
        rows = self.table.all()
        ended = [r for r in rows if r.state == ENDED]
        most_failed = max(rows, key=lambda r: r.failures)
        for row in rows:
            waited = now() - row.since
            if row.state != WAITING:
                continue
            if waited > self.limit:
                last = min(rows, key=lambda r: (r.step, r.state == WAITING, r.text == row.text))
                last_text = f"rank {last.rank} is {_where(last)}"
                self.abort(f"rank {row.rank} has waited {waited:.0f} s {_where(row)}; {last_text}")
            elif ended and waited > GRACE_SECONDS:
                self.abort(
                    f"rank {row.rank} waits {_where(row)}, but rank {ended[0].rank} has ended {_where(ended[0])}"
                )
            elif most_failed.failures > row.failures and waited > GRACE_SECONDS:
                self.abort(f"rank {row.rank} waits {_where(row)}, but the run of rank {most_failed.rank} has failed")

    def abort(self, message: str) -> None:
        """Reports an error, unless another process has reported one, and ends all ranks."""
        report(self.folder, f"oneflow: error: {message}; all ranks are ended", self.stream, self.is_deferred)
        for handle in self.running:
            try:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.close()
        sys.exit(1)


def launcher_of(process: int) -> int | None:
    """The process id of the launcher of a process; None if the launcher does not run on this node."""
    while process > 1:
        process_folder = Path(f"/proc/{process}")
        try:
            if (process_folder / "comm").read_text().startswith(LAUNCHERS):
                return process
            process = int((process_folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            return None
    return None


def stream_of(launcher: int | None) -> TextIO | None:
    """The standard error stream of a launcher; None if the stream cannot be opened.

    Output of ranks goes through the launcher, which stops to forward it when a rank dies.
    """
    try:
        handle = os.open(f"/proc/{launcher}/fd/2", os.O_WRONLY | os.O_APPEND)
    except OSError:
        return None
    return os.fdopen(handle, "w", encoding="utf-8")


def is_file(stream: TextIO | None) -> bool:
    """Whether a stream is a regular file."""
    return stream is not None and stat.S_ISREG(os.fstat(stream.fileno()).st_mode)


def report(folder: Path, message: str, stream: TextIO, is_deferred: bool = False) -> None:
    """Prints an error message, unless another process reports one; returns when the report is complete.

    A deferred message is printed by the watchdog after the launcher has ended.
    """
    limit = now() + REPORT_TIMEOUT
    if claim_report(folder):
        if not is_deferred:
            print(message, file=stream, flush=True)
        with contextlib.suppress(OSError):
            (folder / "saying").write_text(message, encoding="utf-8")
            (folder / "saying").rename(folder / "said")
    while folder.exists() and reported(folder) is None and now() < limit:
        time.sleep(INTERVAL / 10)


def reported(folder: Path) -> str | None:
    """The reported message; empty without a message."""
    try:
        return (folder / "said").read_text(encoding="utf-8")
    except OSError:
        return None


def claim_report(folder: Path) -> bool:
    """Whether this process is the first to report an error."""
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
    Watchdog(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])).run()
