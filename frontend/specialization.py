"""A function compiled for one signature: whether it still holds, and running it.

Imports `trace`, `capture` and `devices`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.arrays import Data, place_of
from oneflow.frontend.devices import Device, move
from oneflow.frontend.devices import device as named_device
from oneflow.frontend.eager import EagerTensor, from_numpy, from_program
from oneflow.frontend.errors import CallError
from oneflow.frontend.kernels import intern
from oneflow.frontend.placements import GlobalProgram
from oneflow.frontend.trace import Traced
from oneflow.frontend.tree import Tree
from oneflow.runtime.cuda.array import DeviceArray
from oneflow.runtime.cuda.executable import CudaExecutable
from oneflow.runtime.executable import Executable
from oneflow.runtime.global_array import GlobalArray
from oneflow.runtime.quick import never

#: The placement and layout of a tensor that lies on no ranks.
NOWHERE = None, None
_HOLDS = operator.attrgetter("holds")


@dataclass(frozen=True)
class Specialization:
    """A function traced and compiled for one signature; `pulls` are its gradients, by the structure of arguments."""

    traced: Traced
    executable: Executable | CudaExecutable | GlobalProgram
    device: Device
    layouts: Sequence[Any]
    constants: dict[int, Data] = field(default_factory=dict)
    pulls: dict[Tree, Callable[..., Any]] = field(default_factory=dict)
    home: list[Any] = field(default_factory=list)

    def holds(self, place: Device | None) -> bool:
        """Whether what it was made for is still so; `place` is where it has to run, if that was said."""
        if not all(map(_HOLDS, self.traced.guards)):
            return False
        if place is not self.device and not (place is None and self._is_home()) and not self._is_at(place):
            return False
        for tensor, placement, nd in self._lying:
            data = tensor.handle.handle
            now = (data.placement, data.layout.nd) if type(data) is GlobalArray else NOWHERE
            if (now[0] is not placement or now[1] is not nd) and now != (placement, nd):
                return False
        return True

    def _is_home(self) -> bool:
        """Whether the first tensor from outside is on the device where it was when all of this held last."""
        data = None if self._first is None else self._first.handle.handle
        return type(data) is DeviceArray and self.home == [data.stream.device]

    def _is_at(self, place: Device | None) -> bool:
        """Whether it runs where it has to, which is then its home."""
        if (place or named_device(place_of_tensors(self.traced.captured) or "cpu")) != self.device:
            return False
        data = None if self._first is None else self._first.handle.handle
        self.home[:] = [data.stream.device] if type(data) is DeviceArray else []
        return True

    @functools.cached_property
    def _first(self) -> EagerTensor | None:
        """The first tensor from outside that has dimensions and is no view."""
        first = next((c for c in self.traced.captured if isinstance(c, EagerTensor) and c.rank), None)
        return first if first is not None and first.shows is None else None

    @functools.cached_property
    def _lying(self) -> list[tuple[EagerTensor, Any, Any]]:
        """The tensors from outside, and how they lay on ranks."""
        pairs = zip(self.traced.captured, self.layouts, strict=True)
        return [(c, *(at or NOWHERE)) for c, at in pairs if isinstance(c, EagerTensor)]

    @property
    def lasts(self) -> bool:
        """Whether it may hold again, if it does not now: something that it is for is still there."""
        return all(g.lasts for g in self.traced.guards)

    @functools.cached_property
    def _descs(self) -> list[TensorDesc | None]:
        """The types of what the function returns, None where a size is known at run time alone."""
        found = [] if isinstance(self.executable, GlobalProgram) else self.executable.outputs
        count = sum(leaf is None for leaf in self.traced.leaves)
        return [intern(d) if d.is_static else None for d in found[:count]] or [None] * count

    def rebuild(self, results: Sequence[Data], eager: bool) -> Any:
        """What the function returns when its result tensors are `results`: tensors, or arrays as they are."""
        if not eager:
            return self.traced.rebuild(x.numpy() if isinstance(x, GlobalArray) else x for x in results)
        pairs = zip(results, self._descs, strict=True)
        return self.traced.rebuild([from_numpy(x) if d is None else from_program(x, d) for x, d in pairs])

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
        passed = self._passed(arrays)
        self._check_apart(passed, len(arrays), name)
        if isinstance(self.executable, GlobalProgram):
            results: list[Data] = self.executable.run(passed)
        elif self.device.type == "cpu":
            results = list(self.executable(*passed))
        else:
            results = self._run_on_device(passed, arrays)
        count = len(results) - traced.effects.count
        traced.effects.apply(results[count:], name)
        return results[:count]

    def _passed(self, arrays: Sequence[Data]) -> list[Data]:
        """All inputs of the program."""
        passed = list(arrays)
        for number, given in enumerate(self.traced.captured):
            plain = isinstance(given, EagerTensor) and given.shows is None
            passed.append(given.handle.handle if plain else self._present(number, given))
        return passed

    def _check_apart(self, passed: list[Data], count: int, name: str) -> None:
        """A program reads its arguments as they were before: none may be what it updates meanwhile."""
        given, updated = set(map(id, passed[:count])), self.traced.effects.arguments
        if given and updated and not given.isdisjoint([id(passed[count + n]) for n in updated]):
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
