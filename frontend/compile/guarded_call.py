"""Guarded calls: the guards of a program are compared, its inputs collected, and the effects of a run applied.

A warm call, whose arguments are like the arguments of an earlier call and whose guards hold, enters this module, one
of the runtime and, if the call is recorded for a gradient, `ahead_of_time_backward.py`. The code of warm calls is not
split over more modules, and constructors are inlined.
"""

from __future__ import annotations

import ctypes
import itertools
import operator
import weakref
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from oneflow.dialect.locks import Lock
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core import mode
from oneflow.frontend.core.arrays import Data, is_on_ranks, location_reader
from oneflow.frontend.core.devices import Device, move
from oneflow.frontend.core.hooks import Hooks
from oneflow.frontend.core.settings import DEFAULT_DTYPE, SCOPE
from oneflow.frontend.eager.tape import MODE, Memory, Variable
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor, wrapped
from oneflow.frontend.tracing.alias_guards import AliasGuard, GradientOf, SpanCache, is_root
from oneflow.frontend.tracing.capture import Effects, RuntimeScalar
from oneflow.frontend.tracing.guards import Guards, differs
from oneflow.frontend.tracing.traced import ReturnedArgument, Traced
from oneflow.runtime.protocol import CachedSubset, Executable, LastRun
from oneflow.runtime.spans import Span

#: Returns the result of a function for arguments, or NotImplemented where the arguments need the full checks.
FastPath = Callable[[Sequence[Any]], Any]
#: The record of a call with arguments, which takes the result tensors after the run.
Recorder = Callable[[Sequence[Any]], Callable[[Sequence[Any]], None]]
#: The classes of arguments that are compared by value.
STATIC = (bool, int, float, str, type(None))
#: The context of a call that needs no lock.
NO_LOCK = nullcontext()
_variable, _leaf = operator.attrgetter("handle"), operator.attrgetter("leaf")
_desc, _array = operator.attrgetter("desc"), operator.attrgetter("handle")
_first_byte: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


def no_fast_path(args: Sequence[Any]) -> Any:
    """The fast path of a function without fast path: refuses all arguments."""
    return NotImplemented


class GuardedFunction:
    """A function that is called through the fast path of the latest program, if the fast path accepts the arguments.

    `_fast` has the settings of the latest call, which programs depend on, and the fast path of the latest program.
    """

    _fast: tuple[Any, FastPath]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the function on arrays.

        Raises:
            CallError: an argument does not fit the function; the error names the argument.
            TraceError: the function cannot become a program.
        """
        builder = mode.BUILDER.get()
        if builder is not None and not builder.eager:  # `mode.tracing` inlined
            return self._call_within_trace(args, kwargs)
        settings, fast_path = self._fast
        if not kwargs and settings == (DEFAULT_DTYPE[0], SCOPE.get()):
            value = fast_path(args)
            if value is not NotImplemented:
                return value
        return self._full_call(args, kwargs)

    def _call_within_trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call while another function is traced."""
        raise NotImplementedError

    def _full_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that the fast path does not take."""
        raise NotImplementedError


def settings_hold(guards: Guards) -> bool:
    """Whether all guards hold, except guards on captured tensors."""
    if guards.recording is not None and MODE.recording is not guards.recording:
        return False
    if guards.changes_compared != Hooks.changes and not _versions_hold(guards):
        return False
    for leaf, absent in guards.gradients:
        if (leaf.grad is None) is not absent:
            return False
    try:
        for read, owner, key, value in guards.values:
            current = read(owner, key)
            if current is not value and differs(current, value):
                return False
    except AttributeError:
        return False  # an attribute was removed
    for owner, name, keys, objects in guards.items:
        dicts = map(getattr(owner, name).get, keys, itertools.repeat({}))
        held = list(itertools.chain.from_iterable(map(dict.values, dicts)))
        if len(held) != len(objects) or not all(map(operator.is_, held, objects)):
            return False
    return True


def _versions_hold(guards: Guards) -> bool:
    """Whether versions have not changed, although some hook or some attribute of a module has."""
    changes = Hooks.changes
    if any(version() != value for version, value in guards.versions):
        return False
    guards.changes_compared = changes
    return True


def aliases_hold(guard: AliasGuard, leaves: bool = True) -> bool:
    """Whether the captured tensors have the types, leaves and shared memory of the trace.

    Without `leaves` the leaves may differ, as a tensor may require no grad for a while.
    """
    if not guard or any(gradient.current is None for gradient in guard.gradients):
        return True  # the guard on the presence of gradients fails where one is missing
    variables = list(map(_variable, guard.tensors))
    if leaves and not all(map(operator.is_, map(_leaf, variables), guard.leaves)):
        return False
    descs = list(map(_desc, variables))
    return (all(map(operator.is_, descs, guard.descs)) or descs == guard.descs) and guard.shares_memory_as_traced


def scalar_input(scalar: RuntimeScalar) -> Any:
    """The array of a scalar that is read at every run; a new array only after the value has changed."""
    generator = scalar.generator
    try:
        value = scalar.get() if generator is None else generator.upcoming.pop()  # `Generator.next` inlined
    except IndexError:
        value = scalar.get()
    last, array = scalar.last
    if value is not last or type(value) is not float:
        array = np.asarray(value, scalar.dtype)
        scalar.last = value, array  # at once: other threads read the pair
    return array


def variable_of(array: Data, desc: TensorDesc) -> Variable:
    """A new variable, without the call of its constructor."""
    variable = Variable.__new__(Variable)
    variable.builder, variable.handle, variable.desc = BUILDER, array, desc
    variable.node = variable.leaf = variable.memory = variable.hooks = None
    variable.version = 0
    return variable


def tensor_of(array: Data, desc: TensorDesc | None) -> EagerTensor:
    """A result as a tensor; `desc` is the interned type of the result, None for a type with a dynamic size."""
    if desc is None:
        return wrapped(array)
    tensor = EagerTensor.__new__(EagerTensor)
    tensor.builder, tensor.handle, tensor.desc = BUILDER, variable_of(array, desc), desc
    tensor.view_meta = tensor.unused_leaf = tensor.offloaded_from = None
    return tensor


def current_tensor(tensor: Any) -> Any:
    """The current captured tensor: for the gradient of a leaf the current gradient tensor."""
    return tensor.of_leaf.grad if type(tensor) is GradientOf else tensor


def input_array(tensor: Any) -> Data:
    """The current array of a captured tensor."""
    tensor = current_tensor(tensor)
    view, variable = tensor.view_meta, tensor.handle
    is_fresh = view is None or (view.memory.version == view.version and not view.memory.exposed)
    array: Data = variable.handle if is_fresh else tensor.storage
    return array


def memory_of(tensor: Any) -> tuple[Any, ...]:
    """The array that holds the elements of a tensor, and for a view which part of that array."""
    view = tensor.view_meta
    return (tensor.handle.handle,) if view is None else (view.root.handle.handle, view)


def write_in_place(tensor: Any, array: Any, writer: str) -> None:
    """Writes a result of a run into the memory of a tensor, unless the run has written to that memory.

    For a tensor that is no view, this is `EagerTensor.overwrite` inlined, as a step calls it for every parameter.
    """
    variable = tensor.handle
    held = variable.handle
    if tensor.view_meta is not None or not (held is array or type(held) is type(array) is np.ndarray):
        tensor.overwrite(array, writer)
        return
    if held is not array:
        np.copyto(held, array)
    memory = variable.memory
    if memory is None:
        memory = variable.memory = Memory()
    memory.version += 1
    memory.writer = writer


def apply_effects(effects: Effects, arrays: Sequence[Data], writer: str) -> None:
    """Writes the further results of a run to the updated tensors."""
    for tensor, array in zip(effects.updated_tensors, arrays, strict=False):
        write_in_place(current_tensor(tensor), array, writer)
    if effects.new_gradients:
        gradients = arrays[len(effects.updated) : len(effects.updated) + len(effects.new_gradients)]
        for gradient, desc, array in zip(effects.new_gradients, effects.descs, gradients, strict=True):
            gradient.leaf.grad = tensor_of(array, desc)
    if effects.replaced_gradients:
        assignments = [(leaf, current_tensor(v)) for leaf, v in effects.leaves_set]
        for leaf in effects.cleared_leaves:
            leaf.grad = None
        for leaf, value in assignments:
            leaf.grad = value


class ArgumentGuard(NamedTuple):
    """The guard of a fast path on an argument: class, shape, element type, class of the array, location (see
    `location_reader`, None for an array of NumPy), and whether the argument has a gradient; for a static value, such
    as a number, class and text.
    """

    kind: type
    text: str | None
    shape: Any = None
    dtype: Any = None
    array: Any = None
    read_location: Any = None
    location: Any = None
    has_gradient: bool = False

    @classmethod
    def of(cls, argument: Any) -> ArgumentGuard:
        """The guard that an argument like this argument passes."""
        if isinstance(argument, STATIC):
            return cls(type(argument), repr(argument))
        array, has_gradient = argument, False
        if isinstance(argument, EagerTensor):
            variable = argument.variable
            array, has_gradient = variable.handle, variable.node is not None or variable.leaf is not None
        read = location_reader(array)
        location = None if read is None else read(array)
        return cls(type(argument), None, array.shape, array.dtype, type(array), read, location, has_gradient)


def matching_arrays(guards: Sequence[ArgumentGuard], args: Sequence[Any]) -> tuple[list[Data], list[Data]] | None:
    """The arrays of arguments, and the arrays of the roots of views among the arguments; None unless each argument
    passes its guard.
    """
    if len(args) != len(guards):
        return None
    arrays: list[Data] = []
    roots: list[Data] = []
    for argument, (kind, text, shape, dtype, array, read, location, has_gradient) in zip(args, guards, strict=True):
        if type(argument) is not kind or (text is not None and repr(argument) != text):
            return None
        if text is not None:
            continue
        data: Any = array_of(argument, has_gradient, roots) if kind is EagerTensor else argument
        if type(data) is not array or data.shape != shape or data.dtype is not dtype:
            return None
        if read is not None and read(data) != location:
            return None
        arrays.append(data)
    return arrays, roots


def array_of(tensor: Any, has_gradient: bool, roots: list[Data]) -> Data | None:
    """The array of an argument; the array of the root of a view is added to `roots`.

    None for a view that has to be refreshed, and for a tensor that has an unexpected gradient.
    """
    variable, view = tensor.handle, tensor.view_meta
    if (variable.node is not None or variable.leaf is not None) is not has_gradient:
        return None
    if view is not None:
        if view.memory.version != view.version or view.memory.exposed:
            return None
        roots.append(view.root.handle.handle)
    array: Data = variable.handle
    return array


def are_separate(indices: Sequence[int], arrays: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether the arrays with these indices can be written, and share no memory with each other, with the remaining
    arrays and with arrays among the `others`.
    """
    for index in indices:
        target = arrays[index]
        rest = [*arrays[:index], *arrays[index + 1 :], *(x for x in others if type(x) is np.ndarray)]
        if not target.flags.writeable or any(np.may_share_memory(target, x) for x in rest):
            return False
    return True


def write_argument(argument: Any, array: Any, writer: str) -> None:
    """Writes a result of a run into an argument that the function updates."""
    if type(argument) is EagerTensor:
        write_in_place(argument, array, writer)
    elif argument is not array:
        np.copyto(argument, array)


class CapturedInputs:
    """The captured inputs of a program, which follow its arguments: tensors, scalars, and constant arrays."""

    def __init__(self, captured: Sequence[Any], device: Device) -> None:
        self.tensors = [c for c in captured if isinstance(c, EagerTensor)]
        self._roots = list(filter(is_root, self.tensors))
        self._others = [(n, c) for n, c in enumerate(self.tensors) if not is_root(c)]
        self._scalars_and_constants: list[tuple[int, Any]] = [
            (i, c if isinstance(c, RuntimeScalar) else move(c, device))
            for i, c in enumerate(captured)
            if not isinstance(c, EagerTensor)
        ]

    def arrays(self) -> list[Data]:
        """The arrays of the captured tensors."""
        arrays = list(map(_array, map(_variable, self._roots)))
        for index, tensor in self._others:
            arrays.insert(index, input_array(tensor))
        return arrays

    def with_arguments(self, arguments: Sequence[Data], arrays: Sequence[Data]) -> list[Data]:
        """All inputs of the program. Random seeds are drawn here, so that the program has to run afterwards."""
        inputs = [*arguments, *arrays]
        for index, other in self._scalars_and_constants:
            value = scalar_input(other) if type(other) is RuntimeScalar else other
            inputs.insert(len(arguments) + index, value)
        return inputs


class HostGuardCache:
    """The memory for which the guards on captured tensors held last, on the host.

    `updated` are the members of `tensors` that the program updates. Memory is referenced weakly, so that the memory
    of a tensor is not kept alive.
    """

    def __init__(self, guard: AliasGuard, tensors: Sequence[EagerTensor], updated: Sequence[EagerTensor]) -> None:
        self._guard, self._covers_inputs = guard, guard.covers_exactly(tensors)
        self._spans = SpanCache(updated, _begins_and_ends) if updated else None
        self._known: list[weakref.ref[Any]] = []
        self._begins: list[int] = []
        self._ends: list[int] = []

    def memory(self, arrays: Sequence[Data]) -> Sequence[Any]:
        """The memory of the captured tensors, whose arrays as inputs are `arrays`."""
        if self._covers_inputs:
            return arrays
        return [part for tensor in map(current_tensor, self._guard.tensors) for part in memory_of(tensor)]

    def cache_hit(self, memory: Sequence[Any]) -> bool | None:
        """True if the guards held last for `memory`, and every tensor has its captured leaf."""
        guard, known = self._guard, self._known
        if len(known) != len(memory) or not all(map(operator.is_, memory, map(operator.call, known))):
            return None
        tensors = map(current_tensor, guard.tensors) if guard.gradients else guard.tensors
        return all(map(operator.is_, map(_leaf, map(_variable, tensors)), guard.leaves)) or None

    def holds(self, arrays: Sequence[Data]) -> bool:
        """Whether the guards hold for the inputs `arrays`, which have to be on the host."""
        if not all(type(x) is np.ndarray for x in arrays) or not aliases_hold(self._guard):
            return False
        if self._spans is not None:
            self._begins, self._ends = self._spans()
        return True

    def disjoint(self, arguments: Sequence[Data], roots: Sequence[Data]) -> bool:
        """Whether no argument, and no root of a view among the arguments, shares memory with tensors that the program
        updates; False also if the full check is needed.
        """
        for array in (*arguments, *roots) if self._begins else ():
            try:
                begin = ctypes.addressof(_first_byte(array))
            except (TypeError, ValueError, BufferError):
                return False  # read-only, empty, or not contiguous
            before = bisect_right(self._begins, begin + array.nbytes - 1)
            if before and self._ends[before - 1] > begin:
                return False
        return True

    def store(self, memory: Sequence[Any], hit: Any) -> None:
        """Stores `memory` as the memory for which the guards held last."""
        if hit is None:
            self._known = list(map(weakref.ref, memory))


def _begins_and_ends(spans: Sequence[Span]) -> tuple[list[int], list[int]]:
    """The sorted begins of spans, and for each begin the greatest end of all spans up to this begin."""
    ordered = sorted((begin, end) for _, begin, end in spans)
    return [begin for begin, _ in ordered], list(itertools.accumulate((end for _, end in ordered), max))


class DeviceGuardCache:
    """The arrays for which the guards on captured tensors held last, on a device.

    The alias guard asks whether captured tensors share the memory of the trace; the executable asks whether its
    inputs are the arrays of the last run. If the executable still knows the arrays of a run for which the alias
    guard held, one comparison of arrays answers both. `indices` are the indices of the captured tensors among the
    inputs.
    """

    def __init__(
        self, guard: AliasGuard, tensors: Sequence[EagerTensor], executable: Executable, indices: Sequence[int]
    ) -> None:
        self._guard, self._covers = guard, bool(guard) and guard.covers_exactly(tensors)
        self._executable, self._indices = executable, indices
        self._last_run: LastRun | None = None
        self._compared: CachedSubset | None = None

    def memory(self, arrays: Sequence[Data]) -> Sequence[Data]:
        """The memory of the captured tensors: the arrays."""
        return arrays

    def cache_hit(self, arrays: Sequence[Data]) -> CachedSubset | None:
        """The record of the last run, if `arrays` are the arrays of that run and every tensor has the leaf that the
        tensor was captured with; else None.
        """
        compared, guard = self._compared, self._guard
        if compared is None or not compared.holds(arrays):
            return None
        return compared if all(map(operator.is_, map(_leaf, map(_variable, guard.tensors)), guard.leaves)) else None

    def holds(self, arrays: Sequence[Data]) -> bool:
        """Whether the alias guard holds for the current tensors, and no array is global."""
        return aliases_hold(self._guard) and not any(map(is_on_ranks, arrays))

    def disjoint(self, arguments: Sequence[Data], roots: Sequence[Data]) -> bool:
        """Whether no argument is a view: the executable compares the memory of other arguments."""
        return not roots

    def store(self, arrays: Sequence[Data], hit: Any) -> None:
        """Records `arrays` as the arrays of the last run of the executable, for which all guards held."""
        last = self._executable.last_run
        if last is not self._last_run:
            self._last_run = last
            recent = None if last is None or not self._covers else last.subset(self._indices)
            self._compared = recent if recent is not None and recent.holds(arrays) else None


@dataclass(frozen=True)
class GuardedProgram:
    """A program whose warm calls compare guards, and how such calls run.

    Attributes:
        traced: the program.
        captured: the captured inputs of the program.
        guard_cache: the memory for which the guards of the program held.
        argument_guards: the guard on each argument.
        defaults: the last arguments, which a call does not pass.
        replay: runs the program on inputs that need no check; returns None for other inputs.
        run: runs the program with all checks, on all inputs and the arguments among the inputs, and applies effects.
        descs: the types of the results, which become tensors; None if results are arrays.
        record: records a call for the gradient; None if calls have no gradient.
        lock: held while the call updates tensors; None if the call updates no tensors.
        name: the function's name, for messages.
    """

    traced: Traced
    captured: CapturedInputs
    guard_cache: HostGuardCache | DeviceGuardCache
    argument_guards: Sequence[ArgumentGuard]
    defaults: Sequence[Any]
    replay: Callable[[Sequence[Data], Any], list[Data] | None]
    run: Callable[[list[Data], list[Data]], list[Data]]
    descs: Sequence[TensorDesc | None] | None
    record: Recorder | None
    lock: Lock | None
    name: str

    def with_effects(self, results: list[Data]) -> list[Data]:
        """Applies the effects of a replayed run; returns the results of the function and the new values of mutated
        arguments.
        """
        effects = self.traced.effects
        kept, mutated = len(results) - effects.count, effects.mutated_indices
        apply_effects(effects, results[kept:], self.name)
        return results[:kept] + (results[-len(mutated) :] if mutated else [])

    def without_mutated(self, results: list[Data], given: Sequence[Any]) -> list[Data]:
        """Writes the new values of mutated arguments into the arguments; returns the results of the function."""
        mutated = self.traced.effects.mutated_indices
        kept = len(results) - len(mutated)
        for index, array in zip(mutated, results[kept:], strict=True):
            write_argument(given[index], array, self.name)
        return results[:kept]


def guarded_call(program: GuardedProgram) -> FastPath:
    """The warm call of a program: the value for arguments, NotImplemented for arguments that need the full checks."""
    captured, guard_cache, argument_guards = program.captured, program.guard_cache, program.argument_guards
    guards, effects, replay = program.traced.guards, program.traced.effects, program.replay
    has_effects, mutated = bool(effects.count or effects.replaced_gradients), effects.mutated_indices
    build, is_array = result_builder(program.traced), [e.text is None for e in argument_guards]
    defaults, descs, record, lock = program.defaults, program.descs, program.record, program.lock

    def call(args: Sequence[Any]) -> Any:
        if defaults:
            args = (*args, *defaults)
        matching = matching_arrays(argument_guards, args)
        if matching is None or not settings_hold(guards):
            return NotImplemented
        arguments, roots = matching
        with NO_LOCK if lock is None else lock.raw:
            arrays = captured.arrays()
            memory = guard_cache.memory(arrays)
            hit = guard_cache.cache_hit(memory)
            if (hit is None and not guard_cache.holds(arrays)) or not guard_cache.disjoint(arguments, roots):
                return NotImplemented
            if mutated and (roots or not are_separate(mutated, arguments, memory)):
                return NotImplemented
            recorded = None if record is None or not MODE.recording else record(args)
            inputs = captured.with_arguments(arguments, arrays)
            results = replay(inputs, hit)
            if results is None:
                results = program.run(inputs, arguments)
            elif has_effects:
                results = program.with_effects(results)
            guard_cache.store(memory, hit)
            given = list(itertools.compress(args, is_array))
            if mutated:
                results = program.without_mutated(results, given)
        values = results if descs is None else list(map(tensor_of, results, descs))
        if recorded is not None:
            recorded(values)
        return build(values, given)

    return call


def unguarded_call(
    classes: Sequence[type],
    replay: Callable[[Sequence[Data]], list[Data] | None],
    descs: Sequence[TensorDesc | None],
    traced: Traced,
) -> FastPath:
    """The warm call of a program on the host that depends on arguments alone, for arguments of the given classes.

    `descs` are the types of the results.
    """
    wanted, build = tuple(classes), result_builder(traced)

    def call(args: Sequence[Any]) -> Any:
        if tuple(map(type, args)) != wanted:
            return NotImplemented
        arrays = []
        for argument in args:
            if type(argument) is EagerTensor:
                variable: Any = argument.handle
                if argument.view_meta is not None or variable.node is not None or variable.leaf is not None:
                    return NotImplemented
                argument = variable.handle
            arrays.append(argument)
        results = replay(arrays)
        return NotImplemented if results is None else build(list(map(tensor_of, results, descs)), args)

    return call


def unguarded_array_call(replay: Callable[[Sequence[Data]], list[Data] | None], traced: Traced) -> FastPath:
    """The warm call of a program on the host that depends on arguments alone, which are arrays of NumPy."""
    build = result_builder(traced)

    def call(args: Sequence[Any]) -> Any:
        results = replay(args)
        return NotImplemented if results is None else build(results, args)

    return call


def result_builder(traced: Traced) -> Callable[[list[Any], Sequence[Any]], Any]:
    """The function from results and arguments of a program to the value that the traced function returns."""
    outputs, leaves = traced.outputs, traced.leaves
    if outputs.kind is None and leaves == (None,):
        return lambda results, arguments: results[0]
    is_flat = outputs.kind in (None, tuple, list, dict) and all(child.kind is None for child in outputs.children)
    if not is_flat or any(isinstance(leaf, ReturnedArgument) for leaf in leaves):
        return traced.rebuild

    constants: Any = leaves
    kind: Any = outputs.kind

    def flat(results: list[Any], arguments: Sequence[Any]) -> Any:
        rest = iter(results)
        values = [next(rest) if leaf is None else leaf[0] for leaf in constants]
        if kind is None:
            return values[0]
        return dict(zip(outputs.keys, values, strict=True)) if kind is dict else kind(values)

    return flat
