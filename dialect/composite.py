"""Operators that are compositions of others: a decomposition and a reference define an operator.

    composite("frob(x, y) -> z", "..", write=lambda ops, op: ops.exp(op.x) * op.y, reference=..)
    adjoint("frob_grad(dz, x, y) -> dx, dy", "..", of="frob", seeds=("dz",))

The types are the types of the decomposition, which is built without emitting anything. The gradient is the gradient
of its operators. An operand split along an axis that `sbp` does not split has the decomposition split instead.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.decomposition_gradient import Recorder, decomposition_gradient, mapped
from oneflow.dialect.numpy_builder import NumpyBuilder, describe_array
from oneflow.dialect.record import REGISTRY, Call, OperatorError, Rule, define, flatten, no_sbp
from oneflow.dialect.reverse import pull_back, zeros_like
from oneflow.dialect.signature import parse_signature
from oneflow.dialect.tensor_desc import TensorDesc

UNSPLIT = no_sbp("its operators are split instead")


class TypeBuilder(Builder):
    """Infers the types of a composition and emits nothing."""

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Values of the inferred types."""
        return [Value(self, None, desc) for desc in results]

    def wrap(self, value: Any) -> Value:
        """The description of an array or a number as a value."""
        return Value(self, None, value if isinstance(value, TensorDesc) else describe_array(np.asarray(value)))


@dataclass(frozen=True)
class ComposedTypes:
    """The types slot of the decomposition `write`, which is built without emitting anything."""

    write: Rule

    def __call__(self, op: Call) -> tuple[TensorDesc, ...]:
        """The types of the results.

        Raises:
            OperatorError: an operator of the decomposition does not allow the call.
        """
        try:
            made = built_on_types(self.write, op, TypeBuilder())
        except OperatorError as error:
            text = str(error)
            raise error if text.startswith(f"oneflow.{op.record.name}:") else op.error(text) from None
        return tuple(value.desc for value in made)


def built_on_types(write: Rule, op: Call, ops: TypeBuilder) -> list[Value]:
    """The results of the decomposition `write` of a call on `TensorDesc`s."""
    inputs = {name: mapped(ops.wrap, operand) for name, operand in op.inputs.items()}
    made = write(ops, Call(op.record, inputs, op.attrs))
    return flatten(made if isinstance(made, (tuple, list)) else [made])


def composite(
    signature: str, doc: str, *, write: Rule, reference: Rule, check: Rule | None = None, depth: int = 1, **slots: Any
) -> None:
    """Registers a composition.

    Args:
        signature: as for `define`.
        doc: the description.
        write: the decomposition: `write(ops, op)` returns the results.
        reference: the NumPy form.
        check: the check of a call; raises OperatorError.
        depth: how many stack frames above the caller the definition is.
        slots: slots to state otherwise than derived (`types`, `grad`, `sbp`).
    """
    derived: dict[str, Any] = {"types": ComposedTypes(write), "grad": decomposition_gradient, "sbp": UNSPLIT}
    define(
        signature, doc=doc, check=check, decompose=write, reference=reference, depth=depth + 1, **(derived | slots)
    )


def adjoint(
    signature: str,
    doc: str,
    *,
    of: str,
    seeds: Sequence[str],
    wanted: Sequence[str] = (),
    names: Mapping[str, str] = MappingProxyType({}),
    **slots: Any,
) -> None:
    """Registers the gradient of operator `of` as an operator.

    The reference is the composition of the references of its operators: tests compare the gradient of `of` with
    finite differences.

    Args:
        signature: as for `define`; operands and attributes are matched by name with the operands and attributes of
            `of`.
        doc: the description.
        of: the operator.
        seeds: the operands that are the cotangents of `of`'s results, "" for a result without one.
        wanted: the operands of `of` that the results belong to; all of them by default.
        names: operands of `of` and their names here, where the names differ.
        slots: slots to state otherwise than derived.
    """
    own_name = parse_signature(signature).name

    def write(ops: Builder, op: Call) -> tuple[Value, ...]:
        called = {n: op.inputs[own] for n, own in names.items()}
        return pulled_back(ops, Call(op.record, {**op.inputs, **called}, op.attrs), of, seeds, wanted)

    composite(signature, doc, write=write, reference=composed_reference(own_name, write), depth=2, **slots)


def composed_reference(name: str, write: Rule) -> Rule:
    """The reference slot of operator `name`: the references of the operators of its decomposition `write`."""

    def reference(*operands: Any, **attrs: Any) -> tuple[np.ndarray, ...]:
        ops, record = NumpyBuilder(), REGISTRY[name]
        arguments = [arg.name for arg in record.signature.inputs]
        inputs = {n: mapped(ops.wrap, x) for n, x in zip(arguments, operands, strict=True)}
        made = write(ops, Call(record, inputs, attrs))
        return tuple(value.handle for value in flatten(made if isinstance(made, tuple) else [made]))

    return reference


def gradient_operator(name: str, *wanted: str) -> Rule:
    """The gradient slot of a composition whose results save the operands of operator `name`.

    The results of `name` are the gradients of the operands `wanted`. The gradient operator has the operands,
    attributes and results of the composition under the same names; other operands are the cotangents of the first
    results. If a further result has a cotangent, the gradient is the gradient of the decomposition.
    """

    def grad(ops: Builder, op: Call, *cotangents: Value | None) -> dict[str, Any]:
        signature = ops.registry[name].signature
        known = {**op.inputs, **op.outputs}
        seeds = [arg.name for arg in signature.inputs if arg.name not in known]
        if any(c is not None for c in cotangents[len(seeds) :]):
            return decomposition_gradient(ops, op, *cotangents)
        pairs = zip(seeds, op.results, cotangents, strict=False)
        known |= {seed: zeros_like(ops, result) if c is None else c for seed, result, c in pairs}
        attrs = {a: value for a, value in op.attrs.items() if a in signature.attr_by_name}

        @functools.cache
        def gradients() -> tuple[Value, ...]:
            return ops.call(name, *(known[arg.name] for arg in signature.inputs), **attrs)

        return {n: functools.partial(lambda i: gradients()[i], i) for i, n in enumerate(wanted)}

    return grad


def pulled_back(ops: Builder, op: Call, of: str, seeds: Sequence[str], wanted: Sequence[str]) -> tuple[Value, ...]:
    """The gradients of a call of operator `of` on the operands and attributes that `op` has under the same names."""
    recorder, record = Recorder(ops), ops.registry[of]
    names = [arg.name for arg in record.signature.inputs]
    operands = {name: mapped(recorder.value, op.inputs.get(name)) for name in names}
    attrs = {name: value for name, value in op.attrs.items() if name in record.signature.attr_by_name}
    results = recorder.call(of, *operands.values(), **attrs)
    cotangents = []
    for result, name in zip(results, seeds, strict=False):
        seed = op.inputs[name] if name else None
        if seed is not None and not seed.desc.compatible(result.desc):
            raise op.error(f"expected {name} of type {result.desc}, got {seed.desc}")
        cotangents += [] if seed is None else [(result, recorder.value(seed))]
    targets = flatten([operands[name] for name in (wanted or names)])
    gradients = pull_back(recorder, list(recorder.calls), cotangents, targets)
    pairs = zip(gradients, targets, strict=True)
    return tuple(recorder.original(zeros_like(recorder, x) if g is None else g) for g, x in pairs)
