"""Structured control flow: `scan`, `while_loop`, `cond`.

    last, ys = flow.scan(lambda h, x: (h + x, h * x), flow.zeros(3), xs)

In a trace the functions become bodies of one operator, whose number of operations does not depend on the number of
steps. In eager mode Python runs the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.body import Body, BodyBuilder
from oneflow.dialect.builder import Value
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import Call, distribute
from oneflow.dialect.reverse import Alias
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import to_array
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch_all, use_builder
from oneflow.frontend.core.errors import fail, user_location
from oneflow.frontend.core.pytree import Tree, flatten
from oneflow.frontend.core.settings import SCOPE
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import MODE
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.functional.shape import reshape, select, stack
from oneflow.frontend.tracing.builder import TraceBuilder
from oneflow.runtime.global_array import Placement

__all__ = ["cond", "scan", "while_loop"]

Function = Callable[..., Any]


class BodyTracer(TraceBuilder):
    """Records the calls of a function that is a body.

    Values from outside become further arguments; `captured` are these values of the enclosing trace,
    in order. `is_repeated` says that the body may run several times.
    """

    def __init__(self, outer: TraceBuilder, what: str, is_repeated: bool) -> None:
        super().__init__(outer.block, outer.inline_bytes, None, outer.chosen_device)
        self.outer, self.what, self.is_repeated = outer, what, is_repeated
        self.placements, self.ending = outer.placements, outer.ending
        self.captures.guards, self.captures.owners = outer.captures.guards, outer.captures.owners
        self.recorder = BodyBuilder(self.registry)
        self.captured: list[Value] = []
        self._inside: dict[int, Tensor] = {}
        self._is_recorded = MODE.recording

    def argument(self, desc: TensorDesc) -> Tensor:
        """A further argument of the function."""
        argument = self._tensor(self.recorder.argument(desc))
        self.arguments.append(argument)
        return argument

    def _tensor(self, value: Value) -> Tensor:
        return Tensor(self, value.handle, value.desc)

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Records the call, with the user's line as its location."""
        self._check(op)
        location = user_location()
        self.recorder.location = location.file, location.line, location.column
        values = self.recorder.emit(op, results)
        if self._is_recorded and not MODE.recording:
            values = [self.recorder.call("stop_gradient", v)[0] if v.dtype.is_float else v for v in values]
        tensors = [self._tensor(v) for v in values]
        if MODE.recording and self.tapes:
            self.record_entry(
                Call(op.record, op.inputs, op.attrs, distribute(op.record.signature.outputs, tensors, None))
            )
        return list(tensors)

    def _check(self, op: Call) -> None:
        if self.is_repeated and "random" in op.record.traits:
            raise fail(
                f"{self.what}: oneflow.{op.record.name} would draw the same numbers in every step; draw the numbers "
                "of all steps before, and pass them in as a sequence"
            )
        if not op.record.pure:
            raise fail(f"{self.what}: expected functions of their arguments, got oneflow.{op.record.name}")

    def retype(self, value: Value, desc: TensorDesc) -> Value:
        """`value` with another static type."""
        if value.desc == desc:
            return value
        renamed = self._tensor(self.recorder.retype(value, desc))
        self.record_entry(Alias((value,), (renamed,)))
        return renamed

    def read(self, tensor: Tensor) -> Value:
        """The current value of a tensor of the function, or of one from outside."""
        if not isinstance(tensor, EagerTensor) and tensor.builder is self:
            return self.functionalization.current_value(tensor)
        return self.capture(self.outer.read(tensor))

    def capture(self, value: Value) -> Tensor:
        """A value of the trace around the function as an argument."""
        known = self._inside.get(id(value))
        if known is None:
            self.captured.append(value)
            known = self._inside[id(value)] = self._tensor(self.recorder.argument(value.desc))
        return known

    def constant(self, value: Any) -> Tensor:
        """The current values of an array."""
        array = to_array(value)
        if array.size != 1 or array.dtype.kind not in "bif":
            return self.capture(self.outer.read(self.outer.constant(value)))
        dtype = dtypes.from_numpy(array.dtype)
        number = {"floating_value": float(array.item())} if dtype.is_float else {"integer_value": int(array.item())}
        attrs = {"dtype": dtype, "shape": array.shape, "is_floating_value": dtype.is_float, **number}
        return self.to_tensor(self.call("constant", **attrs)[0])

    def wrap(self, value: Any) -> Value:
        """An array as a constant."""
        return self.constant(value)

    def runtime_scalar(self, get: Callable[[], float], dtype: DType) -> Tensor:
        """A tensor without dimensions, which is read at every run."""
        return self.capture(self.outer.read(self.outer.runtime_scalar(get, dtype)))

    def assign(self, tensor: Tensor, value: Tensor, writer: str) -> None:
        """Gives a tensor of the function a new value.

        Raises:
            TraceError: the tensor is an argument, or from outside.
        """
        is_own = not isinstance(tensor, EagerTensor) and tensor.builder is self
        if not is_own or any(tensor is x for x in self.arguments):
            raise fail(
                f"{self.what}: {writer} would update {tensor.desc}, which is an argument or from outside; return the "
                "new value instead"
            )
        self.functionalization.assign(tensor, self.to_tensor(self.read(value)), writer)

    def record_view(self, name: str, operands: Sequence[Any], attrs: dict[str, Any], result: Tensor) -> None:
        """Notes a result that shares elements with the first operand."""
        self.functionalization.add(name, operands, attrs, result)

    @property
    def device(self) -> Device:
        """The device on which the function runs."""
        return self.outer.device

    def add_placement(self, placement: Placement | None) -> str:
        """Notes the placement of a tensor."""
        return self.outer.add_placement(placement)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise fail(
            f"{self.what}: gradients of leaves and hooks are not supported in a body; call flow.grad in the body"
        )

    backward = get_grad = set_grad = hooks_of = _refuse

    def body(self, values: Sequence[Value]) -> Body:
        """The body with the results `values`."""
        return self.recorder.body(values)


def _traced(tracer: BodyTracer, fn: Function, *args: Any) -> tuple[list[Any], Tree]:
    """The leaves that `fn` returns as values of the tracer, None where it returns None, and their structure."""
    with use_builder(tracer):
        leaves, tree = flatten(fn(*args))
        return [None if v is None else tracer.read(as_tensor(v)) for v in leaves], tree


def _tensors(value: Any) -> tuple[list[Tensor], Tree]:
    leaves, tree = flatten(value)
    return [as_tensor(v) for v in leaves], tree


def _expect_states(what: str, tree: Tree, states: Sequence[Tensor], after: Tree, values: Sequence[Any]) -> None:
    """Checks that a function returns states of the same structure and types."""
    if after != tree:
        names = [list(t.paths()) for t in (tree, after)]
        raise fail(f"{what}: expected states of the structure {names[0]}, got {names[1]}")
    for path, state, value in zip(tree.paths(), states, values, strict=True):
        got = None if value is None else value.desc
        if got != state.desc:
            raise fail(
                f"{what}: expected state {path or 0} to stay {state.desc}, got {got}; cast the new state or the "
                f"initial state"
            )


def scan(f: Function, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> tuple[Any, Any]:
    """Runs `state, y = f(state, x)` for each element of `xs` along dimension 0.

    Args:
        f: maps the state and an element to the next state, of the same structure and types, and a result.
        init: the first state: a tensor, or nested lists, tuples and dicts of tensors.
        xs: tensors of one size along dimension 0, nested in lists, tuples and dicts; None with `length`: `f` is
            called with None.
        length: the number of steps, where `xs` has no tensors.
        reverse: whether the loop starts from the last element; results have the positions of their elements.

    Returns:
        The last state, and the results of all steps, stacked along dimension 0; None where a result is None.

    Raises:
        OneFlowError: sizes differ, or `f` returns a state of another type.
    """
    what = "flow.scan"
    states, state_tree = _tensors(init)
    sequences, tree = _tensors(xs) if xs is not None else ([], None)
    steps = _step_count(what, sequences, length)
    builder = current_builder()
    if not isinstance(builder, TraceBuilder):
        return _eager_scan(f, init, sequences, tree, steps, reverse)
    tracer = BodyTracer(builder, what, is_repeated=True)
    state = state_tree.unflatten([tracer.argument(s.desc) for s in states])
    elements = [tracer.argument(TensorDesc((s.desc.shape or ())[1:], s.dtype)) for s in sequences]
    returned: list[Any] = []

    def pair(*args: Any) -> Any:
        returned[:] = _pair(what, f(*args))
        return tuple(returned)

    values, structure = _traced(tracer, pair, state, tree.unflatten(elements) if tree is not None else None)
    after, ys_tree = structure.children
    _expect_states(what, state_tree, states, after, values[: len(states)])
    ys = values[len(states) :]
    body = tracer.body([*values[: len(states)], *(y for y in ys if y is not None)])
    operands = [*states, *sequences, *map(builder.to_tensor, tracer.captured)]
    attrs = {"length": -1 if sequences else steps, "reverse": reverse}
    results = dispatch_all("scan", operands, body=body, states=len(states), sequences=len(sequences), **attrs)
    rest = iter(results[len(states) :])
    stacked = ys_tree.unflatten([None if y is None else next(rest) for y in ys])
    return state_tree.unflatten(results[: len(states)]), stacked


def _pair(what: str, returned: Any) -> tuple[Any, Any]:
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise fail(f"{what}: expected f to return a pair (state, result), got {returned!r}")
    return returned


def _step_count(what: str, sequences: Sequence[Tensor], length: int | None) -> int | None:
    """The number of steps; None where the number is dynamic."""
    if any(s.rank == 0 for s in sequences):
        raise fail(f"{what}: expected sequences with a dimension for the steps, got a tensor without dimensions")
    sizes = {(s.desc.shape or ())[0] for s in sequences} | ({length} if length is not None else set())
    known = sizes - {None}
    if len(known) > 1 or not sizes:
        got = f"sizes {sorted(known)}" if known else "neither xs nor length"  # type: ignore[type-var]
        raise fail(f"{what}: expected sequences of one size along dimension 0, or length, got {got}")
    return next(iter(known), None)


def _eager_scan(
    f: Function, state: Any, sequences: Sequence[Tensor], tree: Tree | None, steps: int | None, reverse: bool
) -> tuple[Any, Any]:
    if not steps:
        raise fail(
            "flow.scan: expected at least one step, got none; results of no step have a type only in compiled "
            "functions"
        )
    parts = [_elements(x) for x in sequences]
    results: list[list[Any]] = []
    before, structure = flatten(state)
    for step_index in reversed(range(steps)) if reverse else range(steps):
        element = tree.unflatten([part[step_index] for part in parts]) if tree is not None else None
        state, y = _pair("flow.scan", f(state, element))
        after, after_tree = _tensors(state)
        _expect_states("flow.scan", structure, [as_tensor(x) for x in before], after_tree, after)
        leaves, ys_tree = flatten(y)
        results.append(leaves)
    columns = zip(*(results[::-1] if reverse else results), strict=True)
    stacked = [None if column[0] is None else stack([as_tensor(y) for y in column]) for column in columns]
    return state, ys_tree.unflatten(stacked)


def _elements(x: Tensor) -> Sequence[Tensor]:
    """The elements of a sequence by one operator, whose gradient is one too."""
    return dispatch_all("stack_grad", x, [select(x, 0, 0)] * (x.shape[0] or 0), axis=0)


def run_steps(step: Function, states: Sequence[Any], xs: Any, reverse: bool = False) -> tuple[Any, Sequence[Any]]:
    """Runs `states = step(states, x)` for each element of `xs`: the first state after every step, the last states.

    `xs` is a tensor, or nested lists, tuples and dicts of tensors. The steps are one `scan` where possible, else a
    Python loop: in eager mode, and where the first step changes the types of states, as in automatic mixed precision.
    A static number of steps over tensors of dynamic sizes are a loop too, so that one program serves all sizes.
    """
    sequences, tree = flatten(xs)
    length = sequences[0].shape[0]
    if _is_one_scan(length, [*states, *sequences]):
        last, outputs = scan(lambda state, x: _with_output(step(state, x)), tuple(states), xs, reverse=reverse)
        return outputs, last
    if length is None:
        raise fail(f"expected a sequence of static length, got {sequences[0].desc}")
    parts = [_elements(x) for x in sequences]
    results: list[Any] = [None] * length
    for step_index in reversed(range(length)) if reverse else range(length):
        states = step(states, tree.unflatten([part[step_index] for part in parts]))
        results[step_index] = states[0]
    return stack(results), states


def _is_one_scan(length: int | None, tensors: Sequence[Tensor]) -> bool:
    builder = current_builder()
    is_size_specialized = length is None or (length > 0 and all(x.desc.is_static for x in tensors))
    kinds = {x.dtype for x in tensors if x.dtype.is_float}
    return (
        isinstance(builder, TraceBuilder) and is_size_specialized and len(kinds) == 1 and SCOPE.get().autocast is None
    )


def _with_output(states: Sequence[Any]) -> tuple[Any, Any]:
    return tuple(states), states[0]


def while_loop(cond: Function, body: Function, state: Any) -> Any:
    """Runs `state = body(state)` as long as `cond(state)` holds, and returns the last state.

    Args:
        cond: returns one truth value, as a tensor of one element.
        body: returns the next state, of the same structure and types.
        state: the first state: a tensor, or nested lists, tuples and dicts of tensors.

    In a compiled function no gradient flows through the loop, since the number of steps is not known before.

    Raises:
        OneFlowError: `body` returns a state of another type, or `cond` no truth value.
    """
    what = "flow.while_loop"
    states, tree = _tensors(state)
    builder = current_builder()
    if not isinstance(builder, TraceBuilder):
        while _truth(what, cond(state)).item():
            state = body(state)
            after, after_tree = _tensors(state)
            _expect_states(what, tree, states, after_tree, after)
        return state
    condition, step = (BodyTracer(builder, what, is_repeated=True) for _ in range(2))
    holds, _ = _traced(condition, lambda x: _truth(what, cond(x)), _arguments(condition, tree, states))
    values, after_tree = _traced(step, body, _arguments(step, tree, states, condition.captured))
    _expect_states(what, tree, states, after_tree, values)
    bodies = {"condition": _extended(condition.body(holds), step, condition), "body": step.body(values)}
    operands = [*states, *map(builder.to_tensor, step.captured)]
    return tree.unflatten(dispatch_all("while_loop", operands, **bodies, states=len(states)))


def _arguments(tracer: BodyTracer, tree: Tree, states: Sequence[Tensor], captured: Sequence[Value] = ()) -> Any:
    """The arguments of a function, before the arguments for values that another body captured."""
    arguments = tree.unflatten([tracer.argument(s.desc) for s in states])
    for value in captured:
        tracer.capture(value)
    return arguments


def _extended(body: Body, later: BodyTracer, earlier: BodyTracer) -> Body:
    """A body with the additional captured values of a body that was traced later."""
    return body.with_inputs(v.desc for v in later.captured[len(earlier.captured) :])


def _truth(what: str, value: Any) -> Tensor:
    """A truth value as a tensor without dimensions."""
    tensor = as_tensor(value, "a truth value")
    if tensor.desc.element_count != 1:
        raise fail(f"{what}: expected one truth value, got {tensor.desc}")
    tensor = reshape(tensor, ()) if tensor.rank else tensor
    return tensor if tensor.dtype is dtypes.bool_ else cast(tensor, dtypes.bool_)


def cond(pred: Any, true_fn: Function, false_fn: Function, *operands: Any) -> Any:
    """`true_fn(*operands)` where `pred` holds, else `false_fn(*operands)`; the other function does not run.

    Args:
        pred: a truth value; a tensor of one element makes both functions parts of a compiled function.
        true_fn: a function of tensors.
        false_fn: a function that returns the same structure and types.
        operands: the arguments of both functions: tensors, nested lists, tuples and dicts of tensors, and other
            values.

    Raises:
        OneFlowError: the functions return different types, or `pred` is no truth value.
    """
    what, builder = "flow.cond", current_builder()
    if isinstance(pred, (bool, np.bool_)):
        return (true_fn if pred else false_fn)(*operands)
    pred = _truth(what, pred)
    if not isinstance(builder, TraceBuilder):
        return (true_fn if pred.item() else false_fn)(*operands)
    leaves, tree = flatten(operands)
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    tracers = [BodyTracer(builder, what, is_repeated=False) for _ in range(2)]
    values, trees = [], []
    for tracer, fn in zip(tracers, (true_fn, false_fn), strict=True):
        inside = iter([tracer.argument(x.desc) for x in tensors])
        arguments = tree.unflatten([next(inside) if isinstance(x, Tensor) else x for x in leaves])
        for value in tracers[0].captured:
            tracer.capture(value)
        returned, structure = _traced(tracer, fn, *arguments)
        values.append(returned)
        trees.append(structure)
    _expect_same(what, trees, values)
    true_body, false_body = (
        t.body([v for v in own if v is not None]) for t, own in zip(tracers, values, strict=True)
    )
    true_body = _extended(true_body, tracers[1], tracers[0])
    branch_operands = [*tensors, *map(builder.to_tensor, tracers[1].captured)]
    results = iter(dispatch_all("cond", pred, branch_operands, true_branch=true_body, false_branch=false_body))
    return trees[0].unflatten([None if v is None else next(results) for v in values[0]])


def _expect_same(what: str, trees: Sequence[Tree], values: Sequence[Sequence[Any]]) -> None:
    """Checks that both functions return the same types."""
    if trees[0] != trees[1]:
        names = [list(t.paths()) for t in trees]
        raise fail(f"{what}: expected both functions to return the same structure, got {names[0]} and {names[1]}")
    for path, one, other in zip(trees[0].paths(), *values, strict=True):
        descs = [None if v is None else v.desc for v in (one, other)]
        if descs[0] != descs[1]:
            raise fail(
                f"{what}: expected both functions to return the same types, got {descs[0]} and {descs[1]} for result "
                f"{path or 0}; cast one"
            )
