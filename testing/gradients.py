"""Checks gradients against finite differences, to second order.

The gradient slots run on a builder that evaluates the NumPy references and records a tape, so that the same slots
differentiate a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Value
from oneflow.dialect.dtypes import DType
from oneflow.dialect.numpy_builder import NumpyBuilder, run_reference
from oneflow.dialect.record import REGISTRY, Absent, Call, Registry, distribute, flatten
from oneflow.dialect.reverse import pull_back
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.testing.checks import make_case
from oneflow.testing.sample import Sample

Array = np.ndarray
STEP = 1e-6
#: The number of directions in which an operand is moved.
DIRECTIONS = 6


class Tape(NumpyBuilder):
    """A builder that evaluates the references and records every call for a backward pass."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.calls: list[Call] = []

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Runs the reference and records the call with its results."""
        values = super().emit(op, results)
        outputs = distribute(op.record.signature.outputs, values, None)
        self.calls.append(Call(op.record, op.inputs, op.attrs, outputs))
        return values


def _type_of(sample: Sample) -> DType:
    """The type in which gradients are checked."""
    return dtypes.complex128 if sample.dtypes[0].is_complex else dtypes.float64


def _random_like(rng: np.random.Generator, array: Array) -> Array:
    """Random cotangents of an array."""
    sample = rng.uniform(-1, 1, array.shape)
    return sample + 1j * rng.uniform(-1, 1, array.shape) if array.dtype.kind == "c" else sample


def _seed(ops: NumpyBuilder, result: Value, cotangent: Array) -> Value | None:
    return ops.wrap(cotangent.astype(result.handle.dtype)) if result.dtype.is_inexact else None


def gradient(tape: Tape, op: Call, cotangents: Sequence[Array]) -> tuple[list[Value], list[Value | None]]:
    """The operands of a call on arrays as values of `tape`, and the gradient of each (None: no gradient)."""

    def wrap(x: Any) -> Any:
        return tuple(map(tape.wrap, x)) if isinstance(x, tuple) else None if x is None else tape.wrap(x)

    call = Call(op.record, {k: wrap(x) for k, x in op.inputs.items()}, op.attrs)
    outputs = tape.emit(call, [tape.wrap(np.asarray(r)).desc for r in run_reference(op)])
    call.outputs = distribute(op.record.signature.outputs, outputs, None)
    seeds = [_seed(tape, r, c) for r, c in zip(outputs, cotangents, strict=True)]
    assert not isinstance(op.record.grad, Absent), op.record.name
    named = op.record.grad(tape, call, *seeds)
    grads: list[Value | None] = []
    for name, operand in call.inputs.items():
        parts = flatten([operand])
        grad = named.get(name)
        items = grad if isinstance(grad, (tuple, list)) else [grad] * len(parts)
        grads += [g() if callable(g) else g for g in items]
    return call.operands, grads


def gradient_arrays(op: Call, cotangents: Sequence[Array]) -> dict[str, Any]:
    """The gradients of a call on arrays by operand name; zeros if the rule omits one."""
    operands, grads = gradient(Tape(REGISTRY), op, cotangents)
    arrays = [np.zeros_like(x.handle) if g is None else g.handle for x, g in zip(operands, grads, strict=True)]
    sizes = [len(x) if isinstance(x, tuple) else int(x is not None) for x in op.inputs.values()]
    return distribute(op.record.signature.inputs, arrays, sizes)


def check_gradient(sample: Sample, registry: Registry = REGISTRY) -> None:
    """Checks the gradient slot against central finite differences of the reference, for a random cotangent.

    The numbers are in double precision, and complex if the first type of the sample is complex. With `second_order`,
    the gradient of the gradient is checked, too.
    """
    op = make_case(sample, _type_of(sample), registry)
    rng = np.random.default_rng(7)
    weights = [_random_like(rng, np.asarray(r)) for r in run_reference(op)]
    tape = Tape(registry)
    operands, grads = gradient(tape, op, weights)

    def loss(moved: Call) -> float:
        return _weigh(weights, [np.asarray(r) for r in run_reference(moved)])

    for index, (operand, grad) in enumerate(zip(operands, grads, strict=True)):
        if operand.dtype.is_inexact:
            got = np.zeros(operand.handle.shape) if grad is None else grad.handle
            assert grad is None or grad.desc == operand.desc, f"{sample}: gradient {grad.desc} for {operand.desc}"
            _assert_slopes(loss, op, index, got, f"{sample}: {index}")
    if sample.second_order:
        _check_second_order(sample, op, weights, tape, operands, grads)


def _check_second_order(
    sample: Sample, op: Call, weights: list[Array], tape: Tape, operands: list[Value], grads: list[Value | None]
) -> None:
    rng = np.random.default_rng(11)
    probes = [None if g is None else _random_like(rng, g.handle) for g in grads]
    seeds = [(g, tape.wrap(p)) for g, p in zip(grads, probes, strict=True) if g is not None and p is not None]
    floats = [x for x in operands if x.dtype.is_inexact]
    gradients = iter(pull_back(NumpyBuilder(tape.registry), tape.calls, seeds, floats))

    def slope(moved: Call) -> float:
        again = gradient(Tape(tape.registry), moved, weights)[1]
        pairs = [(p, g.handle) for p, g in zip(probes, again, strict=True) if g is not None and p is not None]
        return _weigh([p for p, _ in pairs], [g for _, g in pairs])

    for index, operand in enumerate(operands):
        if operand.dtype.is_inexact:
            second = next(gradients)
            got = np.zeros(operand.handle.shape) if second is None else second.handle
            _assert_slopes(slope, op, index, got, f"{sample}: second order, operand {index}")


def _weigh(weights: Sequence[Array], results: Sequence[Array]) -> float:
    """The sum of the results' products with weights; for complex results, the sum over both parts."""
    pairs = zip(weights, results, strict=True)
    return float(sum(np.sum((np.conj(w) * r).real) for w, r in pairs if r.dtype.kind in "fc"))


def _assert_slopes(loss: Callable[[Call], float], op: Call, number: int, got: Array, text: str) -> None:
    """Checks that `got` is the slope of `loss` by operand `number` (counted flat), by central differences.

    Every element of a small operand is moved alone. A larger one is moved along a few directions of +1 and -1, in
    which the error of any one element shows in full. The slope by the imaginary part of an element is the imaginary
    part of the gradient, as in PyTorch.
    """
    operands = flatten(op.inputs.values())
    sizes = [len(x) if isinstance(x, tuple) else int(x is not None) for x in op.inputs.values()]
    for direction in _directions(operands[number]):
        values = []
        for step in (STEP, -STEP):
            flat = [*operands[:number], operands[number] + step * direction, *operands[number + 1 :]]
            inputs = distribute(op.record.signature.inputs, flat, sizes)
            values.append(loss(Call(op.record, inputs, op.attrs)))
        want = (values[0] - values[1]) / (2 * STEP)
        np.testing.assert_allclose(np.sum((np.conj(got) * direction).real), want, 1e-4, 1e-5, err_msg=text)


def _directions(operand: Array) -> Array:
    """Directions in which an operand is moved, along the first axis."""
    size, shape = operand.size, operand.shape
    if size <= DIRECTIONS:
        real = np.eye(size).reshape(size, *shape)
    else:
        real = np.random.default_rng(size).choice([-1.0, 1.0], (DIRECTIONS, *shape))
    return np.concatenate([real, 1j * real]) if operand.dtype.kind == "c" else real
