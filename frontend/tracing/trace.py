"""Tracing: a function becomes a module by one call with tensors that have shapes and no values.

    flow.trace(fn, flow.TensorSpec((None, 64), flow.float32))

Arrays that the function captures are copied at their first use. `trace` writes them into the program;
`compile` makes those above `INLINE_BYTES` inputs, so that weights are not part of the program's text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import numpy as np

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import arith, func, ir
from oneflow.dialect.builder import Value
from oneflow.dialect.dtypes import DType
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.numpy_builder import describe_array
from oneflow.dialect.record import REGISTRY, Call, OperatorError, distribute
from oneflow.dialect.reverse import Entry, Renamed, one_of, pull_back
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import is_array, to_array
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.dispatch import Stateful, TensorBuilder, as_tensor, use_builder
from oneflow.frontend.core.errors import SourceLocation, TraceError, fail, user_location
from oneflow.frontend.core.hooks import Hooks
from oneflow.frontend.core.layouts import PlacementCollector, ProgramPlacements, annotate
from oneflow.frontend.core.pytree import Tree, flatten
from oneflow.frontend.core.spec import TensorSpec
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import MODE, Leaf, set_grad_enabled
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.activity import Activity, propagate
from oneflow.frontend.tracing.callables import (
    Callee,
    bind,
    entry_name,
    filled,
    owner_of,
    settings_of,
)
from oneflow.frontend.tracing.capture import Captures, Effects, RuntimeNumber, default_device, layout_of
from oneflow.frontend.tracing.entry import complete_entry, donate
from oneflow.frontend.tracing.functionalization import Functionalization
from oneflow.frontend.tracing.guards import Guards, Read
from oneflow.frontend.tracing.traced import ReturnedArgument, Traced
from oneflow.runtime.global_array import Placement

#: Captured arrays of more bytes than this become inputs of a compiled function.
INLINE_BYTES = 1024


class TraceBuilder(IRBuilder, TensorBuilder):
    """Emits the operations of one function, each at its line of the user's program.

    Every operation is recorded on each of `tapes`, for gradients. `in_checkpoint` says that the operations are part
    of a checkpoint, whose gradient builds these operations again. `owned` are the tensors by which `flow.grad` and
    related functions take gradients, `arguments` the tensors that the function is called with. `assumed_device` is
    the answer of the function's queries for its device.
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
        self.functionalization = Functionalization(self)
        self.ending = ExitStack()
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
        now = self.to_tensor(self.read(value))
        if not isinstance(tensor, EagerTensor):
            self._check_own(tensor, writer)
            self.functionalization.assign(tensor, now, writer)
        elif self.inlines:
            raise fail(f"{writer} of {tensor.desc}: only flow.compile updates tensors from outside of the function")
        else:
            self.captures.assign(tensor, now, writer)

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
        return [(n, now) for n, x, now in current_values if now.handle != x.handle]

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
        return self.captures.gradient(leaf).current

    def set_grad(self, leaf: Leaf, grad: Any) -> None:
        """Replaces the gradient of a leaf."""
        self.captures.gradient(leaf, read=False).current = grad

    def backward(
        self, tensors: Sequence[Tensor], weights: Sequence[Any], retain: bool, create_graph: bool, leaves: Any
    ) -> None:
        """Accumulates gradients at captured leaves; see `autograd.backward`."""
        grads = [g for g in self.gradients(tensors, weights, create_graph) if leaves is None or g[0] in leaves]
        with set_grad_enabled(create_graph):
            self.captures.accumulate(self, grads, create_graph)

    def gradients(
        self, tensors: Sequence[Tensor], weights: Sequence[Any], create_graph: bool
    ) -> list[tuple[Leaf, Tensor]]:
        """The gradients by captured leaves: one for each value that a leaf has had in the trace."""
        seeds = [(self.read(t), self._seed(t, w)) for t, w in zip(tensors, weights, strict=True)]
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


def location(place: SourceLocation) -> ir.Location:
    """A source location as an MLIR location in the current context."""
    return ir.Location.file(place.file, place.line, place.column)


def trace(fn: Callable[..., Any], *specs: Any, name: str | None = None) -> ir.Module:
    """The module of a Python function, with one `func.func` named after it.

    Args:
        fn: a function of tensors, built of oneflow's functions and operators.
        specs: one per argument: a `TensorSpec`, or lists, tuples and dicts of them; any other value is passed as
            it is, like defaults.
        name: the name of the `func.func` in place of the function's own.

    Raises:
        CallError: the specs do not fit the function's parameters.
        TraceError: at the user's line: the part of the function that cannot become a program, and a remedy.
    """
    fn = Callee.of(fn).function
    arguments = bind(fn, specs, {})
    return trace_call(fn, arguments, name or entry_name(fn), float("inf")).module


def trace_call(
    fn: Callable[..., Any],
    arguments: inspect.BoundArguments,
    name: str,
    inline_bytes: float,
    placement: Placement | None = None,
    chosen_device: Device | None = None,
) -> Traced:
    """Traces a call whose tensors are given as `TensorSpec`s.

    Captured arrays of more than `inline_bytes` become inputs of the program. `placement` are the ranks of tensors
    that say nothing else. Without a `chosen_device`, the captured tensors decide where the function runs.

    Raises:
        TraceError: at the user's line: the part of the function that cannot become a program.
    """
    leaves, tree = flatten(dict(arguments.arguments))
    specs = [leaf for leaf in leaves if isinstance(leaf, TensorSpec)]
    paths = [path for leaf, path in zip(leaves, tree.paths(), strict=True) if isinstance(leaf, TensorSpec)]
    spelled = [path for leaf, path in zip(leaves, tree.spelled(), strict=True) if isinstance(leaf, TensorSpec)]
    before, definition = settings_of(fn), _definition(fn)
    with dialect.create_context(operators=()), location(definition):
        module = ir.Module.create()
        entry = func.FuncOp(name, ([s.desc.to_mlir() for s in specs], []), ip=ir.InsertionPoint(module.body))
        builder = TraceBuilder(entry.add_entry_block(), inline_bytes, placement, chosen_device)
        traced_leaves = _argument_tensors(builder, leaves)
        arguments = filled(arguments, tree.unflatten(traced_leaves))
        returned, outputs, effects = _returned_values(builder, fn, arguments, specs)
        results = [(p, v) for p, v in zip(outputs.paths(), returned, strict=True) if isinstance(v, Tensor)]
        results += list(zip(effects.names(), effects.results, strict=True))
        _expect_results(name, definition, results, returned)
        names = [s.name or path for s, path in zip(specs, paths, strict=True)]
        complete_entry(entry, builder.captures, names, results)
        donate(entry, len(specs), len(results) - len(effects.results), effects)
        placements = _annotate_layouts(entry, builder, specs, results, effects)
        module.operation.verify()
    statics = tuple(
        None if isinstance(v, Tensor) else v if isinstance(v, ReturnedArgument) else (v,) for v in returned
    )
    captures, tensors = builder.captures, [v for v in returned if isinstance(v, Tensor)]
    guards = captures.all_guards()
    _guard_settings(guards, fn, before)
    activity = Activity.of(captures, effects.changed, builder.leaf_tape, tensors)
    return Traced(
        module, name, tuple(spelled), tuple(captures.inputs), outputs, statics, effects, activity, guards, placements,
        builder.checked_device(),
    )  # fmt: skip


def _argument_tensors(builder: TraceBuilder, leaves: Sequence[Any]) -> list[Any]:
    """The leaves of the arguments with a tensor of the trace in place of each spec."""
    inputs = iter(list(builder.block.arguments))
    traced = [Tensor(builder, next(inputs), s.desc) if isinstance(s, TensorSpec) else s for s in leaves]
    builder.arguments = [x for x in traced if isinstance(x, Tensor)]
    return traced


def _returned_values(
    builder: TraceBuilder, fn: Callable[..., Any], arguments: inspect.BoundArguments, specs: Sequence[TensorSpec]
) -> tuple[list[Any], Tree, Effects]:
    """Calls a function with tensors of the trace: the leaves of its value, the structure of the value, and the
    effects of the call.
    """
    if isinstance(owner := owner_of(fn), Stateful):
        builder.watch(owner)
    with use_builder(builder), builder.ending:
        for spec in specs:
            builder.add_placement(spec.placement)
        returned, outputs = flatten(fn(*arguments.args, **arguments.kwargs))
        updated = builder.updated_arguments()
        values = [_returned_value(builder, v, updated) for v in returned]
        return values, outputs, builder.captures.effects(builder, updated)


def _expect_results(
    name: str, definition: SourceLocation, results: Sequence[tuple[str, Tensor]], returned: Sequence[Any]
) -> None:
    """Checks that the function returns or updates a tensor."""
    if not results:
        got = ", ".join(repr(v) for v in returned if v is not None)
        static = f"; it returned {got}: strings and numbers that it is called with are no tensors" if got else ""
        raise TraceError(f"{name} returned no tensor{static or '; return a computed tensor'}", definition)


def _annotate_layouts(
    entry: func.FuncOp,
    builder: TraceBuilder,
    specs: Sequence[TensorSpec],
    results: Sequence[tuple[str, Tensor]],
    effects: Effects,
) -> ProgramPlacements | None:
    """Annotates a program with placements, which are returned; None where no tensor is global."""
    placements = builder.placements.program_placements()
    if placements is not None:
        layouts = [s.layout_on(placements.home) for s in specs]
        of_values = builder.captures.value_layouts(placements, layouts, results, effects)
        annotate(entry.operation, placements, *of_values)
    return placements


def _returned_value(builder: TraceBuilder, value: Any, updated: Sequence[tuple[int, Tensor]]) -> Any:
    """A returned value as a tensor of the trace, if it is a tensor or an array; an updated argument stays the
    caller's tensor.
    """
    number = next((n for n, _ in updated if builder.arguments[n] is value), None)
    if number is not None:
        return ReturnedArgument(number)
    if isinstance(value, Tensor):
        return builder.to_tensor(builder.read(value))
    return as_tensor(value) if is_array(value) else value


def _guard_settings(guards: Guards, fn: Callable[..., Any], before: dict[str, Any]) -> None:
    """Adds guards on the settings of the object that a method belongs to, except settings that the function itself
    changes, such as counters.
    """
    owner = owner_of(fn)
    for name, key in settings_of(fn).items():
        if before.get(name) == key:
            guards.add_value(getattr, owner, name)


def _definition(fn: Callable[..., Any]) -> SourceLocation:
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return SourceLocation(code.co_filename, code.co_firstlineno, 1) if code else user_location()
