"""Normalizations of x + bias + alpha * skip over the last dimension, as in transformers; and the gradients of
`layer_norm` in one operator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops import row_normalization
from oneflow.dialect.ops.row_normalization import expect_type, statistics
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

PARAMS = ("gamma", "beta", "weight", "bias")


def _check(op: Call) -> None:
    expect_dtype(op, "x", op.x, dtypes.FLOATS)
    expect_rank(op, "x", op.x, 2, -1)
    expect_type(op, "skip", op.x)
    for name in PARAMS:
        if name in op.inputs:
            expect_type(op, name, TensorDesc(op.x.shape[-1:], op.x.dtype))


def _check_rms(op: Call) -> None:
    _check(op)
    if len(op.normalized_shape) != 1:
        raise op.error(f"expected normalized_shape of the last axis of x alone, got {list(op.normalized_shape)}")
    expect_dim(op, "the last axis of x", op.x.shape[-1], op.normalized_shape[0])


def _skipped(ops: Builder, op: Call) -> Value:
    """x + bias + alpha * skip, in f32 at least."""
    total = widen(ops, op.x)
    total = total if op.bias is None else total + widen(ops, op.bias)
    return total if op.skip is None else total + widen(ops, op.skip) * op.alpha


def _numpy_skipped(x: Any, bias: Any, skip: Any, alpha: Any) -> Any:
    total = x.astype(np.float64)
    total = total if bias is None else total + bias
    return total if skip is None else total + skip.astype(np.float64) * alpha


def _row_factors(op: Call) -> Factors:
    """Every axis but the last can be split."""
    lead = [f"d{i}" for i in range(op.x.rank - 1)]
    x, row = " ".join([*lead, "_"]), " ".join(lead)
    sides = ("_" if d.rank == 1 else x for d in op.operands)
    return Factors(f"{', '.join(sides)} -> {', '.join([x, *[row] * (len(op.results) - 1)])}")


def _write_layer_norm(ops: Builder, op: Call) -> tuple[Value, ...]:
    axis = op.x.rank - 1
    gamma, beta = (None if p is None else widen(ops, p) for p in (op.gamma, op.beta))
    flags = {"center": beta is not None, "scale": gamma is not None}
    axes = {"begin_norm_axis": axis, "begin_params_axis": axis}
    y, mean, inv = ops.layer_norm(_skipped(ops, op), beta, gamma, epsilon=op.epsilon, **flags, **axes)
    return narrow(ops, y, op.x.dtype), mean, inv


def _numpy_layer_norm(x: Any, gamma: Any, beta: Any, bias: Any, skip: Any, *, epsilon: Any, alpha: Any) -> Any:
    total = _numpy_skipped(x, bias, skip, alpha)
    mean, inv = row_normalization.numpy_moments(total, (x.ndim - 1,), epsilon)
    y = (total - mean) * inv
    y = y if gamma is None else y * gamma
    row = np.float32 if x.dtype.itemsize == 2 else x.dtype
    return (y if beta is None else y + beta).astype(x.dtype), mean[..., 0].astype(row), inv[..., 0].astype(row)


composite(
    "skip_layer_norm(x, gamma?, beta?, bias?, skip?, epsilon: double = 1e-05, alpha: double = 1.0)"
    " -> y, mean, inv_variance",
    "`layer_norm` of x + bias + alpha * skip over the last dimension.",
    write=_write_layer_norm, reference=_numpy_layer_norm, check=_check,
    sbp=lambda op: _row_factors(op).linear_in(op, *_affine(op)),
)  # fmt: skip


def _affine(op: Call) -> tuple[str, ...]:
    """The parameters in which the result is linear together: beta alone is added to a term without gamma."""
    return ("gamma", "beta") if op.gamma is not None else ()


def _write_rms_norm(ops: Builder, op: Call) -> tuple[Value, ...]:
    weight = None if op.weight is None else widen(ops, op.weight)
    shape = op.normalized_shape
    y, inv = ops.rms_norm(_skipped(ops, op), weight, normalized_shape=shape, epsilon=op.epsilon)
    return narrow(ops, y, op.x.dtype), inv


def _numpy_rms_norm(
    x: Any, weight: Any, bias: Any, skip: Any, *, normalized_shape: Any, epsilon: Any, alpha: Any
) -> Any:
    total = _numpy_skipped(x, bias, skip, np.float32(alpha))
    square = (total**2).sum(-1, keepdims=True) / np.float64(normalized_shape[0])
    inv = 1 / np.sqrt(square + np.float32(epsilon))
    y = total * inv * (1 if weight is None else weight.astype(np.float64))
    row = np.float32 if x.dtype.itemsize == 2 else x.dtype
    return y.astype(x.dtype), inv[..., 0].astype(row)


composite(
    "skip_rms_norm(x, weight?, bias?, skip?, normalized_shape: shape, epsilon: float = 1e-05, alpha: float = 1.0)"
    " -> y, inv_rms",
    "`rms_norm` of x + bias + alpha * skip over the last dimension.",
    write=_write_rms_norm, reference=_numpy_rms_norm, check=_check_rms,
    sbp=lambda op: _row_factors(op).linear_in(op, "weight"),
)  # fmt: skip

# The gradients of a layer normalization


def _check_gradients(op: Call) -> None:
    expect_dtype(op, "x", op.x, dtypes.FLOATS)
    expect_type(op, "dy", op.x)
    begin = op.normalize_axis(op.begin_norm_axis, op.x.rank, "begin_norm_axis")
    if op.normalize_axis(op.begin_params_axis, op.x.rank, "begin_params_axis") != begin:
        raise op.error(
            f"expected begin_norm_axis and begin_params_axis of one axis, got {op.begin_norm_axis} and"
            f" {op.begin_params_axis}"
        )
    for name in ("mean", "inv_variance"):
        expect_type(op, name, statistics(op.x.shape[:begin], op.x))


def _write_gradients(ops: Builder, op: Call) -> tuple[Value, ...]:
    shared = (op.dy, op.x, op.mean, op.inv_variance)
    axis, epsilon = op.begin_norm_axis, op.epsilon
    dx = ops.layer_norm_grad(*shared, op.gamma, op._add_to_output, begin_norm_axis=axis, epsilon=epsilon)
    beta_diff, gamma_diff = ops.layer_norm_param_grad(*shared, begin_params_axis=op.begin_params_axis)
    return dx, gamma_diff, beta_diff


def _numpy_gradients(dy: Any, x: Any, mean: Any, inv: Any, gamma: Any, add: Any) -> Any:
    lead = tuple(range(mean.ndim))
    cotangent = dy.astype(np.float64)
    scale = row_normalization.as_rows(inv, x.ndim)
    normal = (x - row_normalization.as_rows(mean, x.ndim)) * scale
    weighted = cotangent if gamma is None else cotangent * gamma
    dx = row_normalization.numpy_gradient(weighted, normal, scale, tuple(range(mean.ndim, x.ndim)))
    results = (dx if add is None else dx + add, (cotangent * normal).sum(lead), cotangent.sum(lead))
    return tuple(r.astype(x.dtype) for r in results)


def _gradient_factors(op: Call) -> Factors:
    """Axes before the normalized ones can be split; partial sums of dy, or of operands in which a result is
    linear.
    """
    lead = row_normalization.letters(op.mean.rank, op.mean.rank)
    normalized = ["_"] * (op.x.rank - op.mean.rank)
    x, gamma = " ".join([lead, *normalized]), " ".join(normalized)
    sides = {"mean": lead, "inv_variance": lead, "gamma": gamma}
    operands = ", ".join(sides.get(name, x) for name, operand in op.inputs.items() if operand is not None)
    factors = Factors(f"{operands} -> {x}, {gamma}, {gamma}").summing(1, 2)
    factors = factors.linear_in(op, "dy", "_add_to_output", results=(0, 1, 2))
    return factors if op.gamma is None else factors.linear_in(op, "gamma", "_add_to_output")


composite(
    "fuse_layer_norm_grad(dy, x, mean, inv_variance, gamma?, _add_to_output?, begin_norm_axis: int64 = 0,"
    " begin_params_axis: int64 = 0, epsilon: double = 0.0) -> dx, gamma_diff, beta_diff",
    "The gradients of `layer_norm` with respect to x (+ _add_to_output), gamma and beta.",
    write=_write_gradients, reference=_numpy_gradients, check=_check_gradients, sbp=_gradient_factors,
)  # fmt: skip
