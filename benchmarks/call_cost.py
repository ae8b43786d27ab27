"""Measures the cost of calls without their computation, on tensors of 4 x 4 f32; writes to results.md.

    python benchmarks/call_cost.py [--print] [--rounds N] [--before CHECKOUT]

The processes of the libraries run in turn on one thread; a process measures each call 200 times and takes the 5%
quantile, and the table has the medians of the processes. With `--before` another checkout, which has its own `.venv`,
is one of the libraries.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from alternating import ONE_THREAD
from foundation import machine
from results_page import write_part

import oneflow as flow

HEADING = "## Cost of a call"
#: The measurements of a call, and the seconds of each: a longer measurement is often interrupted by other processes.
REPEATS, SECONDS = 200, 5e-4
NAMES = {"before": "before", "oneflow": "now", "torch": "PyTorch, eager"}


def eager_calls(library: Any, make: Callable[..., Any]) -> dict[str, Callable[[], object]]:
    """Calls of a library with PyTorch's names, by the text in the table; `make` makes a tensor of 4 x 4."""
    a, b, leaf = make(), make(), make(requires_grad=True)
    updated = library.zeros(4, 4)

    def forward() -> Any:
        y = leaf
        for _ in range(5):
            y = library.relu(y) * b
        return y.sum()

    def train() -> None:
        forward().backward()
        leaf.grad = None

    return {
        "a + b": lambda: a + b,
        "a + 1.5": lambda: a + 1.5,
        "a @ b": lambda: a @ b,
        "relu(a)": lambda: library.relu(a),
        "a.sum()": lambda: a.sum(),
        "a[1:3]": lambda: a[1:3],
        "a.view(16)": lambda: a.view(16),
        "a.t()": lambda: a.t(),
        "c.add_(b)": lambda: updated.add_(b),
        "x + b, x requires grad": lambda: leaf + b,
        "11 operators, x requires grad": forward,
        "11 operators and backward": train,
    }


def oneflow_calls() -> dict[str, Callable[[], object]]:
    """The calls of this library: eager ones, and compiled ones of 5 arguments and 1 result."""

    def make(**options: Any) -> Any:
        return flow.tensor(np.ones((4, 4), np.float32), **options)

    @flow.compile
    def program(a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
        return (a + b * c - d) * e

    arrays, tensors = [np.ones((4, 4), np.float32) for _ in range(5)], [make() for _ in range(5)]
    compiled: dict[str, Callable[[], object]] = {
        "compiled, 5 arrays of NumPy": lambda: program(*arrays),
        "compiled, 5 tensors": lambda: program(*tensors),
    }
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return {**eager_calls(flow, make), **compiled}
    others = [torch.ones(4, 4) for _ in range(5)]
    module = flow.from_torch(torch.nn.Linear(4, 4), others[0])
    compiled["compiled, 5 tensors of PyTorch"] = lambda: program(*others)
    compiled["from_torch(nn.Linear(4, 4))"] = lambda: module(others[0])
    return {**eager_calls(flow, make), **compiled}


def torch_calls() -> dict[str, Callable[[], object]]:
    """The calls of PyTorch."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    x, linear = torch.ones(4, 4), torch.nn.Linear(4, 4)
    return {**eager_calls(torch, lambda **o: torch.ones(4, 4, **o)), "from_torch(nn.Linear(4, 4))": lambda: linear(x)}


def measure(library: str) -> dict[str, float]:
    """The microseconds of each call in this process."""
    times = {}
    for name, call in (torch_calls if library == "torch" else oneflow_calls)().items():
        count = max(1, int(SECONDS / min(timeit.repeat(call, number=1, repeat=12))))
        repeats = sorted(timeit.repeat(call, number=count, repeat=REPEATS))
        times[name] = repeats[REPEATS // 20] / count * 1e6
    return times


def measure_apart(library: str, python: str) -> dict[str, float]:
    """The microseconds of each call in another process; nothing where the library is not installed."""
    command = [python, __file__, "--library", library]
    done = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False)
    if done.returncode and "ModuleNotFoundError" in done.stderr:
        return {}
    done.check_returncode()
    times: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return times


def section(rounds: int, before: str | None) -> str:
    """The part of results.md about the cost of a call."""
    python = {"oneflow": sys.executable, "torch": sys.executable}
    if before is not None:
        python = {"before": str(Path(before, ".venv/bin/python")), **python}
    runs = [{name: measure_apart(name, path) for name, path in python.items()} for _ in range(rounds)]
    about = (
        f"By `python benchmarks/call_cost.py` on: {machine()}; microseconds on one thread, operands of 4 x 4 f32; "
        f"medians of {rounds} alternating processes. The load of the machine was {os.getloadavg()[0]:.1f}."
    )
    head = ["| call | " + " | ".join(NAMES[name] for name in python) + " |", "| --- |" + " --- |" * len(python)]
    rows = []
    for call in runs[0]["oneflow"]:
        times = [[run[name][call] for run in runs if call in run[name]] for name in python]
        cells = [f"{statistics.median(values):.1f}" if values else "" for values in times]
        rows.append(f"| {call} | " + " | ".join(cells) + " |")
    return "\n".join([HEADING, "", about, "", *head, *rows]) + "\n"


def main() -> None:
    """Writes or prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print instead of writing results.md")
    parser.add_argument("--rounds", type=int, default=5, help="how often each library is measured")
    parser.add_argument("--before", help="another checkout to compare with")
    parser.add_argument("--library", choices=NAMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.library:
        print(json.dumps(measure(options.library)))
        return
    write_part(section(options.rounds, options.before), options.print)


if __name__ == "__main__":
    main()
