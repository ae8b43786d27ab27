"""A function compiled for one signature: whether it still holds, and running it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneflow.dialect.locks import Lock
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.compile import mutated_inputs
from oneflow.frontend.compile.guard_fast_path import GuardFastPath
from oneflow.frontend.core.arrays import (
    Data,
    device_of,
    is_on_device,
    place_of,
    ranks_of,
    to_host,
)
from oneflow.frontend.core.devices import Device, move
from oneflow.frontend.core.devices import device as named_device
from oneflow.frontend.core.tree import Tree
from oneflow.frontend.eager.kernels import intern
from oneflow.frontend.eager.tape import MODE
from oneflow.frontend.eager.tensor import EagerTensor, from_program, wrapped
from oneflow.frontend.tracing.alias_guards import Apart, is_root
from oneflow.frontend.tracing.guards import Guard
from oneflow.frontend.tracing.traced import Traced
from oneflow.runtime.protocol import Executable

#: Gives a function's value for arguments, or NotImplemented where they have to be looked at.
Quick = Callable[[Sequence[Any]], Any]
#: What a guard looks at, what it was, and the guard.
Look = tuple[Callable[[], Any], Any, Guard]
#: Held where nothing has to be.
FREE = nullcontext()
#: The placement and layout of a tensor that lies on no ranks.
NOWHERE = None, None


@dataclass(frozen=True)
class Specialization:
    """A function traced and compiled for one signature; `pulls` are its gradients, by the structure of arguments.

    `updating` is held while a call updates something outside, so that threads do so one after the other.
    """

    traced: Traced
    executable: Executable
    device: Device
    layouts: Sequence[Any]
    updating: Lock
    constants: dict[int, Data] = field(default_factory=dict)
    pulls: dict[Tree, Callable[..., Any]] = field(default_factory=dict)
    home: list[Any] = field(default_factory=list)

    @property
    def running(self) -> AbstractContextManager[Any]:
        """Within it a call runs: alone, where it updates something outside."""
        return self.updating.now if self._updates else FREE

    @functools.cached_property
    def _updates(self) -> bool:
        effects = self.traced.effects
        return bool(effects.count or effects.kept)

    def holds(self, place: Device | None) -> bool:
        """Whether what it was made for is still so; `place` is where it has to run, if that was said."""
        if not _stand(self._guards):
            return False
        if place is not self.device and not (place is None and self._is_home()) and not self._is_at(place):
            return False
        for tensor, placement, nd in self._lying:
            now = ranks_of(tensor.handle.handle)
            if (now[0] is not placement or now[1] is not nd) and now != (placement, nd):
                return False
        return True

    @functools.cached_property
    def _guards(self) -> list[Look]:
        return _looks(self.traced.guards)

    def _is_home(self) -> bool:
        """Whether the first tensor from outside is on the device where it was when all of this held last."""
        found = None if self._first is None else device_of(self._first.handle.handle)
        return found is not None and self.home == [found]

    def _is_at(self, place: Device | None) -> bool:
        """Whether it runs where it has to, which is then its home."""
        if (place or named_device(place_of_tensors(self.traced.captured) or "cpu")) != self.device:
            return False
        found = None if self._first is None else device_of(self._first.handle.handle)
        self.home[:] = [] if found is None else [found]
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
        count = sum(leaf is None for leaf in self.traced.leaves)
        return [intern(d) if d.is_static else None for d in self.executable.outputs[:count]] or [None] * count

    def rebuild(self, results: Sequence[Data], eager: bool, given: Sequence[Any] = ()) -> Any:
        """What the function returns when its result tensors are `results`: tensors, or arrays as they are. Arguments
        that it updates are among `given`.
        """
        if eager and self._single is not None:
            return from_program(results[0], self._single)
        if eager:
            pairs = zip(results, self._descs, strict=True)
            found: list[Any] = [wrapped(x) if d is None else from_program(x, d) for x, d in pairs]
        else:
            found = list(results) if self.traced.places is None else list(map(to_host, results))
        return found[0] if self._is_single else self.traced.rebuild(found, given)

    @functools.cached_property
    def _is_single(self) -> bool:
        """Whether the function returns one tensor and nothing else."""
        return self.traced.leaves == (None,) and self.traced.outputs.kind is None

    @functools.cached_property
    def _single(self) -> TensorDesc | None:
        """The type of the one tensor that the function returns, None where it returns anything else."""
        return self._descs[0] if self._is_single else None

    @functools.cached_property
    def uses_tensors(self) -> bool:
        """Whether tensors from outside are used."""
        return any(isinstance(c, EagerTensor) for c in self.traced.captured)

    def quick(self, leaves: Sequence[Any], name: str) -> Quick:
        """What gives the function's value for arguments like `leaves`, NotImplemented where they are others.

        There is such a way for arrays alone where nothing but them decides what happens, and on a device.
        """
        kinds = set(map(type, leaves))
        if self.executable.is_remote and kinds and kinds <= {self.executable.array, EagerTensor}:
            return self._quick_on_device(leaves, name)
        return self._quick_on_the_host if kinds <= {np.ndarray} else unknown

    @functools.cached_property
    def _quick_on_the_host(self) -> Quick:
        traced, call = self.traced, self.executable.fast_path
        outside = traced.captured or traced.guards or traced.effects.results or traced.effects.kept
        if outside or call is None:
            return unknown
        rebuild = traced.rebuild
        if self._is_single:
            return lambda arrays: NotImplemented if (results := call(arrays)) is None else results[0]
        if traced.outputs.kind is None:
            return unknown
        return lambda arrays: NotImplemented if (results := call(arrays)) is None else rebuild(results)

    def _quick_on_device(self, leaves: Sequence[Any], name: str) -> Quick:
        """Where every argument is a tensor or an array there, and the call is not recorded."""
        given = [x.storage if isinstance(x, EagerTensor) else x for x in leaves]
        if not all(map(is_on_device, given)) or self.traced.effects.passed:
            return unknown
        kinds = [(type(x), a.shape, a.dtype, device_of(a)) for x, a in zip(leaves, given, strict=True)]
        eager = self.uses_tensors or EagerTensor in map(type, leaves)
        is_recorded = bool(self.traced.reach) and not self.traced.effects.sets_leaves
        executable, fast = self.executable, self._guard_fast_path(len(kinds))
        guards = _looks(fast.guards)

        def call(args: Sequence[Any]) -> Any:
            arrays = _taken(kinds, args)
            if arrays is None or (is_recorded and MODE.recording) or not _stand(guards):
                return NotImplemented
            with self.updating.now if self._updates else FREE:
                tensors = self._tensors()
                seen = fast.seen(tensors)
                if seen is None and not fast.holds(tensors):
                    return NotImplemented
                passed = self._passed(arrays, tensors)
                results = executable.replay(passed, seen)
                found = self._run(passed, arrays, {}, name) if results is None else self._applied(results, name)
                if fast.last_run is not executable.last_run:
                    fast.note(tensors)
            return self.rebuild(found, eager)

        return call

    def run(self, given: Sequence[Any], arrays: Sequence[Data], name: str) -> list[Data]:
        """The results of the function; what it updates is updated. `arrays` are those of the arguments `given`.

        Raises:
            CallError: tensors are on different devices; one is named. Or one is passed that the function updates.
            RuntimeError: an argument is updated while a gradient flows to it.
        """
        effects = self.traced.effects
        if self._updates:
            arrays = list(map(mutated_inputs.now, given, arrays))
        if effects.passed:
            mutated_inputs.check(self.traced, given, arrays, name)
        views = {n: x for n, x in enumerate(given) if isinstance(x, EagerTensor) and x.is_view}
        results = self._run(self._passed(arrays, self._tensors()), arrays, views, name)
        count = len(results) - len(effects.passed)
        for number, result in zip(effects.numbers, results[count:], strict=True):
            mutated_inputs.put(given[number], arrays[number], result, name)
        return results[:count]

    def _run(self, passed: list[Data], arrays: Sequence[Data], views: Mapping[int, EagerTensor],
             name: str) -> list[Data]:  # fmt: skip
        """The same for all inputs of the program, which begin with the arguments."""
        if arrays and self._apart is not None:
            self._apart.check(arrays, views, self.traced.names, name)
        results: list[Data] = self.executable.run(passed)
        if self.executable.is_remote and not self._stays(arrays):
            results = list(map(to_host, results))
        return self._applied(results, name)

    def _stays(self, arrays: Sequence[Data]) -> bool:
        """Whether results stay on the device: an argument or a tensor from outside is there."""
        return any(map(is_on_device, arrays)) or place_of_tensors(self.traced.captured) is not None

    def _applied(self, results: Sequence[Data], name: str) -> list[Data]:
        """What the function returns of the results of a run, and the values of arguments; the others are put where
        they belong.
        """
        effects = self.traced.effects
        count = len(results) - effects.count
        effects.apply(results[count:], name)
        passed = results[-len(effects.passed) :] if effects.passed else ()
        return [*results[:count], *passed]

    @functools.cached_property
    def _sources(self) -> tuple[list[EagerTensor], list[tuple[int, EagerTensor]], list[tuple[int, Any]]]:
        """The tensors from outside whose arrays are passed as they are, others by their numbers among all tensors,
        and by their numbers among all inputs what is no tensor.
        """
        captured = self.traced.captured
        tensors = [c for c in captured if isinstance(c, EagerTensor)]
        others = [(n, c) for n, c in enumerate(tensors) if not is_root(c)]
        rest = [(n, c) for n, c in enumerate(captured) if not isinstance(c, EagerTensor)]
        return list(filter(is_root, tensors)), others, rest

    def _tensors(self) -> list[Data]:
        """The arrays of the tensors from outside."""
        roots, others, _ = self._sources
        found = [tensor.handle.handle for tensor in roots]
        for number, tensor in others:
            found.insert(number, tensor.storage)
        return found

    def _passed(self, arrays: Sequence[Data], tensors: Sequence[Data]) -> list[Data]:
        """All inputs of the program. Seeds are taken for it, so that it has to run."""
        passed = [*arrays, *tensors]
        for number, given in self._sources[2]:
            passed.insert(len(arrays) + number, self._present(number, given))
        return passed

    def _guard_fast_path(self, count: int) -> GuardFastPath:
        """What tells that tensors from outside are as they were, which come after so many arguments."""
        captured = self.traced.captured
        numbers = [count + n for n, c in enumerate(captured) if isinstance(c, EagerTensor)]
        return GuardFastPath(self.traced.guards, self.executable, [captured[n - count] for n in numbers], numbers)

    @functools.cached_property
    def _apart(self) -> Apart | None:
        """What looks whether arguments are apart from tensors that are updated; None where nothing is."""
        updated = [state.outside for state in self.traced.effects.updated]
        return Apart(updated) if updated else None

    def _present(self, number: int, captured: Any) -> Data:
        """What is passed for what is no tensor; arrays, which never change, are put where they are needed once."""
        if not isinstance(captured, np.ndarray):
            data: Data = captured()
            return data
        if number not in self.constants:
            self.constants[number] = move(captured, self.device)
        return self.constants[number]


def _looks(guards: Sequence[Guard]) -> list[Look]:
    """Guards as every call looks at them."""
    return [(guard.get, guard.value, guard) for guard in guards]


def _stand(guards: Sequence[Look]) -> bool:
    """Whether what was seen when it was traced is still so."""
    for get, value, guard in guards:
        now = get()
        if now is not value and guard.differs(now):
            return False
    return True


def unknown(args: Sequence[Any]) -> Any:
    """The quick way where there is none."""
    return NotImplemented


def _taken(kinds: Sequence[tuple[type, Any, Any, Any]], args: Sequence[Any]) -> list[Data] | None:
    """The arrays of arguments on a device, each of a kind: a class, sizes, an element type, a device; else None.

    Tensors are no views and want no gradient.
    """
    if len(args) != len(kinds):
        return None
    found: list[Data] = []
    for data, (kind, shape, dtype, device) in zip(args, kinds, strict=True):
        if type(data) is not kind:
            return None
        if kind is EagerTensor:
            variable = data.handle
            if data.shows is not None or variable.node is not None or variable.leaf is not None:
                return None
            data = variable.handle
        if device_of(data) is not device:
            return None
        if data.shape != shape or data.dtype is not dtype:
            return None
        found.append(data)
    return found


def place_of_tensors(captured: Sequence[Any]) -> str | None:
    """The device that tensors from outside are on, None where there is none or they are on the host.

    Where some have dimensions those decide: single numbers may be elsewhere.
    """
    tensors = sorted((c for c in captured if isinstance(c, EagerTensor)), key=lambda c: not c.rank)
    first = tensors[0].storage if tensors else None
    return place_of(first) if is_on_device(first) else None
