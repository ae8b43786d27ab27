"""Normalization over groups of channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.ops import row_normalization
from oneflow.dialect.ops.row_normalization import Element, expect_present, expect_type
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.ops.spatial import Layout, layout_of
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors, Shard
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc, count


def expect_groups(op: Call, channels: int | None, groups: int) -> None:
    """Checks that channels form groups of one size.

    Raises:
        OperatorError: the number of groups is not positive or does not divide the channels.
    """
    if groups < 1:
        raise op.error(f"expected at least 1 group, got {groups}")
    if channels is not None and channels % groups:
        raise op.error(f"expected a number of channels that {groups} groups divide, got {channels}")


def _group_types(op: Call, groups: int, axis: int = 1) -> tuple[TensorDesc, TensorDesc, TensorDesc]:
    """The types of x, whose channels are dimension `axis`, of a parameter and of a statistic."""
    expect_dtype(op, "x", op.x, dtypes.FLOATS)
    expect_rank(op, "x", op.x, 2, -1)
    batch, channels = op.x.shape[0], op.x.shape[axis]
    expect_groups(op, channels, groups)
    x = TensorDesc(op.x.shape, op.x.dtype)
    return x, TensorDesc((channels,), op.x.dtype), row_normalization.statistics((batch, groups), op.x)


def _factors(rank: int, groups: int, first: bool = True) -> tuple[str, str, str]:
    """Factors of x, of a parameter and of a statistic: the batch and whole groups can be split."""
    channels = "_" if groups == 1 else f"g*{groups}"
    return (
        " ".join(["n", *Layout(rank - 2, first).arrange((), [channels], ["_"] * (rank - 2))]),
        channels,
        (f"n {channels}"),
    )


def _groups(statistic: TensorDesc) -> int | None:
    """The number of groups of a statistic."""
    return (statistic.shape or ())[1]


def _by_group(x: Stage, groups: int) -> Stage:
    """(batch, channels, ..) as (batch, groups, channels of a group, ..); a row has the axes after the groups."""
    batch, channels, *rest = x.shape
    return c.reshape(x, (batch, groups, _per_group(channels, groups), *rest))


def _per_group(channels: c.Size, groups: int) -> c.Size:
    return channels // groups


def _param_by_group(param: Stage, groups: int) -> Stage:
    return c.reshape(param, (groups, _per_group(param.shape[0], groups)))


def _as_rows(ops: Builder, op: Call, value: Value, groups: int) -> Value:
    """(batch, channels, ..) as (batch, groups, elements of a group)."""
    batch, rest = value.shape[0], count(value.shape[1:])
    if batch is None and rest is None:
        raise op.error(f"expected a static batch size or static other sizes, got {value.desc}")
    shape = (-1 if batch is None else batch, groups, -1 if rest is None else rest // groups)
    return ops.call("reshape", value, shape=shape)[0]


def channels(ops: Builder, param: Value, x: Value, axis: int = 1) -> Value:
    """A value per channel, broadcast to the shape of `x`."""
    axes = [i for i in range(x.rank) if i != axis]
    return ops.call("broadcast_like", param, x, broadcast_axes=axes)[0] if axes else param


def channel_sum(ops: Builder, value: Value, dtype: dtypes.DType, axis: int = 1) -> Value:
    """The sum over everything but the channels."""
    axes = [i for i in range(value.rank) if i != axis]
    return narrow(ops, ops.call("reduce_sum", value, axis=axes)[0] if axes else value, dtype)


def _numpy_by_group(x: np.ndarray, groups: int) -> np.ndarray:
    return x.astype(np.float64).reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def numpy_channels(param: np.ndarray, rank: int, axis: int = 1) -> np.ndarray:
    return param.astype(np.float64).reshape([-1 if i == axis else 1 for i in range(rank)])


def _layout(op: Call) -> Layout:
    return layout_of(op, op.x.rank - 2)


def _channels_first(op: Call, x: Stage) -> Stage:
    """x with the channels as dimension 1."""
    layout = _layout(op)
    if layout.first:
        return x
    lead, channels, spatial = layout.split(x.shape)
    return c.element_wise((*lead, *channels, *spatial), lambda n, k, *i: x[(n, *i, k)], x.dtype)


def _as_given(op: Call, y: Stage) -> Stage:
    """The inverse of `_channels_first`."""
    if _layout(op).first:
        return y
    shape = (y.shape[0], *y.shape[2:], y.shape[1])
    return c.element_wise(shape, lambda n, *i: y[(n, i[-1], *i[:-1])], y.dtype)


def _moved(ops: Builder, op: Call, value: Value | None, back: bool = False) -> Value | None:
    """A value in the layout of x with the channels as dimension 1, or `back`."""
    if value is None or _layout(op).first:
        return value
    perm = [0, *range(2, value.rank), 1] if back else [0, value.rank - 1, *range(1, value.rank - 1)]
    moved: Value = ops.transpose(value, perm=perm)
    return moved


@operator(
    "group_norm(x, beta?, gamma?, affine: bool = False, num_groups: int32 = 0, epsilon: double = 0.0,"
    " data_format: string = 'channels_first', activation: string = 'none') -> y, mean, inv_variance"
)
class GroupNorm:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, over each of `num_groups` groups of channels.

    Channels are dimension 1, or with the `data_format` channels_last the last one. The mean and 1 / sqrt(variance +
    epsilon) of each group are results too.
    """

    def types(op: Call) -> tuple[TensorDesc, ...]:
        expect_rank(op, "x", op.x, 2, -1)
        x, param, row = _group_types(op, op.num_groups, _layout(op).channel)
        if op.activation != "none":
            raise op.error(
                f"expected activation 'none', got {op.activation!r}; write the activation as an operator of its own"
            )
        for name in ("beta", "gamma"):
            expect_present(op, name, "affine")
            expect_type(op, name, param)
        return x, row, row

    def sbp(op: Call) -> Factors:
        x, param, row = _factors(op.x.rank, op.num_groups, _layout(op).first)
        params = f", {param}" * (len(op.operands) - 1)
        return Factors(f"{x}{params} -> {x}, {row}, {row}").linear_in(op, "gamma", "beta")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return {"num_groups": _groups(shard.outputs[1])}

    def grad(ops: Builder, op: Call, dy: Value | None, dmean: Value | None, dinv: Value | None) -> dict[str, Any]:
        x, dy = _moved(ops, op, op.x), _moved(ops, op, dy)
        assert x is not None

        def dx() -> Value | None:
            terms = []
            if dmean is not None or dinv is not None:
                wide = _as_rows(ops, op, widen(ops, x), op.num_groups)
                gradient = row_normalization.moment_gradient(ops, wide, op.mean, op.inv_variance, dmean, dinv)
                terms = [ops.reshape_like(term, x) for term in gradient]
            if dy is not None:
                direct = ops.group_norm_grad(
                    dy, x, op.mean, op.inv_variance, op.gamma, num_groups=op.num_groups, epsilon=op.epsilon
                )
                terms = [widen(ops, direct), *terms] if terms else [direct]
            return _moved(ops, op, row_normalization.sum_of_terms(ops, x, terms), back=True)

        def param(which: int) -> Value:
            value: Value = ops.group_norm_param_grad(dy, x, op.mean, op.inv_variance)[which]
            return value

        if dy is None:
            return {"x": dx}
        return {"x": dx, "gamma": lambda: param(0), "beta": lambda: param(1)}

    def compute(op: Call) -> tuple[Stage, ...]:
        images = _channels_first(op, op.x)
        x = _by_group(images, op.num_groups)
        mean, inv = row_normalization.moments(x, 2, op.epsilon)
        gamma, beta = (p and _param_by_group(p, op.num_groups) for p in (op.gamma, op.beta))

        def element(*i: Expr) -> Expr:
            value = row_normalization.centre(x, mean, i) * inv[i[:2]]
            return value if gamma is None else value * gamma[i[1:3]] + beta[i[1:3]]

        y = c.reshape(c.element_wise(x.shape, element, op.x.dtype), images.shape)
        assert mean is not None
        return _as_given(op, y), mean, inv

    def reference(x: Any, beta: Any, gamma: Any, *, num_groups: Any, epsilon: Any, data_format: Any) -> Any:
        axis = 1 if data_format == "channels_first" else x.ndim - 1
        images = np.moveaxis(x, axis, 1)
        grouped = _numpy_by_group(images, num_groups)
        mean, inv = row_normalization.numpy_moments(grouped, tuple(range(2, grouped.ndim)), epsilon)
        y = np.moveaxis(((grouped - mean) * inv).reshape(images.shape), 1, axis)
        if gamma is not None:
            y = y * numpy_channels(gamma, x.ndim, axis) + numpy_channels(beta, x.ndim, axis)
        row = np.float32 if x.dtype.itemsize == 2 else x.dtype
        return y.astype(x.dtype), *(a.reshape(x.shape[0], num_groups).astype(row) for a in (mean, inv))


@operator("group_norm_grad(dy, x, mean, inv_variance, gamma?, num_groups: int32 = 0, epsilon: double = 0.0) -> dx")
class GroupNormGrad:
    """The gradient of `group_norm` with respect to x."""

    def types(op: Call) -> TensorDesc:
        x, param, row = _group_types(op, op.num_groups)
        expect_type(op, "dy", x)
        expect_type(op, "mean", row)
        expect_type(op, "inv_variance", row)
        expect_type(op, "gamma", param)
        return x.meet(op.dy)

    def sbp(op: Call) -> Factors:
        x, param, row = _factors(op.x.rank, op.num_groups)
        params = "" if op.gamma is None else f", {param}"
        return Factors(f"{x}, {x}, {row}, {row}{params} -> {x}").linear_in(op, "dy").linear_in(op, "gamma")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return {"num_groups": _groups(shard.inputs[2])}

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        dtype = op.x.dtype
        gamma = None if op.gamma is None else channels(ops, widen(ops, op.gamma), op.x)
        dy = widen(ops, op.dy)
        cotangent = dy if gamma is None else dy * gamma
        x, cotangent, seed = (_as_rows(ops, op, widen(ops, v), op.num_groups) for v in (op.x, cotangent, ddx))
        parts = row_normalization.second_gradient(ops, x, cotangent, seed, op.mean, op.inv_variance)

        def like_x(name: str) -> Value:
            gradient: Value = ops.reshape_like(parts[name](), op.x)
            return gradient

        return {
            "dy": lambda: narrow(ops, like_x("cotangent") if gamma is None else like_x("cotangent") * gamma, dtype),
            "x": lambda: narrow(ops, like_x("x"), dtype),
            "mean": parts["mean"],
            "inv_variance": parts["inv"],
            "gamma": lambda: channel_sum(ops, like_x("cotangent") * dy, dtype),
        }

    def compute(op: Call) -> Stage:
        x, dy = _by_group(op.x, op.num_groups), _by_group(op.dy, op.num_groups)
        gamma = None if op.gamma is None else _param_by_group(op.gamma, op.num_groups)

        def cotangent(*i: Expr) -> Expr:
            return dy[i] if gamma is None else dy[i] * gamma[i[1:3]]

        element = row_normalization.row_gradient(x, op.mean, op.inv_variance, cotangent)
        return c.reshape(c.element_wise(x.shape, element, op.x.dtype), op.x.shape)

    def reference(dy: Any, x: Any, mean: Any, inv: Any, gamma: Any, *, num_groups: Any) -> Any:
        cotangent = dy.astype(np.float64) * (1 if gamma is None else numpy_channels(gamma, x.ndim))
        grouped = _numpy_by_group(x, num_groups)
        scale = row_normalization.as_rows(inv, grouped.ndim)
        normal = (grouped - row_normalization.as_rows(mean, grouped.ndim)) * scale
        axes = tuple(range(2, grouped.ndim))
        dx = row_normalization.numpy_gradient(_numpy_by_group(cotangent, num_groups), normal, scale, axes)
        return dx.reshape(x.shape).astype(x.dtype)


@operator("group_norm_param_grad(dy, x, mean, inv_variance) -> dgamma, dbeta")
class GroupNormParamGrad:
    """The gradients of `group_norm` with respect to gamma and beta: sums of dy * normal and of dy over all but
    channels.
    """

    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        expect_rank(op, "mean", op.mean, 2)
        if op.mean.shape[1] is None:
            raise op.error(f"expected a static number of groups in mean, got {op.mean}")
        x, param, row = _group_types(op, op.mean.shape[1])
        expect_type(op, "dy", x)
        expect_type(op, "mean", row)
        expect_type(op, "inv_variance", row)
        return param, param

    def sbp(op: Call) -> Factors:
        x, param, row = _factors(op.x.rank, op.mean.shape[1])
        factors = Factors(f"{x}, {x}, {row}, {row} -> {param}, {param}").linear_in(op, "dy", results=(0, 1))
        return factors.linear_in(op, "x", "mean").linear_in(op, "inv_variance")

    def grad(ops: Builder, op: Call, dgamma: Value | None, dbeta: Value | None) -> dict[str, Any]:
        def by_rows(value: Value) -> Value:
            return _as_rows(ops, op, widen(ops, value), op.mean.shape[1])

        shift, scale = (v and by_rows(channels(ops, v, op.x)) for v in (dbeta, dgamma))
        parts = row_normalization.param_gradient(
            ops, by_rows(op.x), by_rows(op.dy), op.mean, op.inv_variance, shift, scale
        )

        def like_x(value: Callable[[], Value]) -> Callable[[], Value]:
            return lambda: ops.reshape_like(value(), op.x)

        parts.update({name: like_x(parts[name]) for name in ("dy", "x") if name in parts})
        return row_normalization.narrowed(ops, parts, op.x.dtype, dy="dy", x="x", mean="mean", inv_variance="inv")

    def compute(op: Call) -> list[Stage]:
        groups = op.mean.shape[1]
        x, dy = _by_group(op.x, groups), _by_group(op.dy, groups)

        def summed(element: Element) -> Stage:
            def term(g: Expr, k: Expr, n: Expr, *rest: Expr) -> Expr:
                return element(n, g, k, *rest)

            total = c.sum_(x.shape[1:3], (x.shape[0], *x.shape[3:]), term, op.x.dtype)
            return c.reshape(total, (op.x.shape[1],))

        def weighted(*i: Expr) -> Expr:
            element: Expr = dy[i] * row_normalization.centre(x, op.mean, i) * op.inv_variance[i[:2]]
            return element

        return [summed(weighted), summed(lambda *i: dy[i])]

    def reference(dy: Any, x: Any, mean: Any, inv: Any) -> Any:
        grouped = _numpy_by_group(x, mean.shape[1])
        normal = (grouped - row_normalization.as_rows(mean, grouped.ndim)) * row_normalization.as_rows(
            inv, grouped.ndim
        )
        axes = tuple(i for i in range(x.ndim) if i != 1)
        cotangent = dy.astype(np.float64)
        weighted = cotangent * normal.reshape(x.shape)
        return weighted.sum(axis=axes).astype(x.dtype), cotangent.sum(axis=axes).astype(x.dtype)
