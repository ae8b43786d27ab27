"""Normalization of channels over a batch: by running statistics, or in training by the batch's own.

`sharded_decomposition` expands both into operators that may be split along the batch, whose sums are reduced over the
devices; gradients are derived from these operators.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.decomposition_gradient import decomposition_gradient
from oneflow.dialect.ops import row_normalization
from oneflow.dialect.ops.group_norm import channel_sum, channels, numpy_channels
from oneflow.dialect.ops.matmul import expect_addend, with_addend
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dim, expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc

MOVING = ("moving_mean", "moving_variance")
PARAMS = (*MOVING, "gamma", "beta")


def channel_types(op: Call, names: Sequence[str]) -> tuple[TensorDesc, TensorDesc]:
    """The types of `x` and of a value per channel; checks the operands of that type, `names`."""
    expect_dtype(op, "x", op.x, dtypes.FLOATS)
    axis = op.normalize_axis(op.axis, op.x.rank)
    size = op.x.shape[axis]
    for name in names:
        if op[name] is not None:
            expect_type(op, name, row_normalization.statistics((size,), op.x))
            size = expect_dim(op, f"dimension 0 of {name}", op[name].shape[0], size)
    x = TensorDesc((*op.x.shape[:axis], size, *op.x.shape[axis + 1 :]), op.x.dtype)
    return x, row_normalization.statistics((size,), op.x)


class Channels:
    """Operators on values per channel of `like`."""

    def __init__(self, ops: Builder, like: Value, axis: int) -> None:
        self.ops, self.like, self.axis = ops, like, axis

    def spread(self, value: Value) -> Value:
        """A value per channel at every element."""
        return channels(self.ops, value, self.like, self.axis)

    def total(self, value: Value) -> Value:
        """The sum over a channel."""
        return channel_sum(self.ops, value, value.dtype, self.axis)

    def shared(self, total: Value, less: int = 0) -> Value:
        """A value per channel divided by the number of elements of one, or `less` than that."""
        sizes = [d for i, d in enumerate(self.like.shape) if i != self.axis]
        if None in sizes:
            counted = self.total(widen(self.ops, self.ops.call("ones_like", self.like)[0])) - float(less)
            quotient: Value = total / counted
            return quotient
        divisor = math.prod(d for d in sizes if d is not None) - less
        scaled: Value = total * (1.0 / divisor if divisor else np.inf)
        return scaled


def _moves(op: Call) -> bool:
    """Whether the moving mean and variance change."""
    return op.training and op.moving_mean is not None


@operator(
    "normalization(x, moving_mean?, moving_variance?, gamma, beta, _add_to_output?, axis: int32 = 0,"
    " epsilon: float = 0.0, training: bool = False, momentum: float = 0.0)"
    " -> y, mean?, inv_variance?, moving_mean_out?, moving_variance_out?"
)
class Normalization:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta (+ _add_to_output) along `axis`.

    The moments are the moving moments, or in `training` the moments of `x`; then the mean and 1 / sqrt(variance +
    epsilon) are results. New moving moments are results where the operands are given: momentum * moving + (1 -
    momentum) * new, with the unbiased variance. With f16 and bf16 the parameters are f32.
    """

    def types(op: Call) -> list[TensorDesc]:
        missing = [name for name in MOVING if op[name] is None]
        if missing and not op.training:
            raise op.error(f"expected {missing[0]} without training, got none")
        if len(missing) == 1:
            raise op.error(f"expected both of {' and '.join(MOVING)} or neither, got no {missing[0]}")
        y, channel = channel_types(op, PARAMS)
        expect_addend(op, y)
        return [y, *[channel] * (2 * op.training), *[channel] * (2 * _moves(op))]

    def sbp(op: Call) -> Factors:
        axis = op.axis % op.x.rank
        x = ["_" if op.training and i != axis else f"d{i}" for i in range(op.x.rank)]
        names = ["x", *(name for name in PARAMS if op[name] is not None)]
        more = len(op.results) - 1
        y = " ".join(x)
        factors = Factors(f"{y}{f', {x[axis]}' * (len(names) - 1)} -> {y}{f', {x[axis]}' * more}")
        factors = factors.linear_in(op, "gamma", "beta")
        return with_addend(op, factors if op.training else factors.linear_in(op, "x", "moving_mean", "beta"), y)

    def sharded_decomposition(ops: Builder, op: Call) -> list[Value]:
        x = widen(ops, op.x)
        of = Channels(ops, x, op.normalize_axis(op.axis, op.x.rank))
        mean = of.shared(of.total(x)) if op.training else op.moving_mean
        deviation = x - of.spread(mean)
        squares = of.total(deviation * deviation) if op.training else None
        variance = op.moving_variance if squares is None else of.shared(squares)
        inv = ops.call("rsqrt", variance + float(op.epsilon))[0]
        y = narrow(ops, deviation * of.spread(inv * op.gamma) + of.spread(op.beta), op.x.dtype)
        y = y if op._add_to_output is None else y + op._add_to_output
        if squares is None:
            return [y]
        if not _moves(op):
            return [y, mean, inv]
        pairs = ((op.moving_mean, mean), (op.moving_variance, of.shared(squares, 1)))
        return [y, mean, inv, *(old * float(op.momentum) + new * (1.0 - op.momentum) for old, new in pairs)]

    def grad(ops: Builder, op: Call, dy: Value | None, *more: Value | None) -> dict[str, Any]:
        if not op.training or dy is None or any(cotangent is not None for cotangent in more):
            return decomposition_gradient(ops, op, dy, *more)
        attrs = {"axis": op.axis, "epsilon": op.epsilon}

        @functools.cache
        def gradients() -> tuple[Value, ...]:
            return ops.call("normalization_grad", op.x, dy, op.mean, op.inv_variance, op.gamma, **attrs)

        pairs = enumerate(("gamma", "beta", "x"))
        return {"_add_to_output": dy, **{name: functools.partial(lambda n: gradients()[n], n) for n, name in pairs}}

    def compute(op: Call) -> list[Stage]:
        axis = op.normalize_axis(op.axis, op.x.rank)
        mean, variance, unbiased = _moments(op.x, axis) if op.training else (op.moving_mean, op.moving_variance, None)
        inv = c.element_wise(mean.shape, lambda i: s.rsqrt(variance[(i,)] + op.epsilon))

        def element(*i: Expr) -> Expr:
            at = (i[axis],)
            value = (op.x[i] - mean[at]) * (inv[at] * op.gamma[at]) + op.beta[at]
            element: Expr = value if op._add_to_output is None else value + op._add_to_output[i]
            return element

        y = c.element_wise(op.x.shape, element, op.x.dtype)
        if unbiased is None:
            return [y]
        pairs = ((op.moving_mean, mean), (op.moving_variance, unbiased)) if _moves(op) else ()
        return [y, mean, inv, *(_moved(old, new, op.momentum) for old, new in pairs)]

    def reference(
        x: Any, mean: Any, variance: Any, gamma: Any, beta: Any, add: Any,
        *, axis: Any, epsilon: Any, training: Any, momentum: Any,
    ) -> Any:  # fmt: skip
        axes = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
        moving, wide, row = (mean, variance), x.astype(np.float64), np.float32 if x.dtype.itemsize == 2 else x.dtype
        if training:
            mean, variance = wide.sum(axes) / np.float64(_size(x, axes)), wide.var(axes) if x.size else np.nan * gamma
        inv = 1 / np.sqrt(np.asarray(variance, np.float64) + epsilon)
        broadcast = (numpy_channels(np.asarray(p), x.ndim, axis % x.ndim) for p in (mean, inv, gamma, beta))
        at_mean, at_inv, at_gamma, at_beta = broadcast
        y = (x - at_mean) * at_inv * at_gamma + at_beta
        y = (y if add is None else y + add).astype(x.dtype)
        if not training:
            return y
        unbiased = variance * _size(x, axes) / np.float64(_size(x, axes) - 1)
        pairs = zip(moving, (mean, unbiased), strict=True) if moving[0] is not None else ()
        moved = (momentum * old.astype(np.float64) + (1 - momentum) * new for old, new in pairs)
        return y, *(a.astype(row) for a in (mean, inv, *moved))


def _size(x: np.ndarray, axes: Sequence[int]) -> int:
    return int(np.prod([x.shape[i] for i in axes]))


def fold_channels(x: Stage, axis: int, element: Callable[..., Expr]) -> Stage:
    """The sum of `element(*position)` over each channel."""
    others = [d for i, d in enumerate(x.shape) if i != axis]
    return c.sum_((x.shape[axis],), others, lambda k, *rest: element(*rest[:axis], k, *rest[axis:]))


def _moments(x: Stage, axis: int) -> tuple[Stage, Stage, Stage]:
    """The mean of each channel, its variance, and its variance without bias."""
    dtype = x.dtype.accumulator
    count = c.product([d for i, d in enumerate(x.shape) if i != axis])

    def shared(total: Stage, divisor: c.Size) -> Stage:
        scale = row_normalization.reciprocal(divisor, dtype)
        return c.element_wise(total.shape, lambda k: total[(k,)] * scale)

    total = fold_channels(x, axis, lambda *i: x[i])
    mean = shared(total, count)
    one_pass = x.dtype == dtypes.bfloat16
    squares = _one_pass_squares(x, axis, total, mean) if one_pass else _two_pass_squares(x, axis, mean)
    return mean, shared(squares, count), shared(squares, count - 1)


def _two_pass_squares(x: Stage, axis: int, mean: Stage) -> Stage:
    """The sum of squared deviations from the mean, in a second pass."""

    def square(*i: Expr) -> Expr:
        deviation = x[i] - mean[(i[axis],)]
        return deviation * deviation

    return fold_channels(x, axis, square)


def _one_pass_squares(x: Stage, axis: int, total: Stage, mean: Stage) -> Stage:
    """The sum of squared deviations, from the sums of elements and of squares in one pass.

    The difference cancels where the mean is large in comparison with the deviation: up to 16 bits of f32 for elements
    of 8 significant bits (bf16), and up to 22 for elements of 11 (f16).
    """
    squares = fold_channels(x, axis, lambda *i: x[i] * x[i])

    def difference(k: Expr) -> Expr:
        square = total[(k,)] * mean[(k,)]
        # Squares that overflow have an infinite sum of deviations, which is no NaN where the mean is a number.
        finite = s.where(abs(mean[(k,)]) < np.inf, s.minimum(square, mean.dtype.largest), square)
        return s.maximum(squares[(k,)] - finite, 0)

    return c.element_wise(mean.shape, difference)


def gradient_stages(op: Call, dy: Callable[..., Expr]) -> list[Stage]:
    """The gradients of a normalization with respect to gamma, beta and x, where the gradient of its result is
    `dy(*position)`.
    """
    axis = op.normalize_axis(op.axis, op.x.rank)

    def normal(*at: Expr) -> Expr:
        element: Expr = (op.x[at] - op.mean[(at[axis],)]) * op.inv_variance[(at[axis],)]
        return element

    gamma_diff = fold_channels(op.x, axis, lambda *at: dy(*at) * normal(*at))
    beta_diff = fold_channels(op.x, axis, dy)
    scale = row_normalization.reciprocal(
        c.product([d for i, d in enumerate(op.x.shape) if i != axis]), op.x.dtype.accumulator
    )

    def element(*at: Expr) -> Expr:
        k = (at[axis],)
        rest = dy(*at) - (beta_diff[k] + normal(*at) * gamma_diff[k]) * scale
        element: Expr = rest * (op.inv_variance[k] * op.gamma[k])
        return element

    return [gamma_diff, beta_diff, c.element_wise(op.x.shape, element, op.x.dtype)]


def _moved(old: Stage, new: Stage, momentum: float) -> Stage:
    return c.element_wise(old.shape, lambda k: old[(k,)] * momentum + new[(k,)] * (1.0 - momentum), old.dtype)


@operator(
    "normalization_grad(x, dy, mean, inv_variance, gamma, axis: int32 = 0, epsilon: float = 0.0)"
    " -> gamma_diff, beta_diff, dx"
)
class NormalizationGrad:
    """The gradients of `normalization` in training with respect to gamma, beta and x; `epsilon` is in inv_variance
    already.
    """

    def types(op: Call) -> list[TensorDesc]:
        x, channel = channel_types(op, ("mean", "inv_variance", "gamma"))
        expect_type(op, "dy", x)
        return [channel, channel, x.meet(op.dy)]

    def sbp(op: Call) -> Factors:
        axis = op.axis % op.x.rank
        x = " ".join("c" if i == axis else "_" for i in range(op.x.rank))
        split = Factors(f"{x}, {x}, c, c, c -> c, c, {x}")
        return split.linear_in(op, "dy", results=(0, 1, 2)).linear_in(op, "gamma", results=(2,))

    def sharded_decomposition(ops: Builder, op: Call) -> tuple[Value, Value, Value]:
        x, dy = widen(ops, op.x), widen(ops, op.dy)
        of = Channels(ops, x, op.normalize_axis(op.axis, op.x.rank))
        normal = (x - of.spread(op.mean)) * of.spread(op.inv_variance)
        gamma_diff, beta_diff = of.total(dy * normal), of.total(dy)
        rest = dy - of.spread(of.shared(beta_diff)) - normal * of.spread(of.shared(gamma_diff))
        dx = rest * of.spread(op.inv_variance * op.gamma)
        return gamma_diff, beta_diff, narrow(ops, dx, op.x.dtype)

    grad = decomposition_gradient

    def compute(op: Call) -> list[Stage]:
        return gradient_stages(op, lambda *at: op.dy[at])

    def reference(x: Any, dy: Any, mean: Any, inv: Any, gamma: Any, *, axis: Any) -> Any:
        axes = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
        at_mean, at_inv, at_gamma = (numpy_channels(p, x.ndim, axis % x.ndim) for p in (mean, inv, gamma))
        normal, cotangent = (x - at_mean) * at_inv, dy.astype(np.float64)
        dx = row_normalization.numpy_gradient(cotangent, normal, at_inv * at_gamma, axes)
        return (
            (cotangent * normal).sum(axes).astype(mean.dtype),
            cotangent.sum(axes).astype(mean.dtype),
            dx.astype(x.dtype),
        )
