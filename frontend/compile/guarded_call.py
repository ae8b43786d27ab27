"""Guarded calls: the guards of a program are compared, its inputs collected, and the effects of a run applied.

A warm call, with arguments like those of an earlier call and guards that hold, is one function of this module and one
of the runtime: what such a call needs is not split over more modules, and constructors are written out.
"""

from __future__ import annotations

import ctypes
import itertools
import operator
import weakref
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from oneflow.dialect.locks import Lock
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import Data, device_of, is_on_ranks
from oneflow.frontend.core.devices import Device, move
from oneflow.frontend.core.hooks import Hooks
from oneflow.frontend.eager.tape import MODE, Variable
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor, wrapped
from oneflow.frontend.tracing.alias_guards import AliasGuard, GradientOf, SpanCache, is_root
from oneflow.frontend.tracing.capture import Effects, RuntimeNumber
from oneflow.frontend.tracing.guards import Guards, differs
from oneflow.frontend.tracing.traced import ReturnedArgument, Traced
from oneflow.runtime.protocol import Executable, LastRun, Seen
from oneflow.runtime.spans import Span

#: Gives a function's value for arguments, or NotImplemented where the arguments need the full checks.
FastPath = Callable[[Sequence[Any]], Any]
#: The record of a call with arguments, which takes the value after the run; None where the call has no gradient.
Recorder = Callable[[Sequence[Any]], Callable[[Any], None] | None]
#: The context of a call that needs no lock.
UNLOCKED = nullcontext()
_variable, _leaf = operator.attrgetter("handle"), operator.attrgetter("leaf")
_desc, _array = operator.attrgetter("desc"), operator.attrgetter("handle")
_first_byte: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


def settings_hold(guards: Guards) -> bool:
    """Whether all guards but those on captured tensors hold."""
    if guards.recording is not None and MODE.recording is not guards.recording:
        return False
    if guards.changes_compared != Hooks.changes and not _versions_hold(guards):
        return False
    for leaf, absent in guards.gradients:
        if (leaf.grad is None) is not absent:
            return False
    try:
        for read, owner, key, value in guards.values:
            now = read(owner, key)
            if now is not value and differs(now, value):
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
    """Whether the captured tensors have their types and leaves, and share memory as when the function was traced.

    Without `leaves` the leaves may differ, as a tensor may require no grad for a while.
    """
    if not guard or any(gradient.present is None for gradient in guard.gradients):
        return True  # the guard on the presence of gradients fails where one is missing
    variables = list(map(_variable, guard.tensors))
    if leaves and not all(map(operator.is_, map(_leaf, variables), guard.leaves)):
        return False
    descs = list(map(_desc, variables))
    return (all(map(operator.is_, descs, guard.descs)) or descs == guard.descs) and guard.shares_memory_as_traced


def number_input(number: RuntimeNumber) -> Any:
    """The array of a number that is read at every run, made anew only when the number has changed."""
    value = number.get()
    last, array = number.last
    if value is not last or type(value) is not float:
        array = np.asarray(value, number.dtype)
        number.last = value, array  # at once: other threads read the pair
    return array


def tensor_of(array: Data, desc: TensorDesc | None) -> EagerTensor:
    """A result as a tensor; `desc` is its interned type, None where that has a dynamic size."""
    if desc is None:
        return wrapped(array)
    # What `from_program` does, without the calls of two constructors.
    variable = Variable.__new__(Variable)
    variable.builder, variable.handle, variable.desc = BUILDER, array, desc
    variable.node = variable.leaf = variable.memory = variable.hooks = None
    variable.version = 0
    tensor = EagerTensor.__new__(EagerTensor)
    tensor.builder, tensor.handle, tensor.desc = BUILDER, variable, desc
    tensor.view_meta = tensor.unused_leaf = tensor.offloaded_from = None
    return tensor


def apply_effects(effects: Effects, arrays: Sequence[Data], writer: str) -> None:
    """Writes the further results of a run to where they belong."""
    for outside, array in zip(effects.outside, arrays, strict=False):
        variable = outside.handle
        memory = variable.memory
        if memory is not None and variable.handle is array and outside.view_meta is None:
            memory.version += 1  # `Memory.write` inlined: this loop runs for every parameter of a step
            memory.writer = writer
        else:
            outside.overwrite(array, writer)
    if effects.new_gradients:
        gradients = arrays[len(effects.updated) : len(effects.updated) + len(effects.new_gradients)]
        for gradient, desc, array in zip(effects.new_gradients, effects.descs, gradients, strict=True):
            gradient.leaf.grad = tensor_of(array, desc)
    if effects.replaced_gradients:
        assignments = [(leaf, v.present if isinstance(v, GradientOf) else v) for leaf, v in effects.leaves_set]
        for leaf in effects.cleared_leaves:
            leaf.grad = None
        for leaf, value in assignments:
            leaf.grad = value


def matching_arrays(expected: Sequence[tuple[type, Any, Any, Any]], args: Sequence[Any]) -> list[Data] | None:
    """The arrays of arguments; None unless each has the expected class, shape, element type and device, which is None
    for arrays of NumPy.

    A tensor that is a view or requires grad does not match.
    """
    if len(args) != len(expected):
        return None
    arrays: list[Data] = []
    for argument, (kind, shape, dtype, device) in zip(args, expected, strict=True):
        if type(argument) is not kind:
            return None
        data: Any = argument
        if kind is EagerTensor:
            variable = data.handle
            if data.view_meta is not None or variable.node is not None or variable.leaf is not None:
                return None
            data = variable.handle
        if device is None:
            if type(data) is not np.ndarray:
                return None
        elif device_of(data) is not device:
            return None
        if data.shape != shape or data.dtype is not dtype:
            return None
        arrays.append(data)
    return arrays


class CapturedInputs:
    """The captured inputs of a program, which come after its arguments: tensors, numbers, and constant arrays."""

    def __init__(self, captured: Sequence[Any], device: Device) -> None:
        self.tensors = [c for c in captured if isinstance(c, EagerTensor)]
        self._roots = list(filter(is_root, self.tensors))
        self._others = [(n, c) for n, c in enumerate(self.tensors) if not is_root(c)]
        numbered = [(n, c) for n, c in enumerate(captured) if not isinstance(c, EagerTensor)]
        self._numbers: list[tuple[int, Any]] = [
            (n, c if isinstance(c, RuntimeNumber) else move(c, device)) for n, c in numbered
        ]

    def arrays(self) -> list[Data]:
        """The arrays of the captured tensors."""
        arrays = list(map(_array, map(_variable, self._roots)))
        for number, tensor in self._others:
            arrays.insert(number, tensor.storage)
        return arrays

    def with_arguments(self, arguments: Sequence[Data], arrays: Sequence[Data]) -> list[Data]:
        """All inputs of the program. Random seeds are drawn here, so that the program has to run afterwards."""
        inputs = [*arguments, *arrays]
        for number, other in self._numbers:
            value = number_input(other) if type(other) is RuntimeNumber else other
            inputs.insert(len(arguments) + number, value)
        return inputs


class HostArrays:
    """The arrays for which the guards on captured tensors held last, on the host.

    `updated` are those of the `tensors` that the program updates; `hold` compares the guards on captured tensors.
    Arrays are referenced weakly, so that the memory of a tensor is not kept alive.
    """

    def __init__(
        self,
        guard: AliasGuard,
        tensors: Sequence[EagerTensor],
        updated: Sequence[EagerTensor],
        hold: Callable[[], bool],
    ) -> None:
        self._guard = guard if guard.covers_exactly(tensors) else None
        self._spans = SpanCache(updated, _begins_and_ends) if updated else None
        self._hold = hold
        self._known: list[weakref.ref[Any]] = []
        self._begins: list[int] = []
        self._ends: list[int] = []

    def seen(self, arrays: Sequence[Data]) -> bool | None:
        """True if the guards held last for `arrays`, and every tensor has the leaf that it was captured with."""
        guard, known = self._guard, self._known
        if guard is None or len(known) != len(arrays):
            return None
        same = all(map(operator.is_, arrays, map(operator.call, known)))
        return (same and all(map(operator.is_, map(_leaf, map(_variable, guard.tensors)), guard.leaves))) or None

    def holds(self, arrays: Sequence[Data]) -> bool:
        """Whether the guards hold for `arrays`, which have to be on the host."""
        if not all(type(x) is np.ndarray for x in arrays) or not self._hold():
            return False
        if self._spans is not None:
            self._begins, self._ends = self._spans()
        return True

    def disjoint(self, arguments: Sequence[Data]) -> bool:
        """Whether no argument shares memory with what the program updates; False where that needs a closer look."""
        for array in arguments if self._begins else ():
            try:
                begin = ctypes.addressof(_first_byte(array))
            except (TypeError, ValueError, BufferError):
                return False  # read-only, empty, or not contiguous
            before = bisect_right(self._begins, begin + array.nbytes - 1)
            if before and self._ends[before - 1] > begin:
                return False
        return True

    def note(self, arrays: Sequence[Data], seen: Any) -> None:
        """Takes `arrays` as those for which the guards held last."""
        if seen is None:
            self._known = list(map(weakref.ref, arrays))


def _begins_and_ends(spans: Sequence[Span]) -> tuple[list[int], list[int]]:
    """The first bytes of spans in order, and for each the greatest end of the spans that begin there or before."""
    ordered = sorted((begin, end) for _, begin, end in spans)
    return [begin for begin, _ in ordered], list(itertools.accumulate((end for _, end in ordered), max))


class DeviceArrays:
    """The arrays for which the guards on captured tensors held last, on a device.

    The alias guard asks whether captured tensors share memory as they did; the executable asks whether its inputs are
    the arrays of its last run. Where the executable still knows the arrays of a run for which the alias guard held,
    one comparison of arrays answers both. `numbers` are those of the captured tensors among the inputs.
    """

    def __init__(
        self, guard: AliasGuard, tensors: Sequence[EagerTensor], executable: Executable, numbers: Sequence[int]
    ) -> None:
        self._guard, self._covers = guard, bool(guard) and guard.covers_exactly(tensors)
        self._executable, self._numbers = executable, numbers
        self._last_run: LastRun | None = None
        self._seen: Seen | None = None

    def seen(self, arrays: Sequence[Data]) -> Seen | None:
        """The record of the last run, if `arrays` are those of that run and every tensor has the leaf that it was
        captured with; else None.
        """
        seen, guard = self._seen, self._guard
        if seen is None or not seen.holds(arrays):
            return None
        return seen if all(map(operator.is_, map(_leaf, map(_variable, guard.tensors)), guard.leaves)) else None

    def holds(self, arrays: Sequence[Data]) -> bool:
        """Whether the alias guard holds for the tensors as they are now, and none of their arrays is global."""
        return aliases_hold(self._guard) and not any(map(is_on_ranks, arrays))

    def disjoint(self, arguments: Sequence[Data]) -> bool:
        """True: the executable compares the memory of arguments."""
        return True

    def note(self, arrays: Sequence[Data], seen: Any) -> None:
        """Takes `arrays` as those of the last run of the executable, for which all guards held."""
        last = self._executable.last_run
        if last is not self._last_run:
            self._last_run = last
            recent = None if last is None or not self._covers else last.seen(self._numbers)
            self._seen = recent if recent is not None and recent.holds(arrays) else None


def guarded_call(
    traced: Traced,
    captured: CapturedInputs,
    known: HostArrays | DeviceArrays,
    expected: Sequence[tuple[type, Any, Any, Any]],
    replay: Callable[[Sequence[Data], Any], list[Data] | None],
    run: Callable[[list[Data], list[Data]], list[Data]],
    rebuild: Callable[[list[Data]], Any],
    record: Recorder,
    lock: Lock | None,
    name: str,
) -> FastPath:
    """The warm call of a program: its value for arguments, NotImplemented where they need the full checks.

    Args:
        traced: the program.
        captured: its captured inputs.
        known: the arrays for which its guards held.
        expected: the class, shape, element type and device of each argument.
        replay: runs the program on inputs that need no check, None for other inputs.
        run: runs it with all checks, on all inputs and the arguments among them, and applies its effects.
        rebuild: what the function returns for its results.
        record: records a call for its gradient.
        lock: held while the call updates captured tensors, None where it updates none.
        name: the function's name, for messages.
    """
    guards, effects, count = traced.guards, traced.effects, traced.effects.count
    has_effects = bool(count or effects.replaced_gradients)
    is_recorded = bool(traced.activity) and not effects.sets_leaves

    def call(args: Sequence[Any]) -> Any:
        arguments = matching_arrays(expected, args)
        if arguments is None or not settings_hold(guards):
            return NotImplemented
        with UNLOCKED if lock is None else lock.now:
            arrays = captured.arrays()
            seen = known.seen(arrays)
            if (seen is None and not known.holds(arrays)) or not known.disjoint(arguments):
                return NotImplemented
            recorded = record(args) if is_recorded and MODE.recording else None
            inputs = captured.with_arguments(arguments, arrays)
            results = replay(inputs, seen)
            if results is None:
                results = run(inputs, arguments)
            elif has_effects:
                kept = len(results) - count
                apply_effects(effects, results[kept:], name)
                results = results[:kept]
            known.note(arrays, seen)
        value = rebuild(results)
        if recorded is not None:
            recorded(value)
        return value

    return call


def unguarded_call(
    classes: Sequence[type], replay: Callable[[Sequence[Data]], list[Data] | None], rebuild: Callable[[Any], Any]
) -> FastPath:
    """The warm call of a program on the host that depends on its arguments alone, for arguments of these classes."""
    wanted = tuple(classes)

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
        return NotImplemented if results is None else rebuild(results)

    return call


def rebuild_tensors(traced: Traced, descs: Sequence[TensorDesc | None]) -> Callable[[Sequence[Data]], Any]:
    """What a function returns for the arrays of its result tensors, whose types are `descs`."""
    kind, leaves = traced.outputs.kind, traced.leaves
    if kind is None and leaves == (None,):
        desc = descs[0]
        return lambda results: tensor_of(results[0], desc)
    is_flat = kind in (tuple, list) and all(child.kind is None for child in traced.outputs.children)
    if not is_flat or any(isinstance(leaf, ReturnedArgument) for leaf in leaves):
        return lambda results: traced.rebuild(list(map(tensor_of, results, descs)))

    make: Any = kind
    constants: Any = leaves

    def flat(results: Sequence[Data]) -> Any:
        tensors = map(tensor_of, results, descs)
        return make([next(tensors) if leaf is None else leaf[0] for leaf in constants])

    return flat
