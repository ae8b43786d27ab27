"""Fused linear layers: several in sequence with activations and dropout, several in parallel, and the
gradients of these.

Masks of activations and of dropout are bits (`bit_masks`), as cuBLAS writes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops.bit_masks import numpy_packed, numpy_unpacked, packed_bits, unpacked_bits, words_of
from oneflow.dialect.ops.random import RANDOM, numpy_mask
from oneflow.dialect.ops.reduce import accumulator_type
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.philox import kept_scale
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import B, Factors, P, S, SbpSignature
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

# Layers after each other


def _check_layers(op: Call) -> None:
    """Checks that each weight has the columns of the previous layer's result."""
    expect_dtype(op, "x", op.x, dtypes.FLOATS)
    expect_rank(op, "x", op.x, 2)
    columns = op.x.shape[1]
    if not op.weights:
        raise op.error("expected at least one weight, got none")
    for index, weight in enumerate(op.weights):
        wanted = TensorDesc((None, columns), op.x.dtype)
        if not weight.compatible(wanted):
            raise op.error(f"expected weight {index} of type {wanted}, got {weight}")
        columns = weight.shape[0]
        if not columns or weight.shape[1] is None:
            raise op.error(f"expected static sizes of at least 1 in weight {index}, got {weight}")


def _check_biases(op: Call) -> None:
    if len(op.biases) != len(op.weights):
        raise op.error(f"expected a bias for each of {len(op.weights)} weights, got {len(op.biases)}")
    for index, (weight, bias) in enumerate(zip(op.weights, op.biases, strict=True)):
        wanted = TensorDesc(weight.shape[:1], weight.dtype)
        if not bias.compatible(wanted):
            raise op.error(f"expected bias {index} of type {wanted}, got {bias}")


def _check_forward(op: Call) -> None:
    _check_layers(op)
    _check_biases(op)
    rates = _rates(op.attrs, len(op.weights))
    if len(rates) != len(op.weights) or not all(0 <= rate <= 1 for rate in rates):
        raise op.error(f"expected dropout_rate_list of {len(op.weights)} rates of 0 to 1, got {rates}")


def _rates(attrs: Any, count: int) -> list[float]:
    """The rate of dropout of each layer."""
    return list(attrs.get("dropout_rate_list", [0.0] * count))


def _write_layers(ops: Builder, op: Call) -> tuple[Value, ...]:
    x, hidden, masks = op.x, [], []
    last = len(op.weights) - 1
    for i, rate in enumerate(_rates(op.attrs, last + 1)):
        x = ops.fused_matmul_bias(x, op.weights[i], op.biases[i])
        positive = ops.scalar_logical_greater(x, has_float_operand=True, float_operand=0.0)
        kept = [positive] * (i < last or not op.skip_final_activation)
        x = ops.relu(x) if kept else x
        if rate:
            kept.append(ops.random_mask_like(x, rate=rate, seed=op.seed + i))
            x = ops.dropout_grad(x, kept[-1], scale=kept_scale(rate))
        both = ops.broadcast_logical_and(*kept) if len(kept) == 2 else (kept or [positive])[0]
        bits = packed_bits(ops, both)
        masks.append(bits if kept else ops.zero_like(bits))
        hidden.append(x)
    return x, *masks, *hidden


def _numpy_layers(x: Any, weights: Any, biases: Any, *, skip_final_activation: Any, **attrs: Any) -> Any:
    hidden, masks = [x], []
    last = len(weights) - 1
    for i, rate in enumerate(_rates(attrs, last + 1)):
        w, b = weights[i], biases[i]
        y = (hidden[-1].astype(accumulator_type(x)) @ w.astype(accumulator_type(x)).T + b).astype(x.dtype)
        is_active = i < last or not skip_final_activation
        kept = y > 0 if is_active else np.full(y.shape, bool(rate))
        y = np.maximum(y, 0) if is_active else y
        if rate:
            drawn = numpy_mask(y.shape, rate, attrs["seed"] + i, (), ())
            y = np.where(
                drawn, y.astype(accumulator_type(x)) * np.asarray(kept_scale(rate), accumulator_type(x)), 0
            ).astype(x.dtype)
            kept = kept & drawn
        masks.append(numpy_packed(kept))
        hidden.append(y)
    return hidden[-1], *masks, *hidden[1:]


def _row_factors(op: Call) -> Factors:
    """Rows can be split, unless numbers are drawn by positions in the whole."""
    rows = "_ _" if any(_rates(op.attrs, len(op.weights))) else "n _"
    parameters = [*["_ _"] * len(op.weights), *["_"] * len(op.biases)]
    return Factors(f"{', '.join([rows, *parameters])} -> {', '.join([rows] * len(op.results))}")


LAYERS = "out, cublas_aux*, hidden*"
composite(
    f"cublas_fused_mlp(x, weights+, biases+, skip_final_activation: bool = False) -> {LAYERS}",
    "Linear layers with relu after each, after the last unless `skip_final_activation`; the masks of relu as bits, 0"
    " where there is none, and the results of all layers.",
    write=_write_layers, reference=_numpy_layers, check=_check_forward, sbp=_row_factors,
)  # fmt: skip
composite(
    "fused_matmul_bias_add_relu_dropout(x, weights+, biases+, skip_final_activation: bool = False, seed: int64 = 0,"
    f" dropout_rate_list: list_float) -> {LAYERS}",
    "`cublas_fused_mlp` with dropout after each layer, in the masks of relu too. Layer i draws by `seed` + i.",
    write=_write_layers, reference=_numpy_layers, check=_check_forward, sbp=_row_factors, traits=RANDOM,
)  # fmt: skip

# Gradients of layers


def _check_bits(op: Call, name: str, rows: Any, columns: int | None, index: int = -1) -> None:
    """Checks a mask of bits."""
    if columns is None:
        raise op.error(f"expected a static number of columns for the bits of {name}, got a dynamic number")
    mask = op[name] if index < 0 else op[name][index]
    wanted = TensorDesc((rows, words_of(columns)), dtypes.int32)
    if not mask.compatible(wanted) or mask.shape[1] is None:
        raise op.error(f"expected a static type {wanted} of {name}, got {mask}")


def _masked(ops: Builder, cotangent: Value, mask: Value, scale: float) -> Value:
    """The gradient of relu and dropout by bits, widened."""
    kept = unpacked_bits(ops, mask, cotangent.shape[1] or 0)
    scaled: Value = ops.dropout_grad(widen(ops, cotangent) * scale, kept, scale=1.0)
    return scaled


def _check_relu_dropout(op: Call) -> None:
    expect_dtype(op, "dy", op.dy, dtypes.FLOATS)
    expect_rank(op, "dy", op.dy, 2)
    _check_bits(op, "mask", *op.dy.shape)


composite(
    "fused_relu_dropout_grad(dy, mask, scale: float = 0.0) -> dx",
    "dy * scale where the bit of the mask is set, else 0: the gradient of relu and dropout.",
    write=lambda ops, op: narrow(ops, _masked(ops, op.dy, op.mask, op.scale), op.dy.dtype),
    reference=lambda dy, mask, *, scale: np.where(
        numpy_unpacked(mask, dy.shape[1]), dy.astype(np.float64) * np.float32(scale), 0
    ).astype(dy.dtype),
    check=_check_relu_dropout, sbp=lambda op: Factors("n _, n _ -> n _").linear_in(op, "dy"),
)  # fmt: skip


def _check_product(op: Call) -> None:
    for name in op.inputs:
        expect_dtype(op, name, op[name], dtypes.FLOATS if name == "dy" else (op.dy.dtype,))
        expect_rank(op, name, op[name], 2)


def _write_product(ops: Builder, op: Call) -> tuple[Value, ...]:
    total = ops.reduce_sum(widen(ops, op.dy), axis=[0])
    return ops.matmul(op.dy, op.x, transpose_a=True), narrow(ops, total, op.dy.dtype)


def _numpy_product(dy: Any, x: Any) -> Any:
    cotangent = dy.astype(accumulator_type(dy))
    return (cotangent.T @ x.astype(accumulator_type(x))).astype(dy.dtype), cotangent.sum(0).astype(dy.dtype)


composite(
    "cublas_matmul_bias_add_grad(dy, x) -> w_grad, b_grad",
    "transpose(dy) @ x and the sum of the rows of dy: the gradients of a linear layer with respect to weight and"
    " bias.",
    write=_write_product, reference=_numpy_product, check=_check_product,
    sbp=lambda op: Factors("n m, n k -> m k, m").linear_in(op, "dy", results=(0, 1)).linear_in(op, "x"),
)  # fmt: skip


def _check_layer(op: Call) -> None:
    expect_dtype(op, "dy", op.dy, dtypes.FLOATS)
    expect_rank(op, "dy", op.dy, 2)
    expect_type(op, "weight", TensorDesc((op.dy.shape[1], None), op.dy.dtype))
    _check_bits(op, "aux", op.dy.shape[0], op.weight.shape[1])


def _through_layer(ops: Builder, dy: Value, weight: Value, mask: Value, alpha: float) -> tuple[Value, Value]:
    """The gradients with respect to the sums that a masked layer before `weight` has, and its bias."""
    cotangent = _masked(ops, ops.matmul(dy, weight), mask, alpha)
    return narrow(ops, cotangent, dy.dtype), narrow(ops, ops.reduce_sum(cotangent, axis=[0]), dy.dtype)


def _numpy_through_layer(dy: Any, weight: Any, mask: Any, alpha: Any) -> Any:
    product = (
        (dy.astype(accumulator_type(dy)) @ weight.astype(accumulator_type(dy))).astype(dy.dtype).astype(np.float64)
    )
    cotangent = np.where(numpy_unpacked(mask, weight.shape[1]), product * alpha, 0)
    return cotangent.astype(dy.dtype), cotangent.sum(0).astype(dy.dtype)


def _layer_factors(op: Call) -> Factors:
    """Rows and the contracted axis can be split; the bits of a row stay together."""
    factors = Factors("n k, k _, n _ -> n _, _").summing(0, 1)
    return factors.linear_in(op, "dy", results=(0, 1)).linear_in(op, "weight", results=(0, 1))


composite(
    "cublas_bias_add_relu_matmul_grad(dy, weight, aux, alpha: double = 1.0) -> d_grad, d_bias",
    "alpha * dy @ weight where the bit of aux is set, else 0, and the sum of its rows: the gradients of a layer with"
    " relu whose result `weight` multiplies.",
    write=lambda ops, op: _through_layer(ops, op.dy, op.weight, op.aux, op.alpha),
    reference=lambda dy, weight, aux, *, alpha: _numpy_through_layer(dy, weight, aux, alpha),
    check=_check_layer, sbp=_layer_factors,
)  # fmt: skip


def _check_mlp_grad(op: Call) -> None:
    _check_layers(op)
    count, rows = len(op.weights), op.x.shape[0]
    if len(op.alpha_list) != count - 1:
        raise op.error(f"expected alpha_list of {count - 1} numbers for {count} weights, got {len(op.alpha_list)}")
    if len(op.cublas_aux) != count or len(op.hidden) != count:
        raise op.error(
            f"expected cublas_aux and hidden for each of {count} weights, got {len(op.cublas_aux)} and"
            f" {len(op.hidden)}"
        )
    expect_type(op, "dy", TensorDesc((rows, op.weights[-1].shape[0]), op.x.dtype))
    for i, weight in enumerate(op.weights):
        _check_bits(op, "cublas_aux", rows, weight.shape[0], i)
        wanted = TensorDesc((rows, weight.shape[0]), op.x.dtype)
        if not op.hidden[i].compatible(wanted):
            raise op.error(f"expected hidden {i} of type {wanted}, got {op.hidden[i]}")


def _write_mlp_grad(ops: Builder, op: Call) -> tuple[Value, ...]:
    cotangent, count = op.dy, len(op.weights)
    total = ops.reduce_sum(widen(ops, cotangent), axis=[0])
    biases, weights = [narrow(ops, total, op.x.dtype)], []
    for i in range(count - 1, 0, -1):
        weights.append(ops.matmul(cotangent, op.hidden[i - 1], transpose_a=True))
        cotangent, bias = _through_layer(ops, cotangent, op.weights[i], op.cublas_aux[i - 1], op.alpha_list[i - 1])
        biases.append(bias)
    weights.append(ops.matmul(cotangent, op.x, transpose_a=True))
    return ops.matmul(cotangent, op.weights[0]), *reversed(biases), *reversed(weights)


def _numpy_mlp_grad(dy: Any, x: Any, weights: Any, masks: Any, hidden: Any, *, alpha_list: Any) -> Any:
    cotangent, by_weights, biases = dy, [], [dy.astype(accumulator_type(dy)).sum(0).astype(dy.dtype)]
    for i in range(len(weights) - 1, 0, -1):
        by_weights.append(_numpy_product(cotangent, hidden[i - 1])[0])
        cotangent, bias = _numpy_through_layer(cotangent, weights[i], masks[i - 1], alpha_list[i - 1])
        biases.append(bias)
    by_weights.append(_numpy_product(cotangent, x)[0])
    dx = (cotangent.astype(accumulator_type(x)) @ weights[0].astype(accumulator_type(x))).astype(x.dtype)
    return dx, *reversed(biases), *reversed(by_weights)


def _mlp_grad_factors(op: Call) -> Factors:
    """Rows can be split, of which the gradients with respect to parameters are sums; partial sums of dy."""
    count = len(op.weights)
    operands = ["n _", "n _", *["_ _"] * count, *["n _"] * (2 * count)]
    results = ["n _", *["_"] * count, *["_ _"] * count]
    factors = Factors(f"{', '.join(operands)} -> {', '.join(results)}").summing(*range(1, len(results)))
    return factors.linear_in(op, "dy", results=range(len(results)))


composite(
    "cublas_fused_mlp_grad(dy, x, weights+, cublas_aux+, hidden+, alpha_list: list_float)"
    " -> d_x, d_biases*, d_weights*",
    "The gradients of layers after each other; dy is that by the sums of the last layer, before relu and dropout, and"
    " `alpha_list` has the scales of dropout of the others.",
    write=_write_mlp_grad, reference=_numpy_mlp_grad, check=_check_mlp_grad, sbp=_mlp_grad_factors,
    unoffered="layouts of x, hidden and the first weight, in which one result alone is linear, and of the masks and"
    " the result of the last layer, which are not read",
)  # fmt: skip

# Parallel layers


def _check_groups(op: Call) -> None:
    if len(op.weights) != len(op.xs) or len(op.biases) not in (0, len(op.xs)):
        raise op.error(
            f"expected a weight and a bias, or no biases, for each of {len(op.xs)} xs, got {len(op.weights)} and"
            f" {len(op.biases)}"
        )
    for i, (x, weight) in enumerate(zip(op.xs, op.weights, strict=True)):
        expect_dtype(op, f"x {i}", x, dtypes.FLOATS if i == 0 else (op.xs[0].dtype,))
        expect_rank(op, f"x {i}", x, 2, -1)
        wanted = TensorDesc((None, x.shape[-1]), x.dtype)
        if not weight.compatible(wanted):
            raise op.error(f"expected weight {i} of type {wanted}, got {weight}")
    _check_biases(op) if op.biases else None


def _write_groups(ops: Builder, op: Call) -> tuple[Value, ...]:
    pairs = list(zip(op.xs, op.weights, strict=True))
    if not op.biases:
        return tuple(ops.broadcast_matmul(x, w, transpose_b=True) for x, w in pairs)
    return tuple(ops.fused_matmul_bias(x, w, b) for (x, w), b in zip(pairs, op.biases, strict=True))


def _numpy_groups(xs: Any, weights: Any, biases: Any) -> Any:
    products = [
        x.astype(accumulator_type(x)) @ w.astype(accumulator_type(x)).T for x, w in zip(xs, weights, strict=True)
    ]
    return [(y + (biases[i] if biases else 0)).astype(xs[i].dtype) for i, y in enumerate(products)]


def _group_layouts(op: Call) -> list[SbpSignature]:
    """The layouts of one linear layer, for all layers: rows, columns, the contracted axis, and partial sums."""
    count, biases = len(op.xs), len(op.biases)

    def alike(x: Any, weight: Any, bias: Any, y: Any) -> SbpSignature:
        ranks = [x.rank for x in op.xs]
        sides = ([x(r) for r in ranks], [weight] * count, [bias] * biases)
        return SbpSignature(tuple(s for side in sides for s in side), tuple(y(r) for r in ranks))

    leading = range(min(x.rank for x in op.xs) - 1)
    rows = [alike(lambda r, i=i: S(i), B, B, lambda r, i=i: S(i)) for i in leading]
    last, partial, broadcast = (lambda r: S(r - 1)), (lambda r: P), (lambda r: B)
    return [
        *rows, alike(broadcast, S(0), S(0), last), alike(last, S(1), P, partial), alike(partial, B, P, partial),
        alike(broadcast, P, P, partial),
    ]  # fmt: skip


composite(
    "grouped_matmul_bias(xs+, weights+, biases*) -> ys+",
    "x @ transpose(weight) + bias of each x, its weight and its bias.",
    write=_write_groups, reference=_numpy_groups, check=_check_groups, sbp=_group_layouts,
    unoffered="layouts that differ between the products",
)  # fmt: skip
