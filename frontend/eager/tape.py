"""The tape of eager mode: variables, the calls that produced variables, and the backward pass.

A `Variable` is a computed value. If the value depends on a leaf, the variable refers to the `Node` of its producer: a
call of an operator with its operands and results. `backward` collects the nodes that a result depends on, and passes
the nodes to `dialect.reverse`, which runs the gradient slots of the operators, so eager gradients equal the gradients
of a compiled program. Memory that is updated in place counts its versions; a gradient that needs an older version is
an error.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
import weakref
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from contextlib import ContextDecorator
from typing import Any

from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.locks import Lock
from oneflow.dialect.record import Call, Operator, OperatorError, distribute, flatten, zero_grad
from oneflow.dialect.reverse import Entry, name_of, pull_back
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import is_expanded
from oneflow.frontend.core.errors import fail, refuse
from oneflow.frontend.core.gradient_reads import gradient_reads, gradient_reads_any
from oneflow.frontend.core.hooks import Hooks


class Mode(threading.local):
    """The state of this thread: whether operators are recorded, and whose gradient is being computed.

    `depth` is the nesting level of calls of `flow.grad` in eager mode, `saved_hooks` the hooks on tensors that calls
    keep (see `saved_tensors.py`).
    """

    def __init__(self) -> None:
        self.recording, self.gradient_of, self.depth = True, "", 0
        self.saved_hooks: Any = None


MODE = Mode()
#: Held while gradients are accumulated at leaves, which threads may share.
ACCUMULATION_LOCK = Lock()
#: Held while memory that threads may share gets its version counter or a view.
_MEMORY_LOCK = Lock(reentrant=True)
#: The sequence numbers of nodes, in the order in which calls are recorded.
sequence_numbers = itertools.count()


class _Recording(ContextDecorator):
    """A context in which operators are recorded for gradients or not; also a decorator, of generators too."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(MODE.recording)
        MODE.recording = self._enabled

    def __exit__(self, *_: object) -> None:
        MODE.recording = self._before.pop()

    def __call__(self, function: Any) -> Any:
        return self._steps_of(function) if inspect.isgeneratorfunction(function) else super().__call__(function)

    def _steps_of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A generator function each of whose steps runs within the context."""

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            steps = function(*args, **kwargs)
            step = functools.partial(next, steps)
            while True:
                try:
                    with _Recording(self._enabled):
                        value = step()
                except StopIteration as end:
                    return end.value
                try:
                    step = functools.partial(steps.send, (yield value))
                except BaseException as error:
                    step = functools.partial(steps.throw, error)

        return generator


class set_grad_enabled(_Recording):  # noqa: N801 (PyTorch's name)
    """Turns recording for gradients on or off: a call permanently, a `with` statement until its end. Also a
    decorator.
    """

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        self._outside = MODE.recording
        MODE.recording = mode

    def __enter__(self) -> None:
        self._before.append(self._outside)
        MODE.recording = self._enabled

    def __call__(self, function: Any) -> Any:
        MODE.recording = self._outside
        return _Recording(self._enabled)(function)


class _Decorator(_Recording):
    """A context that decorates without parentheses too."""

    def __new__(cls, function: Any = None) -> Any:
        return cls()(function) if callable(function) else super().__new__(cls)


class no_grad(_Decorator):  # noqa: N801 (PyTorch's name)
    """A context in which nothing is recorded for gradients; also a decorator."""

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(_Decorator):  # noqa: N801 (PyTorch's name)
    """A context in which operators are recorded, even within `no_grad`; also a decorator."""

    def __init__(self) -> None:
        super().__init__(True)


class inference_mode(_Decorator):  # noqa: N801 (PyTorch's name)
    """The same as `no_grad`, or as `enable_grad` with `mode` False; also a decorator."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode)


def is_grad_enabled() -> bool:
    """Whether operators are recorded for gradients."""
    return MODE.recording


class WeakList:
    """Objects that are referenced weakly. Unlike a `weakref.WeakSet`, nothing is called when an object is freed.

    Several threads may append objects at once.
    """

    __slots__ = ("_limit", "_references")

    def __init__(self) -> None:
        self._references: list[weakref.ref[Any]] = []
        self._limit = 8

    def append(self, value: Any) -> None:
        """Adds an object; removes the references to freed objects when the list has doubled."""
        with _MEMORY_LOCK.raw:
            if len(self._references) >= self._limit:
                self._references = [reference for reference in self._references if reference() is not None]
                self._limit = max(8, 2 * len(self._references))
            self._references.append(weakref.ref(value))

    def __iter__(self) -> Iterator[Any]:
        return (value for value in [reference() for reference in self._references] if value is not None)


class Memory:
    """The version counter of memory that tensors share: the number of updates in place, and the operator of the
    last.

    Memory whose arrays a user holds is `exposed`: changes of such memory may be uncounted. `views` are the views of
    the memory.
    """

    __slots__ = ("exposed", "version", "views", "writer")

    def __init__(self) -> None:
        self.version, self.writer, self.exposed = 0, "", False
        self.views: WeakList | None = None

    def write(self, writer: str) -> None:
        """Counts an update by the operator `writer`."""
        self.version += 1
        self.writer = writer

    def add_view(self, view: Any) -> None:
        """Adds a view of the memory."""
        with _MEMORY_LOCK.raw:
            if self.views is None:
                self.views = WeakList()
            self.views.append(view)


class Leaf:
    """The accumulator of the gradient of a tensor that requires grad (PyTorch's `AccumulateGrad`)."""

    __slots__ = ("__weakref__", "grad", "hooks")

    def __init__(self) -> None:
        self.grad: Any = None
        self.hooks: Hooks | None = None

    def hook_changes(self) -> int:
        """How often the hooks have changed."""
        return 0 if self.hooks is None else self.hooks.version


class Variable(Value):
    """A computed value; `handle` is its array.

    Attributes:
        hooks: hooks on the gradient of a computed value; a leaf has its hooks itself.
        node: the call that produced the value, if the value depends on a leaf.
        leaf: the tensor that accumulates the gradient, if the variable is a leaf.
        memory: the version counter of its array, once the array was updated or is needed for a gradient.
        version: the version of the memory that the value is of.
    """

    __slots__ = ("__weakref__", "hooks", "leaf", "memory", "node", "version")

    def __init__(self, builder: Builder, handle: Any, desc: TensorDesc) -> None:
        self.builder, self.handle, self.desc = builder, handle, desc
        self.node: Node | None = None
        self.leaf: Leaf | None = None
        self.memory: Memory | None = None
        self.hooks: Hooks | None = None
        self.version = 0

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient flows to the variable."""
        return (self.node is not None or self.leaf is not None) and self.desc.dtype.is_inexact

    @property
    def is_stale(self) -> bool:
        """Whether the array has been updated since."""
        return self.memory is not None and self.memory.version != self.version

    def shared_memory(self) -> Memory:
        """The version counter of the array."""
        if self.memory is None:
            with _MEMORY_LOCK.raw:
                self.memory = self.memory or Memory()
        return self.memory

    def move(self, array: Any) -> None:
        """Replaces the array of the variable by a copy that updates of the old memory do not change."""
        self.handle, self.memory, self.version = array, None, 0
        if self.node is not None:
            self.node.move(self)

    def refreshed(self) -> Variable:
        """The same memory at its current version, after updates through other tensors; gradients flow on."""
        fresh = self.alias()
        fresh.version, fresh.leaf = self.shared_memory().version, self.leaf
        if self.node is not None:
            record(self.builder.registry["depend"], {"in": self, "depend_tensor": fresh.alias()}, {}, [fresh])
        return fresh

    def alias(self) -> Variable:
        """A variable of the same array and version without node and leaf."""
        other = Variable(self.builder, self.handle, self.desc)
        other.memory, other.version = self.shared_memory(), self.version
        return other


class RecordedCall(Call):
    """The call of a node, whose operands and results do not change.

    `kernel` is the kernel that has computed the call; None for calls without a kernel of their own.
    """

    __slots__ = ("kernel", "operands", "results")
    operands: list[Any]
    results: list[Any]

    def __init__(
        self, record: Operator, inputs: dict[str, Any], attrs: dict[str, Any], results: list[Any], kernel: Any
    ) -> None:
        super().__init__(record, inputs, attrs, distribute(record.signature.outputs, results, None))
        self.operands, self.results, self.kernel = flatten(inputs.values()), results, kernel


class Node:
    """A recorded call. A node references its results weakly, so that unused memory is freed at once."""

    __slots__ = ("attrs", "inputs", "kernel", "record", "result_values", "results", "sequence_number")

    def __init__(self, record: Operator, inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
        self.record, self.attrs = record, attrs
        self.kernel: Any = None
        self.inputs: dict[str, Any] | None = inputs
        self.sequence_number = next(sequence_numbers)
        self.results: list[weakref.ref[Variable]] = []
        self.result_values: list[tuple[Any, TensorDesc, Memory, int]] = []

    def add_result(self, variable: Variable) -> None:
        """Adds a result."""
        memory = variable.shared_memory()
        variable.node = self
        self.results.append(weakref.ref(variable))
        self.result_values.append((variable.handle, variable.desc, memory, variable.version))

    def move(self, variable: Variable) -> None:
        """Notes that a result has another array."""
        at = next(i for i, r in enumerate(self.results) if r() is variable)
        self.result_values[at] = (variable.handle, variable.desc, variable.shared_memory(), variable.version)

    def sources(self) -> Iterator[Variable]:
        """The variables that the call read; see `operands`."""
        return iter(flatten(self.operands().values()))

    def operands(self) -> dict[str, Any]:
        """The operands by name.

        Raises:
            RuntimeError: a backward pass has freed the operands.
        """
        if self.inputs is None:
            raise refuse(
                f"backward through oneflow.{self.record.name} a second time: the first pass has freed the saved "
                "tensors; pass retain_graph=True to the first backward, or compute the result again"
            )
        return self.inputs

    def reads(self, variable: Variable) -> bool:
        """Whether the gradient needs the elements of a variable."""
        indices = [i for i, v in enumerate(self.sources()) if v is variable]
        if not indices:
            return False
        read = gradient_reads(self.call(variable.builder))
        return any(read[i] for i in indices)

    def call(self, builder: Builder) -> Call:
        """The call, with the same variable objects that other calls have."""
        results = [self.result(builder, i) for i in range(len(self.results))]
        return RecordedCall(self.record, self.operands(), self.attrs, results, self.kernel)

    def result(self, builder: Builder, index: int) -> Variable:
        """The variable of a result, the same for all calls that read the result."""
        known = self.results[index]()
        if known is not None:
            return known
        handle, desc, memory, version = self.result_values[index]
        again = Variable(builder, handle, desc)
        again.node, again.memory, again.version = self, memory, version
        self.results[index] = weakref.ref(again)  # the next call has to find the same object
        return again

    def arrays(self) -> Iterator[int]:
        """The identities of the arrays that the node keeps."""
        yield from (id(v.handle) for v in self.sources())
        yield from (id(value[0]) for value in self.result_values)

    def free(self, call: Call) -> None:
        """Drops operands and results, unless the gradient of `call`, the call of the node, reads only constants of
        these and may be computed again.
        """
        if gradient_reads_any(call, tuple([v.node is None and v.leaf is None for v in call.operands])):
            self.inputs, self.result_values = None, []


def record(op: Operator, inputs: dict[str, Any], attrs: dict[str, Any], results: Sequence[Variable]) -> None:
    """Makes `results` depend on the operands of a call, if one of these requires grad and the operator has a
    gradient.

    Integer results depend on nothing, except within `flow.grad`, which reports integer results where these are the
    only path to an input.
    """
    if any(variable.node is not None or variable.leaf is not None for variable in flatten(inputs.values())):
        record_dependent(op, inputs, attrs, results)


def record_dependent(
    op: Operator, inputs: dict[str, Any], attrs: dict[str, Any], results: Sequence[Variable], kernel: Any = None
) -> None:
    """`record` for a call of which an operand requires grad; `kernel` has computed the call."""
    if op.grad is zero_grad:
        return
    hooks = MODE.saved_hooks
    node = Node(op, inputs, attrs) if hooks is None else hooks.node(op, inputs, attrs)
    node.kernel = kernel
    for variable in results:
        node.add_result(variable)
        if not variable.desc.dtype.is_inexact and not MODE.depth:
            variable.node = None
    if hooks is not None:
        hooks.save(node)


def reachable_nodes(roots: Sequence[Variable]) -> list[Node]:
    """All nodes that `roots` depend on, in the order of recording."""
    nodes: dict[int, Node] = {}
    waiting = [v.node for v in roots if v.node is not None]
    while waiting:
        node = waiting.pop()
        if node.sequence_number not in nodes:
            nodes[node.sequence_number] = node
            waiting.extend(v.node for v in node.sources() if v.node is not None)
    return [nodes[i] for i in sorted(nodes)]


def apply_hooks(value: Value, grad: Value) -> Value:
    """The gradient of a variable after its hooks."""
    assert isinstance(value, Variable)
    owner = value if value.node is not None else value.leaf
    if owner is None or not owner.hooks:
        return grad
    builder: Any = value.builder
    hooked: Value = builder.read(owner.hooks.apply(builder.to_tensor(grad)))
    return hooked


def gradients(
    builder: Builder,
    seeds: Sequence[tuple[Variable, Value]],
    wrt: Callable[[Sequence[Node]], Sequence[Variable]],
    *,
    retain_graph: bool,
    create_graph: bool,
    finalize: Callable[[Value, Value], Value] = apply_hooks,
) -> list[tuple[Variable, Variable | None]]:
    """The gradients for the cotangents `seeds`, by the variables that `wrt` returns for the nodes that the seeds
    depend on.

    Each gradient has its own memory. `finalize` may replace the complete gradient of a value, as hooks do.

    Raises:
        RuntimeError: a value that a gradient reads was updated in place, or freed.
        TraceError: an operator on the way has no gradient, or its rule fails.
    """
    nodes = reachable_nodes([v for v, _ in seeds])
    targets = list(wrt(nodes))
    calls = [node.call(builder) for node in nodes]
    with set_grad_enabled(create_graph):
        try:
            grads = pull_back(builder, calls, seeds, targets, _set_gradient_of, finalize)
        except OperatorError as error:
            raise fail(str(error), kind=error) from None
        finally:
            MODE.gradient_of = ""
        used_arrays = {id(v.handle) for _, v in seeds} | {i for node in nodes for i in node.arrays()}
        owned = [None if g is None else _with_own_memory(builder, g, used_arrays) for g in grads]
    for node, call in () if retain_graph else zip(nodes, calls, strict=True):
        node.free(call)
    return list(zip(targets, owned, strict=True))


def _set_gradient_of(entry: Entry) -> None:
    MODE.gradient_of = name_of(entry)


def _with_own_memory(builder: Builder, grad: Value, used_arrays: set[int]) -> Variable:
    """A gradient, copied if its array is used elsewhere or its elements share memory."""
    assert isinstance(grad, Variable)
    if id(grad.handle) in used_arrays or is_expanded(grad.handle):
        copied = builder.binary("mul", grad, 1.0)
        assert isinstance(copied, Variable)
        grad = copied
    used_arrays.add(id(grad.handle))
    return grad


def leaves_of(nodes: Sequence[Node], roots: Sequence[Variable], by: Container[Leaf] | None = None) -> list[Variable]:
    """The leaves among the variables that `nodes` read and among `roots`; only leaves in `by`, if given."""
    leaves = {id(v): v for node in nodes for v in node.sources() if v.leaf is not None}
    leaves |= {id(v): v for v in roots if v.leaf is not None}
    return [v for v in leaves.values() if by is None or v.leaf in by]


def uses_of(variable: Variable, nodes: Sequence[Node], roots: Sequence[Variable]) -> list[Variable]:
    """The variables that `nodes` have for a leaf, one for each update of the leaf; the variable itself if the
    variable is no leaf.
    """
    same = [v for v in leaves_of(nodes, roots) if v.leaf is variable.leaf] if variable.leaf is not None else []
    return same or [variable]
