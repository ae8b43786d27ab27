"""Checkpoints of training runs: the complete state for a bitwise equal continuation, in one file.

The file is written atomically. `tracing/activation_checkpointing.py` has activation checkpointing.

checkpoint = flow.Checkpoint("run.safetensors", model=model, optimizer=optimizer, schedule=schedule)
state = checkpoint.load()             # None without a file
first = state["step"] if state else 0
...
checkpoint.save(step=step)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oneflow.frontend.core.generator import get_rng_state, set_rng_state
from oneflow.frontend.serialization import load, save


class Checkpoint:
    """A file with the states of named parts, the state of the random numbers, and values of the caller.

    Args:
        path: the file; its folder is made when the file is first written.
        parts: modules, optimizers, schedules: objects with `state_dict` and `load_state_dict`, by name.

    Raises:
        TypeError: a part has no state.
    """

    def __init__(self, path: str | os.PathLike[str], **parts: Any) -> None:
        for name, part in parts.items():
            if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
                raise TypeError(f"expected {name} to have state_dict and load_state_dict, got {type(part).__name__}")
        self.path, self.parts = Path(path), parts

    def save(self, **values: Any) -> None:
        """Writes the current states, and `values`: nested tensors, arrays and plain values.

        If the program is killed during the write, the file keeps its previous content.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        states = {name: part.state_dict() for name, part in self.parts.items()}
        save({"parts": states, "random": get_rng_state(), "values": values}, self.path)

    def load(self) -> dict[str, Any] | None:
        """Loads the state of every part from the file; returns the values of the caller, None without a file.

        Raises:
            ValueError: the file is no checkpoint, or has other parts.
        """
        if not self.path.exists():
            return None
        loaded = load(self.path)
        if not isinstance(loaded, Mapping) or loaded.keys() != {"parts", "random", "values"}:
            raise ValueError(f"expected {self.path} to be a checkpoint, which flow.Checkpoint wrote")
        states = loaded["parts"]
        if states.keys() != self.parts.keys():
            raise ValueError(f"expected a checkpoint of {sorted(self.parts)}, {self.path} has {sorted(states)}")
        for name, part in self.parts.items():
            part.load_state_dict(states[name])
        set_rng_state(loaded["random"])
        values: dict[str, Any] = loaded["values"]
        return values
