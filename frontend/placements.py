"""Compiled functions, and single operators, whose tensors lie on several ranks.

Imports `devices` and `runtime.distributed`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from oneflow.dialect._mlir import ir
from oneflow.frontend.arrays import Data, to_array
from oneflow.frontend.devices import state_choices
from oneflow.frontend.layouts import Places
from oneflow.runtime.distributed import DistributedExecutable, Pieces, PlacedLayout, compile_distributed, lay_out
from oneflow.runtime.footprint import Footprint
from oneflow.runtime.global_array import GlobalArray, Placement

#: How a tensor lies, and on which ranks of the job.
Place = tuple[PlacedLayout, Placement]


class OnRanks(Protocol):
    """A function of a module, annotated, whose tensors lie on a placement."""

    @property
    def module(self) -> ir.Module:
        """The module."""

    @property
    def entry(self) -> str:
        """The name of the function."""

    @property
    def places(self) -> Places | None:
        """Where its tensors lie."""


@dataclass(frozen=True)
class GlobalProgram:
    """A traced function compiled for the ranks of its placements."""

    places: Places
    executable: DistributedExecutable

    @classmethod
    def of(cls, traced: OnRanks, strategy: str) -> GlobalProgram:
        """Compiles what the ranks of this process run.

        Raises:
            PassError: annotations do not fit, or shapes are not static.
            WorldError: the job has too few ranks, or other ranks have another program.
        """
        places = traced.places
        assert places is not None
        placement = places.home
        if placement.type == "cuda":
            state_choices(traced.module)
        boxed = lay_out(traced.module, strategy)
        ranks = placement.world, placement.members
        return cls(places, compile_distributed(boxed, traced.entry, *ranks, device=placement.type))

    def run(self, given: Sequence[Data]) -> list[Data]:
        """The results as global arrays, of arguments that are global arrays or whole on every rank.

        One whose pieces the run has updated in place is that argument.
        """
        made = self.executable.run([self._pieces(i, data) for i, data in enumerate(given)])
        updated = {id(p): x for x in given if isinstance(x, GlobalArray) for p in x.pieces.values()}
        return [self._result(*pair, updated) for pair in zip(self._results, made, strict=True)]

    @functools.cached_property
    def _arguments(self) -> list[Place]:
        return [(at, self.places.of(at.place.name)) for at in self.executable.arguments]

    @functools.cached_property
    def _results(self) -> list[Place]:
        return [(at, self.places.of(at.place.name)) for at in self.executable.results]

    def _pieces(self, number: int, data: Data) -> Pieces:
        if not isinstance(data, GlobalArray):
            return self.executable.cut(number, to_array(data))
        layout, placement = self._arguments[number]
        return self.executable.spread(layout, data.to(placement, layout.nd).pieces)

    def _result(self, place: Place, made: Pieces, updated: Mapping[int, GlobalArray]) -> GlobalArray:
        layout, placement = place
        pieces = self.executable.gather(layout, made)
        known = updated.get(id(next(iter(pieces.values()), None)))
        if known is not None and known.pieces.keys() == pieces.keys():
            same = all(known.pieces[at] is piece for at, piece in pieces.items())
            if same and (known.placement, known.layout.nd) == (placement, layout.nd):
                return known
        return GlobalArray(placement, layout, pieces)

    @property
    def memory(self) -> Footprint:
        """The bytes that a run takes on the first rank of this process.

        Raises:
            ValueError: this process runs no rank of the placement.
        """
        if not self.executable.programs:
            raise ValueError(f"expected a rank of {self.places.home} in this process")
        return next(iter(self.executable.programs.values())).executable.memory

    def ir(self, stage: str) -> str:
        """The program at a stage, also `sbp` and `physical`; of the first rank of this process."""
        return self.executable.ir(stage)
