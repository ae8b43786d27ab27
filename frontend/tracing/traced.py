"""A traced function: its program, and the tensors that a call of the program reads and updates."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect._mlir import ir
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.layouts import ProgramPlacements
from oneflow.frontend.core.pytree import Tree
from oneflow.frontend.tracing.activity import Activity
from oneflow.frontend.tracing.capture import Effects, RuntimeScalar
from oneflow.frontend.tracing.guards import Guards


@dataclass(frozen=True)
class ReturnedArgument:
    """A result that is an argument which the function updates, by its index among the array arguments."""

    index: int


@dataclass(frozen=True)
class Traced:
    """A traced function; the program is valid while its `guards` hold.

    `names` are the tensor arguments as Python writes them: `params["w"]`. `captured` are the inputs after the inputs
    of the call: arrays, tensors, and functions that return a number. `placements` are the ranks of global tensors,
    None without any. `outputs` is the structure of the function's value; `leaves` has None for a result tensor, a
    `ReturnedArgument` for an updated argument, and `(value,)` for any other value. `effects` describe the use of the
    further results; `activity` says how gradients flow. The function runs on `device`.
    """

    module: ir.Module
    entry: str
    names: tuple[str, ...]
    captured: tuple[Any, ...]
    outputs: Tree
    leaves: tuple[tuple[Any] | ReturnedArgument | None, ...]
    effects: Effects
    activity: Activity
    guards: Guards
    placements: ProgramPlacements | None
    device: Device

    @functools.cached_property
    def reads_numbers(self) -> bool:
        """Whether every run reads numbers, such as random seeds."""
        return any(isinstance(c, RuntimeScalar) for c in self.captured)

    def rebuild(self, results: Iterable[Any], arguments: Sequence[Any] = ()) -> Any:
        """The function's value for the result tensors `results`; `arguments` are the array arguments."""
        rest = iter(results)
        return self.outputs.unflatten([_leaf(leaf, rest, arguments) for leaf in self.leaves])


def _leaf(leaf: tuple[Any] | ReturnedArgument | None, results: Iterator[Any], arguments: Sequence[Any]) -> Any:
    """A leaf of a function's value."""
    if leaf is None:
        return next(results)
    return arguments[leaf.index] if isinstance(leaf, ReturnedArgument) else leaf[0]
