"""Processor time of calls of several libraries, which are made in turn on one thread.

Other programs of a shared machine disturb processor time less than elapsed time, and all libraries alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
#: The environment variables that limit each library to one thread.
ONE_THREAD = dict.fromkeys(("ONEFLOW_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")


def measured(calls: Sequence[Callable[[], object]], rounds: int) -> list[list[float]]:
    """The processor's seconds of each call, which are made in turn; a first round is not counted."""
    for call in calls:
        call()
    times = [[seconds(call)[0] for call in calls] for _ in range(rounds)]
    return [list(column) for column in zip(*times, strict=True)]


def seconds(call: Callable[[], T]) -> tuple[float, T]:
    """The processor's seconds of a call, and its result."""
    begin = time.process_time()
    result = call()
    return time.process_time() - begin, result


def cells(times: Sequence[Sequence[float]], columns: int) -> list[str]:
    """The cells of a row: the medians of `columns` libraries, all but the first relative to the first, and the
    noise of the first, its interquartile range relative to its median. Cells of absent libraries are empty.
    """
    medians = [statistics.median(t) for t in times]
    low, _, high = statistics.quantiles(times[0], n=4)
    absent = [""] * (columns - len(medians))
    shown = [f"{m * 1e3:.2f} ms" for m in medians] + absent
    ratios = [f"{m / medians[0]:.2f}" for m in medians[1:]] + absent
    return [*shown, *ratios, f"{(high - low) / medians[0]:.0%}"]


def table(head: str, rows: Sequence[str]) -> list[str]:
    """The lines of a table."""
    return [head, "|" + " --- |" * (head.count("|") - 1), *rows]
