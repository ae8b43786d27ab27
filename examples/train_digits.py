"""Trains a convolutional network on scikit-learn's 1,797 handwritten digits.

    python examples/train_digits.py [--resume]

Four fifths are for training, moved by up to a pixel at random; the last fifth is held out. The whole step (forward,
backward, update) is one compiled program.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from training import Batches, arguments, train

import oneflow as flow
from oneflow import nn

BATCH = 64


def network() -> nn.Module:
    """Class scores `(n, 10)` of scans `(n, 1, 8, 8)`."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(256, 10),
    )  # fmt: skip


def data() -> list[np.ndarray]:
    """Training scans and labels, and held-out scans and labels."""
    digits = load_digits()
    scans = (digits.images / 16.0).astype(np.float32)[:, None]
    train_x, test_x, train_y, test_y = train_test_split(
        scans, digits.target, test_size=0.2, random_state=0, stratify=digits.target
    )
    return [train_x, train_y, test_x, test_y]


def batches(scans: np.ndarray, labels: np.ndarray, seed: int) -> Batches:
    """The function from a step number to the batch: shuffled for each epoch, scans shifted by up to a pixel."""
    per_epoch = len(scans) // BATCH
    padded = np.pad(scans, ((0, 0), (0, 0), (1, 1), (1, 1)))

    def batch(number: int) -> tuple[np.ndarray, np.ndarray]:
        epoch, batch = divmod(number, per_epoch)
        order = np.random.default_rng((seed, epoch)).permutation(len(scans))
        chosen = order[batch * BATCH : (batch + 1) * BATCH]
        down, right = np.random.default_rng((seed, epoch, batch)).integers(0, 3, (2, BATCH))
        moved = [padded[i, :, y : y + 8, x : x + 8] for i, y, x in zip(chosen, down, right, strict=True)]
        return np.stack(moved), labels[chosen]

    return batch


def main() -> None:
    """Trains, and prints the share of held-out digits that are read right."""
    options = arguments(__doc__, "runs/digits", steps=660, every=110)
    flow.manual_seed(options.seed)
    train_x, train_y, test_x, test_y = data()
    model = network()
    optimizer = flow.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = flow.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, options.steps)

    @flow.compile
    def step(x: flow.Tensor, y: flow.Tensor) -> flow.Tensor:
        optimizer.zero_grad()
        loss: flow.Tensor = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def scheduled(x: np.ndarray, y: np.ndarray) -> float:
        loss = float(step(x, y))
        schedule.step()
        return loss

    begin = time.perf_counter()
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    train(options, scheduled, batches(train_x, train_y, options.seed), "digits", **parts)
    scores = flow.compile(model.eval())(test_x)
    accuracy = np.mean(np.argmax(scores.detach().numpy(), 1) == test_y)
    print(f"{accuracy:.2%} of {len(test_y)} held-out digits right, {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
