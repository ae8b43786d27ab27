"""Normalization over trailing dimensions.

If these dimensions are split, `sharded_decomposition` reduces the partial row sums over devices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Stage
from oneflow.dialect.ops import row_normalization
from oneflow.dialect.ops.matmul import expect_addend, with_addend
from oneflow.dialect.ops.row_normalization import expect_present, expect_type, letters, statistics
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc


@operator(
    "layer_norm(x, beta?, gamma?, center: bool = False, scale: bool = False, begin_norm_axis: int64 = 0,"
    " begin_params_axis: int64 = 0, epsilon: double = 0.0) -> y, mean, inv_variance"
)
class LayerNorm:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, over the dimensions from `begin_norm_axis` on.

    `gamma` (`scale`) and `beta` (`center`) have the dimensions from `begin_params_axis` on. The mean and
    1 / sqrt(variance + epsilon) are results too.
    """

    def types(op: Call) -> tuple[TensorDesc, ...]:
        expect_dtype(op, "x", op.x, dtypes.FLOATS)
        begin = op.normalize_axis(op.begin_norm_axis, op.x.rank, "begin_norm_axis")
        params = op.normalize_axis(op.begin_params_axis, op.x.rank, "begin_params_axis")
        for name, attribute in (("beta", "center"), ("gamma", "scale")):
            expect_present(op, name, attribute)
            expect_type(op, name, TensorDesc(op.x.shape[params:], op.x.dtype))
        row = statistics(op.x.shape[:begin], op.x)
        return TensorDesc(op.x.shape, op.x.dtype), row, row

    def sbp(op: Call) -> Factors:
        rank = op.x.rank
        begin, params = op.begin_norm_axis % rank, op.begin_params_axis % rank
        split = min(begin, params)
        affine = f", {letters(rank - params, 0)}" * (len(op.operands) - 1)
        x, row = letters(rank, split), letters(begin, split)
        factors = Factors(f"{x}{affine} -> {x}, {row}, {row}")
        return factors if op.gamma is None else factors.linear_in(op, "beta", "gamma")

    def grad(ops: Builder, op: Call, dy: Value | None, dmean: Value | None, dinv: Value | None) -> dict[str, Any]:
        begin = op.mean.rank
        params = op.normalize_axis(op.begin_params_axis, op.x.rank)

        def dx() -> Value | None:
            terms = row_normalization.moment_gradient(ops, widen(ops, op.x), op.mean, op.inv_variance, dmean, dinv)
            if dy is not None:
                direct = ops.layer_norm_grad(
                    dy, op.x, op.mean, op.inv_variance, op.gamma, begin_norm_axis=begin, epsilon=op.epsilon
                )
                terms = [widen(ops, direct), *terms] if terms else [direct]
            return row_normalization.sum_of_terms(ops, op.x, terms)

        def param(which: int) -> Value:
            both = ops.layer_norm_param_grad(dy, op.x, op.mean, op.inv_variance, begin_params_axis=params)
            value: Value = both[which]
            return value

        if dy is None:
            return {"x": dx}
        return {"x": dx, "beta": lambda: param(0), "gamma": lambda: param(1)}

    def sharded_decomposition(ops: Builder, op: Call) -> list[Value]:
        begin = op.normalize_axis(op.begin_norm_axis, op.x.rank)
        y, mean, inv = row_normalization.standardized(ops, widen(ops, op.x), begin, op.epsilon)
        y = y if op.gamma is None else y * widen(ops, op.gamma)
        y = y if op.beta is None else y + widen(ops, op.beta)
        assert mean is not None
        return [narrow(ops, y, op.x.dtype), mean, inv]

    def compute(op: Call) -> tuple[Stage, ...]:
        x, rank = op.x, op.x.rank
        mean, inv = row_normalization.moments(x, op.normalize_axis(op.begin_norm_axis, rank), op.epsilon)
        params = op.normalize_axis(op.begin_params_axis, rank)

        def element(*i: Expr) -> Expr:
            value = row_normalization.centre(x, mean, i) * inv[i[: inv.rank]]
            value = value if op.gamma is None else value * op.gamma[i[params:]]
            return value if op.beta is None else value + op.beta[i[params:]]

        assert mean is not None
        return c.element_wise(x.shape, element, x.dtype), mean, inv

    def reference(x: Any, beta: Any, gamma: Any, *, begin_norm_axis: Any, epsilon: Any) -> Any:
        begin = begin_norm_axis % x.ndim
        mean, inv = row_normalization.numpy_moments(x, tuple(range(begin, x.ndim)), epsilon)
        y = (x - mean) * inv
        y = y if gamma is None else y * gamma.astype(np.float64)
        y = y if beta is None else y + beta.astype(np.float64)
        row = np.float32 if x.dtype.itemsize == 2 else x.dtype
        return y.astype(x.dtype), *(a.reshape(x.shape[:begin]).astype(row) for a in (mean, inv))


@operator(
    "layer_norm_grad(dy, x, mean, inv_variance, gamma?, _add_to_output?, begin_norm_axis: int64 = 0,"
    " epsilon: double = 0.0) -> dx"
)
class LayerNormGrad:
    """The gradient of `layer_norm` with respect to x (+ _add_to_output)."""

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "x", op.x, dtypes.FLOATS)
        expect_type(op, "dy", op.x)
        begin = op.normalize_axis(op.begin_norm_axis, op.x.rank, "begin_norm_axis")
        for name in ("mean", "inv_variance"):
            expect_type(op, name, statistics(op.x.shape[:begin], op.x))
        if op.gamma is not None:
            expect_rank(op, "gamma", op.gamma, 1, op.x.rank)
            expect_type(op, "gamma", TensorDesc(op.x.shape[op.x.rank - op.gamma.rank :], op.x.dtype))
        out: TensorDesc = op.x.meet(op.dy)
        expect_addend(op, out)
        return out

    def sbp(op: Call) -> Factors:
        rank, begin = op.x.rank, op.mean.rank
        split = begin if op.gamma is None else min(begin, rank - op.gamma.rank)
        x, row = letters(rank, split), letters(begin, split)
        gamma = "" if op.gamma is None else f", {letters(op.gamma.rank, 0)}"
        factors = Factors(f"{x}, {x}, {row}, {row}{gamma} -> {x}").linear_in(op, "dy").linear_in(op, "gamma")
        return with_addend(op, factors, x)

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        x, dy, seed = (widen(ops, v) for v in (op.x, op.dy, ddx))
        gamma = None if op.gamma is None else widen(ops, op.gamma)
        cotangent = dy if gamma is None else dy * gamma
        parts = row_normalization.second_gradient(ops, x, cotangent, seed, op.mean, op.inv_variance)

        def by_dy() -> Value:
            return parts["cotangent"]() if gamma is None else parts["cotangent"]() * gamma

        def by_gamma() -> Value:
            return narrow(
                ops, row_normalization.lead_sum(ops, parts["cotangent"]() * dy, x.rank - op.gamma.rank), op.x.dtype
            )

        return {
            "dy": lambda: narrow(ops, by_dy(), op.x.dtype),
            "x": lambda: narrow(ops, parts["x"](), op.x.dtype),
            "mean": parts["mean"],
            "inv_variance": parts["inv"],
            "gamma": by_gamma,
            "_add_to_output": ddx,
        }

    def sharded_decomposition(ops: Builder, op: Call) -> Value:
        dy = widen(ops, op.dy)
        cotangent = dy if op.gamma is None else dy * widen(ops, op.gamma)
        dx = narrow(
            ops, row_normalization.projected(ops, widen(ops, op.x), cotangent, op.mean, op.inv_variance), op.x.dtype
        )
        return dx if op._add_to_output is None else dx + op._add_to_output

    def compute(op: Call) -> Stage:
        def cotangent(*i: Expr) -> Expr:
            element: Expr = op.dy[i] if op.gamma is None else op.dy[i] * op.gamma[i[len(i) - op.gamma.rank :]]
            return element

        element = row_normalization.row_gradient(op.x, op.mean, op.inv_variance, cotangent)
        added = op._add_to_output
        body = element if added is None else lambda *i: element(*i) + added[i]
        return c.element_wise(op.x.shape, body, op.x.dtype)

    def reference(dy: Any, x: Any, mean: Any, inv: Any, gamma: Any, add: Any) -> Any:
        cotangent = dy.astype(np.float64) * (1 if gamma is None else gamma.astype(np.float64))
        scale = row_normalization.as_rows(inv, x.ndim)
        normal = (x - row_normalization.as_rows(mean, x.ndim)) * scale
        dx = row_normalization.numpy_gradient(cotangent, normal, scale, tuple(range(mean.ndim, x.ndim)))
        return (dx if add is None else dx + add).astype(x.dtype)


def _over_rows(ops: Builder, param: Value, x: Value, axes: range) -> Value:
    """A parameter broadcast over the dimensions `axes` of `x`."""
    return ops.call("broadcast_like", param, x, broadcast_axes=axes)[0] if axes else param


@operator("layer_norm_param_grad(dy, x, mean, inv_variance, begin_params_axis: int64 = 0) -> beta_diff, gamma_diff")
class LayerNormParamGrad:
    """The gradients of `layer_norm` with respect to beta (the sum of dy over rows) and gamma (of dy * normal)."""

    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        expect_dtype(op, "x", op.x, dtypes.FLOATS)
        expect_type(op, "dy", op.x)
        expect_rank(op, "mean", op.mean, 0, op.x.rank)
        for name in ("mean", "inv_variance"):
            expect_type(op, name, statistics(op.x.shape[: op.mean.rank], op.x))
        params = op.normalize_axis(op.begin_params_axis, op.x.rank, "begin_params_axis")
        param = TensorDesc(op.x.shape[params:], op.x.dtype)
        return param, param

    def sbp(op: Call) -> Factors:
        x = [f"d{i}" for i in range(op.x.rank)]
        row, param = (" ".join(names) for names in (x[: op.mean.rank], x[op.begin_params_axis % op.x.rank :]))
        axes = " ".join(x)
        factors = Factors(f"{axes}, {axes}, {row}, {row} -> {param}, {param}").linear_in(op, "dy", results=(0, 1))
        return factors.linear_in(op, "x", "mean", results=(1,)).linear_in(op, "inv_variance", results=(1,))

    def grad(ops: Builder, op: Call, dbeta: Value | None, dgamma: Value | None) -> dict[str, Any]:
        axes = range(op.normalize_axis(op.begin_params_axis, op.x.rank))
        shift, scale = (v and _over_rows(ops, widen(ops, v), op.x, axes) for v in (dbeta, dgamma))
        x, dy = widen(ops, op.x), widen(ops, op.dy)
        parts = row_normalization.param_gradient(ops, x, dy, op.mean, op.inv_variance, shift, scale)
        return row_normalization.narrowed(ops, parts, op.x.dtype, dy="dy", x="x", mean="mean", inv_variance="inv")

    def compute(op: Call) -> list[Stage]:
        params = op.normalize_axis(op.begin_params_axis, op.x.rank)
        begin = op.mean.rank

        def summed(element: Any) -> Stage:
            def term(*position: Expr) -> Expr:
                own, lead = position[: op.x.rank - params], position[op.x.rank - params :]
                value: Expr = element(*lead, *own)
                return value

            return c.sum_(op.x.shape[params:], op.x.shape[:params], term, op.x.dtype)

        def weighted(*i: Expr) -> Expr:
            element: Expr = op.dy[i] * row_normalization.centre(op.x, op.mean, i) * op.inv_variance[i[:begin]]
            return element

        return [summed(lambda *i: op.dy[i]), summed(weighted)]

    def reference(dy: Any, x: Any, mean: Any, inv: Any, *, begin_params_axis: Any) -> Any:
        lead = tuple(range(begin_params_axis % x.ndim))
        cotangent = dy.astype(np.float64)
        normal = (x - row_normalization.as_rows(mean, x.ndim)) * row_normalization.as_rows(inv, x.ndim)
        return cotangent.sum(axis=lead).astype(x.dtype), (cotangent * normal).sum(axis=lead).astype(x.dtype)


@operator("rms_norm(x, weight?, normalized_shape: shape, epsilon: float = 1e-05) -> y, inv_rms")
class RmsNorm:
    """x / sqrt(mean(x * x) + epsilon) * weight, over the last dimensions, which are `normalized_shape`."""

    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        expect_dtype(op, "x", op.x, dtypes.FLOATS)
        count = len(op.normalized_shape)
        expect_rank(op, "x", op.x, count, -1)
        begin = op.x.rank - count
        pairs = enumerate(zip(op.x.shape[begin:], op.normalized_shape, strict=True), begin)
        last = tuple(expect_dim(op, f"dimension {i} of x", got, wanted) for i, (got, wanted) in pairs)
        expect_type(op, "weight", TensorDesc(op.normalized_shape, op.x.dtype))
        y = TensorDesc((*op.x.shape[:begin], *last), op.x.dtype)
        return y, statistics(op.x.shape[:begin], op.x)

    def sbp(op: Call) -> Factors:
        begin = op.x.rank - len(op.normalized_shape)
        x, row = letters(op.x.rank, begin), letters(begin, begin)
        weight = "" if op.weight is None else f", {letters(op.weight.rank, 0)}"
        return Factors(f"{x}{weight} -> {x}, {row}").linear_in(op, "weight")

    def grad(ops: Builder, op: Call, dy: Value | None, dinv: Value | None) -> dict[str, Any]:
        def dx() -> Value | None:
            terms = row_normalization.moment_gradient(ops, widen(ops, op.x), None, op.inv_rms, None, dinv)
            if dy is not None:
                direct = ops.rms_norm_grad(dy, op.x, op.inv_rms, op.weight)
                terms = [widen(ops, direct), *terms] if terms else [direct]
            return row_normalization.sum_of_terms(ops, op.x, terms)

        weight = None if dy is None else lambda: ops.rms_norm_param_grad(dy, op.x, op.inv_rms)
        return {"x": dx, "weight": weight}

    def sharded_decomposition(ops: Builder, op: Call) -> list[Value]:
        begin = op.x.rank - len(op.normalized_shape)
        y, _, inv = row_normalization.standardized(ops, widen(ops, op.x), begin, op.epsilon, centred=False)
        y = y if op.weight is None else y * widen(ops, op.weight)
        return [narrow(ops, y, op.x.dtype), inv]

    def compute(op: Call) -> tuple[Stage, Stage]:
        x, begin = op.x, op.x.rank - len(op.normalized_shape)
        _, inv = row_normalization.moments(x, begin, op.epsilon, centred=False)

        def element(*i: Expr) -> Expr:
            value = x[i] * inv[i[:begin]]
            element: Expr = value if op.weight is None else value * op.weight[i[begin:]]
            return element

        return c.element_wise(x.shape, element, x.dtype), inv

    def reference(x: Any, weight: Any, *, normalized_shape: Any, epsilon: Any) -> Any:
        begin = x.ndim - len(normalized_shape)
        square = (x.astype(np.float64) ** 2).sum(axis=tuple(range(begin, x.ndim)), keepdims=True)
        inv = 1 / np.sqrt(square / np.float64(np.prod(normalized_shape)) + np.float32(epsilon))
        y = x * inv * (1 if weight is None else weight.astype(np.float64))
        row = np.float32 if x.dtype.itemsize == 2 else x.dtype
        return y.astype(x.dtype), inv.reshape(x.shape[:begin]).astype(row)


@operator("rms_norm_grad(dy, x, inv_rms, weight?) -> dx")
class RmsNormGrad:
    """The gradient of `rms_norm` with respect to x."""

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "x", op.x, dtypes.FLOATS)
        expect_type(op, "dy", op.x)
        expect_rank(op, "inv_rms", op.inv_rms, 0, op.x.rank)
        expect_type(op, "inv_rms", statistics(op.x.shape[: op.inv_rms.rank], op.x))
        expect_type(op, "weight", TensorDesc(op.x.shape[op.inv_rms.rank :], op.x.dtype))
        desc: TensorDesc = op.x.meet(op.dy)
        return desc

    def sbp(op: Call) -> Factors:
        rank, begin = op.x.rank, op.inv_rms.rank
        x, row = letters(rank, begin), letters(begin, begin)
        weight = "" if op.weight is None else f", {letters(op.weight.rank, 0)}"
        return Factors(f"{x}, {x}, {row}{weight} -> {x}").linear_in(op, "dy").linear_in(op, "weight")

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        x, dy, seed = (widen(ops, v) for v in (op.x, op.dy, ddx))
        weight = None if op.weight is None else widen(ops, op.weight)
        cotangent = dy if weight is None else dy * weight
        parts = row_normalization.second_gradient(ops, x, cotangent, seed, None, op.inv_rms)

        def by_dy() -> Value:
            return parts["cotangent"]() if weight is None else parts["cotangent"]() * weight

        return {
            "dy": lambda: narrow(ops, by_dy(), op.x.dtype),
            "x": lambda: narrow(ops, parts["x"](), op.x.dtype),
            "inv_rms": parts["inv"],
            "weight": lambda: narrow(
                ops, row_normalization.lead_sum(ops, parts["cotangent"]() * dy, op.inv_rms.rank), op.x.dtype
            ),
        }

    def sharded_decomposition(ops: Builder, op: Call) -> Value:
        dy = widen(ops, op.dy)
        cotangent = dy if op.weight is None else dy * widen(ops, op.weight)
        return narrow(
            ops, row_normalization.projected(ops, widen(ops, op.x), cotangent, None, op.inv_rms), op.x.dtype
        )

    def compute(op: Call) -> Stage:
        begin = op.inv_rms.rank

        def cotangent(*i: Expr) -> Expr:
            element: Expr = op.dy[i] if op.weight is None else op.dy[i] * op.weight[i[begin:]]
            return element

        return c.element_wise(
            op.x.shape, row_normalization.row_gradient(op.x, None, op.inv_rms, cotangent), op.x.dtype
        )

    def reference(dy: Any, x: Any, inv: Any, weight: Any) -> Any:
        cotangent = dy.astype(np.float64) * (1 if weight is None else weight.astype(np.float64))
        scale = row_normalization.as_rows(inv, x.ndim)
        axes = tuple(range(inv.ndim, x.ndim))
        return row_normalization.numpy_gradient(cotangent, x * scale, scale, axes, centred=False).astype(x.dtype)


@operator("rms_norm_param_grad(dy, x, inv_rms) -> weight_grad")
class RmsNormParamGrad:
    """The gradient of `rms_norm` with respect to weight: the sum of dy * x * inv_rms over rows."""

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "x", op.x, dtypes.FLOATS)
        expect_type(op, "dy", op.x)
        expect_rank(op, "inv_rms", op.inv_rms, 0, op.x.rank)
        expect_type(op, "inv_rms", statistics(op.x.shape[: op.inv_rms.rank], op.x))
        return TensorDesc(op.x.shape[op.inv_rms.rank :], op.x.dtype)

    def sbp(op: Call) -> Factors:
        names, begin = [f"d{i}" for i in range(op.x.rank)], op.inv_rms.rank
        x, row, weight = (" ".join(n) for n in (names, names[:begin], names[begin:]))
        factors = Factors(f"{x}, {x}, {row} -> {weight}").linear_in(op, "dy")
        return factors.linear_in(op, "x").linear_in(op, "inv_rms")

    def grad(ops: Builder, op: Call, dw: Value) -> dict[str, Any]:
        scale = _over_rows(ops, widen(ops, dw), op.x, range(op.inv_rms.rank))
        x, dy = widen(ops, op.x), widen(ops, op.dy)
        parts = row_normalization.param_gradient(ops, x, dy, None, op.inv_rms, None, scale)
        return row_normalization.narrowed(ops, parts, op.x.dtype, dy="dy", x="x", inv_rms="inv")

    def compute(op: Call) -> Stage:
        begin = op.inv_rms.rank

        def term(*position: Expr) -> Expr:
            own, lead = position[: op.x.rank - begin], position[op.x.rank - begin :]
            element: Expr = op.dy[(*lead, *own)] * op.x[(*lead, *own)] * op.inv_rms[lead]
            return element

        return c.sum_(op.x.shape[begin:], op.x.shape[:begin], term, op.x.dtype)

    def reference(dy: Any, x: Any, inv: Any) -> Any:
        product = dy.astype(np.float64) * x * row_normalization.as_rows(inv, x.ndim)
        return product.sum(axis=tuple(range(inv.ndim))).astype(x.dtype)
