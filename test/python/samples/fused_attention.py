"""Samples of attention in OneFlow's layouts, and of the operators before attention."""

from typing import Any

from oneflow.dialect.dtypes import float16, float32, int32, uint64
from oneflow.testing.sample import Bad, Sample, t, v

HALVES = (float32, float16)
FEWER: dict[str, Any] = {"second_order": False, "why": "as of its operators"}
SELF, FLASH = "fused_self_attention_query_mul_key_and_value", "scaled_dot_product_flash_attention"
PAST, ROTARY = "fused_attention_concat_past_key_value", "fused_apply_rotary_emb"
INFERENCE = "fused_multi_head_attention_inference"
PLAIN: dict[str, Any] = {f"{name}_layout": "BM(HK)" for name in ("query", "key", "value", "output")}
SEQUENCES: dict[str, Any] = {
    "query_layout": "(BM)(HK)",
    "key_layout": "(BM)HK",
    "value_layout": "(BM)(H2K)",
    "output_layout": "(BM)(HK)",
    "query_head_size": 2,
    "scale": 0.5,
}
WINDOW: dict[str, Any] = {"softmax_scale": 0.5, "window_size_left": -1, "window_size_right": -1}
NEAR: dict[str, Any] = {**WINDOW, "is_causal": True, "window_size_left": 1}
HEADS: dict[str, Any] = {"x_layout": "BMHK", "output_layout": "BMHK"}
IDS = v([[[0, 2, 1]], [[1, 1, 0]]], int32)
STATE = v([5, 0], uint64)


def layouts(past, key, value):
    """The layouts of keys and values, past and new."""
    return {"past_key_layout": past, "past_value_layout": past, "key_layout": key, "value_layout": value}


SAMPLES = [
    Sample(SELF, [t(2, 3, 12)], {"head_size": 2, "alpha": 0.5}, dtypes=HALVES, **FEWER),
    Sample(f"{SELF}_grad", [t(2, 2, 2, 2), t(2, 2, 2, 1), t(2, 2, 6)], {"alpha": 0.5}, **FEWER),
    Sample("fused_codegeex_qkv_reshape", [t(3, 2, 4)] * 3, {"num_attention_heads": 2}, dtypes=HALVES, **FEWER),
    Sample(PAST, [t(3, 2, 4), t(3, 2, 4), t(3, 2, 1, 2), t(3, 2, 1, 2)],
           {**layouts("BHMK", "BM(HK)", "BM(HK)"), "key_head_size": 2}, dtypes=HALVES, **FEWER),
    Sample(PAST, [t(2, 2, 12), t(2, 2, 8)], {**layouts("MB(HK)", "MB(H3K)", "BM(H2K)"), "key_head_size": 2},
           gradient=False, why="as of the other sample"),
    Sample(ROTARY, [t(2, 2, 3, 4)], {"k_size": 4, "rotary_size": 4}, dtypes=HALVES, **FEWER),
    Sample(ROTARY, [t(2, 3, 2, 4), t(4, 2), t(4, 2), IDS], {**HEADS, "k_size": 4, "rotary_size": 2}, **FEWER),
    Sample(ROTARY, [t(3, 2, 12), t(3, 2), t(3, 2)], {"x_layout": "MB(H3K)", "output_layout": "BM(HK)", "k_size": 2,
           "mode": "interval", "tensor_index": 1, "rotary_size": 2}, **FEWER),
    Sample(ROTARY, [t(1, 2, 1, 4), None, None, v([[[0, 2], [3, 1]]], int32)], {**HEADS, "mode": "interval",
           "k_size": 4, "rotary_size": 4, "base": 10.0}, gradient=False, why="as of the other samples"),
    Sample(INFERENCE, [t(2, 3, 4), t(2, 3, 4), t(2, 3, 6), t(2, 3, 4)], {**PLAIN, "query_head_size": 2,
           "scale": 0.5}, dtypes=HALVES, **FEWER),
    Sample(INFERENCE, [t(2, 1, 12), t(3, 1, 2, 2), t(1, 2, 3, 2)], {**PLAIN, "query_layout": "MB(H3K)",
           "key_layout": "MBHK", "value_layout": "BHMK", "output_layout": "MB(HK)", "query_head_size": 2,
           "scale": 0.5, "attn_mask_type": "causal_from_bottom_right"}, gradient=False, why="as of the other sample"),
    Sample(INFERENCE, [t(1, 2, 1, 2), t(1, 2, 2), t(1, 2, 2)], {**PLAIN, "query_layout": "BMHK",
           "query_head_size": 2, "scale": 0.5, "attn_mask_type": "causal_from_top_left"}, gradient=False,
           why="as of the other sample"),
    *[Sample(INFERENCE, [t(3, 2), t(4, 1, 2), t(4, 4), None, v([0, 2, 3], int32), v([0, 3, 4], int32), lengths],
             {**SEQUENCES, "attn_mask_type": kind}, **FEWER)
      for kind, lengths in (("none", v([2, 1], int32)), ("causal_from_bottom_right", None))],
    Sample(INFERENCE, [t(2, 2), t(2, 1, 2), t(2, 2), None, v([0, 2], int32), v([0, 2], int32)],
           {**SEQUENCES, "value_layout": "(BM)(HK)", "attn_mask_type": "causal_from_top_left"},
           gradient=False, why="as of the other samples"),
    Sample(FLASH, [t(2, 3, 2, 2), t(2, 3, 2, 2), t(2, 3, 2, 2)], {**WINDOW, "seed": 5}, dtypes=HALVES, **FEWER),
    Sample(FLASH, [t(1, 2, 2, 1), t(1, 3, 1, 1), t(1, 3, 1, 1)], NEAR, **FEWER),
    Sample(FLASH, [t(1, 2, 1, 1)] * 3, {**WINDOW, "is_causal": True, "p_dropout": 0.25, "seed": 5}, **FEWER),
    Sample(f"{FLASH}_grad", [t(2, 3, 2, 1)] * 5 + [t(2, 2, 3, low=1.0), STATE], WINDOW, **FEWER),
    Sample(f"{FLASH}_grad", [t(1, 2, 2, 1), t(1, 2, 2, 1), *[t(1, 2, 1, 1)] * 2, t(1, 2, 2, 1), t(1, 2, 2, low=1.0),
           STATE], {**NEAR, "p_dropout": 0.25}, **FEWER),
]  # fmt: skip
BAD = [
    Bad(SELF, [t(2, 3, 10)], {"head_size": 2}, match="expected the last axis of hidden_states to be a multiple of 6"),
    Bad("fused_codegeex_qkv_reshape", [t(3, 2, 4)] * 3, {"num_attention_heads": 3}, match="a multiple of 3, got 4"),
    Bad(PAST, [t(3, 2, 4), t(3, 2, 4), t(3, 2, 1, 2)], {**layouts("BHMK", "BM(HK)", "BM(HK)"), "key_head_size": 2},
        match="expected both of past_key and past_value"),
    Bad(PAST, [t(3, 2, 4), t(3, 2, 4)], {**layouts("BM(H2K)", "BM(HK)", "BM(HK)"), "key_head_size": 2},
        match="expected past_key_layout BMHK"),
    Bad(ROTARY, [t(2, 2, 3, 4)], {"k_size": 4, "rotary_size": 3}, match="rotary_size of 0 to 4, a multiple of 2"),
    Bad(ROTARY, [t(2, 2, 3, 4)], {"mode": "spiral"}, match="plane or interval, got 'spiral'"),
    Bad(INFERENCE, [t(2, 3, 4)] * 3 + [None, v([0, 3], int32)], {**PLAIN, "query_head_size": 2, "scale": 0.5},
        match="expected query_seq_start only with the layouts (BM)HK"),
    Bad(INFERENCE, [t(2, 3, 4)] * 3, {**PLAIN, "query_layout": "(BM)(HK)", "query_head_size": 2, "scale": 0.5},
        match="expected key_layout (BM)HK"),
    Bad(INFERENCE, [t(3, 2), t(4, 1, 2), t(4, 4)], SEQUENCES, match="expected query_seq_start and key_seq_start"),
    Bad(FLASH, [t(1, 2, 3, 1), t(1, 2, 2, 1), t(1, 2, 2, 1)], WINDOW, match="of key that divides 3, got 2"),
    Bad(FLASH, [t(1, 2, 1, 1), t(1, 2, 1, 1), t(1, 3, 1, 1)], WINDOW, match="value of type tensor<1x2x1x1xf32>"),
]  # fmt: skip
