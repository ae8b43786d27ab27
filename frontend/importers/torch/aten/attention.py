"""Scaled dot product attention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import dispatch_all
from oneflow.frontend.core.errors import fail
from oneflow.frontend.importers.torch.table import Result, aten
from oneflow.frontend.nn.attention import scaled_dot_product_attention


@aten("scaled_dot_product_attention.default")
def attention(
    query: Any, key: Any, value: Any, mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if not enable_gqa:
        key, value = (_repeated(x, query) for x in (key, value))
    key, value = _keys_of_heads(query, key, value)
    return scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal, scale)


def _repeated(x: Any, query: Any) -> Any:
    """Keys or values of one head, repeated for every head."""
    if x.rank != query.rank or x.rank < 4 or x.shape[-3] != 1 or query.shape[-3] == 1:
        return x
    return F.expand(x, *x.sizes()[:-3], query.size(-3), *x.sizes()[-2:])


def _keys_of_heads(query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Keys and values for each head of the query, where sizes are dynamic: heads share keys of static sizes only."""
    heads, groups = query.shape[-3], key.shape[-3]
    if heads == groups or None in (heads, groups) or None not in (*query.shape, *key.shape, *value.shape):
        return key, value
    share = heads // groups
    return F.repeat_interleave(key, share, -3), F.repeat_interleave(value, share, -3)


def _summed_over_heads(gradient: Any, like: Any) -> Any:
    """The gradient of keys that heads share, of the gradient of the keys of each head."""
    if gradient.shape[-3] == like.shape[-3] or None in (gradient.shape[-3], like.shape[-3]):
        return gradient
    batch, heads, rows, width = like.sizes()
    return F.sum(F.reshape(gradient, (batch, heads, gradient.shape[-3] // like.shape[-3], rows, width)), 2)


def _options(query: Any, mask: Any, is_causal: bool, scale: float | None) -> tuple[Any, dict[str, Any]]:
    """The mask that is added to the scores, and the attributes."""
    if mask is not None and mask.dtype == dtypes.bool_:
        mask = F.masked_fill(F.zeros_like(mask, dtype=query.dtype), F.logical_not(mask), -math.inf)
    return mask, {"scale": 1 / math.sqrt(query.shape[-1]) if scale is None else scale, "causal": is_causal}


@aten("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(
    query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False, *, attn_mask: Any = None,
    scale: float | None = None,
) -> Any:  # fmt: skip
    mask, options = _options(query, attn_mask, is_causal, scale)
    key, value = _keys_of_heads(query, key, value)
    return dispatch_all("attention", query, key, value, mask, **options, rate=dropout_p)


def _gradients(
    grad: Any, attrs: Sequence[Any], result: Any, logsumexp: Any, mask: Any, options: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The gradients of attention by query, key and value."""
    wide = attrs[0].dtype.accumulator
    delta = F.sum(F.mul(F.cast(grad, wide), F.cast(result, wide)), -1)
    return dispatch_all("attention_grad", grad, *attrs, mask, None, F.cast(logsumexp, wide), delta, **options)


@aten("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_backward(
    grad: Any, query: Any, key: Any, value: Any, result: Any, logsumexp: Any, dropout_p: float, is_causal: bool, *,
    attn_mask: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    mask, options = _options(query, attn_mask, is_causal, scale)
    each_key, each_value = _keys_of_heads(query, key, value)
    by_query, by_key, by_value = _gradients(grad, (query, each_key, each_value), result, logsumexp, mask, options)
    return by_query, _summed_over_heads(by_key, key), _summed_over_heads(by_value, value)


def _on_gpu(
    query: Any, key: Any, value: Any, mask: Any, rate: float, is_causal: bool, scale: float | None
) -> tuple[Any, Any]:
    """Attention and the logarithms of the sums of exponentials, for operators of GPUs."""
    if rate:
        raise fail("dropout inside of attention on a GPU, whose gradient needs PyTorch's random numbers")
    mask, options = _options(query, mask, is_causal, scale)
    result, logsumexp = dispatch_all("attention", query, key, value, mask, **options)
    return result, logsumexp


def _unread(out: Sequence[Any]) -> list[Any]:
    """The results of an operator of GPUs after the second, which only PyTorch's own gradient reads."""
    return [F.zeros(x.shape, dtype=x.dtype) if isinstance(x, Result) else x for x in out[2:]]


@aten("_scaled_dot_product_flash_attention.default")
def flash_attention_on_gpu(
    query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, *, scale: float | None = None, out: Any,
) -> Any:  # fmt: skip
    return [*_on_gpu(query, key, value, None, dropout_p, is_causal, scale), *_unread(out)]


@aten("_scaled_dot_product_flash_attention_backward.default")
def flash_attention_backward_on_gpu(
    grad: Any, query: Any, key: Any, value: Any, result: Any, logsumexp: Any, starts: Any, key_starts: Any,
    length: Any, key_length: Any, dropout_p: float, is_causal: bool, seed: Any, offset: Any, *,
    scale: float | None = None,
) -> Any:  # fmt: skip
    mask, options = _options(query, None, is_causal, scale)
    return _gradients(grad, (query, key, value), result, logsumexp, mask, options)


@aten("_scaled_dot_product_cudnn_attention.default")
def cudnn_attention(
    query: Any, key: Any, value: Any, bias: Any, compute_log_sumexp: bool, dropout_p: float = 0.0,
    is_causal: bool = False, return_debug_mask: bool = False, *, scale: float | None = None, out: Any,
) -> Any:  # fmt: skip
    result, logsumexp = _on_gpu(query, key, value, bias, dropout_p, is_causal, scale)
    return [result, F.unsqueeze(logsumexp, -1), *_unread(out)]


@aten("_scaled_dot_product_cudnn_attention_backward.default")
def cudnn_attention_backward(
    grad: Any, query: Any, key: Any, value: Any, result: Any, logsumexp: Any, seed: Any, offset: Any, bias: Any,
    starts: Any, key_starts: Any, length: Any, key_length: Any, dropout_p: float, is_causal: bool, *,
    scale: float | None = None,
) -> Any:  # fmt: skip
    mask, options = _options(query, bias, is_causal, scale)
    return _gradients(grad, (query, key, value), result, F.squeeze(logsumexp, -1), mask, options)


@aten("_scaled_dot_product_efficient_attention.default")
def efficient_attention(
    query: Any, key: Any, value: Any, bias: Any, compute_log_sumexp: bool, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, out: Any,
) -> Any:  # fmt: skip
    """The logarithms are padded."""
    result, logsumexp = _on_gpu(query, key, value, bias, dropout_p, is_causal, scale)
    padding = [0, out[1].shape[-1] - logsumexp.size(-1)]
    padded = F.pad(logsumexp, padding) if compute_log_sumexp else F.narrow(logsumexp, -1, 0, 0)
    return [result, padded, *_unread(out)]


@aten("_scaled_dot_product_efficient_attention_backward.default")
def efficient_attention_backward(
    grad: Any, query: Any, key: Any, value: Any, bias: Any, result: Any, logsumexp: Any, seed: Any, offset: Any,
    dropout_p: float, wanted: Any, is_causal: bool = False, *, scale: float | None = None,
) -> Any:  # fmt: skip
    mask, options = _options(query, bias, is_causal, scale)
    if wanted[3]:
        raise fail("the gradient of attention by its mask")
    own = F.narrow(logsumexp, -1, 0, query.size(-2))
    return [*_gradients(grad, (query, key, value), result, own, mask, options), None]


def _heads(x: Any, count: int) -> Any:
    """Rows as rows of each head."""
    batch, length, width = x.sizes()
    return F.transpose(F.reshape(x, (batch, length, count, width // count)), 1, 2)


def _expanded_mask(mask: Any, kind: int | None) -> Any:
    """A mask of what is left out, of queries and keys, of the keys of each row, or whole, as one of what is kept."""
    if mask is None:
        return None
    shown = F.logical_not(F.cast(mask, dtypes.bool_))
    return F.unsqueeze(F.unsqueeze(shown, 1), 1) if kind == 1 else shown


@aten("_transformer_encoder_layer_fwd.default")
def encoder_layer(
    src: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any, out_weight: Any, out_bias: Any, use_gelu: bool,
    norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any, norm_weight_2: Any, norm_bias_2: Any,
    weight_1: Any, bias_1: Any, weight_2: Any, bias_2: Any, mask: Any = None, mask_type: int | None = None,
) -> Any:  # fmt: skip
    """A layer of a transformer without dropout."""

    def attended(x: Any) -> Any:
        q, k, v = (_heads(part, heads) for part in F.chunk(F.linear(x, qkv_weight, qkv_bias), 3, -1))
        result = scaled_dot_product_attention(q, k, v, _expanded_mask(mask, mask_type))
        return F.linear(F.reshape(F.transpose(result, 1, 2), x.sizes()), out_weight, out_bias)

    def forwarded(x: Any) -> Any:
        inner = F.linear(x, weight_1, bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), weight_2, bias_2)

    parts = ((attended, norm_weight_1, norm_bias_1), (forwarded, norm_weight_2, norm_bias_2))
    x = src
    for part, weight, bias in parts:
        if norm_first:
            x = F.add(x, part(F.layer_norm(x, [width], weight, bias, eps)))
        else:
            x = F.layer_norm(F.add(x, part(x)), [width], weight, bias, eps)
    return x
