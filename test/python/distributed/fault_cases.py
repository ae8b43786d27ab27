"""A program of two steps that a job runs for ever, in which one rank deviates after a while."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import oneflow as flow
from oneflow.runtime.collectives import mpi
from oneflow.runtime.executable import OutOfBoundsError

#: The device of the ranks: "cpu" or "cuda".
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cpu"


def program(factor: float) -> Any:
    """A function whose sum crosses ranks."""
    ranks = flow.placement(DEVICE, list(range(mpi.world().size)))
    return flow.compile(lambda x: flow.relu(x.to_global(ranks, flow.sbp.split(0)).sum(0) * factor), placement=ranks)


def stages() -> Any:
    """A function whose first stage is on rank 0, and whose second on rank 1."""
    front, back = (flow.placement(DEVICE, [r]) for r in range(2))
    split = flow.sbp.split(0)
    return flow.compile(lambda x: flow.relu(x.to_global(front, split)).to_global(back, split).sum())


def note_the_time() -> None:
    """Says when a rank fails, to who asks by a file."""
    if "FAILED_AT" in os.environ:
        Path(os.environ["FAILED_AT"]).write_text(str(time.monotonic()))


def main() -> None:
    """The first argument is the action of rank 1."""
    rank, act, x = mpi.world().rank, sys.argv[1], np.ones((8, 3), np.float32)
    split, rows = flow.placement("cpu", list(range(mpi.world().size))), np.arange(8)
    look_up = flow.compile(lambda i: flow.gather(rows, 0, i.to_global(split, flow.sbp.split(0))).sum(0))
    run = program(2.0 if act == "other" and rank == 1 else 1.0)
    if act == "stages":
        run = stages()
    for number in range(1_000_000):
        if rank == 1 and number == 20:
            note_the_time()
            if act in ("die", "stages"):
                os.kill(os.getpid(), signal.SIGKILL)
            if act == "sleep":
                time.sleep(60)
            if act == "raise":
                raise ValueError("no such batch")
            if act == "leave":
                return
            if act == "shape":
                run(np.ones((9, 3), np.float32))
        if act == "catch":
            # The position that rank 1 has is out of range.
            with contextlib.suppress(OutOfBoundsError):
                look_up(np.where(np.arange(8) == 4, number // 20 * 9, 0))
        else:
            run(x)


if __name__ == "__main__":
    main()
