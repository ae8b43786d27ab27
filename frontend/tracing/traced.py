"""A function that has been traced: its program, and what a call of that needs and changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect._mlir import ir
from oneflow.frontend.core.layouts import ProgramPlacements
from oneflow.frontend.core.tree import Tree
from oneflow.frontend.tracing.activity import Activity
from oneflow.frontend.tracing.capture import Effects
from oneflow.frontend.tracing.guards import Guard


@dataclass(frozen=True)
class ReturnedArgument:
    """An argument that a function updates and returns, by its number among those that are arrays."""

    number: int


@dataclass(frozen=True)
class Traced:
    """A traced function.

    `names` are its tensor arguments as Python writes them: `params["w"]`.
    `captured` are to be passed after the tensors of the call: arrays, tensors, and functions that give numbers.
    `placements` are the ranks that its tensors lie on, if they do.
    `outputs` is the structure of what the function returned; its leaves are `None` at the place of a result tensor,
    `ReturnedArgument` at that of an argument, and `(value,)` for anything else. Further results are put where `effects` say,
    `activity` says how far gradients go. It holds while its `guards` do.
    """

    module: ir.Module
    entry: str
    names: tuple[str, ...]
    captured: tuple[Any, ...]
    outputs: Tree
    leaves: tuple[tuple[Any] | ReturnedArgument | None, ...]
    effects: Effects
    activity: Activity
    guards: tuple[Guard, ...]
    placements: ProgramPlacements | None

    def rebuild(self, results: Iterable[Any], given: Sequence[Any] = ()) -> Any:
        """What the function returns when its result tensors are `results`; it updates arguments among `given`."""
        rest = iter(results)
        return self.outputs.unflatten([_leaf(leaf, rest, given) for leaf in self.leaves])


def _leaf(leaf: tuple[Any] | ReturnedArgument | None, results: Iterator[Any], given: Sequence[Any]) -> Any:
    """One leaf of what a function returns."""
    if leaf is None:
        return next(results)
    return given[leaf.number] if isinstance(leaf, ReturnedArgument) else leaf[0]
