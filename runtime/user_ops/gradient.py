"""Gradients of operators from C++ libraries: the operations of the gradient function become builder calls.

An operation is built once, when the gradient of an operand needs it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oneflow.dialect.builder import Builder, Value, describe
from oneflow.dialect.record import Call, OperatorError, flatten
from oneflow.runtime.user_ops.marshal import decode_value
from oneflow.runtime.user_ops.operations import call_by_name
from oneflow.runtime.user_ops.rules import LibraryRules
from oneflow.runtime.user_ops.sizes import run_for_sizes


def gradient_rule(rules: LibraryRules) -> Callable[..., dict[str, Any]]:
    """The gradient slot of an operator with a registered gradient function."""

    def grad(ops: Builder, op: Call, *cotangents: Value | None) -> dict[str, Any]:
        op = Call(op.record, op.inputs, op.attrs, rules.by_result(op))
        described = Call(op.record, _descriptions(op.inputs), op.attrs, _descriptions(op.outputs))
        programs = run_for_sizes(described, lambda call: rules.ask("gradient", call))
        if any(json.dumps(p) != json.dumps(programs[0]) for p in programs):
            raise op.error(
                "the gradient function needs static shapes: the operations that it builds depend on the sizes"
            )
        for note in programs[0]["notes"]:
            warnings.warn(f"{op.record.name}: in its gradient function {note}", stacklevel=2)
        emitter = _Emitter(ops, op, cotangents, {o["name"]: o for o in programs[0]["ops"]})
        exempt = rules.no_gradient(described)
        bindings = [b for b in programs[0]["bindings"] if b[0] not in exempt]
        return _by_operand(op, {(name, index): emitter.deferred(tensor) for name, index, tensor in bindings})

    return grad


def _descriptions(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: describe(value) for name, value in values.items()}


def _by_operand(op: Call, gradients: Mapping[tuple[str, int], Callable[[], Value]]) -> dict[str, Any]:
    """Gradients by operand name; the gradients of a variadic operand are a list."""
    named: dict[str, Any] = {}
    for name, operand in op.inputs.items():
        grads = [gradients.get((name, i)) for i in range(len(flatten([operand])))]
        if any(g is not None for g in grads):
            named[name] = grads if isinstance(operand, tuple) else grads[0]
    return named


@dataclass
class _Emitter:
    """Builds the operations of one gradient as they are needed; tensors are named "operation/result_number"."""

    ops: Builder
    op: Call
    cotangents: Sequence[Value | None]
    operations: Mapping[str, Mapping[str, Any]]
    built: dict[str, dict[str, Value]] = field(default_factory=dict)
    #: The operations whose operands are being built, outermost first.
    in_progress: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.built["forward"] = {**_numbered(self.op.inputs), **_numbered(self.op.outputs)}
        names = _numbered(self.op.outputs)
        self.built["gradient"] = {n: c for n, c in zip(names, self.cotangents, strict=True) if c is not None}

    def deferred(self, tensor: str) -> Callable[[], Value]:
        """A function that returns the named tensor."""
        return lambda: self.value(tensor)

    def value(self, tensor: str) -> Value:
        """The named tensor; its operation is built at the first use.

        Raises:
            OperatorError: no operation yields the tensor, or its operation cannot be built.
        """
        name, _, part = tensor.rpartition("/")
        if name not in self.built and name in self.operations:
            self.built[name] = self._build(name)
        built = self.built.get(name, {}).get(part)
        if built is None:
            raise self.op.error(
                f"the gradient function uses the tensor {tensor!r}, which no operation defines; use names from "
                "FwOp().input, FwOp().output, FwOp().output_grad or GetOp(..).output"
            )
        return built

    def _build(self, name: str) -> dict[str, Value]:
        operation = self.operations[name]
        if name in self.in_progress:
            circle = " -> ".join([*self.in_progress[self.in_progress.index(name) :], name])
            raise self.op.error(
                f"the gradient function's operations need their own results: {circle}; bind a tensor that exists "
                "before them"
            )
        self.in_progress.append(name)
        inputs = {k: tuple(map(self.value, v)) for k, v in operation["inputs"].items()}
        self.in_progress.pop()
        try:
            attrs = {k: decode_value(v) for k, v in operation["attrs"].items()}
            results = call_by_name(self.ops, operation["op"], inputs, attrs, operation["outputs"])
        except (OperatorError, ValueError) as error:
            raise self.op.error(f"the operations of its gradient function: {error}") from None
        return _numbered(results)


def _numbered(groups: Mapping[str, Any]) -> dict[str, Value]:
    return {f"{name}_{i}": value for name, group in groups.items() for i, value in enumerate(flatten([group]))}
