"""Attention with several heads. Imports `layers`, `functional`."""

from __future__ import annotations

import math
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.dispatch import as_tensor
from oneflow.frontend.nn import init
from oneflow.frontend.nn.layers import Linear, made
from oneflow.frontend.nn.module import Module


def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False
) -> Any:
    """softmax(query @ key^T / sqrt(width) + attn_mask) @ value.

    `query` is (.., l, width), `key` (.., s, width), `value` (.., s, n). A mask of bools keeps where it is true, one
    of floats is added; with `is_causal` positions see none after them. Weights are dropped with `dropout_p`.
    """
    weights = _weights(query, key, _mask(query, key, attn_mask, is_causal))
    return F.matmul(F.dropout(weights, dropout_p), value)


def _mask(query: Any, key: Any, mask: Any, causal: bool) -> Any:
    """What is added to the scores, or None."""
    if causal:
        seen = F.tril(F.ones(query.shape[-2], key.shape[-2]))
        mask = F.gt(seen, 0) if mask is None else F.logical_and(mask, seen)
    if mask is None or as_tensor(mask).dtype != dtypes.bool_:
        return mask
    return F.masked_fill(F.zeros_like(mask, dtype=query.dtype), F.logical_not(mask), -math.inf)


def _weights(query: Any, key: Any, added: Any) -> Any:
    scores = F.matmul(F.mul(query, 1 / math.sqrt(query.shape[-1])), F.transpose(key, -2, -1))
    return F.softmax(scores if added is None else F.add(scores, added), -1)


class MultiheadAttention(Module):
    """Attention of `num_heads` heads over `embed_dim` features, with PyTorch's parameters.

    Tensors are (length, batch, features), or (batch, length, features) with `batch_first`, or without a batch.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
        dtype: DType = dtypes.float32,
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"expected num_heads to divide embed_dim, got {num_heads} and {embed_dim}")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.in_proj_weight = made(3 * embed_dim, embed_dim, dtype=dtype)
        self.register_parameter("in_proj_bias", made(3 * embed_dim, dtype=dtype) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype)
        init.xavier_uniform_(self.in_proj_weight)
        if bias:
            init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """The attention of `query` to `key` with the values `value`, and its weights or None.

        In masks true means: not looked at (PyTorch's rule for this layer). `key_padding_mask` is (batch, length),
        `attn_mask` (queries, keys) or (batch * heads, queries, keys).
        """
        given = [as_tensor(x) for x in (query, key, value)]
        single = given[0].rank == 2
        heads = [self._heads(self._batched(x, single), i) for i, x in enumerate(given)]
        weights = _weights(heads[0], heads[1], self._added(heads, attn_mask, key_padding_mask, is_causal))
        mixed = F.matmul(F.dropout(weights, self.dropout, self.training), heads[2])
        result = self.out_proj(F.flatten(F.permute(mixed, 0, 2, 1, 3), 2))
        shown = F.mean(weights, 1) if average_attn_weights else weights
        if single:
            result, shown = F.squeeze(result, 0), F.squeeze(shown, 0)
        elif not self.batch_first:
            result = F.transpose(result, 0, 1)
        return result, shown if need_weights else None

    def _batched(self, x: Any, single: bool) -> Any:
        """As (batch, length, features)."""
        if single:
            return F.unsqueeze(x, 0)
        return x if self.batch_first else F.transpose(x, 0, 1)

    def _heads(self, x: Any, which: int) -> Any:
        """The projection of queries, keys or values as (batch, heads, length, width)."""
        part = slice(which * self.embed_dim, (which + 1) * self.embed_dim)
        weight, bias = (None if p is None else F.getitem(p, part) for p in (self.in_proj_weight, self.in_proj_bias))
        y = F.linear(x, weight, bias)
        shaped = F.view(y, x.shape[0], x.shape[1], self.num_heads, self.embed_dim // self.num_heads)
        return F.permute(shaped, 0, 2, 1, 3)

    def _added(self, heads: list[Any], mask: Any, padding: Any, causal: bool) -> Any:
        """What is added to the scores, (batch, heads, queries, keys) or what broadcasts to it; None for nothing."""
        query, key = heads[0], heads[1]
        terms = []
        if mask is not None:
            term = as_tensor(mask)
            if term.rank == 3:
                term = F.view(term, query.shape[0], self.num_heads, query.shape[2], key.shape[2])
            terms.append(_hidden(term, query.dtype))
        if padding is not None:
            term = as_tensor(padding)
            terms.append(_hidden(F.view(term, query.shape[0], 1, 1, key.shape[2]), query.dtype))
        if causal and mask is None:
            terms.append(_mask(query, key, None, True))
        return None if not terms else terms[0] if len(terms) == 1 else F.add(terms[0], terms[1])


def _hidden(mask: Any, dtype: DType) -> Any:
    """-inf where a mask of bools is true; a mask of floats as it is."""
    if mask.dtype != dtypes.bool_:
        return mask
    return F.masked_fill(F.zeros_like(mask, dtype=dtype), mask, -math.inf)
