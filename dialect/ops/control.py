"""Structured control flow: scan, while_loop, cond. The bodies of these operators are functions; see `body.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.body import Body, expect_arguments, write_body
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.control import body_inputs, run
from oneflow.dialect.decomposition_gradient import Recorder
from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.record import REGISTRY, Call, no_grad, no_sbp, operator
from oneflow.dialect.reverse import NotDifferentiable, pull_back, zeros_like
from oneflow.dialect.signature import MAX_MIXED_OPERANDS
from oneflow.dialect.tensor_desc import Dim, TensorDesc

WHOLE = no_sbp("inference of its functions finds the layouts")
UNOFFERED = "splits of axes along which the functions are independent: inference of the functions finds these splits"


def _reference(name: str) -> Callable[..., Any]:
    """The NumPy form of an operator: with bodies by the references of their operators."""

    def reference(*operands: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
        record = REGISTRY[name]
        inputs = dict(zip([a.name for a in record.signature.inputs], operands, strict=True))
        return tuple(run(NumpyBuilder(), Call(record, inputs, attrs)))

    return reference


def _check_states(op: Call, outputs: Sequence[TensorDesc]) -> list[TensorDesc]:
    """The types of the states, which the body has to keep."""
    for index, (before, after) in enumerate(zip(op.xs, outputs, strict=False)):
        if not before.compatible(after):
            raise op.error(f"expected the body to return state {index} as {before}, got {after}")
    return [before.meet(after) for before, after in zip(op.xs, outputs, strict=False)]


def _expect_counts(op: Call, sequences: int, results: int | None) -> None:
    if not 0 <= op.states <= op.states + sequences <= len(op.xs) or sequences < 0:
        raise op.error(f"expected at least {op.states} states and {sequences} sequences, got {len(op.xs)} operands")
    outputs = len(op.body.outputs)
    if outputs < op.states or (results is not None and outputs != results):
        raise op.error(f"expected the body to return {op.states} states, got {outputs} results")


# scan


def _length(op: Call, sequences: Sequence[TensorDesc]) -> Dim:
    """The number of steps."""
    lengths: list[Dim] = [op.length] if op.length >= 0 else []
    for index, desc in enumerate(sequences):
        if desc.rank == 0:
            raise op.error(f"expected sequences of at least one dimension, got sequence {index} of type {desc}")
        lengths.append((desc.shape or ())[0])
    known = {n for n in lengths if n is not None}
    if not lengths or len(known) > 1:
        got = f"lengths {sorted(known)}" if known else "neither"
        raise op.error(f"expected sequences of one length, or the attribute length, got {got}")
    return next(iter(known), None)


def _stacked(length: Dim, descs: Sequence[TensorDesc]) -> list[TensorDesc]:
    return [TensorDesc(None if d.shape is None else (length, *d.shape), d.dtype) for d in descs]


def _scan_types(op: Call) -> list[TensorDesc]:
    _expect_counts(op, op.sequences, None)
    length = _length(op, op.xs[op.states : op.states + op.sequences])
    expect_arguments(op, "body", body_inputs(op))
    states = _check_states(op, op.body.outputs[: op.states])
    results = [*states, *_stacked(length, op.body.outputs[op.states :]), *_stacked(length, states)]
    if len(results) > MAX_MIXED_OPERANDS:
        raise op.error(
            f"expected at most {MAX_MIXED_OPERANDS} results, got {len(results)}; stack tensors of one type"
        )
    return results


def _scan_grad(ops: Builder, op: Call, *cotangents: Value | None) -> dict[str, Any]:
    """A scan in the other direction whose states are the cotangents of the states and of the constants.

    Each step recomputes its step of the forward scan from the previous state.
    """
    count, first, kept = op.states, op.states + op.sequences, len(op.body.outputs)
    states = [i for i in range(count) if op.xs[i].dtype.is_float]
    wanted = _wanted(op, range(count, len(op.xs)), 0)
    if not states and not wanted:
        return {}
    sequences, constants = [i for i in wanted if i < first], [i for i in wanted if i >= first]
    ys = [i for i in range(count, kept) if cotangents[i] is not None]
    befores = [i for i in states if cotangents[kept + i] is not None]

    def step(inner: Builder, *arguments: Value) -> list[Value]:
        rest = list(arguments)
        by_state, by_constant, before, elements, by_y, by_before, fixed = (
            [rest.pop(0) for _ in range(n)]
            for n in (len(states), len(constants), count, op.sequences, len(ys), len(befores), len(op.xs) - first)
        )
        seeds = dict(zip([*states, *ys], [*by_state, *by_y], strict=True))
        operands = [*before, *elements, *fixed]
        grads = _pulled_back(inner, op, op.body, operands, seeds, [*states, *wanted])
        at = dict(zip([*states, *wanted], grads, strict=True))
        for i, more in zip(befores, by_before, strict=True):
            at[i] = at[i] + more
        sums = [total + at[i] for total, i in zip(by_constant, constants, strict=True)]
        return [*(at[i] for i in states), *sums, *(at[i] for i in sequences)]

    last = [cotangents[i] for i in states]
    initial = [zeros_like(ops, op.xs[i]) if g is None else g for i, g in zip(states, last, strict=True)]
    initial += [zeros_like(ops, op.xs[i]) for i in constants]
    stacked = [*op.ys[kept:], *op.xs[count:first], *(cotangents[i] for i in ys)]
    stacked += [cotangents[kept + i] for i in befores]
    operands = [*initial, *stacked, *op.xs[first:]]
    elements = [TensorDesc(v.shape[1:], v.dtype) for v in stacked]
    body = write_body(step, [*(v.desc for v in initial), *elements, *(v.desc for v in op.xs[first:])], ops.registry)
    length = -1 if stacked else op.length
    attrs = {"states": len(initial), "sequences": len(stacked), "length": length, "reverse": not op.reverse}
    results = ops.call("scan", operands, body=body, **attrs)
    gradients = dict(zip([*states, *constants, *sequences], results, strict=False))
    return {"xs": tuple(gradients.get(i) for i in range(len(op.xs)))}


def _wanted(op: Call, indices: Iterable[int], before: int) -> list[int]:
    """The indices of the variadic operands whose gradient is needed; `before` operands precede the variadic ones."""
    floats = (i for i in indices if op.xs[i].dtype.is_float)
    return [i for i in floats if op.wanted is None or before + i in op.wanted]


def _pulled_back(
    ops: Builder, op: Call, body: Body, operands: Sequence[Value], seeds: dict[int, Value], wanted: Sequence[int]
) -> list[Value]:
    """The gradients of a body with respect to some of its operands, zeros where its results do not depend on one.

    `seeds` are the cotangents of its results by index.
    """
    recorder = Recorder(ops)
    values = [recorder.value(v) for v in operands]
    results = [_own(recorder, v) for v in body.build(recorder, *values)]
    pairs = [(results[i], recorder.value(seed)) for i, seed in seeds.items()]
    targets = [values[i] for i in wanted]
    try:
        grads = pull_back(recorder, list(recorder.calls), pairs, targets)
    except NotDifferentiable as error:
        raise op.error(f"{body!r} has no gradient: {error}") from None
    return [
        recorder.original(zeros_like(recorder, x) if g is None else g) for g, x in zip(grads, targets, strict=True)
    ]


def _own(recorder: Recorder, value: Value) -> Value:
    """A result of a body as a distinct value: a body may return an argument, or a value twice."""
    copy: Value = recorder.call("identity", value)[0]
    return copy


@operator(
    "scan(xs**, body: function, states: int32, sequences: int32, length: int64 = -1, reverse: bool = False) -> ys**"
)
class Scan:
    """Runs `body` for each element of sequences in turn, with states that are passed from step to step.

    The operands are `states` initial states, `sequences` sequences, which are split along axis 0, and constants. In
    each step `body` maps the states, an element of each sequence and the constants to the next states and
    further results. The results are the last states, the further results of all steps, stacked along axis 0, and
    the states before each step, stacked along axis 0. `reverse` starts from the last element. Without sequences
    `length` is the number of steps.
    """

    types = _scan_types
    sbp, unoffered = WHOLE, UNOFFERED
    grad = _scan_grad
    control = "steps"
    reference = _reference("scan")


# while_loop


def _while_types(op: Call) -> list[TensorDesc]:
    _expect_counts(op, 0, op.states)
    expect_arguments(op, "condition", op.xs)
    expect_arguments(op, "body", op.xs)
    if list(op.condition.outputs) != [TensorDesc((), dtypes.bool_)]:
        raise op.error(
            f"expected the condition to return one tensor<i1>, got {', '.join(map(str, op.condition.outputs))}"
        )
    return _check_states(op, op.body.outputs)


@operator("while_loop(xs**, condition: function, body: function, states: int32) -> ys**")
class WhileLoop:
    """Runs `body` on states as long as `condition` holds for the states; the results are the last states.

    The operands are `states` initial states, and constants, which both functions receive after the states.
    """

    types = _while_types
    sbp, unoffered = WHOLE, UNOFFERED
    grad = no_grad(
        "the number of steps is not known before the run, so that states cannot be kept for the gradient; use scan,"
        " which has a known number of steps"
    )
    control = "while"
    reference = _reference("while_loop")


# cond


def _cond_types(op: Call) -> list[TensorDesc]:
    if not op.predicate.compatible(TensorDesc((), dtypes.bool_)):
        raise op.error(f"expected a predicate of type tensor<i1>, got {op.predicate}")
    for name in ("true_branch", "false_branch"):
        expect_arguments(op, name, op.xs)
    pair = op.true_branch.outputs, op.false_branch.outputs
    if len(pair[0]) != len(pair[1]) or not all(a.compatible(b) for a, b in zip(*pair, strict=True)):
        types = [", ".join(map(str, outputs)) for outputs in pair]
        raise op.error(f"expected both branches to return the same types, got {types[0]} and {types[1]}")
    return [a.meet(b) for a, b in zip(*pair, strict=True)]


def _cond_grad(ops: Builder, op: Call, *cotangents: Value | None) -> dict[str, Any]:
    """The gradient of the branch that ran; the branch is recomputed."""
    wanted = _wanted(op, range(len(op.xs)), 1)
    numbers = [i for i, g in enumerate(cotangents) if g is not None]
    present = [g for g in cotangents if g is not None]
    count = len(op.xs)

    def of(branch: Body) -> Body:
        def write(inner: Builder, *arguments: Value) -> list[Value]:
            seeds = dict(zip(numbers, arguments[count:], strict=True))
            return _pulled_back(inner, op, branch, arguments[:count], seeds, wanted)

        return write_body(write, [v.desc for v in (*op.xs, *present)], ops.registry)

    branches = {"true_branch": of(op.true_branch), "false_branch": of(op.false_branch)}
    results = ops.call("cond", op.predicate, [*op.xs, *present], **branches) if wanted else ()
    gradients = dict(zip(wanted, results, strict=True))
    return {"xs": tuple(gradients.get(i) for i in range(count))}


@operator("cond(predicate, xs**, true_branch: function, false_branch: function) -> ys**")
class Cond:
    """The results of `true_branch` on the operands where the predicate holds, else the results of `false_branch`.

    The other branch does not run.
    """

    types = _cond_types
    sbp, unoffered = WHOLE, UNOFFERED
    grad = _cond_grad
    control = "branch"
    reference = _reference("cond")
