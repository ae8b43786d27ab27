"""Structured control flow: the forms in which operators run the functions among their attributes.

    results = run(ops, call)        a call on arrays; `ops` computes with NumPy

An operator whose slot `control` names one of `FORMS` has operands in the order of the arguments of its functions:
states, sequences, constants. A form yields each body with its arguments, and is sent the results.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np

from oneflow.dialect.body import Body
from oneflow.dialect.builder import Builder
from oneflow.dialect.record import Call
from oneflow.dialect.tensor_desc import TensorDesc

Arrays = Sequence[np.ndarray]
#: A generator of the bodies that a call runs, with their arguments. The generator is sent the results of each body,
#: and returns the results of the call.
Form = Generator[tuple[Body, Arrays], Sequence[np.ndarray], list[np.ndarray]]


def run(ops: Builder, op: Call) -> list[np.ndarray]:
    """The results of a call on arrays, with bodies built by `ops`, a builder that computes."""

    form = bodies_of(op)
    try:
        body, arrays = next(form)
        while True:
            body, arrays = form.send([v.handle for v in body.build(ops, *map(ops.wrap, arrays))])
    except StopIteration as stop:
        results: list[np.ndarray] = stop.value
        return results


def bodies_of(op: Call) -> Form:
    """The bodies that a call on arrays runs."""
    assert op.record.control is not None, op.record.name
    return FORMS[op.record.control](op)


def body_inputs(op: Call) -> list[TensorDesc]:
    """The types of the inputs of the bodies of a call on descriptions."""
    if op.record.control != "steps":
        return list(op.xs)
    first = op.states + op.sequences
    elements = (TensorDesc(None if d.shape is None else d.shape[1:], d.dtype) for d in op.xs[op.states : first])
    return [*op.xs[: op.states], *elements, *op.xs[first:]]


def _steps(op: Call) -> Form:
    """A body for each element of the sequences in turn."""
    first = op.states + op.sequences
    states, sequences, constants = list(op.xs[: op.states]), op.xs[op.states : first], op.xs[first:]
    length = op.length if op.length >= 0 else len(sequences[0])
    kept = [np.zeros((length, *d.static_shape), d.dtype.numpy) for d in op.body.outputs[op.states :]]
    before = [np.zeros((length, *s.shape), s.dtype) for s in states]
    for index in range(length):
        at = length - 1 - index if op.reverse else index
        for stacked, state in zip(before, states, strict=True):
            stacked[at] = state
        results = yield op.body, [*states, *(s[at] for s in sequences), *constants]
        states = list(results[: op.states])
        for stacked, result in zip(kept, results[op.states :], strict=True):
            stacked[at] = result
    return [*states, *kept, *before]


def _while(op: Call) -> Form:
    """A body as long as a condition holds."""
    states, constants = list(op.xs[: op.states]), op.xs[op.states :]
    while (yield op.condition, [*states, *constants])[0]:
        states = list((yield op.body, [*states, *constants]))
    return states


def _branch(op: Call) -> Form:
    """The branch that a predicate chooses."""
    return list((yield (op.true_branch if op.predicate else op.false_branch), op.xs))


FORMS: Mapping[str, Callable[[Any], Form]] = {"steps": _steps, "while": _while, "branch": _branch}
