"""Complex numbers as pairs of reals: the slot `parts` of a record, and the builder that applies it.

    parts = each_part           the operator on the real and on the imaginary parts alone, for operators that move or
    add elements parts = by_body             the scalar body on complex numbers, split by `complex_bodies`
    parts = bilinear            a product of the first two operands, to which others are added
    parts = composed            the decomposition, whose operators have the slot
    parts = function(ops, op)   returns the results: `ops.pair(re, im)` is a complex value of two real values, and
                                `ops.parts(x)` are the two parts of a complex operand

Programs have complex tensors up to the pass `oneflow-expand-complex`; all that follows computes with reals. Gradients
are PyTorch's: the gradient of a real number L with respect to z = a + bi is dL/da + i dL/db, so that the gradient of
a holomorphic function is the cotangent times the conjugate of its derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect import complex_bodies, derivative
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.decomposition_gradient import mapped
from oneflow.dialect.elementwise import scalar_body
from oneflow.dialect.record import Call, flatten
from oneflow.dialect.scalar import Expr
from oneflow.dialect.tensor_desc import TensorDesc


@dataclass(frozen=True)
class Parts:
    """The handle of a complex value: its parts, and the pairs of reals that these are read from."""

    re: Value
    im: Value
    pairs: Value | None = None


class PartsBuilder(Builder):
    """Builds calls on complex values with a builder of reals; handles of complex values are `Parts`."""

    def __init__(self, reals: Builder) -> None:
        super().__init__(reals.registry)
        self.reals = reals

    def pair(self, re: Value, im: Value, pairs: Value | None = None) -> Value:
        """The complex value with two parts of one type, which may be read from `pairs`."""
        return Value(self, Parts(re, im, pairs), TensorDesc(re.desc.shape, re.dtype.complex))

    def parts(self, value: Value) -> tuple[Value, Value]:
        """The parts of a complex value."""
        return value.handle.re, value.handle.im

    def emit(self, op: Call, results: Sequence[TensorDesc]) -> list[Value]:
        """Builds calls on reals directly, and calls on complex numbers by the slot `parts`."""
        if not any(v.desc.dtype.is_complex for v in op.operands) and not any(d.dtype.is_complex for d in results):
            return self.reals.emit(op, results)
        assert op.record.parts is not None, op.record.name
        try:
            parts = op.record.parts(self, op)
        except s.BodyError as error:
            raise op.error(str(error)) from None
        values = flatten(parts if isinstance(parts, (tuple, list)) else [parts])
        return [self.retype(v, d) for v, d in zip(values, results, strict=True)]

    def retype(self, value: Value, desc: TensorDesc) -> Value:
        """`value` as a tensor of type `desc`."""
        if not value.dtype.is_complex:
            return self.reals.retype(value, desc)
        if value.desc == desc:
            return value
        part = TensorDesc(desc.shape, desc.dtype.part)
        return self.pair(*(self.reals.retype(v, part) for v in self.parts(value)))

    def wrap(self, value: Any) -> Value:
        """A real operand as a value of the builder of reals."""
        return self.reals.wrap(value)


def each_part(ops: PartsBuilder, op: Call) -> list[Value]:
    """The operator on the real parts, and on the imaginary parts."""
    return on_each()(ops, op)


def on_each(**imaginary: Any) -> Callable[[PartsBuilder, Call], list[Value]]:
    """The operator on each part, with these attributes on the imaginary one: a number that fills gaps is real."""

    def rule(ops: PartsBuilder, op: Call) -> list[Value]:
        def call(part: int, attrs: dict[str, Any]) -> tuple[Value, ...]:
            return ops.call(op.record.name, *(mapped(lambda v: _part(ops, v, part), x) for x in op.inputs.values()),
                            **attrs)  # fmt: skip

        pairs = zip(call(0, op.attrs), call(1, {**op.attrs, **imaginary}), strict=True)
        return [ops.pair(re, im) for re, im in pairs]

    return rule


def _part(ops: PartsBuilder, value: Value, part: int) -> Value:
    return ops.parts(value)[part] if value.dtype.is_complex else value


def by_real_part(ops: PartsBuilder, op: Call) -> Value:
    """The operator on the real parts alone: for operators that read only sizes."""
    operands = (mapped(lambda v: _part(ops, v, 0), x) for x in op.inputs.values())
    return ops.call(op.record.name, *operands, **op.attrs)[0]


def bilinear(ops: PartsBuilder, op: Call) -> Value:
    """A product of the first two operands; those that follow are added, or are read for their shape alone."""
    (first, second), rest = list(op.inputs.values())[:2], list(op.inputs.items())[2:]
    (a, b), (c, d) = ops.parts(first), ops.parts(second)

    def product(x: Value, y: Value, added: int | None = None) -> Value:
        """The product; of the operands that are added only the part `added`."""

        def more(name: str, value: Value | None) -> Value | None:
            if value is None or (added is None and name not in op.record.shapes_of):
                return None
            return _part(ops, value, added or 0)

        return ops.call(op.record.name, x, y, *(more(*item) for item in rest), **op.attrs)[0]

    return ops.pair(product(a, c, 0) - product(b, d), product(a, d, 1) + product(b, c))


def composed(ops: PartsBuilder, op: Call) -> Any:
    """The decomposition."""
    decompose = op.record.decompose or op.record.sharded_decomposition
    assert decompose is not None, op.record.name
    return decompose(ops, op)


def by_body(ops: PartsBuilder, op: Call) -> Value:
    """The scalar body, with complex nodes split into real nodes."""
    nodes = [s.arg(i, v.dtype) for i, v in enumerate(op.operands)]
    leaves: dict[Expr, complex_bodies.Pair] = {}
    values: dict[Expr, Value] = {}
    for node, operand in zip(nodes, op.operands, strict=True):
        if operand.dtype.is_complex:
            leaves[node] = _leaves(node)
            values.update(zip(leaves[node], ops.parts(operand), strict=True))
        else:
            values[node] = operand
    return _built(ops, complex_bodies.split(scalar_body(op, nodes), leaves), values)


def _leaves(node: Expr) -> complex_bodies.Pair:
    return complex_bodies.Pair(*(s.arg(2 * node.value + k, node.dtype.part) for k in (0, 1)))


def _built(ops: PartsBuilder, body_value: Expr | complex_bodies.Pair, values: dict[Expr, Value]) -> Value:
    def build(root: Expr) -> Value:
        if root.kind == "const":  # in the shape of the operand
            zeros: Value = ops.zero_like(next(iter(values.values())))
            return zeros + root.value  # type: ignore[no-any-return]
        return derivative.build(ops, derivative.plan(root), values)

    return ops.pair(*map(build, body_value)) if isinstance(body_value, complex_bodies.Pair) else build(body_value)


def of_pair(
    re: Callable[[complex_bodies.Pair], Expr], im: Callable[[complex_bodies.Pair], Expr] | None = None
) -> Callable[[PartsBuilder, Call], Value]:
    """The slot `parts` of an operator on one complex operand: functions of its parts are the parts of the result."""

    def rule(ops: PartsBuilder, op: Call) -> Value:
        operand = op.operands[0]
        leaves = _leaves(s.arg(0, operand.dtype))
        values = dict(zip(leaves, ops.parts(operand), strict=True))
        return _built(ops, re(leaves) if im is None else complex_bodies.Pair(re(leaves), im(leaves)), values)

    return rule
