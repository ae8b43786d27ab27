"""Shared code of the training examples: arguments, the loop with progress bar and checkpoints, the plot of the loss.

With `--resume` a killed run continues from the last checkpoint, and ends with the same weights as a run without
interruption. The folder of a run has `checkpoint.safetensors`, `model.safetensors` (the weights alone, which PyTorch
reads) and `loss.png`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, SupportsFloat

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import oneflow as flow

#: The batch of a step, a function of its number.
Batches = Callable[[int], tuple[np.ndarray, ...]]


def arguments(doc: str, out: str, steps: int, every: int) -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(out), help="the folder of the run (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=steps, help="how many steps to train (default: %(default)s)")
    parser.add_argument("--every", type=int, default=every, help="steps between checkpoints (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="what random numbers start from (default: %(default)s)")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in the folder")
    return parser.parse_args()


def train(
    options: argparse.Namespace,
    step: Callable[..., SupportsFloat],
    batch: Batches,
    unit: str,
    **parts: Any,
) -> list[float]:
    """Trains, and writes checkpoints, weights and the plot; returns the losses of all steps.

    Args:
        options: the options that `arguments` returns.
        step: the function from a batch to the loss of the batch.
        batch: the batch of a step, a function of its number alone.
        unit: the unit of the elements of a batch, for the throughput.
        parts: `model`, and other objects that have a state.
    """
    checkpoint = flow.Checkpoint(options.out / "checkpoint.safetensors", **parts)
    state = checkpoint.load() if options.resume else None
    losses: list[float] = state["losses"].tolist() if state else []
    with tqdm(total=options.steps, initial=len(losses), unit="step", dynamic_ncols=True) as bar:
        for number in range(len(losses), options.steps):
            arrays = batch(number)
            losses.append(float(step(*arrays)))
            if number + 1 == options.steps or (number + 1) % options.every == 0:
                checkpoint.save(losses=np.array(losses))
            bar.update()
            rate = (bar.format_dict["rate"] or 0) * arrays[-1].size
            bar.set_postfix_str(f"loss {np.mean(losses[-20:]):.4f}, {rate:,.0f} {unit}/s", refresh=False)
    flow.save(parts["model"].state_dict(), options.out / "model.safetensors")
    plot(losses, options.out / "loss.png")
    return losses


def plot(losses: list[float], path: Path) -> None:
    """Plots the losses and the running mean of the losses to an image."""
    width = max(len(losses) // 50, 1)
    mean = np.convolve(losses, np.ones(width) / width, "valid")
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(np.arange(1, len(losses) + 1), losses, color="0.8", linewidth=0.8, label="each step")
    axes.plot(np.arange(width, len(losses) + 1), mean, color="tab:blue", label=f"mean of {width}")
    axes.set(xlabel="step", ylabel="loss", xlim=(0, len(losses) + 1), yscale="log")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
