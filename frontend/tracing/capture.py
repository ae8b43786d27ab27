"""Captures: values that a traced function reads from outside its arguments.

Arrays are copied. A scalar that changes (a learning rate, a seed) is read at every run. An eager tensor is an input
that every run passes. If the function updates the tensor, its new value is a further result, written back
after the run, and the input has the attribute `oneflow.donated = n`: result n may take the memory of the input.
Anything else that the function depends on is a guard (`guards.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from oneflow.dialect.dtypes import DType
from oneflow.dialect.nd_sbp import broadcast
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import device_name, is_on_device, is_on_ranks
from oneflow.frontend.core.devices import Device, device
from oneflow.frontend.core.dispatch import Stateful, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.generator import Generator
from oneflow.frontend.core.layouts import ProgramPlacements, ValueLayout
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.kernels import intern
from oneflow.frontend.eager.tape import MODE, Leaf
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.alias_guards import GradientOf
from oneflow.frontend.tracing.guards import Guards
from oneflow.frontend.tracing.states import Key, MemoryState, MemoryStates, changed_states, key_of


class RuntimeScalar:
    """A scalar that every run reads by `get`; `last` is the value of the last run, with its array.

    If the scalar is the next seed of a generator, `generator` is the generator, else None.
    """

    __slots__ = ("dtype", "generator", "get", "last")

    def __init__(self, get: Callable[[], float], dtype: DType) -> None:
        self.get, self.dtype = get, dtype.numpy
        owner = getattr(get, "__self__", None)
        self.generator = owner if isinstance(owner, Generator) else None
        self.last: tuple[Any, Any] = None, None


def layout_of(captured: Any) -> Any:
    """The placement and layout of a global tensor, None for any other tensor."""
    data = captured.handle.handle if isinstance(captured, EagerTensor) else None
    return (data.placement, data.nd) if is_on_ranks(data) else None


@dataclass(eq=False)
class LeafGradient:
    """The gradient of a leaf while a function is traced: None, a tensor from outside, or a tensor of the trace.

    `before` is `UNREAD` where the function sets the gradient without reading the gradient first; the gradient is then
    set in any case.
    """

    leaf: Leaf
    before: Any
    current: Any


#: Stands for the earlier gradient where the function has not read the gradient.
UNREAD = object()
HOST = device("cpu")


@dataclass
class Captures:
    """All captures of one trace.

    `bind` makes a program input of a type. `inputs` are arrays, tensors and functions that return a number, in the
    order of the program inputs. `leaves` are tensors of the trace whose gradients are accumulated outside, with their
    leaves. The program is valid while the `guards` hold.
    """

    bind: Callable[[Any], Tensor]
    inputs: list[Any] = field(default_factory=list)
    states: MemoryStates = field(default_factory=MemoryStates)
    gradients: dict[int, LeafGradient] = field(default_factory=dict)
    leaves: list[tuple[Tensor, Leaf]] = field(default_factory=list)
    guards: Guards = field(default_factory=Guards)
    owners: dict[int, tuple[Stateful, dict[Any, Any]]] = field(default_factory=dict)

    def add(self, captured: Any, desc: Any) -> Tensor:
        """Adds an input."""
        self.inputs.append(captured)
        return self.bind(desc)

    def state(self, tensor: EagerTensor) -> MemoryState:
        """The state of a captured tensor; tensors with the same elements and connected gradients share one."""
        variable = tensor.variable
        if MODE.recording and (variable.node is not None or _is_part_of_leaf(tensor)):
            raise fail(
                f"{variable.desc} from outside was computed and has a gradient: write x.detach(), or pass the tensor "
                f"as an argument"
            )
        known = self.states.get(key := key_of(tensor)) or self._add_state(key, tensor)
        self.guards.aliases.watch(tensor, known.tensor)
        return known

    def _add_state(self, key: Key, tensor: EagerTensor, value: Tensor | None = None) -> MemoryState:
        """Adds a state: with `value`, or as an input, which states of the same elements share."""
        overlapping = self.states.overlapping(key.region)
        same = next((s for s in overlapping if s.region == key.region), None)
        if value is not None:
            argument = -1
        elif same is not None:
            argument, value = same.argument, Tensor(same.input.builder, same.input.handle, same.input.desc)
        else:
            argument, value = len(self.inputs), self.add(tensor, tensor.variable.desc)
        return self.states.add(key, MemoryState(tensor, argument, value, key, overlapping))

    def current_value(self, tensor: EagerTensor) -> Tensor:
        """The current value of a captured tensor in the trace; for a leaf a separate object, by which gradients
        are asked for.
        """
        state, leaf = self.state(tensor), tensor.variable.leaf
        state.synchronize()
        if leaf is None:
            return state.current
        if leaf not in state.views:
            state.views[leaf] = view = Tensor(state.current.builder, state.current.handle, state.current.desc)
            self.leaves.append((view, leaf))
        return state.views[leaf]

    @contextmanager
    def substituted(self, values: Sequence[tuple[EagerTensor, Tensor]]) -> Iterator[None]:
        """A context in which captured tensors have other values, and updates of these tensors have no effect
        outside.
        """
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
            state.current = value
        else:
            state.views[leaf] = value

    @contextmanager
    def computed(self, values: Sequence[tuple[EagerTensor, Tensor]]) -> Iterator[None]:
        """A context in which captured leaves are read as tensors that were computed from the leaves."""
        replaced: list[tuple[dict[Leaf, Tensor], Leaf, Tensor, Tensor]] = []
        for tensor, value in values:
            views, leaf = self.state(tensor).views, tensor.variable.leaf
            assert leaf is not None
            replaced.append((views, leaf, views[leaf], value))
            views[leaf] = value
        try:
            yield
        finally:
            for views, leaf, view, value in reversed(replaced):
                if views.get(leaf) is value:  # the leaf was not updated
                    views[leaf] = view

    def watch(self, owner: Stateful) -> None:
        """Guards the facts of a module or optimizer, except facts that the function itself changes."""
        if id(owner) not in self.owners:
            self.owners[id(owner)] = owner, owner.facts()

    def all_guards(self) -> Guards:
        """The guards of the program; none where the function depends on its arguments alone."""
        guards = self.guards
        for owner, before in self.owners.values():
            guards.add_facts(owner, before)
        guards.aliases.seal()
        guards.recording = MODE.recording if guards.aliases.any_requires_grad else None
        return guards

    def value_layouts(
        self,
        placements: ProgramPlacements,
        updated_inputs: Sequence[ValueLayout],
        results: Sequence[tuple[str, Tensor]],
        effects: Effects,
    ) -> tuple[list[ValueLayout], list[ValueLayout]]:
        """The layouts of all arguments and results: an updated tensor keeps its layout, numbers are the same on every
        rank.
        """
        replicated: ValueLayout = None, broadcast(placements.home.mesh)
        captured: list[ValueLayout] = [layout_of(source) or replicated for source in self.inputs]
        layouts: list[ValueLayout] = [(None, None) if v.rank else replicated for _, v in results]
        first = len(results) - len(effects.results)
        for index, state in enumerate(effects.updated, first):
            layouts[index] = captured[state.argument]
        for result, index in enumerate(effects.mutated_indices, len(results) - len(effects.mutated_arguments)):
            layouts[result] = updated_inputs[index]
        return [*updated_inputs, *captured], layouts

    def assign(self, tensor: EagerTensor, value: Tensor, writer: str) -> None:
        """Gives a captured tensor a new value.

        Raises:
            TraceError: the value has another type, the tensor is a leaf that requires grad while operators are
                recorded, or the tensor is expanded.
        """
        if MODE.recording and (tensor.variable.leaf is not None or _is_part_of_leaf(tensor)):
            raise fail(f"{writer} would update a leaf that requires grad; do that within flow.no_grad()")
        state = self.state(tensor)
        if value.desc != tensor.desc:
            raise fail(f"{writer} gives {value.desc}, which does not fit into {tensor.desc}")
        if tensor.is_view():
            _check_view(tensor, writer)
        if MODE.recording:
            state.write(value)
        else:
            state.write_unrecorded(value)

    def gradient(self, leaf: Leaf, read: bool = True) -> LeafGradient:
        """The gradient of a leaf; after a read, the program is guarded on the presence of the gradient."""
        known = self.gradients.get(id(leaf))
        if known is None:
            gradient_outside = None if leaf.grad is None else GradientOf(leaf)
            known = self.gradients[id(leaf)] = LeafGradient(
                leaf, gradient_outside if read else UNREAD, gradient_outside
            )
            if read:
                self.guards.gradients.append((leaf, leaf.grad is None))
        return known

    def accumulate(self, builder: Any, gradients: Sequence[tuple[Leaf, Tensor]], create_graph: bool) -> None:
        """Adds gradients to the gradients of leaves: in place, unless they are differentiable (`create_graph`)."""
        for leaf, grad in gradients:
            self.guards.add_version(leaf.hook_changes)
            grad = leaf.hooks.apply(grad) if leaf.hooks else grad
            accumulated = self.gradient(leaf)
            total = grad if accumulated.current is None else dispatch("broadcast_add", accumulated.current, grad)
            if accumulated.current is None:
                # Each leaf needs a separate value: its gradient is updated in place later.
                accumulated.current = total if create_graph else builder.renamed(total)
            elif create_graph and not isinstance(accumulated.current, EagerTensor):
                accumulated.current = total
            else:
                builder.assign(accumulated.current, total, "backward")

    def effects(self, builder: Any, mutated_arguments: Sequence[tuple[int, Tensor]]) -> Effects:
        """The effects of a run outside of the function. `mutated_arguments` are the arguments that the function
        updates, with their new values.
        """
        updated = changed_states(self.states.values())
        for state in updated:
            state.synchronize()
        changed = [g for g in self.gradients.values() if g.current is not g.before]
        new_gradients = [
            g for g in changed if isinstance(g.current, Tensor) and not isinstance(g.current, EagerTensor)
        ]
        replaced_gradients = [(g.leaf, g.current) for g in changed if g not in new_gradients]
        for gradient in new_gradients:
            gradient.current = builder.read(gradient.current)
        return Effects(updated, new_gradients, replaced_gradients, mutated_arguments)


def _is_part_of_leaf(tensor: EagerTensor) -> bool:
    """Whether a tensor is a view through which gradients flow to a leaf."""
    return tensor.is_view() and tensor.view_meta.recorded and tensor.view_meta.root.variable.leaf is not None


def _check_view(tensor: EagerTensor, writer: str) -> None:
    """Refuses updates of views that cannot be updated in eager mode either.

    Raises:
        TraceError: the tensor is such a view.
    """
    try:
        tensor.view_meta.check(writer)
    except RuntimeError as error:
        raise fail(str(error)) from None


@dataclass(frozen=True)
class Effects:
    """The effects of a run outside of the function.

    `updated` are captured tensors that get other values, `new_gradients` gradients that are results of the program,
    `replaced_gradients` leaves whose gradient becomes another tensor or None, `mutated_arguments` the indices of
    updated arguments with their values.
    """

    updated: Sequence[MemoryState]
    new_gradients: Sequence[LeafGradient]
    replaced_gradients: Sequence[tuple[Leaf, Any]]
    mutated_arguments: Sequence[tuple[int, Tensor]]

    @property
    def results(self) -> list[Tensor]:
        """The further results of the program."""
        return (
            [s.current for s in self.updated]
            + [g.current for g in self.new_gradients]
            + [value for _, value in self.mutated_arguments]
        )

    @functools.cached_property
    def count(self) -> int:
        """The number of further results."""
        return len(self.updated) + len(self.new_gradients) + len(self.mutated_arguments)

    @functools.cached_property
    def mutated_indices(self) -> list[int]:
        """The indices of the arguments that are updated."""
        return [index for index, _ in self.mutated_arguments]

    @functools.cached_property
    def updated_inputs(self) -> list[int]:
        """The indices of the captured inputs that are updated."""
        return [state.argument for state in self.updated]

    @functools.cached_property
    def changed(self) -> list[MemoryState]:
        """The states that get other values: the updated states, and states that overlap these."""
        return list(dict.fromkeys(s for updated in self.updated for s in (updated, *updated.overlapping)))

    @functools.cached_property
    def sets_leaves(self) -> bool:
        """Whether gradients are set or leaves are updated."""
        return bool(self.new_gradients or self.replaced_gradients) or any(
            s.tensor.handle.leaf is not None for s in self.changed
        )

    @functools.cached_property
    def descs(self) -> list[TensorDesc | None]:
        """The types of gradients that are results, None for each that has a dynamic size."""
        return [intern(g.current.desc) if g.current.desc.is_static else None for g in self.new_gradients]

    def names(self) -> list[str]:
        """The names of the further results."""
        names = [f"updated.{s.argument}" for s in self.updated] + [
            f"grad.{i}" for i in range(len(self.new_gradients))
        ]
        return [*names, *(f"mutated.{index}" for index in self.mutated_indices)]

    @functools.cached_property
    def updated_tensors(self) -> list[EagerTensor]:
        """The tensors that are updated."""
        return [state.tensor for state in self.updated]

    @functools.cached_property
    def cleared_leaves(self) -> list[Leaf]:
        """The leaves that have no gradient after the run."""
        return [leaf for leaf, value in self.replaced_gradients if value is None]

    @functools.cached_property
    def leaves_set(self) -> list[tuple[Leaf, Any]]:
        """The leaves whose gradient becomes a tensor from outside."""
        return [(leaf, value) for leaf, value in self.replaced_gradients if value is not None]


def default_device(captured: Sequence[Any]) -> Device:
    """The device of a program with these captured inputs where no argument is on a device."""
    name = device_of_captures(captured)
    return HOST if name is None else device(name)


def device_of_captures(captured: Sequence[Any]) -> str | None:
    """The device of the captured tensors; None where there are no captured tensors, or all are on the host.

    Captured tensors that have dimensions decide: tensors without dimensions may be elsewhere.
    """
    tensors = sorted((c for c in captured if isinstance(c, EagerTensor)), key=lambda c: not c.rank)
    first = tensors[0].variable.handle if tensors else None
    return device_name(first) if is_on_device(first) else None
