"""A function that has been traced: its program, and what a call of that needs and changes. Imports `capture`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from oneflow.dialect._mlir import ir
from oneflow.frontend.capture import Effects
from oneflow.frontend.guards import Guard
from oneflow.frontend.layouts import Places
from oneflow.frontend.reach import Reach
from oneflow.frontend.tree import Tree


@dataclass(frozen=True)
class Traced:
    """A traced function.

    `captured` are to be passed after the tensors of the call: arrays, tensors, and functions that give numbers.
    `places` are the ranks that its tensors lie on, if they do.
    `outputs` is the structure of what the function returned; its leaves are `None` at the place of a result tensor,
    and `(value,)` for anything else. Further results are put where `effects` say, `reach` says how far
    gradients go. It holds while its `guards` do.
    """

    module: ir.Module
    entry: str
    captured: tuple[Any, ...]
    outputs: Tree
    leaves: tuple[tuple[Any] | None, ...]
    effects: Effects
    reach: Reach
    guards: tuple[Guard, ...]
    places: Places | None

    def rebuild(self, results: Iterable[Any]) -> Any:
        """What the function returns when its result tensors are `results`."""
        rest = iter(results)
        return self.outputs.unflatten([next(rest) if leaf is None else leaf[0] for leaf in self.leaves])
