"""Batch normalization in parts: statistics of a batch, statistics of several batches together, and normalization by
statistics.

A device computes `batch_norm_stats` of its batch, and `batch_norm_gather_stats_with_counts` of the stats of all
devices.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops.batch_norm import Channels
from oneflow.dialect.ops.group_norm import numpy_channels
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

REAL = (dtypes.float32, dtypes.float64)
PARAMS = ("weight", "bias", "mean", "invstd", "sum_dy", "sum_dy_xmu")


def _check(op: Call) -> None:
    expect_dtype(op, "input", op.input, REAL)
    expect_rank(op, "input", op.input, 1, -1)
    channel = TensorDesc((op.input.shape[op.normalize_axis(op.axis, op.input.rank)],), op.input.dtype)
    for name in PARAMS:
        if name in op.inputs:
            expect_type(op, name, channel)
    if "grad_out" in op.inputs:
        expect_type(op, "grad_out", op.input)
    if "count" in op.inputs:
        expect_dtype(op, "count", op.count, dtypes.INTEGERS)
        expect_rank(op, "count", op.count, 1)


def _of(ops: Builder, op: Call) -> Channels:
    return Channels(ops, op.input, op.normalize_axis(op.axis, op.input.rank))


def _factors(op: Call, results: Sequence[str]) -> Factors:
    """Factors of operands like `input` (x), per channel (c) and of counts, and of such results."""
    names = [f"d{i}" for i in range(op.input.rank)]
    kinds = {"x": " ".join(names), "c": names[op.axis % op.input.rank]}
    sides = ("_" if n == "count" else kinds["c" if n in PARAMS else "x"] for n in op.inputs)
    return Factors(f"{', '.join(sides)} -> {', '.join(kinds[r] for r in results)}")


def _others(x: Any, axis: int) -> tuple[int, ...]:
    return tuple(i for i in range(x.ndim) if i != axis % x.ndim)


def _at(x: Any, axis: int, *params: Any) -> list[Any]:
    """Parameters along the channels of `x`, in f64."""
    return [numpy_channels(p.astype(np.float64), x.ndim, axis % x.ndim) for p in params]


def _write_stats(ops: Builder, op: Call) -> tuple[Value, Value]:
    of = _of(ops, op)
    mean = of.shared(of.total(op.input))
    deviation = op.input - of.spread(mean)
    return mean, ops.rsqrt(of.shared(of.total(deviation * deviation)) + float(op.eps))


def _numpy_stats(x: Any, *, axis: Any, eps: Any) -> Any:
    wide, axes = x.astype(np.float64), _others(x, axis)
    count = np.float64(np.prod([x.shape[i] for i in axes]))
    mean = wide.sum(axes, keepdims=True) / count
    variance = ((wide - mean) ** 2).sum(axes) / count
    return mean.reshape(-1).astype(x.dtype), (1 / np.sqrt(variance + np.float32(eps))).astype(x.dtype)


def _channels_alone(op: Call) -> Factors:
    names = ["c" if i == op.axis % op.input.rank else "_" for i in range(op.input.rank)]
    return Factors(f"{' '.join(names)} -> c, c")


composite(
    "batch_norm_stats(input, axis: int32 = 1, eps: float = 1e-05) -> mean, invstd",
    "The mean of each channel, and 1 / sqrt(variance + eps).",
    write=_write_stats, reference=_numpy_stats, check=_check, sbp=_channels_alone,
)  # fmt: skip

# Statistics of several batches


def _check_gathered(op: Call) -> None:
    expect_dtype(op, "input", op.input, REAL)
    expect_rank(op, "mean", op.mean, 2)
    batches, channels = op.mean.shape
    expect_type(op, "mean", TensorDesc(op.mean.shape, op.input.dtype))
    expect_type(op, "invstd", op.mean)
    expect_type(op, "counts", TensorDesc((batches,), op.input.dtype))
    for name in ("running_mean", "running_var"):
        expect_type(op, name, TensorDesc((channels,), op.input.dtype))
    if (op.running_mean is None) != (op.running_var is None):
        raise op.error("expected both of running_mean and running_var or none, got one")


def _write_gathered(ops: Builder, op: Call) -> tuple[Value, ...]:
    counts = ops.expand_dims(op.counts, axis=1)
    total = ops.reduce_sum(op.counts, axis=[0])
    mean = ops.reduce_sum(op.mean * counts, axis=[0]) / total
    deviation = op.mean - mean
    variance = ops.square(ops.reciprocal(op.invstd)) - float(op.eps)
    squares = ops.reduce_sum((variance + deviation * deviation) * counts, axis=[0])
    invstd = ops.rsqrt(squares / total + float(op.eps))
    if op.running_mean is None:
        return mean, invstd
    pairs = ((op.running_mean, mean), (op.running_var, squares / (total - 1.0)))
    return mean, invstd, *(old * (1.0 - op.momentum) + new * op.momentum for old, new in pairs)


def _numpy_gathered(
    x: Any, mean: Any, invstd: Any, counts: Any, old_mean: Any, old_variance: Any, *, eps: Any, momentum: Any
) -> Any:
    mean, invstd, counts = (a.astype(np.float64) for a in (mean, invstd, counts))
    eps, momentum = np.float64(np.float32(eps)), np.float64(np.float32(momentum))
    shared = counts @ mean / counts.sum()
    squares = counts @ (1 / invstd**2 - eps + (mean - shared) ** 2)
    results = [shared, 1 / np.sqrt(squares / counts.sum() + eps)]
    if old_mean is not None:
        pairs = ((old_mean, shared), (old_variance, squares / (counts.sum() - 1)))
        results += [(1 - momentum) * old + momentum * new for old, new in pairs]
    return [r.astype(x.dtype) for r in results]


def _gathered_factors(op: Call) -> Factors:
    unsplit = " ".join("_" * op.input.rank)
    running = ", c, c" if op.running_mean is not None else ""
    return Factors(f"{unsplit}, _ c, _ c, _{running} -> {', '.join(['c'] * len(op.results))}")


composite(
    "batch_norm_gather_stats_with_counts(input, mean, invstd, counts, running_mean?, running_var?,"
    " eps: float = 1e-05, momentum: float = 0.9) -> global_mean, global_invstd, running_mean_out?, running_var_out?",
    "The statistics of several batches together, a row and a count for each, and the new running statistics:"
    " (1 - momentum) * old + momentum * new, with the unbiased variance.",
    write=_write_gathered, reference=_numpy_gathered, check=_check_gathered, sbp=_gathered_factors,
    unoffered="splits of input, of which the element type alone is read", shapes_of=("input",),
)  # fmt: skip

# Normalization by statistics


def _write_elements(ops: Builder, op: Call) -> Value:
    of = _of(ops, op)
    value: Value = (op.input - of.spread(op.mean)) * of.spread(op.invstd * op.weight) + of.spread(op.bias)
    return value


def _numpy_elements(x: Any, weight: Any, bias: Any, mean: Any, invstd: Any, *, axis: Any) -> Any:
    weight, bias, mean, invstd = _at(x, axis, weight, bias, mean, invstd)
    return ((x - mean) * (invstd * weight) + bias).astype(x.dtype)


composite(
    "batch_norm_elemt(input, weight, bias, mean, invstd, axis: int32 = 1, eps: float = 1e-05) -> output",
    "(input - mean) * invstd * weight + bias of each channel; `eps` is in invstd already.",
    write=_write_elements, reference=_numpy_elements, check=_check,
    sbp=lambda op: _factors(op, "x").linear_in(op, "weight", "bias").linear_in(op, "input", "mean", "bias")
    .linear_in(op, "invstd", "bias"),
)  # fmt: skip


def _write_sums(ops: Builder, op: Call) -> tuple[Value, ...]:
    of = _of(ops, op)
    weighted = of.total(op.grad_out * (op.input - of.spread(op.mean)))
    total = of.total(op.grad_out)
    return total, weighted, weighted * op.invstd, total


def _numpy_sums(dy: Any, x: Any, mean: Any, invstd: Any, *, axis: Any) -> Any:
    cotangent, axes = dy.astype(np.float64), _others(x, axis)
    total, weighted = cotangent.sum(axes), (cotangent * (x - _at(x, axis, mean)[0])).sum(axes)
    return [r.astype(x.dtype) for r in (total, weighted, weighted * invstd, total)]


def _sum_factors(op: Call) -> Factors:
    factors = _factors(op, "cccc").linear_in(op, "grad_out", results=range(4))
    return factors.linear_in(op, "input", "mean", results=(1, 2)).linear_in(op, "invstd", results=(2,))


composite(
    "batch_norm_backward_reduce(grad_out, input, mean, invstd, axis: int32 = 1)"
    " -> sum_dy, sum_dy_xmu, grad_weight, grad_bias",
    "The sums over each channel of grad_out and of grad_out * (input - mean), and the gradients with respect to"
    " weight and bias.",
    write=_write_sums, reference=_numpy_sums, check=_check, sbp=_sum_factors,
)  # fmt: skip


def _write_backward(ops: Builder, op: Call) -> Value:
    of = _of(ops, op)
    total = ops.cast(ops.reduce_sum(op.count, axis=[0]), dtype=op.input.dtype)
    projection = of.spread(op.sum_dy_xmu * op.invstd * op.invstd / total)
    rest = op.grad_out - of.spread(op.sum_dy / total) - (op.input - of.spread(op.mean)) * projection
    value: Value = rest * of.spread(op.invstd * op.weight)
    return value


def _numpy_backward(
    dy: Any, x: Any, mean: Any, invstd: Any, weight: Any, total: Any, weighted: Any, count: Any, *, axis: Any
) -> Any:
    at = functools.partial(_at, x, axis)
    (mean,), (invstd,), (weight,), (total,), (weighted,) = map(at, (mean, invstd, weight, total, weighted))
    rest = dy - total / count.sum() - (x - mean) * invstd**2 * weighted / count.sum()
    return (rest * invstd * weight).astype(x.dtype)


composite(
    "batch_norm_backward_elemt(grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count, axis: int32 = 1)"
    " -> grad_in",
    "The gradient of `batch_norm_elemt` with respect to input, where its statistics depend on input too; `count` has"
    " the elements of a channel in each batch.",
    write=_write_backward, reference=_numpy_backward, check=_check,
    sbp=lambda op: _factors(op, "x").linear_in(op, "grad_out", "sum_dy", "sum_dy_xmu")
    .linear_in(op, "grad_out", "input", "mean", "sum_dy").linear_in(op, "weight"),
)  # fmt: skip
