"""Builders: programs written as calls of operators.

Gradients, decompositions and rewrites are written once against a `Builder`: `ops.matmul(a, b)` checks the
call, infers its results and hands it to `emit`. `IRBuilder` (in `dialect.ir_builder`) emits MLIR operations,
`NumpyBuilder` (in `dialect.numpy_builder`) computes at once with the references.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from oneflow.dialect.attributes import AttrValue
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import (
    REGISTRY,
    Call,
    Operator,
    OperatorError,
    Registry,
    attribute_values,
    distribute,
    flatten,
    infer,
)
from oneflow.dialect.tensor_desc import Shape, TensorDesc

Scalar = bool | int | float


class Value:
    """A tensor in a program under construction: its description, and the builder's handle.

    Arithmetic on values builds operators: `broadcast_*` between values, `scalar_*` with a number.
    """

    __slots__ = ("builder", "desc", "handle")

    def __init__(self, builder: Builder, handle: Any, desc: TensorDesc) -> None:
        self.builder, self.handle, self.desc = builder, handle, desc

    @property
    def shape(self) -> Shape:
        """The shape; None for a dimension that is dynamic."""
        assert self.desc.shape is not None, "shape of an unranked value"
        return self.desc.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.desc.dtype

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self.desc.rank

    def __str__(self) -> str:
        return str(self.desc)

    def __add__(self, other: Value | Scalar) -> Value:
        return self.builder.binary("add", self, other)

    def __radd__(self, other: Scalar) -> Value:
        return self.builder.binary("add", self, other)

    def __sub__(self, other: Value | Scalar) -> Value:
        return self.builder.binary("sub", self, other)

    def __rsub__(self, other: Scalar) -> Value:
        return self.builder.binary("add", -self, other)

    def __mul__(self, other: Value | Scalar) -> Value:
        return self.builder.binary("mul", self, other)

    def __rmul__(self, other: Scalar) -> Value:
        return self.builder.binary("mul", self, other)

    def __truediv__(self, other: Value | Scalar) -> Value:
        return self.builder.binary("div", self, other)

    def __neg__(self) -> Value:
        negated: Value = self.builder.negative(self)
        return negated


class Builder(ABC):
    """Checks calls and infers their results; `emit` is what a subclass does with them.

    `has_placements` says whether values of the program may be on different ranks.
    """

    has_placements = False

    def __init__(self, registry: Registry = REGISTRY) -> None:
        self.registry = registry

    @abstractmethod
    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """The results of a checked call; `op`'s operands are `Value`s."""

    @abstractmethod
    def wrap(self, value: Any) -> Value:
        """An operand that a rule passes (a value, an array or a number) as a `Value` of this builder."""

    def retype(self, value: Value, desc: TensorDesc) -> Value:
        """`value` as a tensor of type `desc`, in which more or fewer sizes of the same shape are known."""
        assert value.desc.compatible(desc), f"{value.desc} as {desc}"
        return value

    def placed_like(self, value: Value, like: Value) -> Value:
        """`value` on the ranks of the placement of `like`."""
        return (
            self.call("hierarchical_parallel_cast_like", value, like, nd_sbp=())[0] if self.has_placements else value
        )

    def call(self, name: str, /, *operands: Any, **attrs: Any) -> tuple[Value, ...]:
        """The results of operator `name`.

        Operands follow the signature; None stands for a missing optional one, a sequence for a variadic
        one. Attributes are given by name.

        Raises:
            OperatorError: the operator is unknown or does not allow the call.
        """
        if name not in self.registry:
            raise OperatorError(self.registry.unknown(name))
        record = self.registry[name]
        op = Call(record, self._named_operands(record, operands), attribute_values(record, attrs))
        described = Call(record, {k: describe(v) for k, v in op.inputs.items()}, op.attrs)
        return tuple(self.emit(op, infer(record, described)))

    def _named_operands(self, record: Operator, operands: Sequence[Any]) -> dict[str, Any]:
        args = record.signature.inputs
        if len(operands) > len(args):
            raise OperatorError(f"oneflow.{record.name}: expected at most {len(args)} operands, got {len(operands)}")
        padded: list[Any] = [*operands, *[None] * (len(args) - len(operands))]
        groups = [self._wrap_all(v) if a.is_variadic else v for a, v in zip(args, padded, strict=True)]
        sizes = [len(g) if isinstance(g, tuple) else int(g is not None) for g in groups]
        flat = [g if isinstance(g, Value) else self.wrap(g) for g in flatten(groups)]
        try:
            return distribute(args, flat, sizes)
        except ValueError as error:
            raise OperatorError(f"oneflow.{record.name}: operands: {error}") from None

    def _wrap_all(self, values: Any) -> tuple[Value, ...]:
        return () if values is None else tuple(v if isinstance(v, Value) else self.wrap(v) for v in values)

    def operand_gradients(self, op: Call, cotangents: Sequence[Any]) -> list[tuple[int, Any]]:
        """The gradients of a call, by the record's rule, with the indices of the operands: values, or functions that
        build values.

        Raises:
            OperatorError: the rule returns no gradients of the operands.
        """
        rule: Any = op.record.grad
        named = rule(self, op, *cotangents)
        unknown = named.keys() - op.inputs.keys()
        if unknown:
            raise op.error(f"expected gradients of operands, got gradients of {sorted(unknown)}")
        indices: dict[str, range] = {}
        count = 0
        for name, operand in op.inputs.items():
            indices[name] = range(count, count + len(flatten([operand])))
            count = indices[name].stop
        return [pair for name, gradient in named.items() for pair in _with_indices(op, name, indices[name], gradient)]

    def binary(self, kind: str, a: Value, b: Value | Scalar) -> Value:
        """`a` and `b` combined by the operator `broadcast_<kind>`, or `scalar_<kind>` with a number."""
        if isinstance(b, Value):
            return self.call(f"broadcast_{kind}", a, b)[0]
        if kind == "sub":
            kind, b = "add", -b
        is_integer = isinstance(b, int) and not a.dtype.is_inexact
        value = {"int_operand": b, "has_int_operand": True} if is_integer else {"float_operand": float(b)}
        if not is_integer:
            value["has_float_operand"] = True
        return self.call(f"scalar_{kind}", a, **value)[0]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def build(*operands: Any, **attrs: AttrValue) -> Any:
            results = self.call(name, *operands, **attrs)
            return results[0] if len(results) == 1 else results

        return build


def _with_indices(op: Call, name: str, indices: range, gradient: Any) -> Iterable[tuple[int, Any]]:
    """The gradients of the operands of one name, each with the index of the operand."""
    if gradient is None or not indices:
        return ()
    if not isinstance(op.inputs[name], tuple):
        return ((indices.start, gradient),)
    if not isinstance(gradient, (tuple, list)) or len(gradient) != len(indices):
        raise op.error(f"expected the gradient rule to give {len(indices)} gradients of {name}, got {gradient!r}")
    return zip(indices, gradient, strict=True)


def describe(operand: Any) -> Any:
    """The `TensorDesc` of a `Value`, of each of a tuple, None of None."""
    if isinstance(operand, tuple):
        return tuple(v.desc for v in operand)
    return operand.desc if isinstance(operand, Value) else operand
