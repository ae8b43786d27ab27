"""Fits the parameters of kernels to this machine, and prints the fitted table for the record of the target.

    python benchmarks/fit_targets.py [--device cpu] [--parameters loops.chunk_steps,..] [--rounds N]

Each parameter has a value that follows from the facts of the target. This script measures multiples of the value,
one parameter after the other, on the programs that depend on the parameter: all candidates are called in turn, and
the candidate with the smallest geometric mean of times replaces the value where it is faster by more than `MARGIN`.
Values found earlier stay while later parameters are measured. The table belongs into the row of the target in
`lowering/targets/cpu.py` or `lowering/targets/gpu.py`, as the field `fitted`.

The machine should run nothing else. With `--device cuda` the target is the GPU, with PyTorch as the clock;
`gpu_autotune.py` measures the choices among tiles of matrix products.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pprint import pformat
from typing import Any, Protocol, TypeVar

import numpy as np

import oneflow as flow
from oneflow.lowering.targets.cpu import CpuTarget
from oneflow.lowering.targets.gpu import GpuTarget
from oneflow.lowering.targets.selection import cpu_target, using_cpu, using_gpu
from oneflow.runtime.cuda import driver

#: The share of the time that a candidate must save to replace the derived value.
MARGIN = 0.03
Action = Callable[[], object]
#: The record of a processor or of a GPU.
T = TypeVar("T", CpuTarget, GpuTarget)


@dataclass(frozen=True)
class Fit:
    """A parameter that is measured.

    Attributes:
        name: the record and the field: `loops.chunk_steps`.
        programs: the programs that depend on the parameter.
        factors: the candidates, in multiples of the derived value.
    """

    name: str
    programs: tuple[str, ...]
    factors: tuple[float, ...] = (0.25, 0.5, 1, 2, 4)

    def derived(self, target: CpuTarget | GpuTarget) -> int:
        """The value of the parameter in a target."""
        record, name = self.name.split(".")
        value: int = getattr(getattr(target.kernels, record), name)
        return value

    def candidates(self, target: CpuTarget | GpuTarget) -> list[int]:
        """The values that are measured; the derived value is the first."""
        value = self.derived(target)
        return list(dict.fromkeys([value, *(max(round(value * factor), 1) for factor in self.factors)]))

    def applied(self, target: T, value: int) -> T:
        """The target with a value of the parameter."""
        record, name = self.name.split(".")
        return replace(target, fitted={**target.fitted, record: {**target.fitted.get(record, {}), name: value}})


#: Functions, and the shapes of their arguments.
PROGRAMS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "16384 elements": (lambda x: x * 2.0 + 1.0, [(1 << 14,)]),
    "65536 elements": (lambda x: x * 2.0 + 1.0, [(1 << 16,)]),
    "262144 elements": (lambda x: x * 2.0 + 1.0, [(1 << 18,)]),
    "element-wise": (lambda x, y: flow.exp(-x * x) * y, [(2048, 1024)] * 2),
    "copy": (lambda x, y: flow.cat([x, y], 0), [(2048, 1024)] * 2),
    "short copies": (lambda x, y: flow.cat([x, y], 1), [(32768, 48)] * 2),
    "transpose": (lambda x: x.transpose(0, 1) + 0.0, [(2048, 1536)]),
    "sum of columns": (lambda x: x.sum(0), [(4096, 1024)]),
    "softmax of columns": (lambda x: flow.softmax(x, 0), [(4096, 256)]),
    "softmax of rows": (lambda x: flow.softmax(x, 1), [(4096, 1024)]),
    "sum": (lambda x: x.sum(), [(1 << 22,)]),
    "product": (lambda a, b: a @ b, [(512, 512)] * 2),
    "tall product": (lambda a, b: a @ b, [(4096, 256), (256, 128)]),
    "deep product": (lambda a, b: a @ b, [(64, 16384), (16384, 64)]),
    "product of 4 rows": (lambda a, b: a @ b, [(4, 2048), (2048, 2048)]),
    "product of 12 rows": (lambda a, b: a @ b, [(12, 2048), (2048, 2048)]),
    "product of 24 rows": (lambda a, b: a @ b, [(24, 2048), (2048, 2048)]),
    "product of transposed": (lambda a, b: a @ b.transpose(0, 1), [(4, 2048), (2048, 2048)]),
    "convolution": (lambda x, w: flow.nn.functional.conv2d(x, w, padding=1), [(4, 64, 28, 28), (64, 64, 3, 3)]),
}
PRODUCTS = ("product", "tall product", "convolution")
SKINNY_PRODUCTS = ("product of 4 rows", "product of 12 rows", "product of 24 rows")
#: The parameters of each device, those that others depend on first.
FITS: dict[str, tuple[Fit, ...]] = {
    "cpu": (
        Fit("loops.parallel_operations", ("16384 elements", "65536 elements", "262144 elements")),
        Fit("loops.chunk_steps", ("262144 elements", "element-wise")),
        Fit("loops.copy_chunk", ("copy", "short copies")),
        Fit("loops.short_run", ("short copies",)),
        Fit("loops.tile_rows", ("transpose",)),
        Fit("loops.tile_columns", ("transpose",)),
        Fit("loops.column_block_bytes", ("sum of columns",)),
        Fit("loops.l2_bytes_per_element", ("softmax of columns",)),
        Fit("loops.min_parallel_steps", ("sum of columns", "softmax of columns")),
        Fit("contractions.max_tile_rows", PRODUCTS, (0.5, 0.75, 1, 1.25, 1.5)),
        Fit("contractions.step_rows", PRODUCTS, (0.25, 0.5, 0.75, 1, 2)),
        Fit("contractions.steps_per_core", PRODUCTS, (0.5, 1, 2)),
        Fit("contractions.max_skinny_rows", SKINNY_PRODUCTS, (0, 0.5, 1, 1.5, 2)),
        Fit("contractions.skinny_slice_depth", SKINNY_PRODUCTS, (0.5, 1, 2)),
        Fit("contractions.max_dot_columns", ("product of transposed",), (0.5, 1, 2)),
        Fit("contractions.dot_step_columns", ("product of transposed",)),
        Fit("splits.min_part_operations", ("sum", "deep product")),
        Fit("splits.min_product_depth", ("deep product",)),
    ),
    "cuda": (
        Fit("blocks.pointwise", ("element-wise", "262144 elements"), (0.5, 1, 2, 4)),
        Fit("blocks.chunk", ("softmax of rows",), (0.5, 1, 2)),
        Fit("blocks.transpose", ("transpose",), (0.25, 1)),
        Fit("blocks.strided", ("sum of columns", "softmax of columns"), (0.5, 1, 2)),
        Fit("blocks.strided_programs_per_sm", ("sum of columns", "softmax of columns")),
        Fit("blocks.group_rows", ("product", "tall product"), (0.5, 1, 2)),
        Fit("reductions.max_programs_per_sm", ("sum", "sum of columns")),
    ),
}


class Machine(Protocol[T]):
    """The machine on which programs are measured.

    Attributes:
        rounds: the calls of each candidate.
        target: the record of the machine without fitted values.
    """

    rounds: int
    target: T

    def using(self, target: T) -> AbstractContextManager[None]:
        """Compiles for a target inside."""

    def action(self, name: str) -> Action:
        """A call of a program that is compiled at the first call."""

    def microseconds(self, action: Action) -> float:
        """The time of a call."""


class Cpu:
    """The processor of this machine."""

    def __init__(self, rounds: int) -> None:
        self.rounds, self.target = rounds, replace(cpu_target(), fitted={})

    def using(self, target: CpuTarget) -> AbstractContextManager[None]:
        """Compiles for a target inside."""
        return using_cpu(target)

    def action(self, name: str) -> Action:
        """A call of a program that is compiled at the first call."""
        function, shapes = PROGRAMS[name]
        arguments = [np.random.default_rng(0).standard_normal(shape, dtype=np.float32) for shape in shapes]
        compiled = flow.compile(lambda *given: function(*given))
        return lambda: compiled(*arguments)

    def microseconds(self, action: Action) -> float:
        """The time of a call."""
        begin = time.perf_counter()
        action()
        return (time.perf_counter() - begin) * 1e6


class Gpu:
    """The GPU of this machine."""

    def __init__(self, rounds: int) -> None:
        from gpu import Harness  # noqa: PLC0415

        self.rounds, self.harness = rounds, Harness(rounds, False)
        self.target = replace(driver.device(0).target, fitted={})

    def using(self, target: GpuTarget) -> AbstractContextManager[None]:
        """Compiles for a target inside."""
        return using_gpu(target)

    def action(self, name: str) -> Action:
        """A call of a program that is compiled at the first call."""
        function, shapes = PROGRAMS[name]
        arguments = [flow.randn(*shape, device="cuda").to(flow.bfloat16) for shape in shapes]
        compiled = flow.compile(lambda *given: function(*given), device="cuda")
        return lambda: compiled(*arguments)

    def microseconds(self, action: Action) -> float:
        """The time of a call by CUDA events."""
        return self.harness.microseconds(action, True)


def measure(fit: Fit, machine: Machine[T], target: T) -> dict[int, float]:
    """For each candidate the geometric mean of the times of programs, in multiples of the derived value's times."""
    candidates = fit.candidates(target)
    logs = dict.fromkeys(candidates, 0.0)
    for name in fit.programs:
        actions = {}
        for value in candidates:
            with machine.using(fit.applied(target, value)):
                actions[value] = machine.action(name)
                actions[value]()
        times: dict[int, list[float]] = {value: [] for value in candidates}
        for _ in range(machine.rounds):
            for value, action in actions.items():
                times[value].append(machine.microseconds(action))
        medians = {value: statistics.median(row) for value, row in times.items()}
        for value, median in medians.items():
            logs[value] += np.log(median / medians[candidates[0]]) / len(fit.programs)
    return {value: float(np.exp(log)) for value, log in logs.items()}


def fit_all(fits: Sequence[Fit], machine: Machine[T]) -> Iterator[str]:
    """Lines about each parameter; the last is the table."""
    target = machine.target
    for fit in fits:
        ratios = measure(fit, machine, target)
        derived, best = fit.derived(target), min(ratios, key=ratios.__getitem__)
        yield f"{fit.name}: " + ", ".join(f"{value} {ratio:.3f}" for value, ratio in ratios.items())
        if ratios[best] < 1 - MARGIN and best != derived:
            target = fit.applied(target, best)
    yield table(target.fitted)


def table(fitted: Mapping[str, Mapping[str, Any]]) -> str:
    """The field of the record."""
    return f"\nfitted={pformat(dict(fitted), width=100)},"


def main() -> None:
    """Prints the measurements and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=FITS, default="cpu", help="whose parameters are fitted")
    parser.add_argument("--parameters", default="", help="which parameters: beginnings of names, all if empty")
    parser.add_argument("--rounds", type=int, default=15, help="calls of each candidate")
    options = parser.parse_args()
    fits = [fit for fit in FITS[options.device] if fit.name.startswith(tuple(options.parameters.split(",")))]
    if not fits:
        parser.error(f"expected --parameters to begin names such as {FITS[options.device][0].name!r}, "
                     f"got {options.parameters!r}")  # fmt: skip
    rounds: int = options.rounds
    for line in fit_all(fits, Cpu(rounds)) if options.device == "cpu" else fit_all(fits, Gpu(rounds)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
