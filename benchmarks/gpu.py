"""Measures programs on a CUDA device and writes `benchmarks/results_gpu.md`.

    python benchmarks/gpu.py [--groups rows,matmul,..] [--rounds N] [--no-compile] [--output FILE]

Each row compares this package with PyTorch's eager mode (for products and convolutions the vendor's library),
torch.compile, and a copy of the same bytes, or for attention with two libraries, on the same card in the same run.
Participants are called in turn, and medians are reported. Kernels are timed by CUDA events with a cold L2 cache,
whole steps by the clock, at least 20 ms of consecutive steps.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpu_models as models
import torch
from gpu_row import COMPILED, COPY, Action, Row
from gpu_rows import COLUMNS, GROUPS, PEERS, adamw, next_token, tokens
from steps import step_of

import oneflow as flow
from oneflow.runtime.cuda import executable

#: Cycles that the device waits for the host to prepare a call, about two milliseconds.
HEAD_START = 4_000_000
#: The least number of consecutive calls that are timed by the clock, and the least total of seconds: the first calls
#: after other work are slower on the host.
CALLS, SECONDS = 20, 0.02
RESULTS = Path(__file__).with_name("results_gpu.md")


@dataclass
class Harness:
    """How long things take on the card."""

    rounds: int
    compile: bool

    def __post_init__(self) -> None:
        self.cache = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
        self.stream = torch.cuda.ExternalStream(int(flow.cuda.current_stream().handle))

    def microseconds(self, action: Action, ours: bool) -> float:
        """The time of one call by CUDA events, after the cache is filled with other data. The device waits first, so
        that the launch is queued before the device is ready, and the time of the host is not measured.
        """
        stream = self.stream if ours else torch.cuda.current_stream()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            torch.cuda._sleep(HEAD_START)
            self.cache.zero_()
            begin.record(stream)
            action()
            end.record(stream)
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3

    def per_step(self, action: Action) -> float:
        """The mean time by the clock of consecutive calls, enough calls for the least total time."""
        count = CALLS
        while (took := in_a_row(action, count)) < SECONDS:
            count *= 4
        return took / count * 1e6

    def medians(self, row: Row) -> dict[str, float]:
        """The median of each participant, called in turn."""
        actions: dict[str, Action] = {"ours": row.ours, **row.peers}
        if not self.compile:
            actions.pop(COMPILED, None)
        if row.bytes:
            actions[COPY] = copy_of(row.bytes)
        for action in actions.values():
            for _ in range(3):
                action()
        samples: dict[str, list[float]] = {name: [] for name in actions}
        for _ in range(max(self.rounds // 4, 3) if row.step else self.rounds):
            for name, action in actions.items():
                took = self.per_step(action) if row.step else self.microseconds(action, name == "ours")
                samples[name].append(took)
        return {name: statistics.median(times) for name, times in samples.items()}


def in_a_row(action: Action, count: int) -> float:
    """The seconds that so many calls take until the device is done."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        action()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def copy_of(size: int) -> Action:
    """A copy that moves `size` bytes: half read, half written."""
    source = torch.empty(size // 2, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def line(row: Row, columns: Sequence[str], times: dict[str, float]) -> str:
    """A row of the table: microseconds, and how many times as long the others take."""
    ours = times["ours"]
    rate = f"{row.bytes / ours / 1e3:.0f} GB/s" if row.bytes else f"{row.flops / ours / 1e6:.0f} TFLOP/s"
    rate = rate if row.bytes or row.flops else ""
    others = [f"{times[n]:.1f} ({times[n] / ours:.2f})" if n in times else "" for n in columns]
    return f"| {row.name} | {ours:.1f} | {rate} | {' | '.join(others)} |"


def compile_seconds() -> list[str]:
    """The first call of GPT-2's training step in fresh processes: without and with the disk cache."""
    durations = []
    with tempfile.TemporaryDirectory() as cache:
        for label in ("cold", "from the disk cache"):
            code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import gpu; gpu.first_call()"
            environment = {**os.environ, "ONEFLOW_CACHE_DIR": cache}
            done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=-1, text=True)
            durations.append(
                f"GPT-2 small training step, Python function to first result, {label}: {done.stdout.strip()}"
            )
    return durations


def first_call() -> None:
    """Prints the time of the first call and of the compilation stages; the rest is tracing and the first run."""
    model = models.gpt2(flow).to(flow.bfloat16).to("cuda")
    step = flow.compile(step_of(functools.partial(next_token, flow, model), adamw(flow, model)))
    tensors = [flow.from_numpy(a) for a in tokens(8)]
    spent: dict[str, float] = {}
    for name in ("find_program", "compile_for_arch", "CudaExecutable", "record", "Steps"):
        setattr(executable, name, timed(name, getattr(executable, name), spent))
    begin = time.perf_counter()
    step(*tensors).item()
    took = time.perf_counter() - begin
    peak = step._latest().executable.memory.workspace
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in spent.items())
    print(f"{took:.2f} s, of which {parts}; workspace {peak / 2**20:.0f} MiB")


def timed(name: str, function: Any, spent: dict[str, float]) -> Any:
    """Wraps a function so that the seconds of all calls are summed."""

    def run(*arguments: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - begin

    return run


def report(groups: Sequence[str], harness: Harness) -> Iterator[str]:
    """The lines of the results."""
    card, library = torch.cuda.get_device_name(), f"PyTorch {torch.__version__}"
    yield f"# Measured figures on a GPU\n\nBy `python benchmarks/gpu.py` on: {card}; {library}.\n"
    yield "Microseconds, medians; in parentheses the ratio to ours. Matrix products of eager mode are cuBLAS's."
    for group in groups:
        columns = COLUMNS.get(group, PEERS)
        yield f"\n## {group}\n\n| | ours | | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 3)}"
        for make in GROUPS[group]():
            try:
                row = make()
                yield line(row, columns, harness.medians(row))
            except Exception as error:
                traceback.print_exc()
                yield f"| {error.__class__.__name__}: {str(error).splitlines()[0][:150] if str(error) else ''} |"
            torch.cuda.empty_cache()
            flow.cuda.empty_cache()


def main() -> None:
    """Writes the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", default=",".join(GROUPS), help="what to measure")
    parser.add_argument("--rounds", type=int, default=20, help="calls of each participant")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--first-call", action="store_true", help="measure compiling GPT-2's training step as well")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with options.output.open("w") as file:
        lines = report(options.groups.split(","), Harness(options.rounds, not options.no_compile))
        for text in lines:
            print(text, flush=True)
            file.write(text + "\n")
            file.flush()
        for text in compile_seconds() if options.first_call else ():
            print(text, flush=True)
            file.write(f"\n- {text}\n")


if __name__ == "__main__":
    main()
