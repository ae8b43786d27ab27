"""Gradients of compiled functions that are called with tensors which want one.

Such a call is recorded as one operator. Its gradient is a compiled function too, made of the function's `vjp` when it
is first asked for; so it has gradients of its own. What changes something outside, or uses what does not stay the
same, cannot be run again for a gradient: asking for one is an error that says so. Imports `autograd`, `function`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.dialect.record import Call, Operator, no_reference, no_sbp
from oneflow.dialect.record import no_grad as no_gradient
from oneflow.dialect.signature import parse_signature
from oneflow.frontend.autograd import vjp
from oneflow.frontend.eager import EagerTensor
from oneflow.frontend.eager_builder import spoiled
from oneflow.frontend.function import OPERANDS
from oneflow.frontend.tape import MODE, record
from oneflow.frontend.trace import Traced
from oneflow.frontend.tree import Tree, flatten

SIGNATURE = parse_signature(f"compiled({OPERANDS}*) -> y*")


def wants_gradient(leaves: Sequence[Any]) -> bool:
    """Whether a call with these arguments has to be recorded."""
    return MODE.recording and any(isinstance(x, EagerTensor) and x.requires_grad for x in leaves)


def record_call(name: str, traced: Traced, pull: Callable[..., Any], leaves: Sequence[Any], value: Any) -> None:
    """Makes the results `value` depend on the arguments; `pull(leaves, cotangents, numbers)` gives gradients."""
    at = tuple(i for i, x in enumerate(leaves) if isinstance(x, EagerTensor) and x.requires_grad)
    results, tree = flatten(value)
    given = [r for r in results if isinstance(r, EagerTensor)]
    operands = tuple(leaves[i].variable for i in at)

    def grad(_: Any, op: Call, *cotangents: Any) -> dict[str, Any]:
        for variable in operands:
            if variable.stale:
                raise spoiled(name, variable)
        rest = iter(cotangents)
        wanted = [_cotangent(next(rest)) if isinstance(r, EagerTensor) else None for r in results]
        filled = list(leaves)
        for i, variable in zip(at, operands, strict=True):
            filled[i] = EagerTensor(variable)
        return {OPERANDS: tuple(g.variable for g in pull(filled, tree.unflatten(wanted), at))}

    reason = _unrepeatable(name, traced)
    slot = grad if reason is None else no_gradient(reason)
    op = Operator(
        SIGNATURE, "A compiled function.", lambda op: (), no_sbp("is Python"), slot, no_reference("is Python")
    )
    record(op, {OPERANDS: operands}, {}, [r.variable for r in given])


def puller(fn: Callable[..., Any], tree: Tree) -> Callable[..., Any]:
    """The function that gives the gradients of `fn`, whose arguments have a structure, by some of their leaves."""
    signature = inspect.signature(fn)

    def pull(leaves: list[Any], cotangents: Any, at: tuple[int, ...]) -> list[Any]:
        def part(*tensors: Any) -> Any:
            filled = list(leaves)
            for i, tensor in zip(at, tensors, strict=True):
                filled[i] = tensor
            bound = signature.bind_partial()
            bound.arguments.update(tree.unflatten(filled))
            return fn(*bound.args, **bound.kwargs)

        found = vjp(part, *(leaves[i] for i in at))[1](cotangents)
        return [found] if len(at) == 1 else list(found)

    return pull


def _cotangent(value: Any) -> EagerTensor | None:
    return None if value is None else EagerTensor(value)


def _unrepeatable(name: str, traced: Traced) -> str | None:
    """Why a function cannot be run again for its gradient; None where it can."""
    advice = f"call backward, or flow.grad, inside of the compiled function {name}"
    if traced.effects.results or traced.effects.kept:
        return f"it updates tensors from outside; {advice}"
    if any(isinstance(c, EagerTensor) and c.requires_grad for c in traced.captured):
        return f"it uses tensors from outside that require grad and are no arguments; {advice}, or pass them in"
    if any(callable(c) for c in traced.captured):
        return f"it uses random or changing numbers; {advice}"
    return None
