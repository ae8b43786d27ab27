"""Operators before attention: heads separated, and new keys joined to past keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composed_reference, composite, pulled_back
from oneflow.dialect.ops.attention_layouts import (
    INDEX,
    LAYOUTS,
    SINGLE,
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
from oneflow.dialect.ops.reduce import accumulator_type
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

# Queries, keys and values of heads after each other


def _check_states(op: Call) -> None:
    expect_dtype(op, "hidden_states", op.hidden_states, dtypes.FLOATS)
    _heads_of(op)


def _heads_of(op: Call) -> Sizes:
    """The sizes of hidden states, which are MB(H3K)."""
    size = op.attrs.get("head_size") or (op.value_grad.shape[3] if "value_grad" in op.inputs else 0)
    if not size or size < 0:
        raise op.error(f"expected a static head size of at least 1, got {size}")
    return sizes_of(op, "hidden_states", "MB(H3K)", head_size=size)


def _write_self_attention(ops: Builder, op: Call) -> tuple[Value, Value]:
    sizes = _heads_of(op)
    parts = (unpacked(ops, op.hidden_states, "MB(H3K)", sizes, i) for i in range(3))
    query, key, value = (ops.transpose(x, perm=[0, 2, 1, 3]) for x in parts)
    return ops.batch_matmul(query, key, transpose_b=True, alpha=op.alpha), value


def _numpy_self_attention(x: Any, *, head_size: Any, alpha: Any) -> Any:
    length, batch, _ = x.shape
    parts = x.reshape(length, batch, x.shape[2] // (3 * head_size), 3, head_size).transpose(3, 1, 2, 0, 4)
    query, key, value = parts.astype(accumulator_type(x))
    return (query @ key.swapaxes(2, 3) * np.asarray(alpha, accumulator_type(x))).astype(x.dtype), value.astype(
        x.dtype
    )


def _state_factors(op: Call) -> tuple[str, str]:
    """Factors of hidden states and of both results, in which the batch and whole heads can be split."""
    heads = _heads_of(op)[2]
    return layout_factors("MB(H3K)", heads), layout_factors("BHMK", heads)


def _self_attention_factors(op: Call) -> Factors:
    states, result = _state_factors(op)
    return Factors(f"{states} -> {result}, {result}")


composite(
    "fused_self_attention_query_mul_key_and_value(hidden_states, head_size: int64 = 0, alpha: float = 0.0)"
    " -> query_mul_key, value",
    "alpha * query @ transpose(key) and the value of each head, (batch, heads, length, ..), from hidden states"
    " (length, batch, heads * 3 * head_size).",
    write=_write_self_attention, reference=_numpy_self_attention, check=_check_states, sbp=_self_attention_factors,
)  # fmt: skip


def _check_states_grad(op: Call) -> None:
    expect_rank(op, "value_grad", op.value_grad, 4)
    _check_states(op)
    batch, length, heads, size = _heads_of(op)
    dtype = op.hidden_states.dtype
    expect_type(op, "value_grad", TensorDesc((batch, heads, length, size), dtype))
    expect_type(op, "query_mul_key_grad", TensorDesc((batch, heads, length, length), dtype))


def _write_states_grad(ops: Builder, op: Call) -> tuple[Value, ...]:
    called = Call(op.record, op.inputs, {**op.attrs, "head_size": op.value_grad.shape[3]})
    forward, seeds = "fused_self_attention_query_mul_key_and_value", ("query_mul_key_grad", "value_grad")
    return pulled_back(ops, called, forward, seeds, ("hidden_states",))


def _states_grad_factors(op: Call) -> Factors:
    states, result = _state_factors(op)
    factors = Factors(f"{result}, {result}, {states} -> {states}")
    factors = factors.linear_in(op, "query_mul_key_grad", "value_grad")
    return factors.linear_in(op, "value_grad", "hidden_states")


composite(
    "fused_self_attention_query_mul_key_and_value_grad(query_mul_key_grad, value_grad, hidden_states,"
    " alpha: float = 0.0) -> hidden_states_grad",
    "The gradient of `fused_self_attention_query_mul_key_and_value`.",
    write=_write_states_grad, check=_check_states_grad, sbp=_states_grad_factors,
    reference=composed_reference("fused_self_attention_query_mul_key_and_value_grad", _write_states_grad),
)  # fmt: skip


def _check_projections(op: Call) -> None:
    expect_dtype(op, "query", op.query, dtypes.FLOATS)
    for name in ("query", "key", "value"):
        expect_type(op, name, op.query)
        sizes_of(op, name, "BM(HK)", heads=max(op.num_attention_heads, 0))


def _write_projections(ops: Builder, op: Call) -> tuple[Value, ...]:
    heads = {name: sizes_of(op, name, "BM(HK)", heads=op.num_attention_heads) for name in op.inputs}
    return tuple(unpacked(ops, op[name], "BM(HK)", sizes) for name, sizes in heads.items())


composite(
    "fused_codegeex_qkv_reshape(query, key, value, num_attention_heads: int32 = 1)"
    " -> new_query, new_key, new_value",
    "The last axis of query, key and value as two: heads and the vectors of heads.",
    write=_write_projections, check=_check_projections,
    sbp=Factors("s b _, s b _, s b _ -> s b _ _, s b _ _, s b _ _", "joint"),
    reference=lambda *x, num_attention_heads: tuple(
        a.reshape(*a.shape[:2], num_attention_heads, a.shape[2] // num_attention_heads) for a in x
    ),
    unoffered="layouts that differ between query, key and value",
)  # fmt: skip

# Past keys and values


def _pair_sizes(op: Call) -> dict[str, Sizes]:
    """The sizes of keys and values, by the names of operands."""
    size = op.key_head_size
    if size < 1:
        raise op.error(f"expected key_head_size of at least 1, got {size}")
    found = {"key": sizes_of(op, "key", op.key_layout, head_size=size)}
    batch, length, heads, _ = found["key"]
    for name in ("value", "past_key", "past_value"):
        if op[name] is not None:
            found[name] = sizes_of(op, name, op[f"{name}_layout"], head_size=size, heads=heads)
    lengths = {n: s[1] for n, s in found.items()}
    if any(s[0] != batch for s in found.values()) or lengths["value"] != length:
        raise op.error(f"expected keys and values of one batch and length, got sizes {found}")
    if lengths.get("past_key") != lengths.get("past_value"):
        raise op.error(f"expected past keys and values of one length, got sizes {found}")
    return found


def _check_past(op: Call) -> None:
    for name in op.inputs:
        expect_layout(op, f"{name}_layout", SINGLE if name.startswith("past") else LAYOUTS)
        if op[name] is not None:
            expect_dtype(op, name, op[name], dtypes.FLOATS if name == "key" else (op.key.dtype,))
    if (op.past_key is None) != (op.past_value is None):
        raise op.error("expected both of past_key and past_value or none, got one")
    _pair_sizes(op)


def _write_past(ops: Builder, op: Call) -> tuple[Value, ...]:
    sizes, results = _pair_sizes(op), []
    for name in ("key", "value"):
        past, layout = op[f"past_{name}"], op[f"past_{name}_layout"]
        new = unpacked(ops, op[name], op[f"{name}_layout"], sizes[name], INDEX[name])
        if past is not None:
            new = ops.cat([unpacked(ops, past, layout, sizes[f"past_{name}"]), new], axis=1)
        results.append(packed(ops, new, layout))
    return tuple(results)


def _numpy_past(
    key: Any, value: Any, past_key: Any, past_value: Any, *, key_head_size: Any, **layouts: Any
) -> tuple[Any, ...]:
    results = []
    for name, new, past in (("key", key, past_key), ("value", value, past_value)):
        layout, target = layouts[f"{name}_layout"], layouts[f"past_{name}_layout"]
        x = numpy_unpacked(new, layout, numpy_sizes(new, layout, head_size=key_head_size), INDEX[name])
        if past is not None:
            x = np.concatenate(
                [numpy_unpacked(past, target, numpy_sizes(past, target, head_size=key_head_size)), x], 1
            )
        results.append(numpy_packed(x, target))
    return tuple(results)


def _past_factors(op: Call) -> Factors:
    heads = _pair_sizes(op)["key"][2]
    sides = [layout_factors(op[f"{name}_layout"], heads) for name in op.inputs if op[name] is not None]
    results = [layout_factors(op[f"past_{name}_layout"], heads) for name in ("key", "value")]
    return Factors(f"{', '.join(sides)} -> {', '.join(results)}", "joint")


composite(
    "fused_attention_concat_past_key_value(key, value, past_key?, past_value?, past_key_layout: string,"
    " past_value_layout: string, key_layout: string, value_layout: string, key_head_size: int64)"
    " -> output_key, output_value",
    "Past keys and values followed by new keys and values, in the layouts of the past.",
    write=_write_past, reference=_numpy_past, check=_check_past, sbp=_past_factors,
    unoffered="layouts that differ between keys and values",
)  # fmt: skip
