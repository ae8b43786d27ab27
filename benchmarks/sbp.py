"""Measures SBP: bytes that layouts move, choices against optimal choices, times of passes, scaling over processes.

    python benchmarks/sbp.py [--print]

All measurements are on the CPU. Only the section of results.md about SBP is replaced.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from results_page import write_part

import oneflow as flow
import oneflow.passes.all
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import Mesh
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.passes.pipeline import Pipeline, Watch
from oneflow.passes.sbp.auto import choose_cheapest
from oneflow.passes.sbp.boxing import Boxing
from oneflow.passes.sbp.cost import Costs, Machine
from oneflow.passes.sbp.graph import SbpGraph, SbpGraphBuilder
from oneflow.passes.sbp.greedy import choose_greedily
from oneflow.passes.structure import Structure
from oneflow.runtime.collectives import mpi
from oneflow.testing.layouts import LAYOUTS, physical_bytes, planned_bytes
from oneflow.tools.ranks import launcher

HEADING = "## SBP"
STRATEGIES = {"greedy": "strategy=greedy", "auto": "strategy=auto latency=0 compute=1e9"}
PASSES = ("oneflow-insert-boxing", "oneflow-join-boxing", "oneflow-to-physical")
#: Graphs of more assignments are not searched.
MAX_ASSIGNMENTS, GRAPHS = 30_000, 20
#: Operators of the large program, whose every layer has four.
OPERATORS = 10_000
#: Rows of a batch for every process, the width of layers, how many steps are timed how often, how often in turn.
BATCH, WIDTH, BLOCK, ROUNDS, TURNS = 512, 512, 3, 15, 5


def run_passes(module: ir.Module, *passes: str) -> float:
    """The seconds that passes take on a module."""
    pipeline = Pipeline.parse(f"builtin.module({','.join(passes)})", module.context)
    start = time.perf_counter()
    pipeline.run(module, watch=Watch(reproducers=None))
    return time.perf_counter() - start


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def layout_rows(ranks: int = 4) -> Iterator[list[object]]:
    """The least number of bytes of every classic layout, and the numbers of bytes planned and received."""
    for name, layout in LAYOUTS.items():
        least, row = layout.fewest_bytes(ranks), [name]
        for options in STRATEGIES.values():
            module = layout.module(ranks)
            run_passes(module, f"oneflow-infer-sbp{{{options}}}", "oneflow-insert-boxing")
            row += [f"{n:,}" for n in (planned_bytes(module), physical_bytes(module))]
        yield [row[0], f"{least:,}", *row[1:]]


def small_program(rng: np.random.Generator) -> str:
    """Three random operators on matrices, whose layouts are inferred."""
    kind, names, lines = "tensor<6x6xf32>", ["%x", "%y"], []
    for number in range(3):
        a, b = (names[rng.integers(len(names))] for _ in range(2))
        name = ("matmul", "broadcast_add", "broadcast_mul", "tanh", "softmax")[rng.integers(5)]
        operands = [a, b] if name in ("matmul", "broadcast_add", "broadcast_mul") else [a]
        kinds = ", ".join([kind] * len(operands))
        lines.append(f'  %{number} = "oneflow.{name}"({", ".join(operands)}) : ({kinds}) -> {kind}')
        names.append(f"%{number}")
    layouts = ("#sbp.split<0>", "#sbp.split<1>", "#sbp.broadcast", "#sbp.partial_sum")
    notes = [f"{{oneflow.nd_sbp = [{layouts[rng.integers(4)]}]}}" for _ in range(2)]
    head = f"func.func @main(%x: {kind} {notes[0]}, %y: {kind} {notes[1]}) -> {kind} {{"
    return "\n".join([head, *lines, f"  return {names[-1]} : {kind}", "}"])


def graph_of(module: ir.Module, mesh: Mesh) -> SbpGraph:
    """The graph of a module's one function; the module has to outlive the graph."""
    (function,) = Structure.of(module.operation).functions.values()
    return SbpGraphBuilder(mesh, REGISTRY).build(function)


def cheapest(graph: SbpGraph, costs: Costs) -> float:
    """The least cost of all assignments."""
    every = itertools.product(*(n.candidates.signatures for n in graph.nodes))
    return min(costs.total(graph, dict(zip(graph.nodes, chosen, strict=True))) for chosen in every)


def search(context: ir.Context) -> dict[str, Any]:
    """Greedy and automatic choices against exhaustive search, on small random graphs."""
    rng, mesh = np.random.default_rng(0), (2,)
    costs = Costs(mesh, Machine(1e-3, 0.1, 1e-3), Boxing(mesh))
    measured: dict[str, list[float]] = {"greedy": [], "auto": []}
    while len(measured["auto"]) < GRAPHS:
        module = read_module(small_program(rng), context)
        graph = graph_of(module, mesh)
        if math.prod(len(n.candidates.signatures) for n in graph.nodes) > MAX_ASSIGNMENTS:
            continue
        best, greedy = cheapest(graph, costs), choose_greedily(graph, mesh)
        chosen = choose_cheapest(graph, costs, greedy, 60.0)
        for name, choice in (("greedy", greedy), ("auto", chosen or {})):
            measured[name].append(costs.total(graph, choice) / best)
    return measured


def large_program(layers: int) -> str:
    """Layers of a product, a sum, an activation and a product by elements, over one weight."""
    x, w, b = "tensor<32x64xf32>", "tensor<64x64xf32>", "tensor<64xf32>"
    data = "{oneflow.nd_sbp = [#sbp.split<0>, #sbp.broadcast]}"
    model = "{oneflow.nd_sbp = [#sbp.broadcast, #sbp.split<1>]}"
    lines, last = [f"func.func @main(%x: {x} {data}, %w: {w} {model}, %b: {b}) -> {x} {{"], "%x"
    for i in range(layers):
        lines += [
            f'  %a{i} = "oneflow.matmul"({last}, %w) : ({x}, {w}) -> {x}',
            f'  %b{i} = "oneflow.broadcast_add"(%a{i}, %b) : ({x}, {b}) -> {x}',
            f'  %c{i} = "oneflow.gelu"(%b{i}) : ({x}) -> {x}',
            f'  %d{i} = "oneflow.broadcast_mul"(%c{i}, {last}) : ({x}, {x}) -> {x}',
        ]
        last = f"%d{i}"
    return "\n".join([*lines, f"  return {last} : {x}", "}"])


def pass_times(context: ir.Context) -> Iterator[list[object]]:
    """The seconds of every pass on the large program, for both strategies."""
    text = large_program(OPERATORS // 4)
    for strategy in ("greedy", "auto"):
        passes = (f"oneflow-infer-sbp{{mesh=2,2 strategy={strategy}}}", *PASSES)
        runs = []
        for _ in range(3):
            module = read_module(text, context)
            runs.append([run_passes(module, p) for p in passes])
        yield [strategy, *(f"{min(t):.2f} s" for t in zip(*runs, strict=True))]


def step_time(ranks: int) -> float:
    """The seconds of a data-parallel step of three layers on this rank; every rank has the same number of rows."""
    placement = flow.placement("cpu", ranks=list(range(ranks)))
    rng = np.random.default_rng(0)
    net = flow.nn.Sequential(*(flow.nn.Linear(WIDTH, WIDTH) for _ in range(3)))
    optimizer = flow.optim.SGD(net.parameters(), lr=1e-3)
    model = flow.nn.parallel.DistributedDataParallel(net, placement)
    x = rng.standard_normal((BATCH * ranks, WIDTH)).astype(np.float32)

    @flow.compile
    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def block() -> float:
        start = time.perf_counter()
        for _ in range(BLOCK):
            step(x).item()
        return (time.perf_counter() - start) / BLOCK

    block()
    return statistics.median(block() for _ in range(ROUNDS))


def start(ranks: int, count: int) -> subprocess.Popen[str]:
    """`count` processes of one thread each that print the seconds of a step of `ranks` ranks."""
    line = [*launcher(), "-n", str(count), sys.executable, __file__, "--step", str(ranks)]
    environment = {**os.environ, "ONEFLOW_NUM_THREADS": "1"}
    return subprocess.Popen(line, stdout=subprocess.PIPE, env=environment, text=True)


def seconds_of(*jobs: subprocess.Popen[str]) -> float:
    """The result of the slowest of concurrent jobs."""
    outputs = [job.communicate()[0] for job in jobs]
    return max(map(float, outputs))


def scaling() -> str:
    """The times of two independent processes and of one job of two ranks, measured alternately, and the ratio."""
    pairs = [(seconds_of(start(1, 1), start(1, 1)), seconds_of(start(2, 2))) for _ in range(TURNS)]
    separate, together, kept = map(statistics.median, zip(*((a, b, a / b) for a, b in pairs), strict=True))
    rows = [["2 independent", BATCH, f"{separate * 1e3:.1f} ms", ""]]
    rows.append(["2 together", 2 * BATCH, f"{together * 1e3:.1f} ms", f"{kept:.2f}"])
    return table(["processes", "rows of a step", "step", "time independent / distributed"], rows)


def section() -> str:
    """The part of results.md about SBP."""
    context = dialect.create_context()
    with context:
        layouts = list(layout_rows())
        costs = search(context)
        times = list(pass_times(context))
    optimal = {name: sum(r <= 1 + 1e-9 for r in ratios) for name, ratios in costs.items()}
    worst = {name: max(ratios) for name, ratios in costs.items()}
    head = ["layout, 4 ranks", "fewest", "greedy: planned", "received", "auto: planned", "received"]
    return "\n\n".join(
        [
            HEADING,
            "By `python benchmarks/sbp.py`. Bytes that all ranks together receive in a step, forward and backward:"
            " the minimum of the layout, the plan of boxing, and the collectives of the programs."
            " Only arguments and results are annotated; the automatic strategy minimizes bytes only"
            " (`latency=0 compute=1e9`).",
            table(head, layouts),
            f"Costs of choices on {GRAPHS} random graphs of three operators, relative to the optimum:"
            f" auto is optimal on {optimal['auto']} of them (worst ratio {worst['auto']:.3f}), greedy on"
            f" {optimal['greedy']} (worst ratio {worst['greedy']:.2f}).",
            f"A program of {OPERATORS:,} operators on a mesh of 2 x 2; the fastest of 3. Goal for inference: 5 s.",
            table(["strategy", "oneflow-infer-sbp", *PASSES], times),
            f"Weak scaling over MPI: a data-parallel step of three layers of {WIDTH} on {BATCH} rows for each process"
            f" of one thread, against two independent processes at the same time; medians of {TURNS} runs in turn."
            f" Other work ran on the machine (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors).",
            scaling(),
            "",
        ]
    )


def main() -> None:
    """Writes or prints the part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print instead of writing results.md")
    parser.add_argument("--step", type=int, metavar="RANKS", help="print the seconds of a step, as one rank")
    options = parser.parse_args()
    if options.step:
        seconds = step_time(options.step)
        if mpi.world().rank == 0:
            print(seconds)
    else:
        write_part(section(), options.print)


if __name__ == "__main__":
    main()
