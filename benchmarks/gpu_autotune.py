"""Measures the loss of the cost model that chooses kernels against `autotune=True` on a CUDA device.

    python benchmarks/gpu_autotune.py [--cases product,softmax,..] [--rounds N]

Each kernel is compiled in the configuration that the cost model chooses, and in the fastest of several candidates
timed on the device. Both kernels are called in turn on the same arrays with a cold L2 cache; medians are reported.
All candidates are compiled in parallel before any is timed. Pointwise kernels and transposes have one candidate: the
rows of such kernels show the variance of times.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from gpu import Harness
from gpu_bandwidth import ALONG_ROWS
from gpu_row import Action, Row, compare, normal
from gpu_rows import multiply

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.options import AUTOTUNE
from oneflow.lowering.triton.launch.program import read_program
from oneflow.lowering.triton.source import Source
from oneflow.runtime import native
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.compile_workers import OPERATIONS_PER_WORKER, CompileWorkers
from oneflow.runtime.cuda.compiler import CompileError
from oneflow.runtime.cuda.kernel_cache import compile_kernel
from oneflow.runtime.program_source import ProgramSource

#: The entries of `gpu_rows.PRODUCTS` whose shapes differ most: square, tall, wide and deep products, few rows, odd
#: sizes.
PRODUCTS = [
    (512, 512, 512, "nn"), (1024, 1024, 1024, "nn"), (3000, 3000, 3000, "nn"), (4096, 4096, 4096, "nn"),
    (4096, 4096, 4096, "tn"), (8192, 1024, 1024, "nn"), (8192, 768, 768, "nt"), (8192, 3072, 768, "nt"),
    (8192, 768, 3072, "nt"), (768, 768, 8192, "tn"), (1024, 768, 3072, "nt"), (16, 4096, 4096, "nt"),
    (256, 256, 16384, "nn"), (1000, 777, 1001, "nn"),
]  # fmt: skip
#: The number of elements of row-wise kernels, and the row lengths.
ELEMENTS, LENGTHS = 1 << 26, (256, 1024, 8192, 32768)


@dataclass(frozen=True)
class Case:
    """A function of arrays of bf16."""

    name: str
    function: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]

    def sources(self, arch: str) -> list[Source]:
        """Every source that is compiled for a case: the choice of the cost model, and the other candidates."""
        specs = (flow.TensorSpec(shape, flow.bfloat16) for shape in self.shapes)
        module = flow.trace(self.function, *specs)
        module.operation.attributes[AUTOTUNE] = ir.StringAttr.get("true", module.context)
        entry = ir.StringAttr(module.body.operations[0].attributes["sym_name"]).value
        program = read_program(ProgramSource.of(module, entry, REGISTRY).lower("triton")).on(arch)
        return [*program.sources.values(), *(source for others in program.candidates.values() for source in others)]


def cases() -> Iterator[Case]:
    """All that is measured."""
    gelu = flow.nn.functional.gelu
    large = (16384, 4096)
    yield Case("pointwise chain 16384 x 4096", lambda x, b, y: gelu(x + b) * 2.0 + y, [large, large[1:], large])
    yield Case("transpose 8192 x 8192", lambda x: x.transpose(0, 1) + 0.0, [(8192, 8192)])
    yield Case("sum of columns 65536 x 1024", lambda x: x.sum(0), [(65536, 1024)])
    for name in ("softmax", "layer_norm"):
        make, vectors = ALONG_ROWS[name]
        for size in LENGTHS:
            shape = (ELEMENTS // size, size)
            yield Case(f"{name} {shape[0]} x {size}", make(flow, size), [shape, *[(size,)] * vectors])
    for m, n, k, form in PRODUCTS:
        left, right = (k, m) if form[0] == "t" else (m, k), (n, k) if form[1] == "t" else (k, n)
        yield Case(f"product {m} x {n} x {k} {form}", multiply(form), [left, right])


def prepare(wanted: Sequence[Case], arch: str) -> int:
    """Compiles every candidate of all cases in parallel into the disk cache; returns the number of candidates."""
    configurations = [source for case in wanted for source in case.sources(arch)]
    with CompileWorkers(arch) as helpers:
        helpers.start(OPERATIONS_PER_WORKER * native.num_threads())

        def compile_source(source: Source) -> None:
            with contextlib.suppress(CompileError):
                compile_kernel(source, arch, True, helpers)

        with ThreadPoolExecutor(len(helpers) or native.num_threads()) as pool:
            list(pool.map(compile_source, configurations))
    return len(configurations)


@dataclass(frozen=True)
class Measured:
    """Microseconds of the cost model's choice and of the fastest candidate; the number of kernels that differ."""

    chosen: float
    tuned: float
    changed: int

    @property
    def ratio(self) -> float:
        """How many times as long the model's choice takes."""
        return self.chosen / self.tuned


def measure(case: Case, harness: Any) -> Measured:
    """The times of both programs of a case, called in turn.

    Raises:
        AssertionError: the results of the two programs differ.
    """
    tensors = [flow.from_numpy(normal(*shape, dtype="bf16")) for shape in case.shapes]
    functions = [flow.compile(case.function, device="cuda", autotune=tuned) for tuned in (False, True)]
    results = [torch.from_dlpack(function(*tensors).detach()) for function in functions]
    compare(Row(case.name, lambda: None, {}), *results)
    executables: list[Any] = [function._latest().executable for function in functions]
    chosen, tuned = (executable.program.sources for executable in executables)
    changed = sum(chosen[name] != source for name, source in tuned.items())
    actions: list[Action] = [functools.partial(function, *tensors) for function in functions]
    times = [[harness.microseconds(action, True) for action in actions] for _ in range(harness.rounds)]
    by_model, by_tuning = (statistics.median(column) for column in zip(*times, strict=True))
    return Measured(by_model, by_tuning, changed)


def report(wanted: Sequence[Case], harness: Any) -> Iterator[str]:
    """The lines of the table, and the summary."""
    yield "| bf16 | by the model | autotuned | ratio | other kernels |\n| --- | --- | --- | --- | --- |"
    ratios: dict[str, float] = {}
    for case in wanted:
        measured = measure(case, harness)
        ratios[case.name] = measured.ratio
        chosen, tuned, ratio = f"{measured.chosen:.1f}", f"{measured.tuned:.1f}", f"{measured.ratio:.3f}"
        yield f"| {case.name} | {chosen} | {tuned} | {ratio} | {measured.changed or ''} |"
        torch.cuda.empty_cache()
        flow.cuda.empty_cache()
    worst = max(ratios, key=ratios.__getitem__)
    mean = statistics.geometric_mean(ratios.values())
    yield f"\nGeometric mean {mean:.3f}, worst {ratios[worst]:.3f}: {worst}."


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="", help="what to measure: beginnings of names, all if empty")
    parser.add_argument("--rounds", type=int, default=20, help="calls of each program")
    options = parser.parse_args()
    wanted = [case for case in cases() if case.name.startswith(tuple(options.cases.split(",")))]
    if not wanted:
        parser.error(f"expected --cases to begin names such as {next(cases()).name!r}, got {options.cases!r}")
    print(f"{prepare(wanted, driver.device(0).arch)} kernels compiled on {torch.cuda.get_device_name()}", flush=True)
    for line in report(wanted, Harness(options.rounds, False)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
