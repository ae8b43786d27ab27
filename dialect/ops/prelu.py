"""PReLU: leaky ReLU with learned slopes, one for all, one for each channel, or one for each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import adjoint, composite
from oneflow.dialect.decomposition_gradient import decomposition_gradient
from oneflow.dialect.ops.row_normalization import expect_type, letters
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc


def _types(op: Call) -> TensorDesc:
    """Checks x and the slopes; returns the type of `x`, whose dimension 1 `alpha` may determine."""
    expect_dtype(op, "x", op.x, dtypes.FLOATS)
    expect_rank(op, "x", op.x, 1, -1)
    expect_rank(op, "alpha", op.alpha, 1, 1)
    if op.alpha.shape == (None,):
        raise op.error(f"expected a static size of alpha, got {op.alpha}")
    if op.alpha.shape == (1,):
        expect_type(op, "alpha", TensorDesc((1,), op.x.dtype))
        return TensorDesc(op.x.shape, op.x.dtype)
    expect_rank(op, "x", op.x, 2, -1)
    expect_type(op, "alpha", TensorDesc(op.x.shape[1:2], op.x.dtype))
    batch, _, *rest = op.x.shape
    return TensorDesc((batch, *op.alpha.shape, *rest), op.x.dtype)


def _non_channel_axes(rank: int) -> tuple[int, ...]:
    """All axes but axis 1, the channels: the slope is constant along these axes."""
    return tuple(i for i in range(rank) if i != 1)


def _spread(ops: Builder, alpha: Value, x: Value) -> Value:
    """The slope at every element of `x`, or a single slope."""
    if alpha.shape == (1,):
        return alpha
    return ops.call("broadcast_like", alpha, x, broadcast_axes=_non_channel_axes(x.rank))[0]


def _positive(ops: Builder, x: Value) -> Value:
    return ops.call("scalar_logical_greater", x, has_float_operand=True, float_operand=0.0)[0]


def _numpy_slopes(alpha: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The slopes in f64 in a shape that broadcasts to the shape of `x`."""
    wide = alpha.astype(np.float64)
    return wide if alpha.size == 1 else wide.reshape(1, -1, *[1] * (x.ndim - 2))


@operator("prelu(x, alpha) -> y")
class Prelu:
    """x where x is positive, else alpha * x; `alpha` has one element, or one for each channel, dimension 1."""

    types = _types

    def sbp(op: Call) -> Factors:
        x = letters(op.x.rank, op.x.rank)
        return Factors(f"{x}, {'_' if op.alpha.shape == (1,) else 'd1'} -> {x}")

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        def part(which: int) -> Value:
            value: Value = ops.prelu_grad(dy, op.x, op.alpha)[which]
            return value

        return {"x": lambda: part(0), "alpha": lambda: part(1)}

    def decompose(ops: Builder, op: Call) -> Value:
        value: Value = ops.where(_positive(ops, op.x), op.x, op.x * _spread(ops, op.alpha, op.x))
        return value

    def reference(x: Any, alpha: Any) -> Any:
        return np.where(x > 0, x, x * _numpy_slopes(alpha, x)).astype(x.dtype)


@operator("prelu_grad(dy, x, alpha, alpha_requires_grad: bool = True) -> dx, alpha_diff")
class PreluGrad:
    """The gradients of `prelu`: dy, times alpha where x is not positive, and the sums of dy * x there.

    The gradients do not depend on `alpha_requires_grad`: unused results are not computed.
    """

    grad = decomposition_gradient

    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        operand = _types(op)
        expect_type(op, "dy", operand)
        return operand.meet(op.dy), TensorDesc(op.alpha.shape, operand.dtype)

    def sbp(op: Call) -> Factors:
        x, alpha = letters(op.x.rank, op.x.rank), "_" if op.alpha.shape == (1,) else "d1"
        return Factors(f"{x}, {x}, {alpha} -> {x}, {alpha}").summing(1).linear_in(op, "dy", results=(0, 1))

    def decompose(ops: Builder, op: Call) -> tuple[Value, Value]:
        positive, x, dy = _positive(ops, op.x), op.x, op.dy
        wide = widen(ops, dy) * widen(ops, x)
        below = ops.where(positive, ops.zero_like(wide), wide)
        dx = ops.where(positive, dy, dy * _spread(ops, op.alpha, x))
        return dx, narrow(ops, _sum_to_alpha_shape(ops, below, op.alpha), dy.dtype)

    def reference(dy: Any, x: Any, alpha: Any) -> Any:
        wide, positive = dy.astype(np.float64), x > 0
        below = np.where(positive, 0, wide * x)
        sums = below.sum(_non_channel_axes(x.ndim)) if alpha.shape != (1,) else below.sum().reshape(1)
        dx = np.where(positive, wide, wide * _numpy_slopes(alpha, x))
        return dx.astype(x.dtype), sums.astype(x.dtype)


def _sum_to_alpha_shape(ops: Builder, value: Value, alpha: Value) -> Value:
    """`value` summed to the shape of the slopes."""
    is_one = alpha.shape == (1,)
    total: Value = ops.reduce_sum(value, axis=range(value.rank) if is_one else _non_channel_axes(value.rank))
    return ops.call("reshape", total, shape=(1,))[0] if is_one else total


def _check_elements(op: Call) -> None:
    expect_dtype(op, "x", op.x, dtypes.FLOATS)
    expect_rank(op, "x", op.x, 1, -1)
    expect_rank(op, "alpha", op.alpha, op.x.rank - 1)
    expect_dtype(op, "alpha", op.alpha, (op.x.dtype,))
    if None in op.alpha.shape:
        raise op.error(f"expected a static shape of alpha, got {op.alpha}")
    for axis, (slope, size) in enumerate(zip(op.alpha.shape, op.x.shape[1:], strict=True)):
        if slope != 1:
            expect_dim(op, f"dimension {axis} of alpha", slope, size)
    if "dy" in op.inputs:
        expect_type(op, "dy", op.x)


def _write_elements(ops: Builder, op: Call) -> Value:
    value: Value = ops.where(_positive(ops, op.x), op.x, op.x * op.alpha)
    return value


def _element_factors(op: Call) -> Factors:
    names = letters(op.x.rank, op.x.rank)
    return Factors(f"{names}, {names.partition(' ')[2]} -> {names}")


def _element_gradient_factors(op: Call) -> Factors:
    """Splits of every axis; slopes that an axis shares have partial sums of gradients."""
    x = letters(op.x.rank, op.x.rank)
    alpha = " ".join("_" if size == 1 else name for name, size in zip(x.split()[1:], op.alpha.shape, strict=True))
    return Factors(f"{x}, {x}, {alpha} -> {x}, {alpha}").summing(1).linear_in(op, "dy", results=(0, 1))


composite(
    "tf_prelu(x, alpha) -> y",
    "x where x is positive, else alpha * x; `alpha` has one slope for each element of a sample.\n\n"
    "A dimension of `alpha` may be 1: its elements share the slope.",
    write=_write_elements, check=_check_elements, sbp=_element_factors,
    reference=lambda x, alpha: np.where(x > 0, x, x * alpha.astype(np.float64)).astype(x.dtype),
)  # fmt: skip
adjoint(
    "tf_prelu_grad(dy, x, alpha) -> dx, alpha_diff", "The gradients of `tf_prelu`.",
    of="tf_prelu", seeds=("dy",), check=_check_elements, sbp=_element_gradient_factors,
)  # fmt: skip
