"""What eager mode remembers for gradients: variables, the operators that made them, and the way back.

A `Variable` is a value that was computed. Where it depends on something that wants a gradient it knows the `Node`
that made it, the call of an operator with what that read and gave. `backward` collects the nodes behind a result and
hands them to `dialect.reverse`, whose gradient rules are the operators' slots; so eager gradients are those of the
compiled program. Memory that is updated in place counts its versions: a node that has to read an older one says so.
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
from oneflow.frontend.core.errors import fail, refuse
from oneflow.frontend.core.hooks import Hooks
from oneflow.frontend.core.probe import gradient_reads, gradient_reads_any


class Mode(threading.local):
    """What this thread does with operators: whether it records them, and whose gradient it computes.

    `depth` is how many calls of `flow.grad` in eager mode are running inside of each other.
    """

    def __init__(self) -> None:
        self.recording, self.gradient_of, self.depth = True, "", 0


MODE = Mode()
#: Held while gradients are added up at leaves, which threads may share.
ACCUMULATING = Lock()
_node_numbers = itertools.count()


class _Recording(ContextDecorator):
    """Within it operators are recorded for gradients, or not; also a decorator, of generators too."""

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
        """A generator function each of whose steps is within."""

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            made = function(*args, **kwargs)
            step = functools.partial(next, made)
            while True:
                try:
                    with _Recording(self._enabled):
                        value = step()
                except StopIteration as end:
                    return end.value
                try:
                    step = functools.partial(made.send, (yield value))
                except BaseException as error:
                    step = functools.partial(made.throw, error)

        return generator


class set_grad_enabled(_Recording):  # noqa: N801 (PyTorch's name)
    """From now on operators are recorded for gradients, or not; in `with` until that ends. Also a decorator."""

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
    """One that decorates without parentheses too."""

    def __new__(cls, function: Any = None) -> Any:
        return cls()(function) if callable(function) else super().__new__(cls)


class no_grad(_Decorator):  # noqa: N801 (PyTorch's name)
    """Within it nothing is recorded for gradients; also a decorator."""

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(_Decorator):  # noqa: N801 (PyTorch's name)
    """Within it operators are recorded again, inside of `no_grad`; also a decorator."""

    def __init__(self) -> None:
        super().__init__(True)


class inference_mode(_Decorator):  # noqa: N801 (PyTorch's name)
    """The same as `no_grad`, or with a `mode` of False as `enable_grad`; also a decorator."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode)


def is_grad_enabled() -> bool:
    """Whether operators are recorded for gradients."""
    return MODE.recording


class Memory:
    """What tensors that share memory know of it: how often it was updated in place, and by what last.

    Where arrays that the user has are `exposed` it may be updated without being counted; `views` are parts of it.
    """

    __slots__ = ("exposed", "version", "views", "writer")

    def __init__(self) -> None:
        self.version, self.writer, self.exposed = 0, "", False
        self.views: weakref.WeakSet[Any] | None = None

    def write(self, writer: str) -> None:
        """Counts an update by the operator `writer`."""
        self.version += 1
        self.writer = writer


class Leaf:
    """Where the gradient of a tensor that wants one is added up."""

    __slots__ = ("grad", "hooks")

    def __init__(self) -> None:
        self.grad: Any = None
        self.hooks: Hooks | None = None

    def hook_changes(self) -> int:
        """How often its hooks have changed."""
        return 0 if self.hooks is None else self.hooks.version


class Variable(Value):
    """A computed value; `handle` is its array.

    Attributes:
        hooks: what sees its gradient, where it was computed; those of a leaf are the leaf's.
        node: what made it, where it depends on a leaf.
        leaf: where its gradient goes, where it is a leaf.
        memory: the versions of its array, where that was ever updated or may be read again for a gradient.
        version: the version that it is the value of.
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
        """Whether a gradient flows to it."""
        return (self.node is not None or self.leaf is not None) and self.desc.dtype.is_float

    @property
    def is_stale(self) -> bool:
        """Whether its array has been updated since."""
        return self.memory is not None and self.memory.version != self.version

    def shared_memory(self) -> Memory:
        """The versions of its array."""
        if self.memory is None:
            self.memory = Memory()
        return self.memory

    def move(self, array: Any) -> None:
        """Puts its values elsewhere: updates of the memory that it had do not spoil it."""
        self.handle, self.memory, self.version = array, None, 0
        if self.node is not None:
            self.node.move(self)

    def refreshed(self) -> Variable:
        """Its memory as it is now, after updates through other tensors; the gradient goes on."""
        fresh = self.alias()
        fresh.version, fresh.leaf = self.shared_memory().version, self.leaf
        if self.node is not None:
            record(self.builder.registry["depend"], {"in": self, "depend_tensor": fresh.alias()}, {}, [fresh])
        return fresh

    def alias(self) -> Variable:
        """A value of the same array and version that nothing depends on."""
        other = Variable(self.builder, self.handle, self.desc)
        other.memory, other.version = self.shared_memory(), self.version
        return other


class Node:
    """A recorded call. Its results are known weakly, so that what is no longer used is freed at once."""

    __slots__ = ("attrs", "inputs", "number", "record", "result_values", "results")

    def __init__(self, record: Operator, inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
        self.record, self.attrs = record, attrs
        self.inputs: dict[str, Any] | None = inputs
        self.number = next(_node_numbers)
        self.results: list[weakref.ref[Variable]] = []
        self.result_values: list[tuple[Any, TensorDesc, Memory, int]] = []

    def add_result(self, variable: Variable) -> None:
        """Adds a result."""
        memory = variable.shared_memory()
        variable.node = self
        self.results.append(weakref.ref(variable))
        self.result_values.append((variable.handle, variable.desc, memory, variable.version))

    def move(self, variable: Variable) -> None:
        """Notes that a result lies in other memory now."""
        at = next(i for i, r in enumerate(self.results) if r() is variable)
        self.result_values[at] = (variable.handle, variable.desc, variable.shared_memory(), variable.version)

    def sources(self) -> Iterator[Variable]:
        """The variables that it read.

        Raises:
            RuntimeError: a backward pass has freed them.
        """
        if self.inputs is None:
            raise refuse(
                f"backward through oneflow.{self.record.name} a second time: what it kept was freed by the first; "
                "pass retain_graph=True to the first backward, or compute the result again"
            )
        return iter(flatten(self.inputs.values()))

    def reads(self, variable: Variable) -> bool:
        """Whether it needs the elements of a variable for its gradient."""
        numbers = [i for i, v in enumerate(self.sources()) if v is variable]
        if not numbers:
            return False
        read = gradient_reads(self.call(variable.builder))
        return any(read[i] for i in numbers)

    def call(self, builder: Builder) -> Call:
        """The call, on the same variables as other calls name."""
        assert self.inputs is not None
        results = [self._result(builder, i) for i in range(len(self.results))]
        outputs = distribute(self.record.signature.outputs, results, None)
        return Call(self.record, self.inputs, self.attrs, outputs)

    def _result(self, builder: Builder, number: int) -> Variable:
        known = self.results[number]()
        if known is not None:
            return known
        handle, desc, memory, version = self.result_values[number]
        again = Variable(builder, handle, desc)
        again.node, again.memory, again.version = self, memory, version
        self.results[number] = weakref.ref(again)  # a gradient that reads it has to be found by the next call too
        return again

    def arrays(self) -> Iterator[int]:
        """The identities of the arrays that it keeps."""
        yield from (id(v.handle) for v in self.sources())
        yield from (id(value[0]) for value in self.result_values)

    def free(self, builder: Builder) -> None:
        """Forgets what it read and gave, unless its gradient reads none of that and may be asked for again."""
        if gradient_reads_any(self.call(builder)):
            self.inputs, self.result_values = None, []


def record(op: Operator, inputs: dict[str, Any], attrs: dict[str, Any], results: Sequence[Variable]) -> None:
    """Makes `results` depend on what the call read, if that wants a gradient and the operator passes one on.

    Integers depend on nothing, but for what `flow.grad` says about them where they stand in the only way.
    """
    for variable in flatten(inputs.values()):
        if variable.node is not None or variable.leaf is not None:
            break
    else:
        return
    if op.grad is zero_grad:
        return
    node = Node(op, inputs, attrs)
    for variable in results:
        node.add_result(variable)
        if not variable.desc.dtype.is_float and not MODE.depth:
            variable.node = None


def nodes_behind(roots: Sequence[Variable]) -> list[Node]:
    """Every node that leads to `roots`, in the order in which they were recorded."""
    found: dict[int, Node] = {}
    waiting = [v.node for v in roots if v.node is not None]
    while waiting:
        node = waiting.pop()
        if node.number not in found:
            found[node.number] = node
            waiting.extend(v.node for v in node.sources() if v.node is not None)
    return [found[number] for number in sorted(found)]


def apply_hooks(value: Value, grad: Value) -> Value:
    """The gradient of a variable after its hooks."""
    assert isinstance(value, Variable)
    owner = value if value.node is not None else value.leaf
    if owner is None or not owner.hooks:
        return grad
    builder: Any = value.builder
    found: Value = builder.read(owner.hooks.apply(builder.give(grad)))
    return found


def gradients(
    builder: Builder,
    seeds: Sequence[tuple[Variable, Value]],
    wrt: Callable[[Sequence[Node]], Sequence[Variable]],
    *,
    retain_graph: bool,
    create_graph: bool,
    seen: Callable[[Value, Value], Value] = apply_hooks,
) -> list[tuple[Variable, Variable | None]]:
    """The gradients of what has the cotangents `seeds`, by the variables that `wrt` picks from the nodes behind it.

    Each gradient has memory of its own. `seen` may exchange the gradient of a value when it is known: hooks do.

    Raises:
        RuntimeError: a value that a gradient reads was updated in place, or freed.
        TraceError: an operator on the way has no gradient, or its rule fails.
    """
    nodes = nodes_behind([v for v, _ in seeds])
    targets = list(wrt(nodes))
    entries: list[Entry] = [node.call(builder) for node in nodes]
    with set_grad_enabled(create_graph):
        try:
            grads = pull_back(builder, entries, seeds, targets, _set_gradient_of, seen)
        except OperatorError as error:
            raise fail(str(error)) from None
        finally:
            MODE.gradient_of = ""
        used_arrays = {id(v.handle) for _, v in seeds} | {i for node in nodes for i in node.arrays()}
        owned = [None if g is None else _copied_if_shared(builder, g, used_arrays) for g in grads]
    for node in () if retain_graph else nodes:
        node.free(builder)
    return list(zip(targets, owned, strict=True))


def _set_gradient_of(entry: Entry) -> None:
    MODE.gradient_of = name_of(entry)


def _copied_if_shared(builder: Builder, grad: Value, used_arrays: set[int]) -> Variable:
    """A gradient, copied where something else has the same array."""
    assert isinstance(grad, Variable)
    if id(grad.handle) in used_arrays:
        copied = builder.binary("mul", grad, 1.0)
        assert isinstance(copied, Variable)
        grad = copied
    used_arrays.add(id(grad.handle))
    return grad


def leaves_of(nodes: Sequence[Node], roots: Sequence[Variable], by: Container[Leaf] | None = None) -> list[Variable]:
    """The variables behind `nodes`, and among `roots`, whose gradients are added up somewhere: in one of `by`."""
    found = {id(v): v for node in nodes for v in node.sources() if v.leaf is not None}
    found |= {id(v): v for v in roots if v.leaf is not None}
    return [v for v in found.values() if by is None or v.leaf in by]


def uses_of(variable: Variable, nodes: Sequence[Node], roots: Sequence[Variable]) -> list[Variable]:
    """What `nodes` know a variable as: a leaf that is updated is another one each time."""
    same = [v for v in leaves_of(nodes, roots) if v.leaf is variable.leaf] if variable.leaf is not None else []
    return same or [variable]
