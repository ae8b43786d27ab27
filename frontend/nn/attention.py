"""Multi-head attention."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor, dispatch_all
from oneflow.frontend.functional.random import random_offset
from oneflow.frontend.nn import init
from oneflow.frontend.nn.layers import Linear, new_parameter
from oneflow.frontend.nn.module import Module, takes_device


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Any:
    """softmax(query @ key^T * scale + attn_mask) @ value; `scale` is 1 / sqrt(width) by default.

    `query` is (.., l, width), `key` (.., s, width), `value` (.., s, n). A mask of bools keeps scores where true, a
    mask of floats is added; with `is_causal` a position attends to no later position. Weights are dropped with
    `dropout_p`. The result of a query without visible keys is 0.
    """
    query, key, value = (as_tensor(x) for x in (query, key, value))
    added = _mask(query, key, attn_mask, False)
    if all(x.rank == RANK_WITH_HEADS for x in (query, key, value)):
        return _attended(query, key, value, added, is_causal, scale, dropout_p)
    query, key, value = _broadcast_batch([query, key, value])
    if added is not None and as_tensor(added).rank > 2:
        scores = (*query.size()[:-1], key.size(-2))
        added = _with_heads(added if query.rank == RANK_WITH_HEADS - 1 else F.broadcast_to(added, scores))
    mixed = _attended(_with_heads(query), _with_heads(key), _with_heads(value), added, is_causal, scale, dropout_p)
    return F.reshape(mixed, (*query.size()[:-1], mixed.size(-1)))


#: The rank of tensors of several heads.
RANK_WITH_HEADS = 4


def _broadcast_batch(operands: list[Any]) -> list[Any]:
    """Tensors (.., rows, width) with the same dimensions before these."""
    leads = {x.shape[:-2] for x in operands}
    if len(leads) == 1 or None in itertools.chain(*leads):
        return operands
    lead = np.broadcast_shapes(*leads)
    return [F.broadcast_to(x, (*lead, *x.size()[-2:])) for x in operands]


def _with_heads(x: Any) -> Any:
    """(.., rows, width) as (batch, 1, rows, width)."""
    if as_tensor(x).rank >= RANK_WITH_HEADS:
        x = F.flatten(x, 0, x.rank - RANK_WITH_HEADS + 1)
    while x.rank < RANK_WITH_HEADS:
        x = F.unsqueeze(x, -3)
    return x


def _attended(
    query: Any, key: Any, value: Any, added: Any, causal: bool = False, scale: float | None = None, rate: float = 0.0
) -> Any:
    """Attention of (batch, heads, length, width) as one operator, which need not keep the weights."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    drawn = [random_offset()] if rate else []
    return dispatch_all("attention", query, key, value, added, *drawn, scale=scale, causal=causal, rate=rate)[0]


def _mask(query: Any, key: Any, mask: Any, causal: bool) -> Any:
    """The mask to add to the scores, or None."""
    if causal:
        visible = F.tril(F.ones(*(as_tensor(x).size(-2) for x in (query, key))))
        mask = F.gt(visible, 0) if mask is None else F.logical_and(mask, visible)
    if mask is None or as_tensor(mask).dtype != dtypes.bool_:
        return mask
    return F.masked_fill(F.zeros_like(mask, dtype=query.dtype), F.logical_not(mask), -math.inf)


def _weights(query: Any, key: Any, added: Any) -> Any:
    """The weights of attention; the weights of a query that sees no key are 0, as in the operator."""
    scores = F.matmul(F.mul(query, 1 / math.sqrt(query.shape[-1])), F.transpose(key, -2, -1))
    if added is None:
        return F.softmax(scores, -1)
    sees_nothing = F.all(F.eq(added, -math.inf), -1, True)
    weights = F.softmax(F.add(scores, F.masked_fill(added, sees_nothing, 0.0)), -1)
    return F.masked_fill(weights, sees_nothing, 0.0)


class MultiheadAttention(Module):
    """Attention of `num_heads` heads over `embed_dim` features, with PyTorch's parameters.

    Tensors are (length, batch, features), or (batch, length, features) with `batch_first`, or without a batch. Keys
    and values have `kdim` and `vdim` features. `add_bias_kv` adds a learned key and value to the others,
    `add_zero_attn` one of zeros.
    """

    @takes_device
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        if num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(f"expected num_heads to divide embed_dim, got {num_heads} and {embed_dim}")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.add_zero_attn = add_zero_attn
        has_equal_sizes = self.kdim == self.vdim == embed_dim
        sizes = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        for name, size in sizes.items():
            self.register_parameter(name, None if has_equal_sizes else new_parameter(embed_dim, size, dtype=dtype))
        self.register_parameter(
            "in_proj_weight", new_parameter(3 * embed_dim, embed_dim, dtype=dtype) if has_equal_sizes else None
        )
        self.register_parameter("in_proj_bias", new_parameter(3 * embed_dim, dtype=dtype) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, new_parameter(1, 1, embed_dim, dtype=dtype) if add_bias_kv else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the parameters again."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

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

        True in a mask means masked (PyTorch's rule for this layer). `key_padding_mask` is (batch, length),
        `attn_mask` (queries, keys) or (batch * heads, queries, keys); `is_causal` without `attn_mask` makes the mask.
        """
        operands = [as_tensor(x) for x in (query, key, value)]
        single = operands[0].rank == 2
        heads = [self._heads(y) for y in self._projected([self._batched(x, single) for x in operands])]
        added = self._attention_bias(heads, attn_mask, key_padding_mask, is_causal)
        keys, values, added = self._extended(heads[1], heads[2], added)
        weights = _weights(heads[0], keys, added) if need_weights else None
        mixed = (
            _attended(heads[0], keys, values, added, rate=self.dropout if self.training else 0.0)
            if weights is None
            else F.matmul(F.dropout(weights, self.dropout, self.training), values)
        )
        result = self.out_proj(F.flatten(F.permute(mixed, 0, 2, 1, 3), 2))
        averaged = None if not need_weights else F.mean(weights, 1) if average_attn_weights else weights
        if single:
            return F.squeeze(result, 0), None if averaged is None else F.squeeze(averaged, 0)
        return result if self.batch_first else F.transpose(result, 0, 1), averaged

    def _batched(self, x: Any, single: bool) -> Any:
        """As (batch, length, features)."""
        if single:
            return F.unsqueeze(x, 0)
        return x if self.batch_first else F.transpose(x, 0, 1)

    def _projected(self, operands: list[Any]) -> list[Any]:
        """Queries, keys and values in the features of the heads."""
        parts = [slice(i * self.embed_dim, (i + 1) * self.embed_dim) for i in range(3)]
        weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        if self.in_proj_weight is not None:
            weights = [F.getitem(self.in_proj_weight, part) for part in parts]
        biases = [None if self.in_proj_bias is None else F.getitem(self.in_proj_bias, part) for part in parts]
        return [F.linear(*each) for each in zip(operands, weights, biases, strict=True)]

    def _heads(self, y: Any) -> Any:
        """(batch, length, features) as (batch, heads, length, width)."""
        shaped = F.reshape(y, (*y.size()[:2], self.num_heads, self.embed_dim // self.num_heads))
        return F.permute(shaped, 0, 2, 1, 3)

    def _extended(self, keys: Any, values: Any, added: Any) -> tuple[Any, Any, Any]:
        """Keys and values, followed by learned keys and values and by zeros, which no mask hides."""
        shape = (keys.size(0), self.num_heads, 1, keys.shape[3])
        pairs = []
        if self.bias_k is not None:
            pairs.append([F.broadcast_to(F.reshape(b, (1, *shape[1:])), shape) for b in (self.bias_k, self.bias_v)])
        if self.add_zero_attn:
            pairs.append([F.zeros(shape, dtype=keys.dtype)] * 2)
        for key, value in pairs:
            keys, values = F.cat([keys, key], 2), F.cat([values, value], 2)
            if added is not None:
                added = F.cat([added, F.zeros((*added.size()[:-1], 1), dtype=added.dtype)], -1)
        return keys, values, added

    def _attention_bias(self, heads: list[Any], mask: Any, padding: Any, causal: bool) -> Any:
        """The mask to add to the scores, (batch, heads, queries, keys) or a shape that broadcasts to it; None without
        masks.
        """
        query, key = heads[0], heads[1]
        terms = []
        if mask is not None:
            term = as_tensor(mask)
            if term.rank == 3:
                term = F.reshape(term, (query.size(0), self.num_heads, query.size(2), key.size(2)))
            terms.append(_additive_mask(term, query.dtype))
        if padding is not None:
            term = as_tensor(padding)
            terms.append(_additive_mask(F.reshape(term, (query.size(0), 1, 1, key.size(2))), query.dtype))
        if causal and mask is None:
            terms.append(_mask(query, key, None, True))
        return None if not terms else terms[0] if len(terms) == 1 else F.add(terms[0], terms[1])


def _additive_mask(mask: Any, dtype: DType) -> Any:
    """-inf where a mask of bools is true; a mask of floats is returned."""
    if mask.dtype != dtypes.bool_:
        return mask
    return F.masked_fill(F.zeros_like(mask, dtype=dtype), mask, -math.inf)
