"""Measures the start-up of processes: the time of commands and scripts beyond imports; writes to results.md.

    python benchmarks/start_up.py [--print] [--quick]

Times are processor time of whole processes, user and system, the least of several runs, which the load of the machine
hardly changes. Python's compiled files and the cache of programs are warm.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from foundation import machine
from results_page import write_part

PROGRAM = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %1 = "oneflow.gelu"(%0) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}
"""
#: The command of each process by row of the table; the first row is the baseline.
PROCESSES = {
    "NumPy and MLIR's bindings": "import numpy\nfrom oneflow.dialect._mlir import ir, func\n"
    "with ir.Context():\n    ir.Module.parse('module {}')",
    "oneflow-opt, parse and verify": "from oneflow.tools.oneflow_opt import main\nmain(['model.mlir'])",
    "oneflow-run, cached": "from oneflow.tools.oneflow_run import main\n"
    "main(['model.mlir', '--input', 'x=x.npy', '--input', 'w=w.npy'])",
    "x + x in eager mode, cached": "import numpy as np, oneflow as flow\n"
    "x = flow.tensor(np.ones((2, 2), np.float32))\n(x + x).numpy()",
}
HEADING = "## Start-up"


def seconds(code: str, folder: str, runs: int) -> float:
    """The least processor time of a process that runs `code` in a folder."""
    files = {"ONEFLOW_CACHE_DIR": f"{folder}/programs", "PYTHONPYCACHEPREFIX": f"{folder}/python"}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | files
    times = []
    for _ in range(runs + 1):  # the first fills the caches
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-c", code], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def section(runs: int) -> str:
    """The part of results.md about processes that start."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.mlir").write_text(PROGRAM)
        np.save(Path(folder, "x.npy"), np.ones((4, 8), np.float32))
        np.save(Path(folder, "w.npy"), np.ones((8, 2), np.float32))
        times = {name: seconds(code, folder, runs) for name, code in PROCESSES.items()}
    least = next(iter(times.values()))
    about = (
        f"By `python benchmarks/start_up.py` on: {machine()}; the least processor time of {runs} processes. The load "
        f"of the machine was {os.getloadavg()[0]:.1f}."
    )
    rows = [f"| {name} | {time * 1e3:.0f} ms | {time / least:.2f} |" for name, time in times.items()]
    head = ["| process | time | relative to the first |", "| --- | --- | --- |"]
    return "\n".join([HEADING, "", about, "", *head, *rows]) + "\n"


def main() -> None:
    """Writes or prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print instead of writing results.md")
    parser.add_argument("--quick", action="store_true", help="run each process twice")
    options = parser.parse_args()
    part = section(1 if options.quick else 7)
    write_part(part, options.print)


if __name__ == "__main__":
    main()
