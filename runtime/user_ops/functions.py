"""Functions over tensors in C++ libraries: functors, and gradients as classes.

The C++ code runs while a program is built: its operator calls become builder calls.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oneflow.dialect.builder import Builder, Value, describe
from oneflow.dialect.record import Call, OperatorError, flatten
from oneflow.runtime.user_ops import framework, marshal
from oneflow.runtime.user_ops.framework import ArgumentStruct, TensorStruct
from oneflow.runtime.user_ops.operations import call_by_name
from oneflow.runtime.user_ops.rules import LibraryRules


@dataclass
class _Session:
    """A call into C++, with the values that C++ refers to by index."""

    ops: Builder
    values: list[Value] = field(default_factory=list)
    raised: Exception | None = None

    def encode(self, value: Value | None) -> TensorStruct:
        if value is None:
            return marshal.encode_tensor(-1, None)
        self.values.append(value)
        return marshal.encode_tensor(len(self.values) - 1, value.desc)

    def build(self, request: bytes) -> None:
        """Answers a request of C++ for an operation; no exception may pass through C++."""
        reply = framework.library().oneflow_sdk_reply
        try:
            results = [self.encode(value) for value in self._results(json.loads(request))]
        except Exception as error:
            self.raised = error
            reply(str(error).encode(), None, 0)
            return
        reply(None, (TensorStruct * len(results))(*results), len(results))

    def _results(self, request: dict[str, Any]) -> tuple[Value, ...]:
        inputs = {k: tuple(self.values[i] for i in ids) for k, ids in request["inputs"].items()}
        attrs = {k: marshal.decode_value(v) for k, v in request["attrs"].items()}
        return tuple(flatten(call_by_name(self.ops, request["op"], inputs, attrs, request["outputs"]).values()))

    def ask(self, function: str, *args: Any, failure: Callable[[str], Exception]) -> list[Value | None]:
        """Calls a function of the framework and returns its values.

        Raises:
            Exception: the function fails; an exception raised while building is the cause.
        """
        try:
            answer = framework.ask(function, *args, framework.Build(self.build), failure=failure)
        except Exception as error:
            raise error from self.raised
        return [None if i is None else self.values[i] for i in answer]


@dataclass(frozen=True)
class Argument:
    """An argument of a function: tensors, or a value of a kind of attribute (None: missing)."""

    kind: str | None
    value: Any

    def encode(self, session: _Session) -> ArgumentStruct:
        """The argument for C++."""
        if self.kind is not None:
            try:
                return marshal.encode_argument(self.kind, self.value)
            except ValueError as error:
                raise OperatorError(f"an argument of a function: {error}") from None
        if self.value is None:
            return marshal.encode_argument("none", None)
        return marshal.encode_argument(None, None, [session.encode(v) for v in flatten([self.value])])


def call_function(ops: Builder, name: str, arguments: Sequence[Argument]) -> list[Value]:
    """Calls the function that a library has registered under `name`; its operators are built with `ops`.

    Raises:
        OperatorError: there is no such function, its parameters differ, or the function fails.
    """
    session = _Session(ops)
    encoded = [argument.encode(session) for argument in arguments]
    array = (ArgumentStruct * len(encoded))(*encoded)
    results = session.ask("function_call", name.encode(), array, len(encoded), failure=OperatorError)
    return [value for value in results if value is not None]


def class_gradient_rule(rules: LibraryRules) -> Callable[..., dict[str, Any]]:
    """The gradient slot of an operator with a class registered by REGISTER_OP_EXPR_GRAD_FUNCTION."""

    def grad(ops: Builder, op: Call, *cotangents: Value | None) -> dict[str, Any]:
        session = _Session(ops)
        tensors = [session.encode(v) for v in (*op.operands, *op.results, *cotangents)]
        call = rules.encode(_without_sizes(op))
        array = (TensorStruct * len(tensors))(*tensors)
        gradients = session.ask("grad_function", ctypes.byref(call), array, failure=op.error)
        rest = iter([*gradients, *[None] * (len(op.operands) - len(gradients))])
        named = {k: [next(rest) for _ in flatten([x])] for k, x in op.inputs.items()}
        return {
            k: g if isinstance(op.inputs[k], tuple) else g[0]
            for k, g in named.items()
            if any(x is not None for x in g)
        }

    return grad


def _without_sizes(op: Call) -> Call:
    """The call with rank-0 descriptions: C++ reads names, counts and attributes here, and sizes from the tensors."""

    def plain(values: dict[str, Any]) -> dict[str, Any]:
        return {name: marshal.without_sizes(describe(value)) for name, value in values.items()}

    return Call(op.record, plain(op.inputs), op.attrs, plain(op.outputs))
