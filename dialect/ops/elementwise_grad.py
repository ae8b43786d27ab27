"""OneFlow's operators for the gradients of element-wise operators, so that its programs load; a row each.

Each is a cotangent times the derivative of the forward operator's scalar body, which `dialect.derivative` computes:
no formula is repeated here. Clipping, whose derivative at NaN is 0, has its rule here; the forward operators use the
rule as their gradient. Gradients are linear in the cotangent: partial sums pass through that operand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import derivative, dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.decomposition_gradient import decomposition_gradient
from oneflow.dialect.elementwise import elementwise, flat_gradient, in_double, sum_to
from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.ops import binary, scalar_ops, select, unary  # noqa: F401  (the forward operators)
from oneflow.dialect.record import REGISTRY, Absent, Call, Operator, attribute_values, call_rule, define, operator
from oneflow.dialect.sbp import Factors, broadcast_factors, repeated_factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import broadcast_shapes, expect_dtype, same_dtype
from oneflow.dialect.tensor_desc import TensorDesc

#: Operands other than the cotangent in which gradients are linear, and operands of which only the shape is read.
LINEAR = {"square_grad": ("x",), "binary_cross_entropy_with_logits_grad": ("weight",)}
SHAPES_OF = {"kl_div_loss_grad": ("input",)}
#: Unoffered signatures, by name.
UNOFFERED = dict.fromkeys(
    ("xlogy_x_grad", "xlogy_y_grad", "xdivy_x_grad", "xdivy_y_grad"),
    "partial sums of x, which would not be 0 together where x is",
)


def same_shapes(op: Call) -> TensorDesc:
    """The type of all operands, which is the same."""
    for name, desc in op.inputs.items():
        if desc is not None:
            expect_dtype(op, name, desc, dtypes.FLOATS)
    same_dtype(op, op.operands)
    total: TensorDesc = op.operands[0]
    for desc in op.operands:
        if not total.compatible(desc):
            raise op.error(f"expected operands of one shape, got {', '.join(map(str, op.operands))}")
        total = total.meet(desc)
    if "has_int_operand" in op.attrs:
        scalar_ops.expect_number(op, total.dtype, wraps=False)
    return total


def linear_in_each(*names: str) -> Callable[[Call], Factors]:
    """An SBP rule: splits of every dimension, and partial sums of one operand at a time out of `names`."""

    def sbp(op: Call) -> Factors:
        factors = broadcast_factors([d.shape for d in op.operands], op.results[0].rank)
        for name in names:
            factors = factors.linear_in(op, name)
        return factors

    return sbp


def gradient_of(name: str, forward: Operator, operands: Sequence[str], by: int, result: str, attrs: str) -> None:
    """Registers the gradient of `forward` with respect to its operand `by`; dy or dz among `operands` is the
    cotangent.

    Operands may be optional where the cotangent is the last.
    """
    seed = next(i for i, n in enumerate(operands) if n in ("dy", "dz"))
    seed = -1 if seed == len(operands) - 1 else seed

    def scalar(*values: Expr, **attrs: Any) -> Expr:
        dy, points = values[seed], [v for i, v in enumerate(values) if i != seed % len(values)]
        assert forward.scalar is not None
        body = call_rule(forward.scalar, points, attribute_values(forward, attrs))
        partial = None if forward.grad is flat_gradient else derivative.derivative(body, points[by])
        return s.const(0, dy.dtype) if partial is None else derivative.times(dy, partial)

    def reference(*arrays: np.ndarray, **attributes: Any) -> Any:
        """The forward operator's gradient slot, computed with the references, but 0 * inf is NaN here."""
        ops = NumpyBuilder()
        points = [
            x if x is None else ops.wrap(np.asarray(x)) for i, x in enumerate(arrays) if i != seed % len(arrays)
        ]
        names = [a.name for a in forward.signature.inputs]
        attrs = attribute_values(forward, attributes)
        results = {forward.signature.outputs[0].name: ops.call(forward.name, *points, **attrs)[0]}
        call = Call(forward, dict(zip(names, points, strict=True)), attrs, results)

        def times_derivative(dy: np.ndarray) -> Any:
            assert not isinstance(forward.grad, Absent)
            gradient = forward.grad(ops, call, ops.wrap(np.asarray(dy))).get(names[by])
            return np.zeros_like(dy) if gradient is None else gradient().handle

        dy = arrays[seed]
        return np.where(dy == 0, dy * times_derivative(np.ones_like(dy)), times_derivative(dy))

    doc = f"{operands[seed]} times the derivative of {forward.name}."
    elementwise(
        f"{name}({', '.join(operands)}{attrs}) -> {result}", doc, scalar=scalar, reference=in_double(reference),
        types=same_shapes, sbp=linear_in_each(operands[seed], *LINEAR.get(name, ())), depth=2,
        shapes_of=SHAPES_OF.get(name, ()), unoffered=UNOFFERED.get(name, ""),
    )  # fmt: skip


def _within(x: Any, attrs: dict[str, Any]) -> Any:
    """Whether `x`, an expression or an array, is within the present bounds."""
    inside = [x >= attrs["floating_min"]] if "floating_min" in attrs else []
    inside += [x <= attrs["floating_max"]] if "floating_max" in attrs else []
    return inside[0] if len(inside) == 1 else inside[0] & inside[1]


def written(forward: Operator, without: Sequence[str] = ()) -> str:
    """The attributes of an operator in the form of its gradient's signature."""
    return "".join(f", {a}" for a in forward.signature.attrs if a.name not in without)


#: Gradients by the operand.
AT_X = """abs acos acosh asin asinh atan atanh cos cosh elu erf erfc exp exp2 expm1 fast_gelu gelu hardsigmoid
    hardswish leaky_relu log log10 log1p log2 log_sigmoid mish quick_gelu reciprocal reciprocal_no_nan rsqrt selu silu
    sin sinh softplus softsign sqrt square square_relu tan threshold trunc scalar_pow
    scalar_reverse_pow""".split()

for _name in AT_X:
    _forward = REGISTRY[_name]
    _attrs = written(_forward, without=("value",))
    gradient_of(f"{_name}_grad", _forward, ("x", "dy"), 0, "dx", _attrs)
# The result, as an operand, has the same derivative.
gradient_of("relu_grad", REGISTRY["relu"], ("y", "dy"), 0, "dx", "")
for _name in ("clip_by_scalar", "clip_by_scalar_min", "clip_by_scalar_max"):
    elementwise(
        f"{_name}_grad(dy, x{written(REGISTRY[_name])}) -> dx",
        "dy where x is within the bounds, or at a bound; else 0, also where x is NaN.",
        scalar=lambda dy, x, **attrs: s.where(_within(x, attrs), dy, 0.0),
        reference=lambda dy, x, **attrs: np.where(_within(x, attrs), dy, 0.0).astype(dy.dtype),
        types=same_shapes, sbp=linear_in_each("dy"),
    )  # fmt: skip
for _name in ("atan2", "pow", "xlogy", "xdivy", "floordiv", "truncdiv"):
    for _by, _operand in enumerate("xy"):
        gradient_of(f"{_name}_{_operand}_grad", REGISTRY[_name], ("x", "y", "dz"), _by, f"d{_operand}", "")
elementwise(
    "sigmoid_grad(y, dy) -> dx", "dy times the derivative of sigmoid, from its result.",
    scalar=lambda y, dy: dy * (y * (1.0 - y)), reference=in_double(lambda y, dy: dy * y * (1 - y)),
    types=same_shapes, sbp=linear_in_each("dy"),
)  # fmt: skip
elementwise(
    "tanh_grad(y, dy) -> dx", "dy times the derivative of tanh, from its result.",
    scalar=lambda y, dy: dy * (1.0 - y * y), reference=in_double(lambda y, dy: dy * (1 - y * y)),
    types=same_shapes, sbp=linear_in_each("dy"),
)  # fmt: skip
elementwise(
    "celu_grad(y, dy, alpha: double = 0.0) -> dx", "dy times the derivative of celu, from its result.",
    scalar=lambda y, dy, *, alpha: s.where(y > 0, dy, dy * (y / alpha + 1.0)),
    reference=in_double(lambda y, dy, *, alpha: np.where(y > 0, dy, dy * (y / alpha + 1))),
    types=same_shapes, sbp=linear_in_each("dy"),
)  # fmt: skip
for _name in ("softshrink", "hardshrink"):
    elementwise(
        f"{_name}_grad(y, dy{written(REGISTRY[_name])}) -> dx",
        f"dy times the derivative of {_name}, from its result.",
        scalar=lambda y, dy: s.where(y.eq(0), 0.0, dy), reference=lambda y, dy: np.where(y == 0, 0, dy),
        types=same_shapes, sbp=linear_in_each("dy"),
    )  # fmt: skip


@operator("hardtanh_grad(y, dy, min_val: double = 0.0, max_val: double = 0.0) -> dx")
class HardtanhGrad:
    """dy times the derivative of hardtanh, from its result: 0 where the result equals a bound in its type."""

    types = same_shapes
    sbp = linear_in_each("dy")
    grad = decomposition_gradient

    def decompose(ops: Builder, op: Call) -> Value:
        at = [
            ops.broadcast_equal(
                op.y, ops.constant(dtype=op.y.dtype, shape=(), is_floating_value=True, floating_value=bound)
            )
            for bound in (op.min_val, op.max_val)
        ]
        value: Value = ops.where(ops.broadcast_logical_or(*at), ops.zero_like(op.dy), op.dy)
        return value

    def reference(y: Any, dy: Any, *, min_val: Any, max_val: Any) -> Any:
        bounds = np.array([min_val, max_val]).astype(y.dtype)
        return np.where((y == bounds[0]) | (y == bounds[1]), np.zeros_like(dy), dy)


@operator("broadcast_div_grad(y, z, dz) -> dy")
class BroadcastDivGrad:
    """The gradient of z = x / y with respect to y: -dz * z / y, summed over the axes along which y was broadcast."""

    def types(op: Call) -> TensorDesc:
        for name, desc in op.inputs.items():
            expect_dtype(op, name, desc, dtypes.FLOATS)
        same_dtype(op, op.operands)
        quotient = TensorDesc(broadcast_shapes(op, [op.y.shape, op.z.shape]), op.z.dtype)
        if not (quotient.compatible(op.z) and op.z.compatible(op.dz)):
            raise op.error(f"expected dz like z, and y that broadcasts to z, got {op.y}, {op.z}, {op.dz}")
        result: TensorDesc = op.y
        return result

    def sbp(op: Call) -> Factors:
        names = [f"d{i}" for i in range(op.z.rank)]
        y, z = " ".join(names[op.z.rank - op.y.rank :]), " ".join(names)
        y = " ".join("_" if d == 1 else n for d, n in zip(op.y.shape, y.split(), strict=True))
        return Factors(f"{y}, {z}, {z} -> {y}").linear_in(op, "dz").linear_in(op, "z")

    def grad(ops: Builder, op: Call, ddy: Value) -> dict[str, Any]:
        scaled = ddy / op.y
        return {
            "y": lambda: sum_to(ops, scaled * (op.dz * (op.z / op.y)), op.y),
            "z": lambda: -(scaled * op.dz),
            "dz": lambda: -(scaled * op.z),
        }

    def decompose(ops: Builder, op: Call) -> Value:
        return sum_to(ops, -(op.dz * (op.z / op.y)), op.y)

    def reference(y: Any, z: Any, dz: Any) -> Any:
        unreduced = -dz.astype(np.float64) * z / y
        broadcast = tuple(
            i for i in range(z.ndim) if i < z.ndim - y.ndim or y.shape[i - z.ndim + y.ndim] != z.shape[i]
        )
        return unreduced.sum(broadcast).reshape(y.shape).astype(y.dtype)


def _larger_or_smaller(name: str, takes_x: Any, doc: str) -> None:
    """Registers `elementwise_<name>`, `broadcast_<name>` without broadcasting, and its `_backward`."""
    forward = REGISTRY[f"broadcast_{name}"]
    assert forward.scalar is not None and not isinstance(forward.reference, Absent)

    def decompose(ops: Builder, op: Call) -> tuple[Value, Value]:
        operands = {"x": op.x, "y": op.y}
        (z,) = ops.call(forward.name, *operands.values())
        assert not isinstance(forward.grad, Absent)
        gradients = forward.grad(ops, Call(forward, operands, {}, {"z": z}), op.dz)
        return gradients["x"](), gradients["y"]()

    def sbp(op: Call) -> Factors:
        names = " ".join(f"d{i}" for i in range(op.x.rank))
        return repeated_factors(names, 3, 2).linear_in(op, "dz", results=(0, 1))

    def reference(dz: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        to_both = np.where(x == y, dz / 2, dz).astype(dz.dtype)
        dx, dy = np.where(takes_x(y, x), 0, to_both), np.where(takes_x(x, y), 0, to_both)
        return dx.astype(dz.dtype), dy.astype(dz.dtype)

    elementwise(
        f"elementwise_{name}(x, y) -> z", f"{doc} of tensors of one shape.", scalar=forward.scalar,
        reference=forward.reference, types=same_shapes, depth=2,
    )  # fmt: skip
    define(
        f"elementwise_{name}_backward(dz, x, y) -> dx, dy",
        doc=f"dz for the operand that `elementwise_{name}` selects, 0 for the other; half of dz where they are equal."
        " Where one is NaN, dz for both.",
        types=lambda op: [same_shapes(op)] * 2, sbp=sbp, grad=decomposition_gradient, decompose=decompose,
        reference=reference, depth=2,
    )  # fmt: skip


_larger_or_smaller("maximum", np.greater, "The larger")
_larger_or_smaller("minimum", np.less, "The smaller")
