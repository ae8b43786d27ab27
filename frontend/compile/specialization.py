"""A function compiled for one signature: guards and runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneflow.dialect.locks import Lock
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.compile import mutated_inputs
from oneflow.frontend.compile.guarded_call import (
    NO_LOCK,
    STATIC,
    ArgumentGuard,
    CapturedInputs,
    DeviceGuardCache,
    FastPath,
    GuardedProgram,
    HostGuardCache,
    Recorder,
    aliases_hold,
    apply_effects,
    guarded_call,
    no_fast_path,
    result_builder,
    settings_hold,
    tensor_of,
    unguarded_array_call,
    unguarded_call,
)
from oneflow.frontend.compile.ranks_guards import RanksGuardCache, UpdatingRanksGuardCache
from oneflow.frontend.core.arrays import Data, device_of, is_on_device, is_on_host, ranks_of, to_host
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.pytree import Tree
from oneflow.frontend.eager.kernels import intern
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.alias_guards import NoAliasCheck
from oneflow.frontend.tracing.capture import HOST, default_device, device_of_captures
from oneflow.frontend.tracing.traced import Traced
from oneflow.runtime import protocol as runtime
from oneflow.runtime.dlpack import to_numpy
from oneflow.runtime.protocol import Executable

#: The placement and layout of a tensor that is not global.
NO_RANKS = None, None


@dataclass(frozen=True)
class Specialization:
    """A function traced and compiled for one signature.

    `layouts` are the placement and layout of each captured input, None for a tensor that is not global.
    `updating` is held while a call updates captured tensors, so that such calls of several threads run one after the
    other. `pullbacks` are compiled gradients by the structure of the arguments.
    """

    traced: Traced
    executable: Executable
    device: Device
    layouts: Sequence[Any]
    updating: Lock
    pullbacks: dict[Tree, Callable[..., Any]] = field(default_factory=dict)
    last_device: list[Any] = field(default_factory=list)

    @property
    def exclusive(self) -> AbstractContextManager[Any]:
        """The context in which a call runs: a lock where the call updates captured tensors."""
        return self.updating.raw if self._updates else NO_LOCK

    @functools.cached_property
    def _updates(self) -> bool:
        effects = self.traced.effects
        return bool(effects.count or effects.replaced_gradients)

    def holds(self, required: Device | None) -> bool:
        """Whether all guards hold; `required` is the device on which the call has to run, None for any device."""
        return settings_hold(self.traced.guards) and self.captures_hold(required)

    def captures_hold(self, required: Device | None) -> bool:
        """Whether the guards on captured tensors hold, and these are on the required device."""
        if not aliases_hold(self.traced.guards.aliases):
            return False
        if (
            required is not self.device
            and not (required is None and self._is_on_last_device())
            and not self._is_compiled_for(required)
        ):
            return False
        return self._layouts_hold()

    def _layouts_hold(self) -> bool:
        """Whether the captured tensors have the placements and layouts of the trace."""
        for tensor, placement, nd in self._rank_layouts:
            current = ranks_of(tensor.handle.handle)
            if (current[0] is not placement or current[1] is not nd) and current != (placement, nd):
                return False
        return True

    def _is_on_last_device(self) -> bool:
        """Whether the first captured tensor is on the device of the last successful `_is_compiled_for`."""
        current = None if self._first_tensor is None else device_of(self._first_tensor.handle.handle)
        return current is not None and self.last_device == [current]

    def _is_compiled_for(self, required: Device | None) -> bool:
        """Whether the program is compiled for the required device; the device of the captures is remembered if so."""
        captured = self.traced.captured
        device = required or (default_device(captured) if captured else HOST)
        if device is not self.device and device != self.device:
            return False
        current = None if self._first_tensor is None else device_of(self._first_tensor.handle.handle)
        self.last_device[:] = [] if current is None else [current]
        return True

    @functools.cached_property
    def _first_tensor(self) -> EagerTensor | None:
        """The first captured tensor that has dimensions; None if this tensor is a view."""
        first = next((c for c in self.traced.captured if isinstance(c, EagerTensor) and c.rank), None)
        return first if first is not None and first.view_meta is None else None

    @functools.cached_property
    def _rank_layouts(self) -> list[tuple[EagerTensor, Any, Any]]:
        """The captured tensors, each with the placement and layout of the trace."""
        pairs = zip(self.traced.captured, self.layouts, strict=True)
        return [(c, *(at or NO_RANKS)) for c, at in pairs if isinstance(c, EagerTensor)]

    @property
    def may_match_again(self) -> bool:
        """Whether failing guards may hold later: every guarded object is alive."""
        return aliases_hold(self.traced.guards.aliases, leaves=False)

    @functools.cached_property
    def _descs(self) -> list[TensorDesc | None]:
        """The types of the results that the function returns, None for a result with a dynamic size."""
        count = sum(leaf is None for leaf in self.traced.leaves)
        return [intern(d) if d.is_static else None for d in self.executable.outputs[:count]] or [None] * count

    def values_of(self, results: Sequence[Data], eager: bool) -> list[Any]:
        """The results of a run as tensors if `eager`, else as arrays of NumPy or of a device."""
        if eager:
            return list(map(tensor_of, results, self._descs))
        return list(results) if self.traced.placements is None else list(map(to_host, results))

    @functools.cached_property
    def build(self) -> Callable[[list[Any], Sequence[Any]], Any]:
        """The value that the function returns, made of results and of arguments that the function returns."""
        return result_builder(self.traced)

    @functools.cached_property
    def uses_tensors(self) -> bool:
        """Whether the program captures tensors."""
        return any(isinstance(c, EagerTensor) for c in self.traced.captured)

    def fast_path(
        self, leaves: Sequence[Any], defaults: Sequence[Any], name: str, record: Recorder | None
    ) -> FastPath:
        """A callable that returns the function's value for arguments like `leaves`, and NotImplemented for other
        arguments; calls do not pass the `defaults` that `leaves` end with.

        The fast path is for arrays and tensors that are all on the device of the program, and for arrays of
        other libraries on the host if the program captures nothing. `record` records calls for gradients, None if
        calls have no gradient.
        """
        arrays = [x for x in leaves if not isinstance(x, STATIC)]
        classes = tuple(map(type, arrays))
        if classes and set(classes) <= {self.executable.array, EagerTensor} and self.executable.is_remote:
            return self._guarded_call(leaves, defaults, name, record)
        if not self.executable.is_remote and set(classes) <= {np.ndarray, EagerTensor}:
            has_extras = any(isinstance(x, EagerTensor) and (x.requires_grad or x.is_view()) for x in arrays)
            passes_arrays = len(arrays) + len(defaults) == len(leaves) and all(
                isinstance(x, STATIC) for x in defaults
            )
            if self._host_call is None or has_extras or not passes_arrays:
                return self._guarded_call(leaves, defaults, name, record)
            if EagerTensor in classes:
                return unguarded_call(classes, self._host_call, self._descs, self.traced)
            return self._host_arrays_fast_path
        return self._foreign_arrays_fast_path(classes) if all(map(is_on_host, leaves)) else no_fast_path

    @functools.cached_property
    def _host_call(self) -> runtime.FastPath | None:
        """The executable's fast path; None if the function captures or updates anything."""
        traced = self.traced
        outside = traced.captured or traced.guards or traced.effects.results or traced.effects.replaced_gradients
        return None if outside else self.executable.fast_path

    @functools.cached_property
    def _host_arrays_fast_path(self) -> FastPath:
        call = self._host_call
        return no_fast_path if call is None else unguarded_array_call(call, self.traced)

    def _foreign_arrays_fast_path(self, classes: tuple[type, ...]) -> FastPath:
        """The fast path where the arguments are of these classes, some of other libraries than NumPy."""
        call = self._host_arrays_fast_path

        def fast_path(args: Sequence[Any]) -> Any:
            if tuple(map(type, args)) != classes:
                return NotImplemented
            try:
                arrays = [x if type(x) is np.ndarray else to_numpy(x) for x in args]
            except (BufferError, RuntimeError, TypeError, ValueError):
                return NotImplemented  # such as a tensor on another device
            return call(arrays)

        return no_fast_path if call is no_fast_path else fast_path

    def on_arrays(self, name: str) -> Callable[[Sequence[Data]], list[Data]]:
        """The program as a function from the arrays of arguments to the arrays of results, in order."""
        traced, call = self.traced, self.executable.fast_path
        plain = call is not None and not traced.captured and not traced.effects.count

        def run(arrays: Sequence[Data]) -> list[Data]:
            results = call(arrays) if plain and call is not None else None
            return self.run(arrays, arrays, name) if results is None else results

        return run

    def _guarded_call(
        self, leaves: Sequence[Any], defaults: Sequence[Any], name: str, record: Recorder | None
    ) -> FastPath:
        """The fast path for arrays, tensors and static values like `leaves`, all on the device of the program."""
        executable, argument_guards = self.executable, list(map(ArgumentGuard.of, leaves))
        is_on_host = not executable.is_remote and self.traced.placements is None
        replay = self._host_replay if is_on_host else executable.replay
        arrays = [x.storage if isinstance(x, EagerTensor) else x for x in leaves if not isinstance(x, STATIC)]
        if replay is None or any(type(a) is not executable.array for a in arrays):
            return no_fast_path
        if self.traced.effects.mutated_arguments and (not is_on_host or record is not None):
            return no_fast_path
        guard_cache = self._guard_cache(len(arrays))
        descs = self._descs if self.uses_tensors or EagerTensor in map(type, leaves) else None
        if descs is None and self.traced.placements is not None:
            return no_fast_path  # arrays of NumPy are results
        lock = self.updating if self._updates else None

        def run(inputs: list[Data], arrays: list[Data]) -> list[Data]:
            return self._run(inputs, arrays, {}, name)

        traced, captured = self.traced, self._captured
        program = GuardedProgram(
            traced, captured, guard_cache, argument_guards, defaults, replay, run, descs, record, lock, name
        )
        return guarded_call(program)

    @property
    def _host_replay(self) -> runtime.FastPath | None:
        """The executable's fast path; None if the program updates one of several tensors that share memory."""
        shared = self._updates and self.traced.guards.aliases.has_shared_memory
        return None if shared else self.executable.fast_path

    def _guard_cache(self, count: int) -> HostGuardCache | DeviceGuardCache:
        """The memory for which the guards held last; captured tensors are inputs after `count` arguments."""
        captured, guard = self.traced.captured, self.traced.guards.aliases
        updated = [state.tensor for state in self.traced.effects.updated]
        if self.traced.placements is not None:
            cached = guard, self._captured.tensors, self._layouts_hold
            return UpdatingRanksGuardCache(*cached, updated) if updated else RanksGuardCache(*cached)
        if not self.executable.is_remote:
            return HostGuardCache(guard, self._captured.tensors, updated)
        indices = [count + n for n, c in enumerate(captured) if isinstance(c, EagerTensor)]
        return DeviceGuardCache(guard, self._captured.tensors, self.executable, indices)

    @functools.cached_property
    def _captured(self) -> CapturedInputs:
        """The captured inputs."""
        return CapturedInputs(self.traced.captured, self.device)

    def run(self, arguments: Sequence[Any], arrays: Sequence[Data], name: str) -> list[Data]:
        """Returns the results of the function, and writes updated tensors; `arrays` are the arrays of `arguments`.

        Raises:
            CallError: a tensor, which the error names, is on another device; or a captured tensor that the
                function updates is also an argument.
            RuntimeError: an argument is updated while a gradient flows to it.
        """
        effects = self.traced.effects
        if self._updates:
            arrays = list(map(mutated_inputs.current_array, arguments, arrays))
        if effects.mutated_arguments:
            mutated_inputs.check(self.traced, arguments, arrays, name)
        captured = self._captured
        views = {n: x for n, x in enumerate(arguments) if isinstance(x, EagerTensor) and x.is_view()}
        results = self._run(captured.with_arguments(arrays, captured.arrays()), arrays, views, name)
        count = len(results) - len(effects.mutated_arguments)
        for index, result in zip(effects.mutated_indices, results[count:], strict=True):
            mutated_inputs.write_back(arguments[index], arrays[index], result, name)
        return results[:count]

    def _run(self, inputs: list[Data], arrays: Sequence[Data], views: Mapping[int, EagerTensor],
             name: str) -> list[Data]:  # fmt: skip
        """The results for all inputs of the program, which begin with the arguments."""
        if arrays and self._no_alias_check is not None:
            self._no_alias_check.check(arrays, views, self.traced.names, name)
        results: list[Data] = self.executable.run(inputs)
        if self.executable.is_remote and not self._results_stay_on_device(arrays):
            results = list(map(to_host, results))
        return self._apply_effects(results, name)

    def _results_stay_on_device(self, arrays: Sequence[Data]) -> bool:
        """Whether results stay on the device, because an argument or a captured tensor is there."""
        return any(map(is_on_device, arrays)) or device_of_captures(self.traced.captured) is not None

    def _apply_effects(self, results: Sequence[Data], name: str) -> list[Data]:
        """The results that the function returns, and the new values of mutated arguments; the other results are
        written to the updated tensors.
        """
        effects = self.traced.effects
        count = len(results) - effects.count
        apply_effects(effects, results[count:], name)
        mutated = results[-len(effects.mutated_arguments) :] if effects.mutated_arguments else ()
        return [*results[:count], *mutated]

    @functools.cached_property
    def _no_alias_check(self) -> NoAliasCheck | None:
        """The check that no argument shares memory with an updated tensor; None if no tensor is updated."""
        updated = [state.tensor for state in self.traced.effects.updated]
        return NoAliasCheck(updated) if updated else None
