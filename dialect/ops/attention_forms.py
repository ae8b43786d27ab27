"""Attention in OneFlow's forms: of several layouts, and with the interface of flash attention (arXiv 2205.14135)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops.attention_layouts import (
    INDEX,
    LAYOUTS,
    PACKED,
    Sizes,
    expect_layout,
    layout_factors,
    numpy_packed,
    numpy_sizes,
    numpy_unpacked,
    packed,
    sizes_of,
    unpacked,
)
from oneflow.dialect.ops.interpolation import iota
from oneflow.dialect.ops.random import RANDOM, numpy_mask
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.softmax import widen
from oneflow.dialect.philox import kept_scale
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import B, Factors, P, S, Sbp, SbpSignature
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import Shape, TensorDesc

MASKS = ("none", "causal_from_top_left", "causal_from_bottom_right")
#: The layouts of queries: none holds keys and values alone.
QUERIES = tuple(layout for layout in (*LAYOUTS, *PACKED) if "2" not in layout)
STARTS = ("query_seq_start", "key_seq_start")


def _attention_sizes(op: Call) -> dict[str, Sizes]:
    """The sizes of query, key and value."""
    if op.query_head_size < 1:
        raise op.error(f"expected query_head_size of at least 1, got {op.query_head_size}")
    query = sizes_of(op, "query", op.query_layout, head_size=op.query_head_size)
    key = sizes_of(op, "key", op.key_layout, head_size=query[3], heads=query[2])
    value = sizes_of(op, "value", op.value_layout, heads=query[2])
    if key[0] != query[0] or value[:2] != key[:2]:
        raise op.error(
            "expected query, key and value of one batch, and key and value of one length, got (batch, length, heads,"
            f" head size) of {query}, {key} and {value}"
        )
    for name, sizes in (("query", query), ("key", key)):
        if not _is_packed(op) and op[f"{name}_max_seq_len"] not in (0, sizes[1]):
            raise op.error(f"expected {name}_max_seq_len 0 or {sizes[1]}, got {op[f'{name}_max_seq_len']}")
    return {"query": query, "key": key, "value": value}


def _is_packed(op: Call) -> bool:
    """Whether sequences of several lengths follow each other in one axis."""
    return op.query_layout in PACKED


def _expect_layouts(op: Call) -> None:
    """Checks the layouts, of which all or none are packed, and where sequences begin, which packed ones state."""
    for name in ("query", "key", "value"):
        expect_layout(op, f"{name}_layout", QUERIES if name == "query" else PACKED if _is_packed(op) else LAYOUTS)
    expect_layout(op, "output_layout", ("(BM)(HK)",) if _is_packed(op) else ("BM(HK)", "MB(HK)"))
    for name in (*STARTS, "key_seq_len"):
        if op[name] is not None and not _is_packed(op):
            raise op.error(
                f"expected {name} only with the layouts {', '.join(PACKED)}, got {op.query_layout}; mask padding by"
                " attn_bias"
            )
    if not _is_packed(op):
        return
    if None in (op.query_seq_start, op.key_seq_start) or op.attn_bias is not None:
        given = [name for name in ("query_seq_start", "key_seq_start", "attn_bias") if op[name] is not None]
        raise op.error(
            f"expected query_seq_start and key_seq_start, and no attn_bias, with {op.query_layout}, got"
            f" {', '.join(given) or 'none'}"
        )
    expect_rank(op, "query_seq_start", op.query_seq_start, 1)
    count = op.query_seq_start.shape[0]
    if count is None or count < 2:
        raise op.error(f"expected a static size of query_seq_start of at least 2, got {op.query_seq_start}")
    for name, size in (*((n, count) for n in STARTS), ("key_seq_len", count - 1)):
        expect_type(op, name, TensorDesc((size,), dtypes.int32))


def _check_attention(op: Call) -> None:
    _expect_layouts(op)
    for name in ("query", "key", "value"):
        expect_dtype(op, name, op[name], dtypes.FLOATS if name == "query" else (op.query.dtype,))
    if op.attn_mask_type not in MASKS or op.causal_diagonal_offset < 0:
        raise op.error(
            f"expected attn_mask_type {', '.join(MASKS)} and causal_diagonal_offset of at least 0, got"
            f" {op.attn_mask_type!r} and {op.causal_diagonal_offset}"
        )
    sizes = _attention_sizes(op)
    if op.attn_bias is not None:
        _expect_bias(op, sizes)


def _expect_bias(op: Call, sizes: dict[str, Sizes]) -> None:
    """Checks the bias of scores, which may have more rows and columns than the scores."""
    batch, rows, heads, _ = sizes["query"]
    expect_dtype(op, "attn_bias", op.attn_bias, (op.query.dtype,))
    expect_rank(op, "attn_bias", op.attn_bias, 1, 4)
    if None in op.attn_bias.shape:
        raise op.error(f"expected static sizes of attn_bias, got {op.attn_bias}")
    shape = (*[1] * (4 - op.attn_bias.rank), *op.attn_bias.shape)
    fits = shape[0] in (1, batch) and shape[1] in (1, heads) and (shape[2] == 1 or shape[2] >= rows)
    if not fits or shape[3] < sizes["key"][1]:
        raise op.error(
            f"expected attn_bias that broadcasts to {[batch, heads, rows, sizes['key'][1]]}, got {op.attn_bias}"
        )


def _bias(ops: Builder, bias: Value, rows: int, columns: int) -> Value:
    """The part of a bias that belongs to scores."""
    for axis, size in ((bias.rank - 2, rows), (bias.rank - 1, columns)):
        if (axis >= 0 and bias.shape[axis] not in (1, size)) or (axis == bias.rank - 1 and bias.shape[axis] != size):
            bias = ops.narrow(bias, dim=axis, start=0, length=size)
    return bias


def triangle(
    ops: Builder, dtype: dtypes.DType, rows: int, columns: int, left: int | None, right: int | None
) -> Value:
    """A mask that is 0 on the diagonals from -left to right, all below or above for None, and else -inf."""
    zeros: Value = ops.constant(dtype=dtype, shape=[rows, columns], is_floating_value=True, floating_value=0.0)
    fill = {"floating_fill_value": -math.inf, "is_floating_fill_value": True}
    below = zeros if right is None else ops.tril(zeros, diagonal=right, **fill)
    return below if left is None else ops.triu(below, diagonal=-left, **fill)


def _diagonal(op: Call, rows: int, columns: int) -> int:
    """The last diagonal that a causal mask leaves."""
    from_right = columns - rows if op.attn_mask_type == MASKS[2] else 0
    return int(op.causal_diagonal_offset + from_right)


def _members(ops: Builder, begin: Value, end: Value, count: int) -> Value:
    """The mask of the positions of each sequence among `count` positions: (positions, sequences), bools."""
    at = ops.reshape(ops.arange(dtype=dtypes.int64, integer_delta=1, integer_limit=count), shape=[count, 1])
    low, high = (ops.expand_dims(x, axis=0) for x in (begin, end))
    inside: Value = ops.broadcast_logical_and(ops.broadcast_greater_equal(at, low), ops.broadcast_less(at, high))
    return inside


def _own_sequences(ops: Builder, op: Call, rows: int, columns: int) -> Value:
    """The mask of packed sequences: queries attend to keys of their own sequence, by `attn_mask_type`."""
    starts = [ops.cast(op[name], dtype=dtypes.int64) for name in STARTS]
    count = op.query_seq_start.shape[0] - 1
    begins, ends = ([ops.narrow(x, dim=0, start=i, length=count) for x in starts] for i in (0, 1))
    if op.key_seq_len is not None:
        ends[1] = begins[1] + ops.cast(op.key_seq_len, dtype=dtypes.int64)
    of_rows, of_columns = (
        _members(ops, begin, end, size) for begin, end, size in zip(begins, ends, (rows, columns), strict=True)
    )
    shared = ops.matmul(*(ops.cast(m, dtype=dtypes.float32) for m in (of_rows, of_columns)), transpose_b=True)
    visible = ops.cast(shared, dtype=dtypes.bool_)
    if op.attn_mask_type != "none":
        edges = ends if op.attn_mask_type == MASKS[2] else begins
        last = ops.expand_dims(edges[1] - edges[0], axis=0) + op.causal_diagonal_offset
        bound = ops.reduce_sum(ops.cast(of_rows, dtype=dtypes.int64) * last, axis=[1], keepdims=True)
        distance = iota(ops, (rows, columns), 1) - iota(ops, (rows, columns), 0)
        visible = ops.broadcast_logical_and(visible, ops.broadcast_less_equal(distance, bound))
    zeros = triangle(ops, op.query.dtype, rows, columns, None, None)
    mask: Value = ops.masked_fill(zeros, ops.logical_not(visible), has_float_operand=True, float_operand=-math.inf)
    return mask


def _write_attention(ops: Builder, op: Call) -> Value:
    sizes = _attention_sizes(op)
    parts = (unpacked(ops, op[n], op[f"{n}_layout"], s, INDEX[n]) for n, s in sizes.items())
    query, key, value = (ops.transpose(x, perm=[0, 2, 1, 3]) for x in parts)
    rows, columns = sizes["query"][1], sizes["key"][1]
    mask = None if op.attn_bias is None else _bias(ops, op.attn_bias, rows, columns)
    diagonal = None if op.attn_mask_type == "none" or _is_packed(op) else _diagonal(op, rows, columns)
    if _is_packed(op):
        mask = _own_sequences(ops, op, rows, columns)
    elif diagonal:
        causal = triangle(ops, op.query.dtype, rows, columns, None, diagonal)
        mask = causal if mask is None else mask + causal
    out = ops.call("attention", query, key, value, mask, scale=op.scale, causal=diagonal == 0)[0]
    return packed(ops, ops.transpose(out, perm=[0, 2, 1, 3]), op.output_layout)


def _numpy_own_sequences(sequences: Any, rows: int, columns: int, kind: str, offset: int) -> Any:
    """The mask of the keys that queries attend to, sequence by sequence."""
    starts, key_starts, lengths = sequences
    visible = np.zeros((rows, columns), np.bool_)
    for i in range(len(starts) - 1):
        own = slice(starts[i], starts[i + 1])
        end = key_starts[i + 1] if lengths is None else key_starts[i] + lengths[i]
        keys = slice(key_starts[i], end)
        own_rows, own_columns = visible[own, keys].shape
        block = np.ones((own_rows, own_columns), np.bool_)
        shift = own_columns - own_rows if kind == MASKS[2] else 0
        visible[own, keys] = block if kind == "none" else np.tril(block, offset + shift)
    return visible


def _numpy_attention(
    query: Any, key: Any, value: Any, bias: Any, *sequences: Any, query_head_size: Any, scale: Any,
    attn_mask_type: Any, causal_diagonal_offset: Any, output_layout: Any, **layouts: Any,
) -> Any:  # fmt: skip
    first = numpy_sizes(query, layouts["query_layout"], head_size=query_head_size)
    q, k = (
        numpy_unpacked(
            x, layouts[f"{n}_layout"], numpy_sizes(x, layouts[f"{n}_layout"], head_size=query_head_size), i
        )
        for i, (n, x) in enumerate((("query", query), ("key", key)))
    )
    layout = layouts["value_layout"]
    v = numpy_unpacked(value, layout, numpy_sizes(value, layout, heads=first[2]), 2)
    q, k, v = (x.astype(np.float64).swapaxes(1, 2) for x in (q, k, v))
    scores = q @ k.swapaxes(2, 3) * scale
    rows, columns = scores.shape[2:]
    if bias is not None:
        wide_bias = np.broadcast_to(bias, (1,) * (4 - bias.ndim) + bias.shape).astype(np.float64)
        scores = scores + wide_bias[:, :, : rows if wide_bias.shape[2] > 1 else 1, :columns]
    if sequences[0] is not None:
        visible = _numpy_own_sequences(sequences, rows, columns, attn_mask_type, causal_diagonal_offset)
        scores = np.where(visible, scores, -np.inf)
    elif attn_mask_type != "none":
        offset = causal_diagonal_offset + (columns - rows if attn_mask_type == MASKS[2] else 0)
        scores = np.where(np.tril(np.ones((rows, columns), np.bool_), offset), scores, -np.inf)
    most = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(most), 0, most))
    out = weights / np.maximum(weights.sum(-1, keepdims=True), 1.0) @ v
    return numpy_packed(out.swapaxes(1, 2), output_layout).astype(query.dtype)


def _attention_factors(op: Call) -> Factors:
    """The batch, whole heads, and without a causal mask the rows of the query can be split."""
    sizes = _attention_sizes(op)
    _, rows, heads, _ = sizes["query"]
    shape: Shape = () if op.attn_bias is None else op.attn_bias.shape
    free = op.attn_mask_type == "none" and (len(shape) < 2 or shape[-2] in (1, rows))
    positions = "m" if free else "_"
    names = [layout_factors(op.query_layout, heads, positions)]
    names += [layout_factors(op[f"{n}_layout"], heads) for n in ("key", "value")]
    if shape:
        of_heads = f"h*{heads}" if heads > 1 else "_"
        names.append(" ".join(["b", of_heads, positions, "_"][4 - len(shape) :]))
    names += ["_" for name in (*STARTS, "key_seq_len") if op[name] is not None]
    factors = Factors(f"{', '.join(names)} -> {layout_factors(op.output_layout, heads, positions)}")
    return factors.linear_in(op, "value")


composite(
    "fused_multi_head_attention_inference(query, key, value, attn_bias?, query_seq_start?, key_seq_start?,"
    " key_seq_len?, query_head_size: int64, query_max_seq_len: int64 = 0, key_max_seq_len: int64 = 0, scale: double,"
    " causal_diagonal_offset: int64 = 0, attn_mask_type: string = 'none', query_layout: string, key_layout: string,"
    " value_layout: string, output_layout: string) -> out",
    "`attention` of query, key and value in separate layouts. A causal mask leaves the diagonal, which is shifted"
    " by `causal_diagonal_offset`, and what is left of it, counted from the first or from the last position. Packed"
    " sequences begin at the positions `*_seq_start`, which end with the end of the last sequence, and attend to"
    " themselves.",
    write=_write_attention, reference=_numpy_attention, check=_check_attention, sbp=_attention_factors,
)  # fmt: skip

# Flash attention: (batch, length, heads, head size), dropout by a seed, and a window of positions

FLASH = (
    "p_dropout: float = 0.0, softmax_scale: float = 0.0, is_causal: bool = False, window_size_left: int32,"
    " window_size_right: int32"
)


def _check_flash(op: Call) -> None:
    expect_dtype(op, "query", op.query, dtypes.FLOATS)
    if op["alibi_slopes_"] is not None:
        raise op.error("expected no alibi_slopes_: write the slopes as the mask of `attention`")
    for name in ("query", "key", "value"):
        expect_rank(op, name, op[name], 4)
        if None in op[name].shape:
            raise op.error(f"expected static sizes of {name}, got {op[name]}")
    batch, rows, heads, size = op.query.shape
    _, columns, groups, _ = op.key.shape
    if not groups or heads % groups:
        raise op.error(f"expected a number of heads of key that divides {heads}, got {groups}")
    keys = TensorDesc((batch, columns, groups, size), op.query.dtype)
    like = TensorDesc((batch, rows, heads, size), op.query.dtype)
    saved = TensorDesc((batch, heads, rows), op.query.dtype.accumulator)
    types = {
        "key": keys, "value": keys, "grad_out": like, "out": like, "softmax_lse": saved,
        "rng_state": TensorDesc((2,), dtypes.uint64),
    }  # fmt: skip
    for name, wanted in types.items():
        if name in op.inputs:
            expect_type(op, name, wanted)
    if not 0 <= op.p_dropout < 1:
        raise op.error(f"expected p_dropout of 0 to less than 1, got {op.p_dropout}")


def _window(op: Call) -> tuple[int | None, int | None]:
    """The number of positions before and after its own, counted from the last positions, that a query attends to;
    None for all.
    """
    columns = op.key.shape[1]
    left, right = (
        None if size < 0 or size >= columns else size for size in (op.window_size_left, op.window_size_right)
    )
    return left, 0 if op.is_causal and op.query.shape[1] > 1 else right


def _visible(ops: Builder, op: Call) -> dict[str, Any]:
    """The mask of `attention` that leaves the window, and whether it is causal."""
    (left, right), rows, columns = _window(op), op.query.shape[1], op.key.shape[1]
    if (left, right) == (None, None):
        return {"mask": None, "causal": False}
    if (left, right) == (None, 0) and rows == columns:
        return {"mask": None, "causal": True}
    shift = columns - rows
    first, last = None if left is None else left - shift, None if right is None else right + shift
    return {"mask": triangle(ops, op.query.dtype, rows, columns, first, last), "causal": False}


def _with_heads_first(ops: Builder, x: Value) -> Value:
    """(batch, length, heads, ..) as (batch, heads, length, ..), and back."""
    moved: Value = ops.transpose(x, perm=[0, 2, 1, 3])
    return moved


def _write_flash(ops: Builder, op: Call) -> tuple[Value, ...]:
    visible = _visible(ops, op)
    parts = (_with_heads_first(ops, x) for x in (op.query, op.key, op.value))
    attrs = {"scale": op.softmax_scale, "causal": visible["causal"], "rate": op.p_dropout, "seed": op.seed}
    out, saved = ops.call("attention", *parts, visible["mask"], **attrs)
    seed = ops.constant(dtype=dtypes.int64, shape=[1], is_floating_value=False, integer_value=op.seed)
    state = ops.cast(ops.pad(seed, padding_before=[0], padding_after=[1]), dtype=dtypes.uint64)
    return _with_heads_first(ops, out), saved, state


def _numpy_mask(op: Any, rows: int, columns: int) -> Any:
    """The mask of the keys that queries attend to, in NumPy."""
    left, right = (None if w < 0 or w >= columns else w for w in (op["window_size_left"], op["window_size_right"]))
    right = 0 if op["is_causal"] and rows > 1 else right
    distance = np.arange(columns) - (np.arange(rows)[:, None] + columns - rows)
    visible = np.full((rows, columns), True)
    visible = visible if left is None else visible & (distance >= -left)
    return visible if right is None else visible & (distance <= right)


def _numpy_weights(query: Any, key: Any, attrs: Any) -> tuple[Any, Any]:
    """The weights before dropout, (batch, heads, rows, columns), and the logarithms of their divisors."""
    q, k = (x.astype(np.float64).swapaxes(1, 2) for x in (query, key))
    k = np.repeat(k, q.shape[1] // k.shape[1], 1)
    scores = q @ k.swapaxes(2, 3) * np.float32(attrs["softmax_scale"])
    scores = np.where(_numpy_mask(attrs, *scores.shape[2:]), scores, -np.inf)
    most = scores.max(-1, keepdims=True, initial=-np.inf)
    base = np.where(np.isneginf(most), 0, most)
    total = np.exp(scores - base).sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.exp(scores - base) / np.maximum(total, 1.0), (base + np.log(total))[..., 0]


def _numpy_flash(query: Any, key: Any, value: Any, _: Any, *, p_dropout: Any, seed: Any, **attrs: Any) -> Any:
    weights, saved = _numpy_weights(query, key, attrs)
    kept = numpy_mask(weights.shape, p_dropout, seed, (), ()) * np.float64(np.float32(kept_scale(p_dropout)))
    v = np.repeat(value.astype(np.float64).swapaxes(1, 2), weights.shape[1] // value.shape[2], 1)
    out = ((weights * kept) @ v).swapaxes(1, 2)
    row = np.float64 if query.dtype.itemsize == 8 else np.float32
    return out.astype(query.dtype), saved.astype(row), np.array([seed, 0], np.int64).astype(np.uint64)


def _layouts(op: Call, split: Mapping[str, Sbp], *results: Sbp, multiple: int = 0) -> SbpSignature:
    """A signature with some operands split, the others broadcast."""
    names = [n for n, x in op.inputs.items() if x is not None]
    return SbpSignature(tuple(split.get(n, B) for n in names), results, multiple)


#: Operands that have the rows of the query, with the axes of heads and of rows.
ROWS = {"query": (2, 1), "grad_out": (2, 1), "out": (2, 1), "softmax_lse": (1, 2)}


def _by_batch_and_heads(op: Call, batch: Sequence[Sbp], heads: Sequence[Sbp]) -> list[SbpSignature]:
    """The splits of the batch and of whole heads, which keys follow unless the keys have a single head."""
    heads_of_keys, groups = op.key.shape[2], op.key.shape[2]
    keys = B if heads_of_keys == 1 else S(2)
    whole = 0 if groups in (1, op.query.shape[2]) else groups
    rows = {name: S(axis) for name, (axis, _) in ROWS.items()}
    everything = dict.fromkeys(("key", "value", *ROWS), S(0))
    by_heads = _layouts(op, {**rows, "key": keys, "value": keys}, *heads, multiple=whole)
    return [_layouts(op, everything, *batch), by_heads]


def _flash_layouts(op: Call) -> list[SbpSignature]:
    """The layouts of `attention`; with dropout the operator's own layouts are used, which determine the random
    numbers of a shard.
    """
    if op.p_dropout:
        return []
    free = _window(op) == (None, None)
    by_rows = _layouts(op, {"query": S(1)}, S(1), S(2), B)
    return [
        *_by_batch_and_heads(op, (S(0), S(0), B), (S(2), S(1), B)),
        *[by_rows] * free, _layouts(op, {"value": P}, P, B, B),
    ]  # fmt: skip


composite(
    f"scaled_dot_product_flash_attention(query, key, value, alibi_slopes_?, {FLASH}, seed: int64 = 0)"
    " -> out, softmax_lse, rng_state",
    "`attention` of (batch, length, heads, head size), with the logarithms of sums of weights and the seed."
    " A query sees `window_size_left` positions before its own and `window_size_right` after, -1 for all; causal,"
    " none after. The last query and the last key have one position.",
    write=_write_flash, reference=_numpy_flash, check=_check_flash, sbp=_flash_layouts, traits=RANDOM,
)  # fmt: skip


def _write_flash_grad(ops: Builder, op: Call) -> tuple[Value, ...]:
    visible = _visible(ops, op)
    share = (op.query.shape[2] or 0) // (op.key.shape[2] or 1)
    keys = (_repeated(ops, x, share) for x in (op.key, op.value))
    dy, query, key, value = (_with_heads_first(ops, x) for x in (op.grad_out, op.query, *keys))
    delta = ops.reduce_sum(widen(ops, op.grad_out) * widen(ops, op.out), axis=[3])
    state = ops.cast(ops.narrow(op.rng_state, dim=0, start=0, length=1), dtype=dtypes.int64)
    attrs = {"scale": op.softmax_scale, "causal": visible["causal"], "rate": op.p_dropout}
    saved = (visible["mask"], state if op.p_dropout else None, op.softmax_lse, ops.transpose(delta, perm=[0, 2, 1]))
    found = ops.call("attention_grad", dy, query, key, value, *saved, **attrs)
    return tuple(_with_heads_first(ops, x) for x in found)


def _repeated(ops: Builder, x: Value, share: int) -> Value:
    """Each head `share` times."""
    if share == 1:
        return x
    batch, length, heads, size = (d or 0 for d in x.shape)
    copies = ops.cat([ops.expand_dims(x, axis=3)] * share, axis=3)
    repeated: Value = ops.reshape(copies, shape=[batch, length, heads * share, size])
    return repeated


def _numpy_flash_grad(
    dy: Any, query: Any, key: Any, value: Any, out: Any, saved: Any, state: Any, _: Any, *,
    p_dropout: Any, **attrs: Any,
) -> Any:  # fmt: skip
    g, q, o = (x.astype(np.float64).swapaxes(1, 2) for x in (dy, query, out))
    share = q.shape[1] // key.shape[2]
    k, v = (np.repeat(x.astype(np.float64).swapaxes(1, 2), share, 1) for x in (key, value))
    scale = np.float64(np.float32(attrs["softmax_scale"]))
    visible = _numpy_mask(attrs, q.shape[2], k.shape[2])
    level = np.where(np.isneginf(saved), 0, saved)[..., None]
    weights = np.where(visible, np.exp(q @ k.swapaxes(2, 3) * scale - level), 0)
    drawn = numpy_mask(weights.shape, p_dropout, int(state.astype(np.int64)[0]), (), ())
    kept = drawn * np.float64(np.float32(kept_scale(p_dropout)))
    score_grad = weights * (g @ v.swapaxes(2, 3) * kept - (g * o).sum(-1, keepdims=True)) * scale
    found = (score_grad @ k, score_grad.swapaxes(2, 3) @ q, (weights * kept).swapaxes(2, 3) @ g)
    return tuple(x.swapaxes(1, 2).astype(query.dtype) for x in found)


def _flash_grad_layouts(op: Call) -> list[SbpSignature]:
    """The layouts of `attention_grad`; with dropout its own are used."""
    if op.p_dropout:
        return []
    rows = {name: S(axis) for name, (_, axis) in ROWS.items()}
    by_length = [_layouts(op, rows, S(1), P, P), _layouts(op, {"key": S(1), "value": S(1)}, P, S(1), S(1))]
    return [
        *_by_batch_and_heads(op, (S(0),) * 3, (S(2),) * 3), _layouts(op, {"grad_out": P}, P, P, P),
        _layouts(op, {"value": P, "out": P}, P, P, B), *by_length * (_window(op) == (None, None)),
    ]  # fmt: skip


composite(
    f"scaled_dot_product_flash_attention_grad(grad_out, query, key, value, out, softmax_lse, rng_state,"
    f" alibi_slopes_?, {FLASH}) -> grad_q, grad_k, grad_v",
    "The gradients of `scaled_dot_product_flash_attention`; keys and values have a gradient for each head of the"
    " query, also where heads share keys.",
    write=_write_flash_grad, reference=_numpy_flash_grad, check=_check_flash, sbp=_flash_grad_layouts, traits=RANDOM,
    unoffered="layouts of rng_state, which is not read without dropout",
)  # fmt: skip
