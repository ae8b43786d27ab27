"""A function compiled for one signature: whether it still holds, and running it.

Imports `trace`, `capture` and `devices`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneflow.frontend.arrays import Data, place_of
from oneflow.frontend.capture import layout_of
from oneflow.frontend.devices import Device, move
from oneflow.frontend.devices import device as named_device
from oneflow.frontend.eager import EagerTensor
from oneflow.frontend.errors import CallError
from oneflow.frontend.placements import GlobalProgram
from oneflow.frontend.trace import Traced
from oneflow.frontend.tree import Tree
from oneflow.runtime.cuda.array import DeviceArray
from oneflow.runtime.cuda.executable import CudaExecutable
from oneflow.runtime.executable import Executable
from oneflow.runtime.quick import never


@dataclass(frozen=True)
class Specialization:
    """A function traced and compiled for one signature; `pulls` are its gradients, by the structure of arguments."""

    traced: Traced
    executable: Executable | CudaExecutable | GlobalProgram
    device: Device
    layouts: Sequence[Any]
    constants: dict[int, Data] = field(default_factory=dict)
    pulls: dict[Tree, Callable[..., Any]] = field(default_factory=dict)

    def holds(self, place: Device | None) -> bool:
        """Whether what it was made for is still so; `place` is where it has to run, if that was said."""
        if not all(g.holds for g in self.traced.guards):
            return False
        where = place or named_device(place_of_tensors(self.traced.captured) or "cpu")
        return where == self.device and all(
            layout_of(c) == at for c, at in zip(self.traced.captured, self.layouts, strict=True)
        )

    @property
    def lasts(self) -> bool:
        """Whether it may hold again, if it does not now: something that it is for is still there."""
        return all(g.lasting or g.holds for g in self.traced.guards)

    @functools.cached_property
    def uses_tensors(self) -> bool:
        """Whether tensors from outside are used."""
        return any(isinstance(c, EagerTensor) for c in self.traced.captured)

    @functools.cached_property
    def quick(self) -> Callable[[Sequence[Any]], Any]:
        """What gives the function's value for arrays on the host, or None where they are not those that it takes.

        There is such a way where nothing but them decides what happens.
        """
        traced, program = self.traced, self.executable
        outside = traced.captured or traced.guards or traced.effects.results or traced.effects.kept
        if outside or not isinstance(program, Executable):
            return never
        call, rebuild = program.quick, traced.rebuild
        if traced.leaves == (None,) and traced.outputs.kind is None:
            return lambda arrays: None if (results := call(arrays)) is None else results[0]
        if traced.outputs.kind is None:
            return never
        return lambda arrays: None if (results := call(arrays)) is None else rebuild(results)

    def run(self, arrays: Sequence[Data], name: str) -> list[Data]:
        """The results of the function; what it updates outside is updated.

        Raises:
            CallError: tensors are on different devices; one is named. Or one is passed that the function updates.
        """
        traced = self.traced
        passed = [*arrays, *(self._present(i, c) for i, c in enumerate(traced.captured))]
        self._check_apart(passed, len(arrays), name)
        if isinstance(self.executable, GlobalProgram):
            results: list[Data] = self.executable.run(passed)
        elif self.device.type == "cpu":
            results = list(self.executable(*passed))
        else:
            results = self._run_on_device(passed, arrays)
        count = len(results) - len(traced.effects.results)
        traced.effects.apply(results[count:], name)
        return results[:count]

    def _check_apart(self, passed: list[Data], count: int, name: str) -> None:
        """A program reads its arguments as they were before: none may be what it updates meanwhile."""
        given = {id(a) for a in passed[:count]}
        updated = [state.argument for state in self.traced.effects.updated]
        if updated and given and not given.isdisjoint(id(passed[count + n]) for n in updated):
            raise CallError(
                f"{name}: expected arguments apart from the tensors from outside that it updates, got one in their "
                "memory: pass x.clone(), or use that tensor in the function without passing it"
            )

    def _run_on_device(self, passed: list[Data], arrays: Sequence[Data]) -> list[Data]:
        """Results come to the host where nothing that was passed or captured is on the device."""
        assert isinstance(self.executable, CudaExecutable)
        results = self.executable.launch(passed)
        stay = any(isinstance(a, DeviceArray) for a in arrays) or place_of_tensors(self.traced.captured) is not None
        return list(results) if stay else [r.numpy() for r in results]

    def _present(self, number: int, captured: Any) -> Data:
        """What is passed for something captured; arrays, which never change, are put where they are needed once."""
        if isinstance(captured, EagerTensor):
            return captured.storage
        if not isinstance(captured, np.ndarray):
            data: Data = captured()
            return data
        if number not in self.constants:
            self.constants[number] = move(captured, self.device)
        return self.constants[number]


def place_of_tensors(captured: Sequence[Any]) -> str | None:
    """The device that tensors from outside are on, None where there is none or they are on the host."""
    first = next((c.storage for c in captured if isinstance(c, EagerTensor) and c.rank), None)
    return place_of(first) if isinstance(first, DeviceArray) else None
