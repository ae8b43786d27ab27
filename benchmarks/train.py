"""Measures whole training steps against PyTorch on the CPU, eager and torch.compile; writes to results.md.

    python benchmarks/train.py [--print]

Steps of the three participants alternate in one process, and medians are compared. Peak memory is measured in one
process for each participant: the peak resident size during steps, minus the resident size after the framework is
imported. PyTorch has to be installed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from results_page import write_part

HEADING = "## Training steps"
IMPLEMENTATIONS = ("ours", "eager", "torch.compile")
ROUNDS, BLOCK = 15, 4
THREADS = "ONEFLOW_NUM_THREADS"


def mlp(nn: Any) -> Any:
    """784 to 10 over two layers of 512."""
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )  # fmt: skip


def cnn(nn: Any) -> Any:
    """Two convolutions with batch norm on images of 28 x 28."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 49, 10),
    )  # fmt: skip


def gpt(nn: Any) -> Any:
    """Four blocks of width 128 over 64 characters of 96."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(128), nn.LayerNorm(128)
            self.qkv, self.proj = nn.Linear(128, 384), nn.Linear(128, 128)
            self.mlp = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))

        def forward(self, x: Any) -> Any:
            parts = self.qkv(self.ln1(x)).reshape(-1, 64, 3, 4, 32).permute(2, 0, 3, 1, 4)
            attended = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
            x = x + self.proj(attended.permute(0, 2, 1, 3).reshape(-1, 64, 128))
            return x + self.mlp(self.ln2(x))

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.positions = nn.Embedding(96, 128), nn.Embedding(64, 128)
            self.blocks = nn.Sequential(*[Block() for _ in range(4)])
            self.ln, self.head = nn.LayerNorm(128), nn.Linear(128, 96, bias=False)

        def forward(self, x: Any) -> Any:
            return self.head(self.ln(self.blocks(self.letters(x) + self.positions.weight))).reshape(-1, 96)

    return Gpt()


def images(*shape: int) -> list[np.ndarray]:
    """Random images and labels."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32), rng.integers(0, 10, shape[0])]


def text() -> list[np.ndarray]:
    """Random characters, and the following characters."""
    codes = np.random.default_rng(0).integers(0, 96, (16, 65))
    return [codes[:, :-1].copy(), codes[:, 1:].reshape(-1).copy()]


#: The model, a batch, and the optimizer.
MODELS: dict[str, tuple[Callable[[Any], Any], Callable[[], list[np.ndarray]], Callable[[Any, Any], Any]]] = {
    "MLP, batch 128, SGD": (mlp, lambda: images(128, 784), lambda o, p: o.SGD(p, lr=0.01, momentum=0.9)),
    "CNN, batch 64, SGD": (cnn, lambda: images(64, 1, 28, 28), lambda o, p: o.SGD(p, lr=0.01, momentum=0.9)),
    "GPT, batch 16 x 64, AdamW": (gpt, text, lambda o, p: o.AdamW(p, lr=1e-3)),
}


def training(implementation: str, name: str) -> Callable[[], float]:
    """The function that runs one training step and returns the loss."""
    import importlib  # noqa: PLC0415 (a process that measures memory loads one framework)

    lib = importlib.import_module("oneflow" if implementation == "ours" else "torch")
    if implementation != "ours" and THREADS in os.environ:
        lib.set_num_threads(int(os.environ[THREADS]))
    build, batch, optimizer_of = MODELS[name]
    lib.manual_seed(0)
    model = build(lib.nn)
    optimizer = optimizer_of(lib.optim, model.parameters())

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = lib.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if implementation == "torch.compile":
        compute = lib.compile(lambda x, y: lib.nn.functional.cross_entropy(model(x), y))

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = compute(x, y)
            loss.backward()
            optimizer.step()
            return loss

    arrays = batch() if implementation == "ours" else [lib.from_numpy(a) for a in batch()]
    run = lib.compile(step) if implementation == "ours" else step
    return lambda: float(run(*arrays).detach())


def step_times(name: str) -> dict[str, float]:
    """Median seconds of a step in each implementation, taken in turn."""
    steps = {implementation: training(implementation, name) for implementation in IMPLEMENTATIONS}
    for step in steps.values():
        for _ in range(3):
            step()
    times: dict[str, list[float]] = {implementation: [] for implementation in IMPLEMENTATIONS}
    for _ in range(ROUNDS):
        for implementation, step in steps.items():
            step()
            begin = time.perf_counter()
            for _ in range(BLOCK):
                step()
            times[implementation].append((time.perf_counter() - begin) / BLOCK)
    return {implementation: statistics.median(durations) for implementation, durations in times.items()}


def resident(which: str) -> float:
    """The resident size in MiB: `VmRSS` is current, `VmHWM` the peak since the last reset."""
    match = re.search(rf"{which}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def peak_here(implementation: str, name: str) -> float:
    """The peak memory in MiB of ten steps in this process, above the resident size after the import."""
    import importlib  # noqa: PLC0415

    importlib.import_module("oneflow.nn" if implementation == "ours" else "torch")
    before = resident("VmRSS")
    step = training(implementation, name)
    for _ in range(3):
        step()
    Path("/proc/self/clear_refs").write_text("5")
    for _ in range(10):
        step()
    return resident("VmHWM") - before


def peak(implementation: str, name: str) -> float:
    """`peak_here` of a fresh process."""
    command = [sys.executable, __file__, "--peak", implementation, name]
    return float(json.loads(subprocess.run(command, check=True, stdout=-1, env=os.environ).stdout))


def rows() -> list[str]:
    """One row of the table for each model."""
    lines = []
    for name in MODELS:
        times, peaks = (
            step_times(name),
            {implementation: peak(implementation, name) for implementation in IMPLEMENTATIONS},
        )
        cells = [f"{times[implementation] * 1e3:.1f} ms" for implementation in IMPLEMENTATIONS]
        ratios = [f"{times[implementation] / times['ours']:.2f}" for implementation in IMPLEMENTATIONS[1:]]
        memory = [f"{peaks[implementation]:.0f} MiB" for implementation in IMPLEMENTATIONS]
        lines.append(f"| {' | '.join([name, *cells, *ratios, *memory])} |")
        print(lines[-1], file=sys.stderr)
    return lines


def section() -> str:
    """The part of results.md about training."""
    import torch  # noqa: PLC0415

    head = ["model", "step", "torch eager", "torch.compile", "eager / ours", "torch.compile / ours"]
    head += ["peak", "torch eager", "torch.compile"]
    threads = os.environ.get(THREADS, len(os.sched_getaffinity(0)))
    about = f"By `python benchmarks/train.py --threads {threads}`, f32, PyTorch {torch.__version__}; medians of"
    about += f" {ROUNDS} alternating blocks of {BLOCK} steps. A ratio above 1 means faster than PyTorch. The peak"
    about += " is the memory of a step above the imported framework; memory that compilation leaves allocated counts."
    table = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *rows()]
    return "\n".join([HEADING, "", about, "", *table]) + "\n"


def main() -> None:
    """Writes or prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print instead of writing results.md")
    parser.add_argument("--threads", type=int, help="how many threads each side has (default: all processors)")
    parser.add_argument(
        "--peak", nargs=2, metavar=("IMPLEMENTATION", "MODEL"), help="print the peak of one implementation in MiB"
    )
    options = parser.parse_args()
    if options.threads:
        os.environ[THREADS] = str(options.threads)
    if options.peak:
        print(json.dumps(peak_here(*options.peak)))
        return
    part = section()
    write_part(part, options.print)


if __name__ == "__main__":
    main()
