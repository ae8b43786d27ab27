"""Generators of seeds: `flow.Generator`, and the default generator of each thread.

A random function takes the next seed of a generator: in eager mode and in a compiled function at every run, so that
runs differ; in `flow.trace` when the function is traced. `manual_seed` repeats the sequence.
"""

from __future__ import annotations

import os
import threading

import numpy as np

from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.devices import device as as_device
from oneflow.frontend.core.dispatch import Stateful

_WORD = (1 << 64) - 1
#: The number of seeds that are computed at once.
_BLOCK = 256


def _seeds(seed: int, drawn: int, count: int) -> list[int]:
    """The next seeds of 62 bits that belong to `seed`, after those that were taken: SplitMix64."""
    numbers = np.arange(1, count + 1, dtype=np.uint64) + np.array([drawn & _WORD], np.uint64)
    z = numbers * np.uint64(0x9E3779B97F4A7C15) + np.array([seed & _WORD], np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    seeds: list[int] = ((z ^ (z >> np.uint64(31))) >> np.uint64(2)).tolist()
    return seeds


class Generator(Stateful):
    """Seeds for random functions, which have a parameter `generator`; the default is the generator of the thread.

    Attributes:
        start: the seed that the sequence was restarted from.
        upcoming: seeds that are computed and not taken, the next one last.
        computed: the number of seeds that were computed since the restart.

    Raises:
        ValueError: `device` is neither "cpu", "cuda" nor "auto"; the seeds are the same on any.
    """

    def __init__(self, device: str | Device = "cpu") -> None:
        self.device = as_device("cpu" if device == "auto" else device)
        self._lock = threading.Lock()
        self._restart(0)

    def _restart(self, seed: int, taken: int = 0) -> None:
        with self._lock:
            self.start, self.computed = seed, taken
            self.upcoming: list[int] = []

    def next(self) -> int:
        """The next seed."""
        while True:
            try:
                return self.upcoming.pop()
            except IndexError:
                self._compute_seeds()

    def _compute_seeds(self) -> None:
        """Computes seeds unless another thread has done so."""
        with self._lock:
            if not self.upcoming:
                self.computed += _BLOCK
                self.upcoming.extend(reversed(_seeds(self.start, self.computed - _BLOCK, _BLOCK)))

    def manual_seed(self, seed: int) -> Generator:
        """Restarts the seeds; returns the generator."""
        self._restart(int(seed))
        return self

    def seed(self) -> int:
        """Restarts the seeds from a random number of the operating system; returns the number."""
        self._restart(int.from_bytes(os.urandom(8)) & _WORD)
        return self.start

    def initial_seed(self) -> int:
        """The seed that the sequence was restarted from."""
        return self.start

    def get_state(self) -> tuple[int, int]:
        """The state of the generator, for `set_state`."""
        return self.start, self.computed - len(self.upcoming)

    def set_state(self, new_state: tuple[int, int]) -> None:
        """Restores a state from `get_state`."""
        self._restart(*new_state)


class _DefaultGenerator(threading.local, Generator):
    """The default generator of functions; every thread has its own seeds."""


default_generator = _DefaultGenerator()


def manual_seed(seed: int) -> Generator:
    """Restarts the seeds of this thread, which initially start from 0; returns the generator."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Restarts the seeds of this thread from a random number of the operating system; returns the number."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the sequence of this thread was restarted from."""
    return default_generator.initial_seed()


def get_rng_state() -> tuple[int, int]:
    """The state of the default generator, for a checkpoint and for `set_rng_state`."""
    return default_generator.get_state()


def set_rng_state(state: tuple[int, int]) -> None:
    """Restores a state from `get_rng_state`."""
    default_generator.set_state(state)
