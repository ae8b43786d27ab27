"""Measures a selection of CPU kernels with the instruction set of one x86-64 level; writes a section of results.md.

    python benchmarks/cpu_level.py [--print] [--level x86-64-v3]

NumPy and PyTorch are limited to the same instructions, and all three libraries to one thread. The libraries are
called in turn, and medians of processor time are compared, since other programs of a shared machine disturb processor
time less than elapsed time (above 1: faster than the other library). The noise of a row is the interquartile range of
our calls, relative to the median. Without PyTorch the columns of PyTorch are empty.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import cpu_kernels
import numpy as np
from alternating import ONE_THREAD, cells, measured, table
from foundation import check, machine
from results_page import write_part

import oneflow as flow

ROUNDS = 21
#: The environment variables, by level, that limit OpenBLAS, oneDNN, PyTorch and MKL to the level's instructions.
PEERS = {
    "x86-64-v3": {
        "OPENBLAS_CORETYPE": "Haswell", "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "x86-64-v4": {
        "OPENBLAS_CORETYPE": "SkylakeX", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "ATEN_CPU_CAPABILITY": "avx512",
    },
}  # fmt: skip
#: Features by NumPy's names that no processor below x86-64-v4 has.
NEWER = re.compile(r"X86_V4|AVX512\w*")
#: The kernels that are measured, by the names of `cpu_kernels`, in PyTorch.
KERNELS: dict[str, Callable[..., Any]] = {
    "x + y": lambda torch, x, y: x + y,
    "exp(-x * x) * y": lambda torch, x, y: torch.exp(-x * x) * y,
    "gelu(x)": lambda torch, x: torch.nn.functional.gelu(x),
    "softmax of rows": lambda torch, x: torch.softmax(x, 1),
    "layer_norm of rows": lambda torch, x, g, b: torch.nn.functional.layer_norm(x, (1024,), g, b),
    "sum of columns": lambda torch, x: x.sum(0),
    "transpose": lambda torch, x: x.t().contiguous(),
    "rows by index": lambda torch, x, i: torch.index_select(x, 0, i),
    "matmul 512 x 512 x 512": lambda torch, a, b: a @ b,
    "matmul 16 x 4096 x 4096": lambda torch, a, b: a @ b,
    "matmul 8 x 4096 x 4096": lambda torch, a, b: a @ b,
    "matmul 1 x 4096 x 4096": lambda torch, a, b: a @ b,
    "x @ w.T, 8 x 4096 x 4096": lambda torch, a, b: a @ b.t(),
    "matrix times vector, 4096": lambda torch, a, b: a @ b,
    "matrix times vector of f64": lambda torch, a, b: a @ b,
    "argmax of rows": lambda torch, x: x.argmax(1),
    "max of rows": lambda torch, x: x.amax(1),
    "sigmoid": lambda torch, x: torch.sigmoid(x),
    "erf of f64": lambda torch, x: torch.erf(x),
    "gelu(a @ b + c), 512": lambda torch, a, b, c: torch.nn.functional.gelu(torch.addmm(c, a, b)),
    "linear, 128 x 784 x 256": lambda torch, x, w, b: torch.nn.functional.linear(x, w, b),
    "64 products of 128": lambda torch, a, b: a @ b,
    "conv2d 3 x 3, 64 to 64": lambda torch, x, w: torch.nn.functional.conv2d(x, w, padding=1),
    "conv2d 3 x 3, 512 to 512, 7 x 7": lambda torch, x, w: torch.nn.functional.conv2d(x, w, padding=1),
    "conv2d 3 x 3, 64 to 64, 30 x 161": lambda torch, x, w: torch.nn.functional.conv2d(x, w, padding=1),
    "conv2d 3 x 3, 3 to 32": lambda torch, x, w: torch.nn.functional.conv2d(x, w, padding=1),
    "conv2d 1 x 1, 64 to 128": lambda torch, x, w: torch.nn.functional.conv2d(x, w),
    "max_pool2d 2 x 2": lambda torch, x: torch.nn.functional.max_pool2d(x, 2, 2),
}


def environment(level: str) -> dict[str, str]:
    """The environment in which a process keeps to the instructions of a level."""
    features = np._core._multiarray_umath  # type: ignore[attr-defined]
    newer = [n for n in features.__cpu_dispatch__ if features.__cpu_features__.get(n) and NEWER.fullmatch(n)]
    disabled = {} if level == "x86-64-v4" or not newer else {"NPY_DISABLE_CPU_FEATURES": " ".join(newer)}
    return {**os.environ, "ONEFLOW_TARGET": level, **ONE_THREAD, **PEERS[level], **disabled}


def rows() -> list[str]:
    """A line of the table for each kernel."""
    torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    lines = []
    for name, ours, theirs, args in cpu_kernels.rows():
        if name in KERNELS:
            calls = [functools.partial(flow.compile(ours), *args), functools.partial(theirs, *args)]
            if torch is not None:
                calls.append(functools.partial(KERNELS[name], torch, *map(torch.from_numpy, args)))
            check(name, calls[0](), calls[1]())
            lines.append(f"| {name} | {' | '.join(cells(measured(calls, ROUNDS), 3))} |")
    return lines


def section(level: str) -> str:
    """The part of results.md about a level."""
    settings = ", ".join(f"`{key}={value}`" for key, value in PEERS[level].items())
    about = (
        f"By `python benchmarks/cpu_level.py --level {level}` on: {machine()}; peers with {settings}; one thread;"
        f" medians of the processor time of {ROUNDS} alternating calls. The load of the machine was "
        f"{os.getloadavg()[0]:.1f}."
    )
    head = "| kernel | ours | NumPy | PyTorch | NumPy / ours | PyTorch / ours | noise |"
    return "\n".join([_heading(level), "", about, "", *table(head, rows())]) + "\n"


def _heading(level: str) -> str:
    return f"## Kernels on {level}"


def main() -> None:
    """Writes or prints the table; a separate process measures, since libraries read the settings at start-up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print instead of writing results.md")
    parser.add_argument("--level", choices=PEERS, default="x86-64-v3")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(section(options.level), end="")
        return
    command = [sys.executable, __file__, "--here", "--level", options.level]
    part = subprocess.run(command, env=environment(options.level), check=True, stdout=-1, text=True).stdout
    write_part(part, options.print)


if __name__ == "__main__":
    main()
