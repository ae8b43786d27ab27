"""How far the ranks of one machine have come: a table in a file that they share, which the watchman reads.

Each rank has a row, which it alone writes: its process, what it does, which step it is at.
"""

from __future__ import annotations

import mmap
import struct
import time
from dataclasses import dataclass
from pathlib import Path

#: Rank, process, state, steps begun, when the last began, failed runs; then the length of the text that names it.
_HEAD = struct.Struct("<qqqqdqq")
TEXT_BYTES = 512
ROW_BYTES = _HEAD.size + TEXT_BYTES
COMPUTING, WAITING, ENDED, FAILED = range(4)


@dataclass(frozen=True)
class Row:
    """What one rank has noted."""

    rank: int
    process: int
    state: int
    step: int
    since: float
    text: str
    failures: int = 0


class Table:
    """The rows of the ranks of one machine, in a file."""

    def __init__(self, path: Path, rows: int, make: bool = False) -> None:
        if make:
            path.write_bytes(bytes(rows * ROW_BYTES))
        self.rows = rows
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), rows * ROW_BYTES)

    def write(self, number: int, row: Row) -> None:
        """Writes a row."""
        text = row.text.encode()[:TEXT_BYTES]
        head = _HEAD.pack(row.rank, row.process, row.state, row.step, row.since, row.failures, len(text))
        self._memory[number * ROW_BYTES : number * ROW_BYTES + len(head) + len(text)] = head + text

    def read(self, number: int) -> Row:
        """Reads a row; one that is being written may read as the mixture of two."""
        at = number * ROW_BYTES
        rank, process, state, step, since, failures, length = _HEAD.unpack_from(self._memory, at)
        text = self._memory[at + _HEAD.size : at + _HEAD.size + min(max(length, 0), TEXT_BYTES)]
        return Row(rank, process, state, step, since, text.decode(errors="replace"), failures)

    def all(self) -> list[Row]:
        """All rows."""
        return [self.read(i) for i in range(self.rows)]


def now() -> float:
    """The clock of `since`, which all processes of a machine share."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)
