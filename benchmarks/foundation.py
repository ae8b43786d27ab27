"""Measures the tools, the compiler and the CPU kernels, and writes `benchmarks/results.md`.

    python benchmarks/foundation.py [--print]

Kernels are compared with NumPy in the same run: both are called in turn, the medians' ratio is reported
(above 1: faster than NumPy). Compile times are in process, of the first use after imports. With
ONEFLOW_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1 in the environment everything is measured on one thread.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cpu_kernels
import numpy as np

import oneflow as flow
from oneflow.dialect import oneflow as dialect
from oneflow.dialect import ops as _every_operator  # noqa: F401
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.passes import all as _every_pass  # noqa: F401
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.native import num_threads

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("results.md")


#: Programs that print the time of a compilation.
DIGITS = """
import time
from oneflow.dialect import oneflow as dialect, ops
from oneflow.dialect.reader import read_module
from oneflow.runtime.executable import compile_module
text = open({path!r}).read()
begin = time.perf_counter()
compile_module(read_module(text, dialect.create_context()), "predict")
print(time.perf_counter() - begin)
"""
LAYERS = """
import time
import numpy as np, oneflow as flow
widths = range(64, 64 + 3 * 51, 3)
weights = [np.ones((n, n + 3), np.float32) for n in widths[:-1]]
def layers(x, weights):
    for weight in weights:
        x = flow.relu(x @ weight)
    return x
compiled = flow.compile(layers)
begin = time.perf_counter()
compiled(np.zeros((32, 64), np.float32), weights)
print(time.perf_counter() - begin)
"""


def machine() -> str:
    """The processor, the number of cores, and versions."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    cores = len(os.sched_getaffinity(0))
    return f"{model}, {cores} cores; Python {platform.python_version()}, NumPy {np.__version__}"


def seconds(action: Callable[[], object]) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def interleaved(first: Callable[[], object], second: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median seconds of two calls made in turn, after one warm-up of each."""
    first(), second()
    pairs = [(seconds(first), seconds(second)) for _ in range(rounds)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def chain_text(count: int) -> str:
    """A function of `count` operators, every result type but the last left to inference."""
    kinds, unknown = ("relu", "tanh", "negative", "exp"), "tensor<?x64xf32>"
    types = ["tensor<8x64xf32>", *[unknown] * count]
    lines = [f'  %{i + 1} = "oneflow.{kinds[i % 4]}"(%{i}) : ({types[i]}) -> {unknown}' for i in range(count)]
    body = "\n".join(lines)
    return f"func.func @f(%0: {types[0]}) -> {unknown} {{\n{body}\n  return %{count} : {unknown}\n}}"


def tool_rows() -> list[tuple[str, str, str]]:
    """Start of oneflow-opt, and reading, verifying and inferring many operators."""
    program = "\n".join(chain_text(10).splitlines())
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(program)
        file.flush()
        command = [sys.executable, "-m", "oneflow.tools.oneflow_opt", file.name, "--oneflow-infer-types"]
        durations = [seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(5)]
    rows = [("oneflow-opt on a 10-line file, whole process", f"{statistics.median(durations):.2f} s", "1.2 s")]
    rows.append(("parse + verify + infer-types, 10,000 operators", f"{infer_seconds(10_000):.2f} s", "1 s"))
    text = chain_text(100_000)
    context = dialect.create_context()
    rows.append(("parse + verify, 100,000 operators", f"{seconds(lambda: read_module(text, context)):.2f} s", ""))
    return rows


def infer_seconds(count: int) -> float:
    """Median of three runs of reading and inferring `count` operators."""
    text, context = chain_text(count), dialect.create_context()

    def action() -> None:
        module = read_module(text, context)
        Pipeline.parse("builtin.module(oneflow-infer-types)", context).run(module, REGISTRY)

    return statistics.median(seconds(action) for _ in range(3))


def compile_rows() -> list[tuple[str, str, str]]:
    """Compiling the digits classifier without and with the disk cache, each in a fresh process."""
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for label, goal in (("cold", "1 s"), ("from the disk cache", "0.2 s")):
            rows.append((f"compile of the digits MLP, {label}", f"{compile_seconds(cache):.3f} s", goal))
    with tempfile.TemporaryDirectory() as cache:
        rows.append(("compile of 50 layers of 50 widths, cold", f"{compile_seconds(cache, LAYERS):.2f} s", ""))
    return rows


def call_rows() -> list[tuple[str, str, str]]:
    """A call that computes next to nothing: in a row, and where a large kernel has emptied the near caches before."""
    add, x, large = flow.compile(lambda x, y: x + y), np.ones(16, np.float32), np.ones(1 << 22, np.float32)
    target = np.empty_like(large)
    add(x, x)
    near = statistics.median(seconds(lambda: add(x, x)) for _ in range(2000))
    far = statistics.median((np.add(large, large, target), seconds(lambda: add(x, x)))[1] for _ in range(50))
    rows = [("call of a compiled function, 16 numbers", near), ("the same after a kernel of 48 MiB", far)]
    return [(name, f"{time * 1e6:.1f} us", "") for name, time in rows]


def compile_seconds(cache: str, program: str = "") -> float:
    """The time to compile a program, the digits MLP without one, in a fresh process that uses the folder `cache`."""
    code = program or DIGITS.format(path=str(ROOT / "examples/digits/mlp.mlir"))
    environment = {**os.environ, "ONEFLOW_CACHE_DIR": cache}
    return float(subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=-1).stdout)


def kernel_rows() -> list[tuple[str, str, str]]:
    """Each kernel against NumPy; kernels that take long are measured fewer times."""
    rows = []
    for name, ours, theirs, args in cpu_kernels.rows():
        compiled = flow.compile(ours)
        check(name, compiled(*args), theirs(*args))
        mine, other = functools.partial(compiled, *args), functools.partial(theirs, *args)
        rounds = max(5, min(30, int(0.3 / seconds(other))))
        got, want = interleaved(mine, other, rounds)
        rows.append((name, f"{got * 1e3:.2f} ms, NumPy {want * 1e3:.2f} ms", f"{want / got:.2f}"))
    return rows


def check(name: str, got: np.ndarray, want: np.ndarray) -> None:
    """Checks a result before the function is timed.

    Raises:
        AssertionError: the results differ.
    """
    scale = np.nanmax(np.abs(want.astype(np.float64))) if want.size else 0
    np.testing.assert_allclose(got, want, rtol=1e-2, atol=1e-4 * scale, err_msg=name)


def report() -> str:
    """The whole of results.md."""
    lines = ["# Measured figures", "", f"By `python benchmarks/foundation.py` on: {machine()}.", ""]
    lines += ["| tool | measured | goal |", "| --- | --- | --- |"]
    lines += [f"| {a} | {b} | {c} |" for a, b, c in (*tool_rows(), *compile_rows(), *call_rows())]
    lines += [
        "",
        f"Operands are f32 of 4096 x 1024 unless the row states otherwise; medians of alternating calls;"
        f" {num_threads()} threads:",
        "",
    ]
    lines += ["| kernel | time | NumPy's time / ours |", "| --- | --- | --- |"]
    lines += [f"| {a} | {b} | {c} |" for a, b, c in kernel_rows()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes or prints the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print instead of writing results.md")
    only_print = parser.parse_args().print
    text = report()
    if only_print:
        print(text)
    else:
        others = re.search(r"^## .*", RESULTS.read_text(), re.MULTILINE | re.DOTALL)
        RESULTS.write_text(text + ("\n" + others[0] if others else ""))


if __name__ == "__main__":
    main()
