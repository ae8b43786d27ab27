"""The progress of the ranks of one node: a table in a shared file, which the watchdog reads.

Each rank writes its own row: process id, state, step.
"""

from __future__ import annotations

import mmap
import struct
import time
from dataclasses import dataclass
from pathlib import Path

#: Rank, process id, state, steps begun, start of the last step, failed runs, length of the text that names the step.
_HEAD = struct.Struct("<qqqqdqq")
TEXT_BYTES = 512
ROW_BYTES = _HEAD.size + TEXT_BYTES
COMPUTING, WAITING, ENDED, FAILED = range(4)


@dataclass(frozen=True)
class Row:
    """The row of one rank.

    Attributes:
        state: COMPUTING, WAITING, ENDED or FAILED.
        step: the number of steps begun.
        since: when the state was noted, in seconds of the clock `now`.
        text: the name of the step.
        failures: the number of failed runs.
    """

    rank: int
    process: int
    state: int
    step: int
    since: float
    text: str
    failures: int = 0


class ProgressTable:
    """The rows of the ranks of one node, in a memory-mapped file."""

    def __init__(self, path: Path, rows: int, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(rows * ROW_BYTES))
        self.rows = rows
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), rows * ROW_BYTES)

    def write(self, index: int, row: Row) -> None:
        """Writes a row."""
        text = row.text.encode()[:TEXT_BYTES]
        head = _HEAD.pack(row.rank, row.process, row.state, row.step, row.since, row.failures, len(text))
        self._memory[index * ROW_BYTES : index * ROW_BYTES + len(head) + len(text)] = head + text

    def read(self, index: int) -> Row:
        """Reads a row; a row that is being written may be a mixture of two."""
        at = index * ROW_BYTES
        rank, process, state, step, since, failures, length = _HEAD.unpack_from(self._memory, at)
        text = self._memory[at + _HEAD.size : at + _HEAD.size + min(max(length, 0), TEXT_BYTES)]
        return Row(rank, process, state, step, since, text.decode(errors="replace"), failures)

    def all(self) -> list[Row]:
        """All rows."""
        return [self.read(i) for i in range(self.rows)]


def now() -> float:
    """Seconds of the monotonic clock, which all processes of a node share."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)
