"""Gradients of compiled functions that are called outside of what they compile, as one operator each.

A call is recorded where an argument wants a gradient, or a tensor does that the function takes from outside and its
results depend on. The gradient is a compiled function too, made of the function's `vjp` when it is first asked for;
so it has gradients of its own. The function runs again in it, on the same arguments, values from outside and random
numbers, and updates nothing. One that calls `backward` or updates leaves has no such gradient.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.dialect.record import Call, Operator, no_reference, no_sbp
from oneflow.dialect.record import no_grad as no_gradient
from oneflow.dialect.signature import parse_signature
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import refuse
from oneflow.frontend.core.tree import Tree, flatten
from oneflow.frontend.eager.builder import spoiled
from oneflow.frontend.eager.function import OPERANDS
from oneflow.frontend.eager.tape import MODE, enable_grad, record, set_grad_enabled
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor
from oneflow.frontend.functional.random import get_rng_state
from oneflow.frontend.tracing.activity import Reach
from oneflow.frontend.tracing.autograd import vjp
from oneflow.frontend.tracing.eager_autograd import restored
from oneflow.frontend.tracing.traced import Traced

SIGNATURE = parse_signature(f"compiled({OPERANDS}*) -> y*")


def recorded_call(name: str, traced: Traced, leaves: Sequence[Any]) -> Recorded | None:
    """What a call is recorded as that is about to run; None where nothing wants its gradient."""
    if not MODE.recording:
        return None
    at = tuple(i for i, x in enumerate(leaves) if isinstance(x, EagerTensor) and x.requires_grad)
    if not at and (traced.effects.sets_leaves or not traced.reach):
        return None
    reason = _unrepeatable(name, traced)
    return Recorded(name, traced, leaves, at, reason) if at or reason is None else None


class Recorded:
    """A call, with what it reads as that is before it runs: `at` are the arguments that want a gradient."""

    def __init__(
        self, name: str, traced: Traced, leaves: Sequence[Any], at: tuple[int, ...], reason: str | None
    ) -> None:
        self.name, self.traced, self.leaves, self.at, self.reason = name, traced, list(leaves), at, reason
        self.random = get_rng_state()
        reach = traced.reach
        self.held = [] if reason else list(map(_held, reach.tensors, reach.wanting, reach.updated))
        wanting = [t for t, wanted in zip(self.held, reach.wanting, strict=False) if wanted]
        self.operands = [*(leaves[i].variable for i in at), *(t.variable for t in wanting)]
        self.kept = [EagerTensor(v) for v in self.operands[: len(at)]]

    def give(self, value: Any, pull: Callable[[], Callable[..., Any]]) -> None:
        """Makes results depend on what was read; `pull()(leaves, cotangents, at, held)` gives gradients."""
        results, tree = flatten(value)
        tensors = [i for i, r in enumerate(results) if isinstance(r, EagerTensor)]
        given = [i for i, wants in zip(tensors, self.traced.reach.results, strict=True) if wants or self.at]
        count = len(results)  # results themselves, held here, would be freed by the garbage collector alone

        def grad(_: Any, op: Call, *cotangents: Any) -> dict[str, Any]:
            wanted: list[Any] = [None] * count
            for i, cotangent in zip(given, cotangents, strict=True):
                wanted[i] = None if cotangent is None else EagerTensor(cotangent)
            return {OPERANDS: tuple(g.variable for g in self._pulled(pull(), tree.unflatten(wanted)))}

        slot = grad if self.reason is None else no_gradient(self.reason)
        absent = no_sbp("is Python"), no_reference("is Python")
        op = Operator(SIGNATURE, "A compiled function.", lambda op: (), absent[0], slot, absent[1])
        record(op, {OPERANDS: tuple(self.operands)}, {}, [results[i].variable for i in given])

    def _pulled(self, pull: Callable[..., Any], cotangents: Any) -> list[Any]:
        """The gradients by what was read.

        Raises:
            RuntimeError: something of that has changed since.
        """
        for variable in (*self.operands, *(t.handle for t in self.held)):
            if variable.stale:
                raise spoiled(self.name, variable)
        with enable_grad():
            if not all(guard.holds for guard in self.traced.guards if guard.lasting):
                raise refuse(
                    f"the gradient of the compiled function {self.name} needs its modules as they were, but settings "
                    "or hooks have changed since the call: call backward before train(), eval() and their like"
                )
        filled = list(self.leaves)
        for i, tensor in zip(self.at, self.kept, strict=True):
            filled[i] = tensor
        recording = MODE.recording
        with restored(self.random), set_grad_enabled(recording):
            found: list[Any] = pull(filled, cotangents, self.at, self.held)
        return found


def _held(tensor: EagerTensor, wanted: bool, updated: bool) -> EagerTensor:
    """A tensor from outside as it is: a copy of what is about to be updated."""
    if updated:
        return EagerTensor(BUILDER.wrap(tensor.storage.copy()))
    return EagerTensor(tensor.variable if wanted else tensor.variable.alias())


def puller(fn: Callable[..., Any], tree: Tree, reach: Reach) -> Callable[..., Any]:
    """The function that gives gradients of `fn`, whose arguments have a structure.

    They are those by some leaves of the arguments, and by the tensors from outside that want one.
    """
    signature = inspect.signature(fn)
    inner = [i for i, wanted in enumerate(reach.wanting) if wanted]

    def pull(leaves: list[Any], cotangents: Any, at: tuple[int, ...], held: list[Any]) -> list[Any]:
        def part(*tensors: Any) -> Any:
            filled = _replaced(leaves, at, tensors[: len(at)])
            values = _replaced(held, inner, tensors[len(at) :])
            bound = signature.bind_partial()
            bound.arguments.update(tree.unflatten(filled))
            builder: Any = current_builder()
            with builder.captures.standing_in(list(zip(reach.tensors, values, strict=True))):
                return fn(*bound.args, **bound.kwargs)

        wanted = [*(leaves[i] for i in at), *(held[i] for i in inner)]
        found = vjp(part, *wanted)[1](cotangents)
        return [found] if len(wanted) == 1 else list(found)

    return pull


def _replaced(values: Sequence[Any], at: Sequence[int], others: Sequence[Any]) -> list[Any]:
    """The values, with others in some places."""
    found = list(values)
    for i, other in zip(at, others, strict=True):
        found[i] = other
    return found


def _unrepeatable(name: str, traced: Traced) -> str | None:
    """Why a function cannot be run again for its gradient; None where it can."""
    effects = traced.effects
    advice = f"call backward, or flow.grad, inside of the compiled function {name}"
    if effects.made or effects.kept:
        return f"it computes or sets gradients of tensors from outside itself; {advice}"
    if any(s.outside.requires_grad for s in effects.changed):
        return f"it updates tensors from outside that require grad; {advice}"
    return None
