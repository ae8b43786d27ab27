"""Weights of 4 and 8 bits, of which groups along one axis share a scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.compute import Stage
from oneflow.dialect.ops.reduce import accumulator_type
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.quantized_weights import zero_point
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

ATTRS = "num_bits: int32 = 8, symmetric: bool = True, group_dim: int64, group_size: int64"


def _expect_groups(op: Call, name: str, shape: Sequence[int | None]) -> list[int | None]:
    """Checks the attributes for a weight, operand `name`, of the unpacked shape `shape`; returns the shape of
    scales.
    """
    if op.num_bits not in (4, 8):
        raise op.error(f"expected num_bits 4 or 8, got {op.num_bits}")
    axis = op.normalize_axis(op.group_dim, len(shape), "group_dim")
    size = shape[axis]
    if size is None or None in shape[-1:]:
        raise op.error(f"expected a static last axis and a static axis {axis} of {name}, got {op[name]}")
    if op.group_size < 1 or size % op.group_size:
        raise op.error(f"expected a group_size that divides {size}, got {op.group_size}")
    expect_dtype(op, name, op[name], (dtypes.uint8, dtypes.int8) if op.symmetric else (dtypes.uint8,))
    return [size // op.group_size if i == axis else d for i, d in enumerate(shape)]


def _expect_scales(op: Call, scale: str, zero: str, shape: Sequence[int | None], dtype: dtypes.DType) -> None:
    """Checks the scales and, where the quantization is not symmetric, the zero points."""
    expect_type(op, scale, TensorDesc(tuple(shape), dtype))
    if (op[zero] is not None) == op.symmetric:
        given = "none" if op[zero] is None else op[zero]
        raise op.error(f"expected {zero} exactly where symmetric is false, got {given} with symmetric {op.symmetric}")
    expect_type(op, zero, op[scale])


def _unpacked(shape: Sequence[Any], bits: int) -> tuple[Any, ...]:
    """The shape of a weight with one number in an element."""
    last = shape[-1]
    return (*shape[:-1], None if last is None else last * (8 // bits))


def _names(op: Call, count: int, packed: int | None, letter: str = "d") -> list[str]:
    """Factors of a weight of `count` axes: whole groups stay together, and so do both numbers of a byte."""
    names = []
    for axis in range(count):
        sizes = [op.scale.shape[axis]] if axis == op.group_dim % count else []
        sizes += [packed or 0] if axis == count - 1 and op.num_bits == 4 else []
        together = math.gcd(*(n or 0 for n in sizes)) if sizes else 0
        names.append("_" if together == 1 else f"{letter}{axis}*{together}" if sizes else f"{letter}{axis}")
    return names


@operator(f"groupwise_dequantize(in, scale, zero?, {ATTRS}) -> out")
class GroupwiseDequantize:
    """in * scale + zero, or (in - 127) * scale of symmetric uint8 (7 of 4 bits).

    Each `group_size` numbers along `group_dim` share a scale.

    With 4 bits each byte holds two numbers of the last axis, the first in its upper half.
    """

    def types(op: Call) -> TensorDesc:
        expect_rank(op, "in", op.in_, 1, -1)
        shape = _unpacked(op.in_.shape, op.num_bits if op.num_bits in (4, 8) else 8)
        expect_dtype(op, "scale", op.scale, dtypes.FLOATS)
        _expect_scales(op, "scale", "zero", _expect_groups(op, "in", shape), op.scale.dtype)
        return TensorDesc(shape, op.scale.dtype)

    def sbp(op: Call) -> Factors:
        names = " ".join(_names(op, op.in_.rank, op.in_.shape[-1]))
        factors = Factors(f"{', '.join([names] * len(op.operands))} -> {names}")
        return factors.linear_in(op, "scale", "zero")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        axis, size = op.normalize_axis(op.group_dim, dout.rank), op.group_size

        def by_groups(cotangent: Value) -> Value:
            sizes = list(op.scale.shape)
            lead = [-1 if d is None else d for d in sizes[: axis + 1]]
            rest = [-1 if d is None else d for d in sizes[axis + 1 :]]
            total: Value = ops.reduce_sum(ops.reshape(cotangent, shape=[*lead, size, *rest]), axis=[axis + 1])
            return total

        def by_scale() -> Value:
            ones = ops.call("ones_like", op.scale)[0]
            zero = None if op.zero is None else ops.zero_like(op.zero)
            return by_groups(dout * ops.call("groupwise_dequantize", op.in_, ones, zero, **op.attrs)[0])

        return {"scale": by_scale, "zero": lambda: by_groups(dout)}

    def compute(op: Call) -> Stage:
        x, scale, zero = op.in_, op.scale, op.zero
        axis = op.normalize_axis(op.group_dim, x.rank)
        offset = zero_point(x.dtype == dtypes.uint8, op.num_bits, op.symmetric)

        def quantized(*at: Expr) -> Expr:
            if op.num_bits == 8:
                return s.cast(x[at], dtypes.int32)
            byte = s.cast(x[(*at[:-1], at[-1] // 2)], dtypes.int32)
            high, low = byte >> 4, byte & 15
            signed = low if x.dtype == dtypes.uint8 else (low ^ 8) - 8
            return s.where((at[-1] % 2).eq(0), high, signed)

        def element(*at: Expr) -> Expr:
            group = tuple(i // op.group_size if n == axis else i for n, i in enumerate(at))
            value = s.cast(quantized(*at) - offset, scale.dtype.accumulator) * scale[group]
            element: Expr = value if zero is None else value + zero[group]
            return element

        return c.element_wise(_unpacked(x.shape, op.num_bits), element, scale.dtype)

    def reference(
        x: Any, scale: Any, zero: Any, *, num_bits: Any, symmetric: Any, group_dim: Any, group_size: Any
    ) -> Any:
        return _numpy_dequantized(x, scale, zero, num_bits, symmetric, group_dim, group_size).astype(scale.dtype)


def _numpy_dequantized(x: Any, scale: Any, zero: Any, bits: int, symmetric: bool, axis: int, size: int) -> np.ndarray:
    """The numbers of a weight in f64."""
    numbers = x.astype(np.int64)
    if bits == 4:
        low = numbers & 15
        low = np.where(low > 7, low - 16, low) if x.dtype == np.int8 else low
        numbers = np.stack([numbers >> 4, low], -1).reshape(*x.shape[:-1], 2 * x.shape[-1])
    offset = zero_point(x.dtype == np.uint8, bits, symmetric)
    repeated = (None if p is None else np.repeat(p.astype(np.float64), size, axis) for p in (scale, zero))
    scales, added = repeated
    values: np.ndarray = (numbers - offset) * scales
    return values if added is None else values + added


def _check_linear(op: Call) -> None:
    expect_dtype(op, "x", op.x, dtypes.FLOATS)
    expect_rank(op, "x", op.x, 2, -1)
    expect_rank(op, "w", op.w, 2)
    shape = _unpacked(op.w.shape, op.num_bits if op.num_bits in (4, 8) else 8)
    _expect_scales(op, "w_scale", "w_zero", _expect_groups(op, "w", shape), op.x.dtype)
    expect_type(op, "x", TensorDesc((*op.x.shape[:-1], shape[1]), op.x.dtype))
    if op.x.shape[-1] is None:
        raise op.error(f"expected a static last axis of x, got {op.x}")
    expect_type(op, "b", TensorDesc(shape[:1], op.x.dtype))


def _attributes(op: Call) -> dict[str, Any]:
    return {name: op[name] for name in ("num_bits", "symmetric", "group_dim", "group_size")}


def _write_linear(ops: Builder, op: Call) -> Value:
    weight = ops.call("groupwise_dequantize", op.w, op.w_scale, op.w_zero, **_attributes(op))[0]
    y: Value = (
        ops.broadcast_matmul(op.x, weight, transpose_b=True)
        if op.b is None
        else ops.fused_matmul_bias(op.x, weight, op.b)
    )
    return y


def _numpy_linear(
    x: Any, w: Any, scale: Any, zero: Any, b: Any, *, num_bits: Any, symmetric: Any, group_dim: Any, group_size: Any
) -> Any:
    weight = _numpy_dequantized(w, scale, zero, num_bits, symmetric, group_dim, group_size).astype(x.dtype)
    product = x.astype(accumulator_type(x)) @ weight.astype(accumulator_type(x)).T
    return (product if b is None else product + b).astype(x.dtype)


def _linear_factors(op: Call) -> Factors:
    n, k = _names(Call(op.record, {**op.inputs, "scale": op.w_scale}, op.attrs), 2, op.w.shape[1])
    rows = [f"r{i}" for i in range(op.x.rank - 1)]
    weights = ", ".join([f"{n} {k}"] * (2 if op.w_zero is None else 3))
    out = " ".join([*rows, n])
    factors = Factors(f"{' '.join([*rows, k])}, {weights} -> {out}").linear_in(op, "x")
    factors = factors.linear_in(op, "w_scale", "w_zero")
    return factors if op.b is None else factors.plus(n)


composite(
    f"fused_linear_with_groupwise_quantized_weight(x, w, w_scale, w_zero?, b?, {ATTRS}) -> out",
    "x @ transpose(weight) + b for the weight that `groupwise_dequantize` computes from w, w_scale and w_zero.",
    write=_write_linear, reference=_numpy_linear, check=_check_linear, sbp=_linear_factors,
)  # fmt: skip
