"""Backward ahead of time: the gradient of a compiled function is a compiled function.

A call outside of a trace is recorded as one operator if an argument requires grad, or if a captured tensor that
results depend on requires grad. The gradient is compiled from the function's `vjp` at the first use, and is
differentiable. There is no partitioner of a joint graph and no residuals: the gradient runs the function again, on
the same arguments, captured values and random numbers, without the updates. A function that calls `backward` or
updates leaves has no compiled gradient.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

from oneflow.dialect.record import Call, Operator, no_reference, no_sbp
from oneflow.dialect.record import no_grad as no_gradient
from oneflow.dialect.signature import parse_signature
from oneflow.frontend.compile.guarded_call import Recorder, current_tensor, input_array, settings_hold, variable_of
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import refuse
from oneflow.frontend.core.generator import default_generator
from oneflow.frontend.core.pytree import Tree
from oneflow.frontend.eager.builder import stale_value_error
from oneflow.frontend.eager.function import OPERANDS
from oneflow.frontend.eager.tape import MODE, Memory, Node, Variable, enable_grad, sequence_numbers, set_grad_enabled
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.activity import Activity
from oneflow.frontend.tracing.autograd import vjp
from oneflow.frontend.tracing.eager_autograd import restored
from oneflow.frontend.tracing.traced import Traced

SIGNATURE = parse_signature(f"compiled({OPERANDS}*) -> y*")
_NO_SBP, _NO_REFERENCE = no_sbp("is Python"), no_reference("is Python")


class Differentiable(Protocol):
    """A compiled function whose calls are recorded."""

    def pullback(self, program: Any, leaves: Sequence[Any], tree: Tree | None, /) -> Callable[..., Any]:
        """The compiled gradient of a program for arguments `leaves` with the structure `tree`.

        The gradient is a function of leaves, cotangents, positions and snapshots.
        """


class Program(Protocol):
    """A program of a compiled function."""

    @property
    def traced(self) -> Traced:
        """The traced function."""


def recorded_call(name: str, traced: Traced, leaves: Sequence[Any]) -> RecordedCall | None:
    """The record of a call before the run; None if nothing requires the gradient of the call."""
    positions = _positions(leaves)
    if not MODE.recording or not _is_recorded(traced, positions):
        return None
    reason = _why_no_gradient(name, traced)
    return RecordedCall(name, traced, leaves, positions, reason) if positions or reason is None else None


def recorder(
    name: str, program: Program, leaves: Sequence[Any], owner: weakref.ref[Any], tree: Tree | None
) -> Recorder | None:
    """The recorder of calls with arguments like `leaves`, whose structure is `tree`; None if calls have no gradient.

    `owner` is the compiled function.
    """
    traced, positions = program.traced, _positions(leaves)
    reason = _why_no_gradient(name, traced)
    if not _is_recorded(traced, positions) or not (positions or reason is None):
        return None

    def record_call(leaves: Sequence[Any]) -> Callable[[Sequence[Any]], None]:
        function: Any = owner()
        call = RecordedCall(name, traced, leaves, positions, reason)
        return functools.partial(
            call.record_results, pullback=functools.partial(function.pullback, program, leaves, tree)
        )

    return record_call


def _positions(leaves: Sequence[Any]) -> tuple[int, ...]:
    """The positions of the arguments that require grad."""
    return tuple(i for i, x in enumerate(leaves) if isinstance(x, EagerTensor) and x.requires_grad)


def _is_recorded(traced: Traced, positions: Sequence[int]) -> bool:
    """Whether a gradient is asked for by arguments, or by captured tensors without the function setting gradients."""
    return bool(positions) or (bool(traced.activity) and not traced.effects.sets_leaves)


class RecordedCall:
    """A call and the tensors that the call reads, before the run: `positions` are the indices of arguments that
    require grad.
    """

    def __init__(
        self, name: str, traced: Traced, leaves: Sequence[Any], positions: tuple[int, ...], reason: str | None
    ) -> None:
        self.name, self.traced, self.leaves = name, traced, list(leaves)
        self.positions, self.reason = positions, reason
        seeds = default_generator
        # `get_rng_state` inlined
        self.random_state = (seeds.start, seeds.computed - len(seeds.upcoming)) if traced.reads_numbers else None
        tensors, wanted, updated = traced.activity.tensors, traced.activity.needs_grad, traced.activity.updated
        self.snapshots = [] if reason else list(map(_snapshot, tensors, wanted, updated))
        self.operands = [_with_version_counter(_variable_of(leaves[i])) for i in positions]
        self.operands += itertools.compress(self.snapshots, wanted)

    def record_results(self, tensors: Sequence[Any], pullback: Callable[[], Callable[..., Any]]) -> None:
        """Makes the result tensors depend on the inputs of the call.

        `pullback()(leaves, cotangents, positions, snapshots)` returns gradients.
        """
        traced = self.traced
        indices = [index for index, leaf in enumerate(traced.leaves) if leaf is None]
        recorded = [
            i
            for i, (tensor, wants) in enumerate(zip(tensors, traced.activity.results, strict=True))
            if wants or (self.positions and (MODE.depth or tensor.desc.dtype.is_inexact))
        ]

        def grad(_: Any, op: Call, *cotangents: Any) -> dict[str, Any]:
            wanted: list[Any] = [None] * len(traced.leaves)
            for i, cotangent in zip(recorded, cotangents, strict=True):
                wanted[indices[i]] = None if cotangent is None else EagerTensor(cotangent)
            gradients = self._gradients(pullback(), traced.outputs.unflatten(wanted))
            return {OPERANDS: tuple(g.variable for g in gradients)}

        slot = grad if self.reason is None else no_gradient(self.reason)
        op = Operator(SIGNATURE, "A compiled function.", lambda op: (), _NO_SBP, slot, _NO_REFERENCE)
        ProgramNode(op, tuple(self.operands), [tensors[i].handle for i in recorded])

    def _gradients(self, pullback: Callable[..., Any], cotangents: Any) -> list[Any]:
        """The gradients by the operands of the recorded call.

        Raises:
            RuntimeError: an operand or a guarded setting has changed since the call.
        """
        for variable in (*self.operands, *self.snapshots):
            if variable.is_stale:
                raise stale_value_error(self.name, variable)
        with enable_grad():
            if not settings_hold(self.traced.guards):
                raise refuse(
                    f"the gradient of the compiled function {self.name}: expected unchanged modules since the call, "
                    "got other settings or hooks: call backward before train(), eval() and similar calls"
                )
        filled = list(self.leaves)
        for i, variable in zip(self.positions, self.operands, strict=False):
            filled[i] = EagerTensor(variable)
        wanted = self.traced.activity.needs_grad
        variables = (v if needed else v.alias() for v, needed in zip(self.snapshots, wanted, strict=False))
        recording, snapshots = MODE.recording, list(map(EagerTensor, variables))
        random = nullcontext() if self.random_state is None else restored(self.random_state)
        with random, set_grad_enabled(recording):
            gradients: list[Any] = pullback(filled, cotangents, self.positions, snapshots)
        return gradients


class ProgramNode(Node):
    """The node of a call of a compiled function, whose results are new variables.

    The constructor does the same as constructors of other nodes, without entering the module of the tape.
    """

    __slots__ = ()

    def __init__(self, record: Operator, operands: tuple[Variable, ...], results: Sequence[Variable]) -> None:
        self.record, self.inputs, self.attrs, self.kernel = record, {OPERANDS: operands}, {}, None
        self.sequence_number = next(sequence_numbers)
        self.results = list(map(weakref.ref, results))
        self.result_values = [(v.handle, v.desc, Memory(), v.version) for v in results]
        for variable, (*_, memory, _) in zip(results, self.result_values, strict=True):
            variable.node, variable.memory = self, memory


def _snapshot(tensor: Any, wanted: bool, updated: bool) -> Variable:
    """The current value of a captured tensor; a copy if the call is about to update the tensor."""
    tensor = current_tensor(tensor)
    if updated:
        return variable_of(input_array(tensor).copy(), tensor.desc)
    current = _variable_of(tensor)
    return _with_version_counter(current if wanted or current.node is None else current.alias())


def _variable_of(tensor: EagerTensor) -> Variable:
    """The current value of a tensor, without entering the module of tensors where that value is fresh."""
    current = tensor.handle
    is_fresh = current.memory is None or current.memory.version == current.version
    return current if tensor.view_meta is None and is_fresh else tensor.variable


def _with_version_counter(variable: Variable) -> Variable:
    """The variable, whose memory counts updates from this call on."""
    if variable.memory is None:
        variable.memory = Memory()
    return variable


def make_pullback(fn: Callable[..., Any], tree: Tree, activity: Activity) -> Callable[..., Any]:
    """The function that computes the gradients of `fn` for arguments of the structure `tree`.

    The gradients by the arguments at the given positions come first, then the gradients by captured tensors that
    need a gradient. Programs of the function have the name `pull`.
    """
    signature = inspect.signature(fn)
    captured_positions = [i for i, wanted in enumerate(activity.needs_grad) if wanted]

    def pull(leaves: list[Any], cotangents: Any, positions: tuple[int, ...], snapshots: list[Any]) -> list[Any]:
        def of_wanted(*tensors: Any) -> Any:
            filled = _replaced(leaves, positions, tensors[: len(positions)])
            values = _replaced(snapshots, captured_positions, tensors[len(positions) :])
            bound = signature.bind_partial()
            bound.arguments.update(tree.unflatten(filled))
            builder: Any = current_builder()
            with builder.captures.substituted(list(zip(activity.tensors, values, strict=True))):
                return fn(*bound.args, **bound.kwargs)

        wanted = [*(leaves[i] for i in positions), *(snapshots[i] for i in captured_positions)]
        gradients = vjp(of_wanted, *wanted)[1](cotangents)
        return [gradients] if len(wanted) == 1 else list(gradients)

    return pull


def _replaced(values: Sequence[Any], positions: Sequence[int], others: Sequence[Any]) -> list[Any]:
    """The values, with others at some positions."""
    replaced = list(values)
    for i, other in zip(positions, others, strict=True):
        replaced[i] = other
    return replaced


def _why_no_gradient(name: str, traced: Traced) -> str | None:
    """The reason why a function cannot run again for the gradient; None if the function can run again."""
    effects = traced.effects
    advice = f"call backward, or flow.grad, inside of the compiled function {name}"
    if effects.new_gradients or effects.replaced_gradients:
        return f"the function computes or sets gradients of captured tensors itself; {advice}"
    if any(s.tensor.requires_grad for s in effects.changed):
        return f"the function updates captured tensors that require grad; {advice}"
    return None
