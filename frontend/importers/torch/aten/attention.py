"""Scaled dot product attention."""

from __future__ import annotations

import math
from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import dispatch_all
from oneflow.frontend.importers.torch.table import aten
from oneflow.frontend.nn.attention import scaled_dot_product_attention


@aten("scaled_dot_product_attention.default")
def attention(
    query: Any, key: Any, value: Any, mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if not enable_gqa:
        key, value = (_repeated(x, query) for x in (key, value))
    return scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal, scale)


def _repeated(x: Any, query: Any) -> Any:
    """Keys or values of one head as those of every head."""
    if x.rank != query.rank or x.rank < 4 or x.shape[-3] != 1 or query.shape[-3] == 1:
        return x
    return F.expand(x, *x.sizes()[:-3], query.size(-3), *x.sizes()[-2:])


def _options(query: Any, mask: Any, is_causal: bool, scale: float | None) -> tuple[Any, dict[str, Any]]:
    """What is added to the scores, and the attributes."""
    if mask is not None and mask.dtype == dtypes.bool_:
        mask = F.masked_fill(F.zeros_like(mask, dtype=query.dtype), F.logical_not(mask), -math.inf)
    return mask, {"scale": 1 / math.sqrt(query.shape[-1]) if scale is None else scale, "causal": is_causal}


@aten("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(
    query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False, *, attn_mask: Any = None,
    scale: float | None = None,
) -> Any:  # fmt: skip
    mask, options = _options(query, attn_mask, is_causal, scale)
    return dispatch_all("attention", query, key, value, mask, **options, rate=dropout_p)


@aten("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_backward(
    grad: Any, query: Any, key: Any, value: Any, result: Any, logsumexp: Any, dropout_p: float, is_causal: bool, *,
    attn_mask: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    mask, options = _options(query, attn_mask, is_causal, scale)
    wide = query.dtype.accumulator
    delta = F.sum(F.mul(F.cast(grad, wide), F.cast(result, wide)), -1)
    logsumexp = F.cast(logsumexp, wide)
    return dispatch_all("attention_grad", grad, query, key, value, mask, None, logsumexp, delta, **options)
