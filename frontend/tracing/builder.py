"""The builder of a trace: emits the operations of a function, and collects what the function reads and updates."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import numpy as np

from oneflow.dialect._mlir import arith, ir
from oneflow.dialect.builder import Value
from oneflow.dialect.dtypes import DType
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.numpy_builder import describe_array
from oneflow.dialect.record import REGISTRY, Call, OperatorError, distribute
from oneflow.dialect.reverse import Entry, Renamed, one_of, pull_back
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import to_array
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.dispatch import Stateful, TensorBuilder
from oneflow.frontend.core.errors import SourceLocation, fail, user_location
from oneflow.frontend.core.hooks import Hooks
from oneflow.frontend.core.layouts import PlacementCollector
from oneflow.frontend.core.spec import TensorSpec
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import MODE, Leaf, set_grad_enabled
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.activity import propagate
from oneflow.frontend.tracing.capture import Captures, RuntimeNumber, default_device, layout_of
from oneflow.frontend.tracing.functionalization import Functionalization
from oneflow.frontend.tracing.guards import Read
from oneflow.runtime.global_array import Placement


class TraceBuilder(IRBuilder, TensorBuilder):
    """Emits the operations of one function, each at its line of the user's program.

    Every operation is recorded on each of `tapes`, for gradients. `in_checkpoint` says that the operations are part
    of a checkpoint, whose gradient builds these operations again. `owned` are the tensors by which `flow.grad` and
    related functions take gradients, `arguments` the tensors that the function is called with, of `argument_specs`.
    `assumed_device` is the answer of the function's queries for its device.
    """

    def __init__(
        self,
        block: ir.Block,
        inline_bytes: float,
        placement: Placement | None = None,
        chosen_device: Device | None = None,
    ) -> None:
        super().__init__(REGISTRY, ir.InsertionPoint(block))
        self.block, self.inline_bytes = block, inline_bytes
        self.placements = PlacementCollector(placement)
        self.chosen_device, self.assumed_device = chosen_device, chosen_device
        self.captures = Captures(self._input)
        self.tapes: list[list[Entry]] = []
        self.leaf_tape: list[Entry] = []
        self.in_checkpoint = False
        self.owned: list[Tensor] = []
        self.arguments: list[Tensor] = []
        self.argument_specs: list[TensorSpec] = []
        self.functionalization = Functionalization(self)
        self.ending = ExitStack()
        self._waiting: deque[Callable[[], None]] = deque()
        self._most_waiting = 0
        self._hooks: dict[int, tuple[Tensor, Hooks]] = {}
        self._constants: dict[int, tuple[Any, np.ndarray, Tensor]] = {}

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Creates the operation, with the user's line as its location."""
        self.loc = location(user_location())
        for desc in results:
            if desc.is_too_large:
                raise fail(f"oneflow.{op.record.name}: a result has more than 2^63 - 1 bytes: {desc}")
        tensors = [Tensor(self, v.handle, v.desc) for v in super().emit(op, results)]
        if MODE.recording and (self.tapes or self.captures.leaves):
            outputs = distribute(op.record.signature.outputs, tensors, None)
            self.record_entry(Call(op.record, op.inputs, op.attrs, outputs))
        return cast(list[Value], tensors)

    def retype(self, value: Value, desc: TensorDesc) -> Value:
        """`value` cast to the type of `desc`."""
        renamed = super().retype(value, desc)
        if renamed is not value:
            self.record_entry(Renamed((value,), (renamed,)))
        return renamed

    def _input(self, desc: TensorDesc) -> Tensor:
        return Tensor(self, self.block.add_argument(desc.to_mlir(), location(user_location())), desc)

    @property
    def inlines(self) -> bool:
        """Whether everything that is captured is written into the program."""
        return self.inline_bytes == float("inf")

    def read(self, tensor: Tensor) -> Value:
        """The current value of a tensor of this trace, or of a captured tensor."""
        if isinstance(tensor, EagerTensor):
            if self.inlines:
                return self.constant(tensor.variable.handle)
            if (layout := layout_of(tensor)) is not None:
                self.add_placement(layout[0])
            return self.captures.current_value(tensor)
        if tensor.builder is not self:
            raise fail(
                "a tensor of another trace: the tensor belongs to a function whose tracing has ended; pass "
                "the tensor as an argument"
            )
        return self.functionalization.current_value(tensor)

    def record_view(self, name: str, operands: Sequence[Any], attrs: dict[str, Any], result: Tensor) -> None:
        """Notes a result that shares elements with the first operand, which the function may update."""
        if not (self.inlines and isinstance(operands[0], EagerTensor)):
            self.functionalization.add(name, operands, attrs, result)

    @property
    def device(self) -> Device:
        """The device on which the function runs: the device chosen by the user, else the device of the tensors
        captured so far.
        """
        self.assumed_device = self.chosen_device or default_device(self.captures.inputs)
        return self.assumed_device

    def checked_device(self) -> Device:
        """The device by all captured tensors.

        Raises:
            TraceError: the function has read another device.
        """
        assumed, final = self.assumed_device, self.device
        if assumed not in (None, final):
            raise fail(
                f"the function asked for its device before it read a tensor on {final}; ask that tensor, or pass "
                f'device="{final}" to flow.compile'
            )
        return final

    def live_tensors(self) -> list[Tensor]:
        """The current values of updated tensors and of views, which the function may read later."""
        return [*(state.current for state in self.captures.states.values()), *self.functionalization.values()]

    def unrecord_view(self, result: Tensor) -> None:
        """Notes that a result shares no elements with another tensor."""
        self.functionalization.forget(result)

    def is_copy(self, reshaped: Tensor) -> bool:
        """Whether a reshape would copy elements in eager mode; False where sizes are dynamic."""
        return self.functionalization.is_copy(reshaped)

    def is_contiguous(self, tensor: Tensor) -> bool:
        """Whether a tensor would be contiguous in eager mode."""
        return self.functionalization.is_contiguous(tensor)

    def memory_root(self, tensor: Tensor) -> tuple[Tensor, int]:
        """The tensor whose memory a tensor would share in eager mode, and the position of the first element there."""
        return self.functionalization.memory_root(tensor)

    def add_placement(self, placement: Placement | None) -> str:
        """Records the placement of a tensor of the function; returns its name in the program.

        Raises:
            TraceError: its ranks are on another kind of device than the ranks of other tensors.
        """
        try:
            return self.placements.add(placement)
        except ValueError as error:
            raise fail(str(error)) from None

    @property
    def has_placements(self) -> bool:  # type: ignore[override]
        """Whether the tensors known so far have several placements."""
        return len(self.placements.known) > 1

    def to_tensor(self, value: Value) -> Tensor:
        """A value of the trace as a tensor: the value itself."""
        assert isinstance(value, Tensor)
        return value

    def assign(self, tensor: Tensor, value: Tensor, writer: str) -> None:
        """Gives a tensor a new value."""
        new = self.to_tensor(self.read(value))
        if not isinstance(tensor, EagerTensor):
            self._check_own(tensor, writer)
            self.functionalization.assign(tensor, new, writer)
        elif self.inlines:
            raise fail(f"{writer} of {tensor.desc}: only flow.compile updates tensors from outside of the function")
        else:
            self.captures.assign(tensor, new, writer)

    def _check_own(self, tensor: Tensor, writer: str) -> None:
        """Refuses updates of tensors that a gradient is taken by, and of arguments whose caller would not see the
        update.
        """
        if self.inlines and any(tensor is x for x in self.arguments):
            raise fail(f"{writer} of {tensor.desc}: only flow.compile updates arguments; update x.clone()")
        if any(tensor is x for x in self.owned):
            raise fail(
                f"{writer} would update a leaf that requires grad, which a gradient is taken by; update x.clone()"
            )

    def updated_arguments(self) -> list[tuple[int, Tensor]]:
        """The arguments that the function updates, by their numbers, with their values at the end."""
        current_values = ((n, x, self.functionalization.current_value(x)) for n, x in enumerate(self.arguments))
        return [(n, current) for n, x, current in current_values if current.handle != x.handle]

    def number(self, get: Callable[[], float], dtype: DType) -> Tensor:
        """A tensor of one number, which is read at every run."""
        if self.inlines:
            return self.constant(np.asarray(get(), dtype.numpy))
        return self.captures.add(RuntimeNumber(get, dtype), TensorDesc((), dtype))

    def guard(self, read: Read, owner: Any, key: Any) -> Any:
        """A value from outside; the program is guarded on the value."""
        return self.captures.guards.add_value(read, owner, key)

    def guard_items(self, owner: Any, name: str, keys: Sequence[int]) -> None:
        """Guards the program on objects in nested dicts."""
        self.captures.guards.add_items(owner, name, keys)

    def on_trace_end(self, restore: Callable[[], None]) -> None:
        """Has `restore` called when the trace ends."""
        self.ending.callback(restore)

    def watch_hooks(self, version: Callable[[], int]) -> None:
        """Guards the program on hooks, whose changes `version` counts."""
        self.captures.guards.add_version(version)

    def watch(self, owner: Stateful) -> None:
        """Guards the program on the facts of `owner`."""
        self.captures.watch(owner)

    def get_grad(self, leaf: Leaf) -> Any:
        """The current gradient of a leaf."""
        self._run_waiting()
        return self.captures.gradient(leaf).current

    def set_grad(self, leaf: Leaf, grad: Any) -> None:
        """Replaces the gradient of a leaf."""
        self._run_waiting()
        self.captures.gradient(leaf, read=False).current = grad

    def backward(
        self, tensors: Sequence[Tensor], weights: Sequence[Any], retain: bool, create_graph: bool, leaves: Any
    ) -> None:
        """Accumulates gradients at captured leaves; see `autograd.backward`."""
        seeds = self._seeds(tensors, weights)
        self._run_in_turn(lambda: self._accumulate(seeds, create_graph, leaves))

    def _accumulate(self, seeds: Sequence[tuple[Value, Value]], create_graph: bool, leaves: Any) -> None:
        grads = [g for g in self._leaf_gradients(seeds, create_graph) if leaves is None or g[0] in leaves]
        with set_grad_enabled(create_graph):
            self.captures.accumulate(self, grads, create_graph)

    def _run_in_turn(self, backward: Callable[[], None]) -> None:
        """Runs a backward pass, or the first of as many as may wait."""
        self._waiting.append(backward)
        if len(self._waiting) > self._most_waiting:
            self._waiting.popleft()()

    @contextmanager
    def interleaved(self, count: int) -> Iterator[None]:
        """A context in which the backward pass of a loss waits until `count` losses are computed, so that the stages
        of a pipeline compute at the same time (the 1F1B schedule). A gradient that is read or set ends the wait.
        """
        self._most_waiting = count - 1
        yield
        self._most_waiting = 0
        self._run_waiting()

    def _run_waiting(self) -> None:
        """Runs the backward passes that wait, in their order."""
        while self._waiting:
            self._waiting.popleft()()

    def gradients(
        self, tensors: Sequence[Tensor], weights: Sequence[Any], create_graph: bool
    ) -> list[tuple[Leaf, Tensor]]:
        """The gradients by captured leaves: one for each value that a leaf has had in the trace."""
        return self._leaf_gradients(self._seeds(tensors, weights), create_graph)

    def _seeds(self, tensors: Sequence[Tensor], weights: Sequence[Any]) -> list[tuple[Value, Value]]:
        return [(self.read(t), self._seed(t, w)) for t, w in zip(tensors, weights, strict=True)]

    def _leaf_gradients(self, seeds: Sequence[tuple[Value, Value]], create_graph: bool) -> list[tuple[Leaf, Tensor]]:
        with set_grad_enabled(create_graph):
            try:
                grads = self.pull_back(self.leaf_tape, seeds, [t for t, _ in self.captures.leaves])
            except OperatorError as error:
                raise fail(str(error)) from None
        return [(leaf, g) for (_, leaf), g in zip(self.captures.leaves, grads, strict=True) if isinstance(g, Tensor)]

    def pull_back(self, tape: Sequence[Entry], seeds: Sequence[tuple[Any, Any]], wrt: Sequence[Any]) -> list[Any]:
        """The gradients by `wrt`, after the hooks of the tensors on the way; see `reverse.pull_back`."""
        return pull_back(self, tape, seeds, wrt, finalize=self._apply_hooks)

    def _apply_hooks(self, value: Value, grad: Value) -> Value:
        """The gradient of a tensor after the hooks of the tensor."""
        _, hooks = self._hooks.get(id(value), (None, None))
        return self.read(hooks.apply(self.to_tensor(grad))) if hooks else grad

    def hooks_of(self, tensor: Tensor) -> Hooks:
        """The hooks on the gradient of a tensor of this trace."""
        value = self.to_tensor(self.read(tensor))
        return self._hooks.setdefault(id(value), (value, Hooks()))[1]

    def renamed(self, tensor: Tensor) -> Tensor:
        """The same elements as another object, which gradients distinguish from `tensor`."""
        inside = self.to_tensor(self.read(tensor))
        return Tensor(self, inside.handle, inside.desc)

    def receives_gradient(self, tensor: Tensor) -> bool:
        """Whether a gradient that is asked for may flow to a tensor."""
        active = {id(v) for v in (*self.owned, *(v for v, _ in self.captures.leaves))}
        for tape in (self.leaf_tape, *self.tapes):
            propagate(active, tape)
        return id(self.read(tensor)) in active

    def _seed(self, result: Tensor, weight: Any) -> Value:
        if weight is not None:
            return self.read(weight)
        if result.desc.element_count != 1 or result.dtype.is_complex:
            raise fail(f"expected one real element to call backward without a gradient, got {result.desc}")
        return one_of(self, result.desc)

    @contextmanager
    def isolated_tape(self) -> Iterator[list[Entry]]:
        """A context with a tape of its own in place of all others."""
        outer, inner = (self.tapes, self.leaf_tape, self.in_checkpoint), list[Entry]()
        self.tapes, self.leaf_tape, self.in_checkpoint = [inner], [], True
        try:
            yield inner
        finally:
            self.tapes, self.leaf_tape, self.in_checkpoint = outer

    def record_entry(self, entry: Entry) -> None:
        """Adds an entry to the tapes."""
        for tape in self.tapes if MODE.recording else ():
            tape.append(entry)
        if MODE.recording and self.captures.leaves:  # gradients by those may be asked for
            self.leaf_tape.append(entry)

    def wrap(self, value: Any) -> Value:
        """An MLIR value as a value of the builder, or an array as a constant."""
        return super().wrap(value) if isinstance(value, ir.Value) else self.constant(value)

    def constant(self, value: Any) -> Tensor:
        """The present values of an array; the same array, unchanged, gives the same tensor again."""
        array = to_array(value)
        known = self._constants.get(id(value))
        if known is not None and np.array_equal(known[1], array):
            return known[2]
        own = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
        tensor = self._inline(own) if own.nbytes <= self.inline_bytes else self.captures.add(own, describe_array(own))
        self._constants[id(value)] = (value, own, tensor)
        return tensor

    def _inline(self, array: np.ndarray) -> Tensor:
        desc = describe_array(array)
        if desc.dtype.is_complex:
            pairs = self._inline(np.stack([array.real, array.imag], -1))
            return self.call("view_as_complex", pairs)[0]  # type: ignore[return-value]
        if desc.dtype.kind == "uint":
            signed = self._inline(array.view(f"i{array.dtype.itemsize}"))
            return self.call("cast", signed, dtype=desc.dtype)[0]  # type: ignore[return-value]
        element = ir.Type.parse(desc.dtype.mlir)
        dense = ir.DenseElementsAttr.get(array, type=element, shape=list(array.shape))
        value = arith.ConstantOp(desc.to_mlir(), dense, ip=self.ip, loc=location(user_location())).result
        return Tensor(self, value, desc)


def location(source: SourceLocation) -> ir.Location:
    """A source location as an MLIR location in the current context."""
    return ir.Location.file(source.file, source.line, source.column)
