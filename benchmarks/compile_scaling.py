"""Measures how the time of every pass grows with the program: microseconds per operator, for several sizes.

    python benchmarks/compile_scaling.py [--print] [--sizes 1000,30000] [--programs layers,chain] [--pipelines CPU]

Times are processor time (`time.process_time`), which other programs of the machine hardly change. Only the section
of results.md about growth is replaced.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from foundation import machine

from oneflow.dialect import oneflow as dialect
from oneflow.dialect.reader import read_module
from oneflow.lowering.pipelines import PREVIOUS_STAGE, STAGES
from oneflow.passes import all as _every_pass  # noqa: F401
from oneflow.passes.pipeline import Pipeline, Watch

RESULTS = Path(__file__).with_name("results.md")
HEADING = "## Growth"
SIZES = (1_000, 3_000, 10_000, 30_000)
#: The operators of a first run, which imports modules and fills tables.
WARM_UP = 100
#: A pass is linear if the time per operator of the largest program is at most this multiple of the time of the
#: smallest.
MAX_GROWTH = 2.0
TENSOR = "tensor<64x64xf32>"


def call(name: str, *operands: str, attrs: str = "") -> str:
    """An operation on square tensors."""
    types = ", ".join(TENSOR for _ in operands)
    return f'"oneflow.{name}"({", ".join(operands)}) {{{attrs}}} : ({types}) -> {TENSOR}'


def layers(operators: int) -> Iterator[str]:
    """Layers of a product, a bias, an activation and a residual."""
    x = "%x"
    for n in range(0, operators, 4):
        yield f"%{n} = {call('matmul', x, '%w')}"
        yield f"%{n + 1} = {call('broadcast_add', f'%{n}', '%b')}"
        yield f"%{n + 2} = {call('gelu', f'%{n + 1}')}"
        yield f"%{n + 3} = {call('broadcast_add', f'%{n + 2}', x)}"
        x = f"%{n + 3}"


def chain(operators: int) -> Iterator[str]:
    """Element-wise operators, one after the other."""
    names = {"tanh": "%{0}", "broadcast_mul": "%{0}, %b", "sigmoid": "%{0}", "broadcast_add": "%{0}, %w"}
    for n in range(operators):
        name, operands = list(names.items())[n % len(names)]
        before = operands.format(n - 1) if n else operands.replace("%{0}", "%x")
        yield f"%{n} = {call(name, *before.split(', '))}"


def fan(operators: int) -> Iterator[str]:
    """Operators that all read one tensor, and the sum of the results."""
    x = "%x"
    for n in range(0, operators, 2):
        yield f"%{n} = {call('matmul', '%x', '%w' if n % 4 else '%b')}"
        yield f"%{n + 1} = {call('broadcast_add', x, f'%{n}')}"
        x = f"%{n + 1}"


PROGRAMS = {"layers": layers, "chain": chain, "fan": fan}


def text_of(name: str, operators: int, mesh: bool = False) -> str:
    """A program as text; with `mesh` the program has four ranks."""
    body = list(PROGRAMS[name](operators))
    last = body[-1].partition(" ")[0]
    arguments = ", ".join(
        f"%{a}: {TENSOR}" + (' {oneflow.nd_sbp = ["S(0)"]}' if mesh and a == "x" else "") for a in "xwb"
    )
    attributes = "attributes {oneflow.mesh = array<i64: 4>} " if mesh else ""
    lines = "\n".join(body)
    function = f"func.func @main({arguments}) -> {TENSOR} {{\n{lines}\nreturn {last} : {TENSOR}\n}}"
    return f"module {attributes}{{\n{function}\n}}"


def pipelines() -> dict[str, tuple[str, ...]]:
    """The measured passes in order, by the task of the passes."""
    cpu, gpu = (tuple(_to(stage)) for stage in ("llvm", "triton"))
    sbp = ("oneflow-infer-types", "oneflow-infer-sbp", "oneflow-insert-boxing", "oneflow-join-boxing")
    return {
        "CPU": cpu,
        "GPU": gpu,
        "gradients": ("oneflow-infer-types", "oneflow-autodiff{func=main}", "oneflow-canonicalize", "cse"),
        "four ranks": (*sbp, "oneflow-to-physical"),
    }


def _to(stage: str) -> list[str]:
    before = PREVIOUS_STAGE.get(stage)
    return [*(_to(before) if before else []), *STAGES[stage]]


def measured(pipeline: str, passes: Sequence[str], program: str, operators: int) -> dict[str, float]:
    """The microseconds per operator that reading and every pass take; of a pass that comes twice the sum."""
    context = dialect.create_context()
    text = text_of(program, operators, pipeline == "four ranks")
    begin = time.process_time()
    module = read_module(text, context)
    durations = {"read and verify": time.process_time() - begin}
    watch = Watch(reproducers=None, verify_each=False, timing=True, clock=time.process_time)
    begin = time.process_time()
    Pipeline.parse(f"builtin.module({','.join(passes)})", module.context).run(module, watch=watch)
    total = time.process_time() - begin
    for name, seconds in watch.seconds:
        durations[name] = durations.get(name, 0.0) + seconds
    durations["the pipeline itself, which keeps a copy"] = total - sum(seconds for _, seconds in watch.seconds)
    return {name: seconds / operators * 1e6 for name, seconds in durations.items()}


def table(program: str, pipeline: str, passes: Sequence[str], sizes: Sequence[int]) -> Iterator[str]:
    """The lines of one table."""
    columns = []
    measured(pipeline, passes, program, WARM_UP)
    for n in sizes:
        columns.append(measured(pipeline, passes, program, n))
        print(f"{program}, {pipeline}, {n}: {sum(columns[-1].values()):.0f} us per operator", flush=True)
    yield f"\n{program}, {pipeline}:\n"
    yield f"| pass | {' | '.join(f'{n:,}' for n in sizes)} | growth |"
    yield "| --- |" + " --- |" * (len(sizes) + 1)
    for name in columns[0]:
        row = [column[name] for column in columns]
        growth = row[-1] / max(row[0], 1e-9)
        marked = f"**{growth:.1f}**" if growth > MAX_GROWTH and row[-1] > 1 else f"{growth:.1f}"
        yield f"| {name} | {' | '.join(f'{t:.1f}' for t in row)} | {marked} |"


def report(lines: Sequence[str]) -> str:
    """The text of results.md with the section of this benchmark."""
    old = RESULTS.read_text() if RESULTS.exists() else ""
    part = re.compile(rf"^{HEADING}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    head = f"By `python benchmarks/compile_scaling.py` on: {machine()}; microseconds of the processor per operator:"
    text = "\n".join([HEADING, "", head, *lines, ""])
    return part.sub(lambda _: text + "\n", old) if part.search(old) else f"{old.rstrip()}\n\n{text}"


def main() -> None:
    """Measures and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", action="store_true", help="print the report instead of writing it")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of operators")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--pipelines", default=",".join(pipelines()), help="which passes are measured")
    arguments = parser.parse_args()
    sizes = [int(n) for n in arguments.sizes.split(",")]
    wanted = {
        pipeline: passes for pipeline, passes in pipelines().items() if pipeline in arguments.pipelines.split(",")
    }
    lines = [
        line
        for program in arguments.programs.split(",")
        for pipeline, passes in wanted.items()
        for line in table(program, pipeline, passes, sizes)
    ]
    if arguments.print:
        print("\n".join(lines))
    else:
        RESULTS.write_text(report(lines))


if __name__ == "__main__":
    main()
