"""Transformers: encoders and decoders of layers with attention. Modules, parameters and their first values are
PyTorch's. Masks follow PyTorch's rule: true means masked.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.nn import init
from oneflow.frontend.nn.attention import MultiheadAttention
from oneflow.frontend.nn.containers import ModuleList
from oneflow.frontend.nn.layers import LayerNorm, Linear
from oneflow.frontend.nn.module import Module, takes_device
from oneflow.frontend.nn.stateless import Dropout

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip

Activation = str | Callable[[Any], Any]


def _activation(activation: Activation) -> Callable[[Any], Any]:
    named: dict[Any, Callable[[Any], Any]] = {"relu": F.relu, "gelu": F.gelu}
    if isinstance(activation, str) and activation not in named:
        raise ValueError(f'expected activation "relu", "gelu" or a function, got {activation!r}')
    return named[activation] if isinstance(activation, str) else activation


class _Layer(Module):
    """A layer of residual blocks, each with a norm before the block or after the sum."""

    #: The names of the parts with attention, in order.
    attentions: tuple[str, ...]

    @takes_device
    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        for name in self.attentions:
            attention = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        numbers = range(1, len(self.attentions) + 2)
        for number in numbers:
            self.add_module(f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype))
        for number in numbers:
            self.add_module(f"dropout{number}", Dropout(dropout))
        self.norm_first, self.activation = norm_first, _activation(activation)

    def residual(self, x: Any, index: int, part: Callable[[Any], Any]) -> Any:
        """The sum of `x` and a block applied to `x`."""
        norm, dropout = getattr(self, f"norm{index}"), getattr(self, f"dropout{index}")
        if self.norm_first:
            return F.add(x, dropout(part(norm(x))))
        return norm(F.add(x, dropout(part(x))))

    def feed_forward(self, x: Any) -> Any:
        """The feed-forward block."""
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself, then two linear maps with `activation` between these."""

    attentions = ("self_attn",)

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Any:
        """The sequence after the layer."""

        def attended(x: Any) -> Any:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self.residual(self.residual(src, 1, attended), 2, self.feed_forward)


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence to itself and to `memory`, then two linear maps with `activation` between these."""

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """The sequence after the layer."""

        def attended(x: Any) -> Any:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def remembered(x: Any) -> Any:
            masks = memory_key_padding_mask, False, memory_mask
            return self.multihead_attn(x, memory, memory, *masks, is_causal=memory_is_causal)[0]

        return self.residual(self.residual(self.residual(tgt, 1, attended), 2, remembered), 3, self.feed_forward)


class _Stack(Module):
    """`num_layers` copies of a layer, one after the other, and `norm` after the layers."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def run_layers(self, x: Any, call: Callable[[Module, Any], Any]) -> Any:
        """The sequence after all layers."""
        for layer in self.layers:
            x = call(layer, x)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """Copies of a `TransformerEncoderLayer`."""

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> Any:
        """The sequence after all layers."""
        return self.run_layers(src, lambda layer, x: layer(x, mask, src_key_padding_mask, bool(is_causal)))


class TransformerDecoder(_Stack):
    """Copies of a `TransformerDecoderLayer`."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """The sequence after all layers."""
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        return self.run_layers(tgt, lambda layer, x: layer(x, memory, *masks, bool(tgt_is_causal), memory_is_causal))


class Transformer(Module):
    """An encoder of `src`, to whose result a decoder of `tgt` attends."""

    @takes_device
    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        numbers = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
        )
        encoder, decoder = (
            kind(*numbers, dtype=dtype) for kind in (TransformerEncoderLayer, TransformerDecoderLayer)
        )
        norms = [LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype) for _ in range(2)]
        self.encoder = TransformerEncoder(encoder, num_encoder_layers, norms[0])
        self.decoder = TransformerDecoder(decoder, num_decoder_layers, norms[1])
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """The decoded sequence."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        return self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, *, dtype: DType | None = None) -> Any:
        """A mask of floats by which a position attends to no later position."""
        return F.masked_fill(F.zeros(sz, sz, dtype=dtype), F.eq(F.tril(F.ones(sz, sz)), 0), float("-inf"))
