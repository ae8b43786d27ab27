"""Backward ahead of time: the gradient of a compiled function is a compiled function.

A call outside of a trace is recorded as one operator if an argument requires grad, or if a captured tensor does on
which results depend. The gradient is compiled from the function's `vjp` when it is first asked for, so it has
gradients of its own. The gradient runs the function again, on the same arguments, captured values and random numbers,
without its updates. A function that calls `backward` or updates leaves has no such gradient.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from oneflow.dialect.record import Call, Operator, no_reference, no_sbp
from oneflow.dialect.record import no_grad as no_gradient
from oneflow.dialect.signature import parse_signature
from oneflow.frontend.compile.guarded_call import Recorder, settings_hold
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import refuse
from oneflow.frontend.core.tree import LEAF, Tree, flatten
from oneflow.frontend.eager.builder import stale_value_error
from oneflow.frontend.eager.function import OPERANDS
from oneflow.frontend.eager.tape import MODE, Node, Variable, enable_grad, record, set_grad_enabled
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor
from oneflow.frontend.functional.random import get_rng_state
from oneflow.frontend.tracing.activity import Activity
from oneflow.frontend.tracing.autograd import vjp
from oneflow.frontend.tracing.eager_autograd import restored
from oneflow.frontend.tracing.traced import Traced

SIGNATURE = parse_signature(f"compiled({OPERANDS}*) -> y*")
_NO_SBP, _NO_REFERENCE = no_sbp("is Python"), no_reference("is Python")


def recorded_call(name: str, traced: Traced, leaves: Sequence[Any]) -> RecordedCall | None:
    """The record of a call that is about to run; None where nothing requires its gradient."""
    if not MODE.recording:
        return None
    positions = tuple(i for i, x in enumerate(leaves) if isinstance(x, EagerTensor) and x.requires_grad)
    if not positions and (traced.effects.sets_leaves or not traced.activity):
        return None
    return recorded_at(name, traced, leaves, positions)


def recorded_at(
    name: str, traced: Traced, leaves: Sequence[Any], positions: tuple[int, ...] = ()
) -> RecordedCall | None:
    """The record of a call where the arguments at `positions`, or captured tensors, require grad; None where these
    are captured tensors alone and the function cannot run again.
    """
    reason = _why_no_gradient(name, traced)
    return RecordedCall(name, traced, leaves, positions, reason) if positions or reason is None else None


def recorder(
    name: str, traced: Traced, pullback: Callable[[Sequence[Any]], Callable[[], Callable[..., Any]]]
) -> Recorder:
    """What records calls of a function where captured tensors require grad and no argument does.

    `pullback(leaves)` gives the compiled gradient of a call with the arguments `leaves` when that is asked for.
    """

    def record_call(leaves: Sequence[Any]) -> Callable[[Any], None] | None:
        call = recorded_at(name, traced, leaves)
        return None if call is None else functools.partial(call.give, pullback=pullback(leaves))

    return record_call


class RecordedCall:
    """A call and what it reads, before it runs: `positions` are those of the arguments that require grad."""

    def __init__(
        self, name: str, traced: Traced, leaves: Sequence[Any], positions: tuple[int, ...], reason: str | None
    ) -> None:
        self.name, self.traced, self.leaves = name, traced, list(leaves)
        self.positions, self.reason = positions, reason
        self.random_state = get_rng_state() if traced.reads_numbers else None
        activity = traced.activity
        self.snapshots = (
            [] if reason else list(map(_snapshot, activity.tensors, activity.needs_grad, activity.updated))
        )
        self.operands = [leaves[i].variable for i in positions]
        self.operands += itertools.compress(self.snapshots, activity.needs_grad)

    def give(self, value: Any, pullback: Callable[[], Callable[..., Any]]) -> None:
        """Makes results depend on what the call read; `pullback()(leaves, cotangents, positions, snapshots)` gives
        gradients.
        """
        results, tree = ([value], LEAF) if self.traced.outputs.kind is None else flatten(value)
        tensors = [i for i, r in enumerate(results) if isinstance(r, EagerTensor)]
        recorded_results = [
            i for i, wants in zip(tensors, self.traced.activity.results, strict=True) if wants or self.positions
        ]
        count = len(results)  # the closure keeps no results: a cycle would leave them to the garbage collector

        def grad(_: Any, op: Call, *cotangents: Any) -> dict[str, Any]:
            wanted: list[Any] = [None] * count
            for i, cotangent in zip(recorded_results, cotangents, strict=True):
                wanted[i] = None if cotangent is None else EagerTensor(cotangent)
            return {OPERANDS: tuple(g.variable for g in self._gradients(pullback(), tree.unflatten(wanted)))}

        slot = grad if self.reason is None else no_gradient(self.reason)
        op = Operator(SIGNATURE, "A compiled function.", lambda op: (), _NO_SBP, slot, _NO_REFERENCE)
        variables = [results[i].handle for i in recorded_results]
        if self.positions:
            record(op, {OPERANDS: tuple(self.operands)}, {}, variables)
        else:  # all operands are leaves and all results floats: what `record` asks is known
            node = Node(op, {OPERANDS: tuple(self.operands)}, {})
            for variable in variables:
                node.add_result(variable)

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
                    f"the gradient of the compiled function {self.name} needs its modules as they were, but settings "
                    "or hooks have changed since the call: call backward before train(), eval() and their like"
                )
        filled = list(self.leaves)
        for i, variable in zip(self.positions, self.operands, strict=False):
            filled[i] = EagerTensor(variable)
        recording, snapshots = MODE.recording, list(map(EagerTensor, self.snapshots))
        random = nullcontext() if self.random_state is None else restored(self.random_state)
        with random, set_grad_enabled(recording):
            gradients: list[Any] = pullback(filled, cotangents, self.positions, snapshots)
        return gradients


def _snapshot(tensor: EagerTensor, wanted: bool, updated: bool) -> Variable:
    """The value of a captured tensor now: a copy of one that the call is about to update."""
    if updated:
        return BUILDER.wrap(tensor.storage.copy())
    current, memory = tensor.handle, tensor.handle.memory
    if tensor.view_meta is not None or (memory is not None and memory.version != current.version):
        current = tensor.variable
    return current if wanted else current.alias()


def make_pullback(fn: Callable[..., Any], tree: Tree, activity: Activity) -> Callable[..., Any]:
    """The function that gives the gradients of `fn` for arguments of the structure `tree`.

    The gradients are those by the arguments at some positions, then those by the captured tensors that need one.
    Programs of it are called `pull`.
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
    """Why a function cannot run again for its gradient; None where it can."""
    effects = traced.effects
    advice = f"call backward, or flow.grad, inside of the compiled function {name}"
    if effects.new_gradients or effects.replaced_gradients:
        return f"it computes or sets gradients of tensors from outside itself; {advice}"
    if any(s.outside.requires_grad for s in effects.changed):
        return f"it updates tensors from outside that require grad; {advice}"
    return None
