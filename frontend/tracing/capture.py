"""What a function that is traced takes from outside its arguments: arrays, changing numbers, tensors with state.

Arrays are copied. A number that changes (a learning rate, a seed) is asked for at every run. A tensor of eager mode
is an input that is passed at every run; where the function updates it, the new value is one more result, written back
after the run, and the argument has the attribute `oneflow.donated = n`: result n may take the argument's memory. What
the function depends on otherwise is a `Guard`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneflow.dialect.dtypes import DType
from oneflow.dialect.nd_sbp import broadcast
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import Data, is_on_ranks
from oneflow.frontend.core.dispatch import Stateful, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.hooks import VersionGuard
from oneflow.frontend.core.layouts import ProgramPlacements, ValueLayout
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.kernels import intern
from oneflow.frontend.eager.tape import MODE, Leaf, is_grad_enabled
from oneflow.frontend.eager.tensor import EagerTensor, from_program, wrapped
from oneflow.frontend.tracing.alias_guards import AliasGuard, GradientOf
from oneflow.frontend.tracing.callables import value_key
from oneflow.frontend.tracing.guards import GradientPresence, Guard
from oneflow.frontend.tracing.states import Key, MemoryState, MemoryStates, changed_states, key_of


class RuntimeNumber:
    """A number as an array, the same one as long as it is the same float."""

    def __init__(self, get: Callable[[], float], dtype: DType) -> None:
        self._get, self._dtype = get, dtype
        self._number: Any = None

    def __call__(self) -> np.ndarray:
        number = self._get()
        if number is not self._number or type(number) is not float:
            self._number, self._array = number, np.asarray(number, self._dtype.numpy)
        return self._array


def layout_of(given: Any) -> Any:
    """The placement and layout of a tensor from outside, None where it lies on no ranks."""
    data = given.handle.handle if isinstance(given, EagerTensor) else None
    return (data.placement, data.nd) if is_on_ranks(data) else None


@dataclass(eq=False)
class Gradient:
    """The gradient of a leaf while a function is traced: `None`, a tensor from outside, or one of the trace.

    `before` is `UNREAD` where the function sets it first: that is done in any case.
    """

    leaf: Leaf
    before: Any
    now: Any


#: What a gradient was before that the function has not read.
UNREAD = object()


@dataclass
class Captures:
    """Everything that one trace takes from outside.

    `bind` makes an input of a type. `inputs` are arrays, tensors and functions that give numbers, in the order of the
    inputs. `leaves` are tensors of the trace whose gradients are added up outside; `hooks` those that were called.
    The program holds while the tensors are `alias_guard`.
    """

    bind: Callable[[Any], Tensor]
    inputs: list[Any] = field(default_factory=list)
    states: MemoryStates = field(default_factory=MemoryStates)
    gradients: dict[int, Gradient] = field(default_factory=dict)
    leaves: list[tuple[Tensor, Leaf]] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    hooks: VersionGuard = field(default_factory=VersionGuard)
    presence: GradientPresence = field(default_factory=GradientPresence)
    alias_guard: AliasGuard = field(default_factory=AliasGuard)
    owners: dict[int, tuple[Stateful, dict[Any, Any]]] = field(default_factory=dict)

    def add(self, given: Any, desc: Any) -> Tensor:
        """A further input."""
        self.inputs.append(given)
        return self.bind(desc)

    def state(self, tensor: EagerTensor) -> MemoryState:
        """The state that a tensor from outside is; those of the same elements and the same gradients are one."""
        variable = tensor.variable
        if MODE.recording and (variable.node is not None or _is_part_of_leaf(tensor)):
            raise fail(
                f"{variable.desc} from outside was computed and has a gradient: write x.detach(), or pass it in"
            )
        known = self.states.get(key := key_of(tensor)) or self._add_state(key, tensor)
        self.alias_guard.watch(tensor, known.outside)
        return known

    def _add_state(self, key: Key, tensor: EagerTensor, value: Tensor | None = None) -> MemoryState:
        """A state, with `value` or as the input that it is, which it may share with others of the same elements."""
        overlapping = self.states.overlapping(key.region)
        same = next((s for s in overlapping if s.region == key.region), None)
        if value is not None:
            argument = -1
        elif same is not None:
            argument, value = same.argument, Tensor(same.input.builder, same.input.handle, same.input.desc)
        else:
            argument, value = len(self.inputs), self.add(tensor, tensor.variable.desc)
        return self.states.add(key, MemoryState(tensor, argument, value, key, overlapping))

    def present(self, tensor: EagerTensor) -> Tensor:
        """The value of a tensor from outside in the trace; that of a leaf is what its gradient is asked by."""
        state, leaf = self.state(tensor), tensor.variable.leaf
        state.synchronize()
        if leaf is None:
            return state.now
        if leaf not in state.views:
            state.views[leaf] = view = Tensor(state.now.builder, state.now.handle, state.now.desc)
            self.leaves.append((view, leaf))
        return state.views[leaf]

    @contextmanager
    def substituted(self, values: Sequence[tuple[EagerTensor, Tensor]]) -> Iterator[None]:
        """Within it tensors from outside have other values, and what updates them changes nothing outside."""
        outer, self.states = self.states, MemoryStates()
        try:
            for tensor, value in values:
                self._substitute(tensor, value)
            yield
        finally:
            self.states = outer

    def _substitute(self, tensor: EagerTensor, value: Tensor) -> None:
        key, leaf = key_of(tensor), tensor.variable.leaf
        state = self.states.get(key) or self._add_state(key, tensor, value)
        if leaf is None:
            state.now = value
        else:
            state.views[leaf] = value

    def watch(self, owner: Stateful) -> None:
        """Notes the facts of a module, of which the program is for those that the function itself leaves alone."""
        if id(owner) not in self.owners:
            self.owners[id(owner)] = owner, owner.facts()

    def all_guards(self) -> list[Guard]:
        """All that has to be as it was; nothing where the function depends on its arguments alone."""
        for owner, before in self.owners.values():
            self.hooks.watch(_facts_guard(owner, before))
        watched = [Guard(self.hooks, True)] if self.hooks else []
        watched += [Guard(self.presence, True)] if self.presence else []
        self.alias_guard.seal()
        may_return = functools.partial(self.alias_guard, leaves=False)
        watched += [Guard(self.alias_guard, True, False, may_return)] if self.alias_guard else []
        watched += [Guard(is_grad_enabled, is_grad_enabled())] if self.alias_guard.want_gradients else []
        return [*self.guards, *watched]

    def value_layouts(
        self,
        placements: ProgramPlacements,
        arguments: Sequence[ValueLayout],
        results: Sequence[tuple[str, Tensor]],
        effects: Effects,
    ) -> tuple[list[ValueLayout], list[ValueLayout]]:
        """How all arguments and results lie: what is updated as it is outside, single numbers on every rank."""
        whole: ValueLayout = None, broadcast(placements.home.mesh)
        captured: list[ValueLayout] = [layout_of(given) or whole for given in self.inputs]
        layouts: list[ValueLayout] = [(None, None) if v.rank else whole for _, v in results]
        first = len(results) - len(effects.results)
        for number, state in enumerate(effects.updated, first):
            layouts[number] = captured[state.argument]
        for result, number in enumerate(effects.numbers, len(results) - len(effects.mutated_arguments)):
            layouts[result] = arguments[number]
        return [*arguments, *captured], layouts

    def assign(self, tensor: EagerTensor, value: Tensor, writer: str) -> None:
        """Gives a tensor from outside a new value.

        Raises:
            TraceError: it has another type, is a leaf that requires grad while operators are recorded, or expanded.
        """
        if MODE.recording and (tensor.variable.leaf is not None or _is_part_of_leaf(tensor)):
            raise fail(f"{writer} would update a leaf that requires grad; do that within flow.no_grad()")
        state = self.state(tensor)
        if value.desc != tensor.desc:
            raise fail(f"{writer} gives {value.desc}, which does not fit into {tensor.desc}")
        if tensor.is_view:
            _check_view(tensor, writer)
        if MODE.recording:
            state.write(value)
        else:
            state.write_unrecorded(value)

    def gradient(self, leaf: Leaf, read: bool = True) -> Gradient:
        """The gradient of a leaf; once it is read the program is for that alone."""
        known = self.gradients.get(id(leaf))
        if known is None:
            held = None if leaf.grad is None else GradientOf(leaf)
            known = self.gradients[id(leaf)] = Gradient(leaf, held if read else UNREAD, held)
            if read:
                self.presence.watch(leaf)
        return known

    def accumulate(self, builder: Any, found: Sequence[tuple[Leaf, Tensor]], again: bool) -> None:
        """Adds gradients of leaves to what they have: in place, unless they can be differentiated `again`."""
        for leaf, grad in found:
            self.hooks.watch(leaf.hook_changes)
            grad = leaf.hooks.apply(grad) if leaf.hooks else grad
            held = self.gradient(leaf)
            total = grad if held.now is None else dispatch("broadcast_add", held.now, grad)
            if held.now is None:
                # One value may be the gradient of several leaves, which are updated in place one by one.
                held.now = total if again else builder.renamed(total)
            elif again and not isinstance(held.now, EagerTensor):
                held.now = total
            else:
                builder.assign(held.now, total, "backward")

    def effects(self, builder: Any, mutated_arguments: Sequence[tuple[int, Tensor]]) -> Effects:
        """What a run changes outside, after all that the function does; `mutated_arguments` are arguments that it updates."""
        updated = changed_states(self.states.values())
        for state in updated:
            state.synchronize()
        changed = [g for g in self.gradients.values() if g.now is not g.before]
        new_gradients = [g for g in changed if isinstance(g.now, Tensor) and not isinstance(g.now, EagerTensor)]
        set_gradients = [(g.leaf, g.now) for g in changed if g not in new_gradients]
        for gradient in new_gradients:
            gradient.now = builder.read(gradient.now)
        return Effects(updated, new_gradients, set_gradients, mutated_arguments)


def _is_part_of_leaf(tensor: EagerTensor) -> bool:
    """Whether gradients go through a view to a leaf, which it may have been taken of before that was one."""
    return tensor.is_view and tensor.view_meta.recorded and tensor.view_meta.root.variable.leaf is not None


def _check_view(tensor: EagerTensor, writer: str) -> None:
    """Refuses updates of views that are none outside either.

    Raises:
        TraceError: it is such a view.
    """
    try:
        tensor.view_meta.check(writer)
    except RuntimeError as error:
        raise fail(str(error)) from None


def _same_value(a: Any, b: Any) -> bool:
    """Whether facts are the same: plain values are compared, anything else has to be the same object."""
    return a is b or (isinstance(a, (bool, int, float, str)) and value_key(a) == value_key(b))


def _facts_guard(owner: Stateful, before: dict[Any, Any]) -> Callable[[], bool]:
    """Whether those facts of `owner` are the same that were when it was traced."""
    after = owner.facts()
    set_gradients = {k: v for k, v in after.items() if k in before and _same_value(before[k], v)}

    def same() -> bool:
        now = owner.facts()
        return all(_same_value(now.get(k), v) for k, v in set_gradients.items()) and now.keys() == after.keys()

    return same


@dataclass(frozen=True)
class Effects:
    """What a run changes outside: tensors that are updated, gradients that are results, and others that are set.

    `mutated_arguments` are the numbers of arguments that are updated, and their values.
    """

    updated: Sequence[MemoryState]
    new_gradients: Sequence[Gradient]
    set_gradients: Sequence[tuple[Leaf, Any]]
    mutated_arguments: Sequence[tuple[int, Tensor]]

    @property
    def results(self) -> list[Tensor]:
        """The further results of the program."""
        return (
            [s.now for s in self.updated]
            + [g.now for g in self.new_gradients]
            + [value for _, value in self.mutated_arguments]
        )

    @functools.cached_property
    def count(self) -> int:
        """How many further results there are."""
        return len(self.updated) + len(self.new_gradients) + len(self.mutated_arguments)

    @functools.cached_property
    def numbers(self) -> list[int]:
        """Which arguments are updated."""
        return [number for number, _ in self.mutated_arguments]

    @functools.cached_property
    def arguments(self) -> list[int]:
        """Which of the inputs from outside are updated."""
        return [state.argument for state in self.updated]

    @functools.cached_property
    def changed(self) -> list[MemoryState]:
        """The tensors that get other values: those that are updated, and what shares memory with them."""
        return list(dict.fromkeys(s for updated in self.updated for s in (updated, *updated.overlapping)))

    @functools.cached_property
    def sets_leaves(self) -> bool:
        """Whether gradients are set, or leaves updated, which a program is for."""
        return bool(self.new_gradients or self.set_gradients) or any(
            s.outside.handle.leaf is not None for s in self.changed
        )

    @functools.cached_property
    def descs(self) -> list[TensorDesc | None]:
        """The types of gradients that are results, None where a size is known at run time alone."""
        return [intern(g.now.desc) if g.now.desc.is_static else None for g in self.new_gradients]

    def names(self) -> list[str]:
        """Their names."""
        names = [f"updated.{s.argument}" for s in self.updated] + [
            f"grad.{i}" for i in range(len(self.new_gradients))
        ]
        return [*names, *(f"passed.{number}" for number in self.numbers)]

    def apply(self, arrays: Sequence[Data], writer: str) -> None:
        """Puts the results of a run where they belong."""
        for outside, array in zip(self._outside, arrays, strict=False):
            variable = outside.handle
            memory = variable.memory
            if memory is not None and variable.handle is array and outside.view_meta is None:
                memory.version += 1  # what `write` does: a call for each would take as long as all the rest
                memory.writer = writer
            else:
                outside.overwrite(array, writer)
        if self.new_gradients:
            self._set_new_gradients(arrays[len(self.updated) : len(self.updated) + len(self.new_gradients)])
        given = [
            (leaf, value.present if isinstance(value, GradientOf) else value) for leaf, value in self._leaves_set
        ]
        for leaf in self._cleared_leaves:
            leaf.grad = None
        for leaf, value in given:
            leaf.grad = value

    def _set_new_gradients(self, arrays: Sequence[Data]) -> None:
        """Makes arrays the gradients of leaves."""
        for gradient, desc, array in zip(self.new_gradients, self.descs, arrays, strict=True):
            gradient.leaf.grad = wrapped(array) if desc is None else from_program(array, desc)

    @functools.cached_property
    def _outside(self) -> list[EagerTensor]:
        """The tensors that are updated."""
        return [state.outside for state in self.updated]

    @functools.cached_property
    def _cleared_leaves(self) -> list[Leaf]:
        """The leaves that have no gradient afterwards."""
        return [leaf for leaf, value in self.set_gradients if value is None]

    @functools.cached_property
    def _leaves_set(self) -> list[tuple[Leaf, Any]]:
        """Those that have one from outside."""
        return [(leaf, value) for leaf, value in self.set_gradients if value is not None]
