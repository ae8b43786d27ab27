"""Attention: softmax(query @ key^T) @ value as one operator, so that a device need not store the weights.

The dropout mask is the result of `random_mask_like`, so that the decomposition drops the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.decomposition_gradient import decomposition_gradient
from oneflow.dialect.elementwise import sum_to
from oneflow.dialect.ops.random import (
    LOGICAL,
    RANDOM,
    expect_offset,
    expect_rate,
    numpy_mask,
    seed_of,
)
from oneflow.dialect.ops.reduce import row_max
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.philox import kept_scale
from oneflow.dialect.record import Call, operator
from oneflow.dialect.sbp import B, P, S, Sbp, SbpSignature, Shard
from oneflow.dialect.shapes import broadcast_shapes, expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc


def _expect_heads(op: Call) -> None:
    """Checks that query, key and value fit together; see `Attention`."""
    expect_dtype(op, "query", op.query, dtypes.FLOATS)
    for name in ("query", "key", "value"):
        expect_rank(op, name, op[name], 4)
        expect_dtype(op, name, op[name], (op.query.dtype,))
    (batch, heads, _, width), (_, groups, size, _) = op.query.shape, op.key.shape
    expect_dim(op, "the batch of key", op.key.shape[0], batch)
    expect_dim(op, "the width of key", op.key.shape[3], width)
    for axis, (name, wanted) in enumerate((("batch", batch), ("heads", groups), ("length", size))):
        expect_dim(op, f"the {name} of value", op.value.shape[axis], wanted)
    if None in (heads, groups) or (heads != groups and (not groups or heads % groups)):
        raise op.error(
            f"expected static numbers of heads, query's a multiple of key's, got {heads} of query and {groups} of key"
        )


#: Operands that have the rows of the query.
ROWS = ("dy", "query", "logsumexp", "delta")
#: Attributes of both operators.
FLAGS = f"scale: double = 1.0, causal: bool = False, rate: float = 0.0, seed: int64 = 0, {LOGICAL}"


def _expect_mask(op: Call) -> None:
    """Checks the mask, the dropout rate and the offset of the seed."""
    expect_rate(op, 4)
    expect_offset(op)
    if op.mask is None:
        return
    expect_dtype(op, "mask", op.mask, (op.query.dtype, op.query.dtype.accumulator))
    scores = (*op.query.shape[:3], op.key.shape[2])
    common = broadcast_shapes(op, [scores, op.mask.shape])
    if not TensorDesc(common, op.mask.dtype).compatible(TensorDesc(scores, op.mask.dtype)):
        raise op.error(f"expected a mask that broadcasts to {list(scores)}, got {op.mask}")


def _statistics(op: Call) -> TensorDesc:
    return TensorDesc(op.query.shape[:3], op.query.dtype.accumulator)


def _signature(op: Call, layouts: Mapping[str, Sbp], results: Sequence[Sbp], multiple: int = 0) -> SbpSignature:
    """The signature with `layouts` of operands by name; other operands are broadcast."""
    names = (n for n, x in op.inputs.items() if x is not None)
    return SbpSignature(tuple(layouts.get(n, B) for n in names), tuple(results), multiple)


def _split(op: Call, axis: int, keys: Sbp) -> dict[str, Sbp]:
    """The layouts of operands where the scores are split along `axis`, one of the first three, and keys as `keys`."""
    mask = {} if op.mask is None else {"mask": _along_mask(op, axis)}
    return {**dict.fromkeys(ROWS, S(axis)), "key": keys, "value": keys, **mask}


def _of_heads(op: Call) -> tuple[Sbp, int]:
    """The layout of keys where heads are split, and the `multiple`; a single group is broadcast."""
    heads, groups = op.query.shape[1], op.key.shape[1]
    return (B if groups == 1 else S(1)), (0 if groups in (1, heads) else groups)


def _along_mask(op: Call, axis: int) -> Sbp:
    """The layout of the mask where the scores are split along `axis`."""
    own = axis - 4 + op.mask.rank
    return S(own) if own >= 0 and op.mask.shape[own] != 1 else B


def _expect_static(op: Call) -> None:
    """Refuses to decompose a call whose heads share keys of dynamic sizes: no reshape states such sizes."""
    dynamic = [n for n in ("query", "key", "value") if None in op[n].shape]
    if op.query.shape[1] != op.key.shape[1] and dynamic:
        raise op.error(f"expected static sizes where heads share keys, got {dynamic[0]} of {op[dynamic[0]].desc}")


def _grouped(ops: Builder, x: Value, like: Value) -> Value:
    """(batch, heads, rows, n) as (batch, groups, heads / groups * rows, n), `groups` being the heads of `like`."""
    if x.shape[1] == like.shape[1]:
        return x
    batch, heads, rows, n = x.shape
    groups = like.shape[1]
    assert heads is not None and groups is not None and rows is not None, (
        "_expect_static refuses sizes that are not static"
    )
    value: Value = ops.reshape(x, shape=[batch, groups, heads // groups * rows, n])
    return value


def _like(ops: Builder, x: Value, shape: Any) -> Value:
    return x if x.shape == tuple(shape) else ops.reshape(x, shape=list(shape))


def _product(ops: Builder, a: Value, b: Value, name: str = "batch_matmul") -> Value:
    """The product of `a`'s heads with the heads of `b` that they share, in the shape (batch, heads, ..)."""
    (product,) = ops.call(name, _grouped(ops, a, b), b)
    return _like(ops, product, (*a.shape[:3], product.shape[3]))


def _scores(ops: Builder, op: Call) -> Value:
    """The operand of the softmax, in the accumulator's type."""
    scores: Value = _product(ops, op.query, op.key, "row_products") * op.scale
    if op.mask is not None:
        scores = ops.broadcast_add(scores, widen(ops, op.mask))
    if op.causal:
        scores = ops.tril(scores, diagonal=0, floating_fill_value=-math.inf, is_floating_fill_value=True)
    return scores


def _row(ops: Builder, x: Value) -> Value:
    value: Value = ops.expand_dims(x, axis=3)
    return value


def _base(ops: Builder, op: Call, x: Value) -> Value:
    """The maximum that is subtracted from scores: the least finite number for rows whose keys are all masked.

    The weights of such rows are 0; -inf - -inf would be NaN.
    """
    if op.mask is None:
        return x
    kind = np.float64 if x.dtype == dtypes.float64 else np.float32
    value: Value = ops.clip_by_scalar_min(x, floating_min=float(np.finfo(kind).min))
    return value


def _numpy_scores(query: Any, key: Any, mask: Any, scale: float, causal: bool) -> Any:
    """The scores in f64."""
    repeated_key = np.repeat(key.astype(np.float64), query.shape[1] // max(key.shape[1], 1), axis=1)
    scores = query.astype(np.float64) @ repeated_key.swapaxes(2, 3) * scale
    scores = scores if mask is None else scores + mask.astype(np.float64)
    return np.where(np.tri(*scores.shape[2:], dtype=np.bool_), scores, -np.inf) if causal else scores


def _numpy_base(x: Any) -> Any:
    """0 in place of -inf."""
    return np.where(np.isneginf(x), 0.0, x)


def _shard_region(op: Call, shard: Shard) -> dict[str, Any]:
    """The region of one device's weights among all weights, which determines the dropout mask."""
    if not op.rate:
        return {}
    first, key = 0, [n for n, x in op.inputs.items() if x is not None].index("key")
    rows, local = ((*(x[first].shape or ())[:3], (x[key].shape or ())[2]) for x in (op.operands, shard.inputs))
    begins = (*[shard.begins[first]] * 3, shard.begins[key])
    moved = [
        b + begin * (n != d) for b, begin, n, d in zip(op.logical_begin or [0] * 4, begins, local, rows, strict=True)
    ]
    return {"logical_shape": op.logical_shape or rows, "logical_begin": moved}


def _dropped(ops: Builder, op: Call, weights: Value) -> Value:
    """`weights`, or values multiplied by the weights, with zeros at dropped positions."""
    if not op.rate:
        return weights
    where = {"logical_shape": op.logical_shape, "logical_begin": op.logical_begin}
    kept = ops.random_mask_like(weights, op.offset, rate=op.rate, seed=op.seed, **where)
    value: Value = ops.dropout_grad(weights, kept, scale=kept_scale(op.rate))
    return value


def _numpy_kept(weights: Any, offset: Any, rate: float, seed: int, logical_shape: Any, logical_begin: Any) -> Any:
    """The dropout factors of the weights."""
    if not rate:
        return 1.0
    kept = numpy_mask(weights.shape, rate, seed_of(seed, offset), logical_shape, logical_begin)
    return kept * np.float64(np.float32(kept_scale(rate)))


@operator(f"attention(query, key, value, mask?, offset?, {FLAGS}) -> out, logsumexp")
class Attention:
    """softmax(query @ key^T * scale + mask) @ value, and log(sum(exp(..))) of each row of the scores.

    A row whose scores are all -inf has weights of 0.

    query is (batch, heads, length, width), key (batch, groups, size, width), value (batch, groups, size, n); heads
    that follow each other share a group. The mask, of the query's type or the type of sums, is added to the scores;
    with `causal` position i attends to no later position. Weights are 0 with the probability `rate`, the others over
    1 - rate, as `random_mask_like` draws for a tensor (batch, heads, length, size).
    """

    local = _shard_region
    traits = RANDOM

    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        _expect_heads(op)
        _expect_mask(op)
        return TensorDesc((*op.query.shape[:3], op.value.shape[3]), op.query.dtype), _statistics(op)

    def sbp(op: Call) -> list[SbpSignature]:
        keys, groups = _of_heads(op)
        rows = [] if op.causal else [_signature(op, _split(op, 2, B), (S(2), S(2)))]
        return [
            _signature(op, _split(op, 0, S(0)), (S(0), S(0))),
            _signature(op, _split(op, 1, keys), (S(1), S(1)), groups),
            *(_signature(op, {"value": columns}, (columns, B)) for columns in (S(3), P)),
            *rows,
        ]

    def grad(ops: Builder, op: Call, dy: Value | None, dlogsumexp: Value | None) -> dict[str, Any]:
        dy = ops.zero_like(op.out) if dy is None else dy
        delta = ops.reduce_sum(widen(ops, dy) * widen(ops, op.out), axis=[3], keepdims=False)
        delta = delta if dlogsumexp is None else delta - dlogsumexp

        def by(which: int) -> Value:
            operands = (dy, op.query, op.key, op.value, op.mask, op.offset, op.logsumexp, delta)
            value: Value = ops.attention_grad(*operands, **op.attrs)[which]
            return value

        def by_mask() -> Value:
            _, score_grad = _score_gradient(ops, op, dy, delta)
            return sum_to(ops, narrow(ops, score_grad, op.mask.dtype), op.mask)

        return {"query": lambda: by(0), "key": lambda: by(1), "value": lambda: by(2), "mask": by_mask}

    def decompose(ops: Builder, op: Call) -> tuple[Value, Value]:
        _expect_static(op)
        scores = _scores(ops, op)
        most = _base(ops, op, row_max(ops, scores))
        e = ops.exp(scores - most)
        total = ops.reduce_sum(e, axis=[3], keepdims=True)
        # The largest weight adds 1 to its row's total: a total below 1 belongs to a row without keys.
        divisor = total if op.mask is None else ops.clip_by_scalar_min(total, floating_min=1.0)
        weights = _dropped(ops, op, narrow(ops, e / divisor, op.query.dtype))
        logsumexp = ops.squeeze(most + ops.log(total), axes=[3])
        return _product(ops, weights, op.value), logsumexp

    def reference(query: Any, key: Any, value: Any, mask: Any, offset: Any, *, scale: float, causal: bool,
                  **dropped: Any) -> Any:  # fmt: skip
        scores = _numpy_scores(query, key, mask, scale, causal)
        most = _numpy_base(scores.max(-1, keepdims=True, initial=-np.inf))
        e = np.exp(scores - most)
        total = e.sum(-1, keepdims=True)
        repeated_value = np.repeat(value.astype(np.float64), query.shape[1] // max(value.shape[1], 1), axis=1)
        row = np.float64 if query.dtype.itemsize == 8 else np.float32
        weights = e / np.maximum(total, 1.0)
        weights = weights * _numpy_kept(weights, offset, **dropped)
        with np.errstate(divide="ignore"):
            logsumexp = most + np.log(total)
        return (weights @ repeated_value).astype(query.dtype), logsumexp[..., 0].astype(row)


def _score_gradient(ops: Builder, op: Call, dy: Value, delta: Value) -> tuple[Value, Value]:
    """The weights, before any is dropped, and the gradient with respect to the scores, in the type of sums."""
    weights = ops.exp(_scores(ops, op) - _row(ops, _base(ops, op, op.logsumexp)))
    direct = _product(ops, dy, op.value, "row_products")
    return weights, weights * (_dropped(ops, op, direct) - _row(ops, delta))


def _lengths(op: Call) -> list[SbpSignature]:
    """The splits of queries and of keys, for which the other gradients are partial sums."""
    mask = {} if op.mask is None else {"mask": _along_mask(op, 3)}
    by_keys = _signature(op, {"key": S(2), "value": S(2), **mask}, (P, S(2), S(2)))
    return [_signature(op, _split(op, 2, B), (S(2), P, P)), by_keys]


@operator(f"attention_grad(dy, query, key, value, mask?, offset?, logsumexp, delta, {FLAGS}) -> dquery, dkey, dvalue")
class AttentionGrad:
    """The gradients of `attention` with respect to query, key and value; `delta` is sum(dy * out) of each row."""

    local = _shard_region
    traits = RANDOM

    def types(op: Call) -> tuple[TensorDesc, TensorDesc, TensorDesc]:
        _expect_heads(op)
        _expect_mask(op)
        out = TensorDesc((*op.query.shape[:3], op.value.shape[3]), op.query.dtype)
        for name, wanted in (("dy", out), ("logsumexp", _statistics(op)), ("delta", _statistics(op))):
            if not op[name].compatible(wanted):
                raise op.error(f"expected {name} of type {wanted}, got {op[name]}")
        return op.query, op.key, op.value

    def sbp(op: Call) -> list[SbpSignature]:
        keys, groups = _of_heads(op)
        signatures = [
            _signature(op, _split(op, 0, S(0)), [S(0)] * 3),
            _signature(op, _split(op, 1, keys), (S(1), *[P if keys == B else keys] * 2), groups),
            _signature(op, {"dy": S(3), "value": S(3), "delta": P}, (P, P, S(3))),
            _signature(op, {"dy": P, "delta": P}, (P, P, P)),
            _signature(op, {"value": P, "delta": P}, (P, P, B)),
        ]
        return signatures if op.causal else [*signatures, *_lengths(op)]

    grad = decomposition_gradient

    def decompose(ops: Builder, op: Call) -> tuple[Value, Value, Value]:
        _expect_static(op)
        weights, score_grad = _score_gradient(ops, op, op.dy, op.delta)
        p = _grouped(ops, _dropped(ops, op, narrow(ops, weights, op.query.dtype)), op.key)
        ds = narrow(ops, score_grad * op.scale, op.query.dtype)
        dquery = _product(ops, ds, op.key)
        dkey = ops.batch_matmul(_grouped(ops, ds, op.key), _grouped(ops, op.query, op.key), transpose_a=True)
        dvalue = ops.batch_matmul(p, _grouped(ops, op.dy, op.key), transpose_a=True)
        return dquery, dkey, dvalue

    def reference(dy: Any, query: Any, key: Any, value: Any, mask: Any, offset: Any, logsumexp: Any, delta: Any, *,
                  scale: float, causal: bool, **dropped: Any) -> Any:  # fmt: skip
        share = query.shape[1] // max(key.shape[1], 1)
        g, q = dy.astype(np.float64), query.astype(np.float64)
        k, v = (np.repeat(x.astype(np.float64), share, axis=1) for x in (key, value))
        p = np.exp(_numpy_scores(query, key, mask, scale, causal) - _numpy_base(logsumexp[..., None]))
        kept = _numpy_kept(p, offset, **dropped)
        ds = p * (g @ v.swapaxes(2, 3) * kept - delta[..., None]) * scale

        def shared(x: Any) -> Any:
            return x.reshape(*key.shape[:2], share, *x.shape[2:]).sum(2).astype(query.dtype)

        dk, dv = ds.swapaxes(2, 3) @ q, (p * kept).swapaxes(2, 3) @ g
        return (ds @ k).astype(query.dtype), shared(dk), shared(dv)
