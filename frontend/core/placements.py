"""Programs of several ranks: compiled functions and single operators on global tensors."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.lazy import lazy
from oneflow.dialect.nd_sbp import NdSbp
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import Data, LocalData, to_array
from oneflow.frontend.core.devices import Device, compile_for, write_compile_options
from oneflow.frontend.core.layouts import ProgramPlacements
from oneflow.runtime.backends import HOST
from oneflow.runtime.footprint import Footprint
from oneflow.runtime.global_array import GlobalArray, Placement, shared
from oneflow.runtime.protocol import Executable

if TYPE_CHECKING:
    from oneflow.runtime.distributed import DistributedExecutable, Layout, PlacedLayout

distributed = lazy("oneflow.runtime.distributed")
#: The placement of a tensor, and its layout there.
PlacedSbp = tuple[Placement, NdSbp]


class PlacedFunction(Protocol):
    """An annotated function of a module, whose tensors have placements."""

    @property
    def module(self) -> ir.Module:
        """The module."""

    @property
    def entry(self) -> str:
        """The name of the function."""

    @property
    def placements(self) -> ProgramPlacements | None:
        """The placements of its tensors, None where no tensor is global."""


def compile_function(function: PlacedFunction, device: Device, strategy: str) -> Executable:
    """Compiles a function for the ranks of its tensors, or for a device where no tensor is global.

    Raises:
        PassError: a pass failed.
        CudaError: the device does not exist.
        WorldError: the job has too few ranks, or other ranks have another program.
    """
    if function.placements is None:
        return compile_for(device, function.module, function.entry)
    return GlobalProgram.of(function, strategy)


def distribute(array: np.ndarray, placement: Placement, nd: NdSbp) -> Data:
    """A whole array, the same on every rank, as a global one with a layout."""
    return GlobalArray.of(array, placement, nd)


def redistribute(data: Data, placement: Placement, nd: NdSbp) -> Data:
    """An array as a global one with a layout: a global one is resharded, of any other the values of rank 0 count."""
    if isinstance(data, GlobalArray):
        return data.to(placement, nd)
    return GlobalArray.of(shared(to_array(data), placement, nd), placement, nd)


def from_piece(piece: LocalData, placement: Placement, layout: Layout) -> Data:
    """The global array of which each rank has a piece."""
    return GlobalArray.of_piece(piece, placement, layout)


@dataclass(frozen=True)
class GlobalProgram:
    """A traced function compiled for the ranks of its placements."""

    array: ClassVar[type] = GlobalArray
    is_remote: ClassVar[bool] = False
    is_size_specialized: ClassVar[bool] = False
    fast_path: ClassVar[None] = None
    last_run: ClassVar[None] = None
    outputs: ClassVar[tuple[TensorDesc, ...]] = ()

    placements: ProgramPlacements
    executable: DistributedExecutable

    @classmethod
    def of(cls, traced: PlacedFunction, strategy: str) -> GlobalProgram:
        """Compiles the programs of this process's ranks.

        Raises:
            PassError: annotations do not fit, or shapes are not static.
            WorldError: the job has too few ranks, or other ranks have another program.
        """
        placements = traced.placements
        assert placements is not None
        placement = placements.home
        if placement.type != HOST:
            write_compile_options(traced.module)
        boxed = distributed.lay_out(traced.module, strategy, device=placement.type)
        ranks = placement.world, placement.members
        return cls(placements, distributed.compile_distributed(boxed, traced.entry, *ranks, device=placement.type))

    def run(self, arrays: Sequence[Data]) -> list[Data]:
        """The results as global arrays, of arguments that are global arrays or whole on every rank.

        A result whose pieces are those of an argument, updated in place, is that argument.
        """
        placed = [
            x if type(x) is GlobalArray and x.placement is on and x.layout.nd is nd else self._place_argument(i, x)
            for i, (x, (on, nd)) in enumerate(zip(arrays, self._arguments, strict=True))
        ]
        arguments = {
            p: [none if at is None else x.pieces[at] for x, (at, none) in zip(placed, takes, strict=True)]
            for p, takes in self._pieces_of_programs.items()
        }
        return self._collect_results(placed, arguments, self.executable.run_programs(arguments))

    def replay(self, arrays: Sequence[Data], compared: Any = None) -> None:
        """None: every run checks the layouts of its arguments."""

    def reads(self, number: int) -> bool:
        """True: ranks agree on the layout of every argument."""
        return True

    def _place_argument(self, number: int, data: Data) -> GlobalArray:
        """An argument with the layout that the program needs.

        The placement and layout objects of an argument that fits are kept, so that the next one is compared by
        identity.
        """
        placement, nd = self._arguments[number]
        if not isinstance(data, GlobalArray):
            layout = self.executable.arguments[number]
            return GlobalArray(placement, layout, self.executable.pieces_of(number, to_array(data)))
        placed = data.to(placement, nd)
        if placed is data:
            self._arguments[number] = data.placement, data.nd
        return placed

    def _collect_results(
        self,
        placed: Sequence[GlobalArray],
        arguments: Mapping[int, Sequence[Any]],
        results_by_program: Mapping[int, Sequence[Any]],
    ) -> list[Data]:
        collected: list[GlobalArray | None] = [None] * len(self.executable.results)
        if results_by_program:
            first, (by_result, results) = next(iter(results_by_program)), self._layout_numbers
            updated = {id(piece): number for number, piece in enumerate(arguments[first])}
            for number, piece in enumerate(results_by_program[first]):
                argument_of = updated.get(id(piece))
                if argument_of is not None and by_result[argument_of] == results[number]:
                    same = len(results_by_program) == 1 or all(
                        results_by_program[p][number] is arguments[p][argument_of] for p in results_by_program
                    )
                    collected[number] = placed[argument_of] if same else None
        return [self._result(i, results_by_program) if x is None else x for i, x in enumerate(collected)]

    def _result(self, number: int, results_by_program: Mapping[int, Sequence[Any]]) -> GlobalArray:
        layout = self.executable.results[number]
        pieces = {p: results[number] for p, results in results_by_program.items()}
        return GlobalArray(self._placement_of(layout)[0], layout, self.executable.gather(layout, pieces))

    @functools.cached_property
    def _arguments(self) -> list[PlacedSbp]:
        return [self._placement_of(at) for at in self.executable.arguments]

    def _placement_of(self, layout: PlacedLayout) -> PlacedSbp:
        return self.placements.of(layout.place.name), layout.nd

    @functools.cached_property
    def _layout_numbers(self) -> list[list[int]]:
        """A number for each argument and for each result; equal numbers mean equal layouts."""
        known: dict[PlacedSbp, int] = {}
        sides = self.executable.arguments, self.executable.results
        return [[known.setdefault(self._placement_of(at), len(known)) for at in side] for side in sides]

    @functools.cached_property
    def _pieces_of_programs(self) -> dict[int, list[tuple[int | None, Any]]]:
        """For each program of this process, the piece of each argument, and the value in place of a
        missing one.
        """
        programs, arguments = self.executable.programs, self.executable.arguments
        return {p: [(at.place.place(p), at.nothing) for at in arguments] for p in programs}

    @property
    def memory(self) -> Footprint:
        """The memory in bytes of a run on the first rank of this process.

        Raises:
            ValueError: this process runs no rank of the placement.
        """
        if not self.executable.programs:
            raise ValueError(f"expected a rank of {self.placements.home} in this process")
        return next(iter(self.executable.programs.values())).executable.memory

    def ir(self, stage: str) -> str:
        """The program at a stage, also `sbp` and `physical`; of the first rank of this process."""
        return self.executable.ir(stage)
