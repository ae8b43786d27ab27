"""Hooks on residuals, the tensors that calls save for gradients: `flow.autograd.graph.saved_tensors_hooks`.

A call that is recorded within the context keeps what the first function makes of each tensor that its gradient reads,
in place of the tensor; the second function gives the tensor back when the gradient is computed. Functions may so keep
tensors on another device or on disk. Compiled functions and `flow.checkpoint` have no saved tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.record import REGISTRY, Call, Operator, distribute
from oneflow.dialect.reverse import substituted
from oneflow.frontend.core.arrays import device_name, is_on_ranks
from oneflow.frontend.core.devices import device, move
from oneflow.frontend.core.errors import refuse
from oneflow.frontend.core.gradient_reads import gradient_reads
from oneflow.frontend.eager.builder import stale_value_error
from oneflow.frontend.eager.tape import MODE, Node, Variable, no_grad, record
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor


class saved_tensors_hooks:  # noqa: N801 (OneFlow's name)
    """A context in which calls keep `pack_hook(tensor)` for a gradient; the gradient reads `unpack_hook` of that.

    `unpack_hook` returns a tensor of the type, shape and device of the tensor that `pack_hook` received. Of nested
    contexts the inner one applies.

    Raises:
        TypeError: a hook is not callable.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        for hook in (pack_hook, unpack_hook):
            if not callable(hook):
                raise TypeError(f"expected two functions for saved_tensors_hooks, got {hook!r}")
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._before: list[Any] = []

    def __enter__(self) -> None:
        self._before.append(MODE.saved_hooks)
        MODE.saved_hooks = self

    def __exit__(self, *_: object) -> None:
        MODE.saved_hooks = self._before.pop()

    def node(self, op: Operator, inputs: dict[str, Any], attrs: dict[str, Any]) -> Node:
        """The node of a call. Functions and recomputed parts have their own records, and save tensors themselves."""
        return (_PackedNode if REGISTRY.find(op.name) is op else Node)(op, inputs, attrs)

    def save(self, node: Node) -> None:
        """Keeps what the hook makes of the tensors that the gradient of a call with known results reads."""
        if isinstance(node, _PackedNode):
            node.pack(self)


class Packed:
    """The value that a pack hook returned for one tensor."""

    def __init__(self, hooks: saved_tensors_hooks, variable: Variable) -> None:
        self._unpack = hooks.unpack_hook
        self._memory, self._version = variable.shared_memory(), variable.version
        with _without_hooks(), no_grad():
            self._kept = hooks.pack_hook(EagerTensor(variable.alias()))

    def restored(self, variable: Variable) -> Variable:
        """The saved tensor as a variable through which gradients flow to `variable`.

        Raises:
            RuntimeError: the hook returns a tensor of another type, or the memory of the saved tensor, which was
                updated in place.
        """
        with _without_hooks(), no_grad():
            tensor = self._unpack(self._kept)
        if not isinstance(tensor, EagerTensor) or tensor.desc != variable.desc:
            got = tensor.desc if isinstance(tensor, EagerTensor) else repr(tensor)
            raise refuse(f"expected unpack_hook to return a tensor of type {variable.desc}, got {got}")
        found = tensor.variable
        if found.memory is self._memory and self._memory.version != self._version:
            raise stale_value_error("saved_tensors_hooks", variable)
        fresh = found.alias()
        if MODE.recording and variable.requires_grad:
            with _without_hooks():
                record(BUILDER.registry["depend"], {"in": variable, "depend_tensor": found}, {}, [fresh])
        return fresh


class _without_hooks(saved_tensors_hooks):  # noqa: N801 (a context, like its base class)
    """A context in which no hook is called."""

    def __init__(self) -> None:
        self._before = []

    def __enter__(self) -> None:
        super().__enter__()
        MODE.saved_hooks = None


@dataclass(frozen=True)
class Link:
    """A result of a recorded call, without its elements."""

    node: Node
    index: int

    def variable(self) -> Variable:
        """The variable of the result that all calls have."""
        return self.node.result(BUILDER, self.index)


def linked(variable: Variable) -> Variable | Link:
    """A variable whose elements are not kept: a leaf itself, a link to a result, or a constant without elements."""
    if variable.leaf is not None or is_on_ranks(variable.handle):
        return variable
    if variable.node is None:
        return Variable(variable.builder, None, variable.desc)
    return Link(variable.node, next(i for i, r in enumerate(variable.node.results) if r() is variable))


def resolved(slot: Any) -> Any:
    """A slot of a call with variables in place of links."""
    if isinstance(slot, tuple):
        return tuple(map(resolved, slot))
    return slot.variable() if isinstance(slot, Link) else slot


class _PackedNode(Node):
    """A recorded call that keeps no elements of operands and results except elements that hooks keep.

    `packed` has what hooks made of operands and then results, by index.
    """

    __slots__ = ("packed",)

    def pack(self, hooks: saved_tensors_hooks) -> None:
        """Replaces what the call keeps, when all results are known."""
        call = super().call(BUILDER)
        values: list[Any] = [*call.operands, *call.results]
        reads = gradient_reads(call, values)
        once: dict[int, Packed] = {}
        for value, read in zip(values, reads, strict=True):
            if read and id(value) not in once:
                once[id(value)] = Packed(hooks, value)
        self.packed = {i: once[id(v)] for i, v in enumerate(values) if id(v) in once}
        self.inputs = {
            k: tuple(map(linked, v)) if isinstance(v, tuple) else v if v is None else linked(v)
            for k, v in call.inputs.items()
        }
        self.result_values = [
            (array if is_on_ranks(array) else None, desc, memory, version)
            for array, desc, memory, version in self.result_values
        ]

    def move(self, variable: Variable) -> None:
        """Does nothing: the elements of results are not kept."""

    def operands(self) -> dict[str, Any]:
        """The operands by name."""
        return {k: resolved(slot) for k, slot in super().operands().items()}

    def call(self, builder: Builder) -> Call:
        """The call, with a gradient that reads the tensors of hooks."""
        call = super().call(builder)
        return Call(replace(self.record, grad=self._gradient), call.inputs, call.attrs, call.outputs)

    def free(self, call: Call) -> None:
        """Drops all that the call keeps."""
        self.inputs, self.result_values, self.packed = None, [], {}

    def _gradient(self, ops: Any, op: Call, *cotangents: Value | None) -> Any:
        """The gradient slot; a probe of the slot asks for types alone."""
        rule: Any = self.record.grad
        if ops is not BUILDER:
            return rule(ops, op, *cotangents)
        where = next(device_name(c.handle) for c in cotangents if c is not None)
        values: list[Any] = [*op.operands, *op.results]
        mapping = {id(v): self._value(i, v, where) for i, v in enumerate(values)}
        inputs = {k: substituted(v, mapping) for k, v in op.inputs.items()}
        results = [mapping[id(r)] for r in op.results]
        inner = Call(self.record, inputs, op.attrs, distribute(op.record.signature.outputs, results, None))
        inner.wanted, inner.maybe_nonfinite = op.wanted, op.maybe_nonfinite
        return rule(ops, inner, *cotangents)

    def _value(self, index: int, variable: Variable, where: str) -> Variable:
        """An operand or result for the gradient: the hook's tensor, or any elements if only the shape is read."""
        if index in self.packed:
            return self.packed[index].restored(variable)
        if variable.handle is not None:
            return variable
        sizes = [d or 0 for d in variable.desc.shape or ()]
        return Variable(BUILDER, move(np.empty(sizes, variable.desc.dtype.numpy), device(where)), variable.desc)
