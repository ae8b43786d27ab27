"""Models of transformers, timm and torchvision, small and with random parameters, against eager PyTorch.

    python benchmarks/torch_models.py [NAME ..] [--steps export train compile lengths] [--list]

For each model the columns are: `export`, the results of `flow.from_torch` at two batch sizes from one program;
`train`, the loss and all gradients of a step of `torch.compile(backend="oneflow")` in training mode; `compile`, the
results of `torch.compile` in evaluation mode, and whether the whole graph was compiled; `lengths`, how many graphs
are compiled for five lengths of the sequence, or five batch sizes. Each model runs in a separate process, so that a
crash is reported as a result. The script needs the extra `torch`; models whose library is not installed are left out.

Normalization over a batch of two amplifies rounding: gradients that differ are compared with gradients in float64,
and the error may be twice the error of eager PyTorch.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.export import Dim
from torch.nn import functional as F  # noqa: N812
from torch.utils import _pytree as pytree

import oneflow as flow

#: Differences relative to the largest element of a result.
TOLERANCE = 1e-4
SIZES = (2, 3)
LENGTHS = (4, 6, 9, 3, 7)
STEPS = ("export", "train", "compile", "lengths")

_SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
          "vocab_size": 96, "max_position_embeddings": 64}  # fmt: skip
_GROUPED = _SMALL | {"num_key_value_heads": 2, "head_dim": 8}
_T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 1,
    "num_decoder_layers": 1,
    "num_heads": 4,
    "vocab_size": 96,
}
_PAIR = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 96,
         "max_position_embeddings": 64}  # fmt: skip
_IMAGE = _SMALL | {"image_size": 32, "patch_size": 8}
_SPEECH = _SMALL | {"conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2,
                    "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4, "apply_spec_augment": False,
                    "layerdrop": 0.0}  # fmt: skip
_BACKBONE = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1],
             "layer_type": "basic"}  # fmt: skip
_STAGES = ["stage1", "stage2", "stage3", "stage4"]
_DETECTOR = {"backbone_config": _BACKBONE | {"out_features": ["stage3", "stage4"]}, "num_queries": 5, "d_model": 32,
             "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
             "encoder_attention_heads": 4, "decoder_attention_heads": 4}  # fmt: skip
_SEQUENCE = {"input_ids": ("tokens", 10)}
#: Models of transformers: the configuration's name and arguments, and the inputs.
TRANSFORMERS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "llama": ("LlamaConfig", _GROUPED, _SEQUENCE),
    "mistral": ("MistralConfig", _GROUPED, _SEQUENCE),
    "qwen2": ("Qwen2Config", _GROUPED, _SEQUENCE),
    "qwen3": ("Qwen3Config", _GROUPED, _SEQUENCE),
    "gemma": ("GemmaConfig", _GROUPED, _SEQUENCE),
    "gemma2": ("Gemma2Config", _GROUPED, _SEQUENCE),
    "phi": ("PhiConfig", _SMALL, _SEQUENCE),
    "phi3": ("Phi3Config", _SMALL | {"pad_token_id": 0}, _SEQUENCE),
    "gpt2": ("GPT2Config", {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 96, "n_positions": 64}, _SEQUENCE),
    "gpt_neox": ("GPTNeoXConfig", _SMALL, _SEQUENCE),
    "opt": ("OPTConfig", {"hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
                          "vocab_size": 96, "max_position_embeddings": 64, "word_embed_proj_dim": 32}, _SEQUENCE),
    "bloom": ("BloomConfig", {"hidden_size": 32, "n_layer": 1, "n_head": 4, "vocab_size": 96}, _SEQUENCE),
    "mamba": ("MambaConfig", {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 96, "state_size": 4},
              _SEQUENCE),
    "mamba2": ("Mamba2Config", {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 96, "state_size": 8,
               "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 4}, _SEQUENCE),
    "mixtral": ("MixtralConfig", _GROUPED | {"num_local_experts": 4}, _SEQUENCE),
    "qwen2_moe": ("Qwen2MoeConfig", _GROUPED | {"num_experts": 4, "num_experts_per_tok": 2,
                  "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}, _SEQUENCE),
    "bert": ("BertConfig", _SMALL, _SEQUENCE),
    "roberta": ("RobertaConfig", _SMALL, _SEQUENCE),
    "distilbert": ("DistilBertConfig", {"dim": 32, "hidden_dim": 64, "n_layers": 1, "n_heads": 4, "vocab_size": 96},
                   _SEQUENCE),
    "albert": ("AlbertConfig", _SMALL | {"embedding_size": 16}, _SEQUENCE),
    "deberta_v2": ("DebertaV2Config", _SMALL, _SEQUENCE),
    "electra": ("ElectraConfig", _SMALL | {"embedding_size": 16}, _SEQUENCE),
    "t5": ("T5Config", _T5, {"input_ids": ("tokens", 10), "decoder_input_ids": ("tokens", 6)}),
    "bart": ("BartConfig", _PAIR, {"input_ids": ("tokens", 10), "decoder_input_ids": ("tokens", 6)}),
    "whisper": ("WhisperConfig", _PAIR | {"num_mel_bins": 16, "max_source_positions": 16, "max_target_positions": 16,
                "pad_token_id": 0, "decoder_start_token_id": 1},
                {"input_features": ("floats", 16, 32), "decoder_input_ids": ("tokens", 6)}),
    "vit": ("ViTConfig", _IMAGE, {"pixel_values": ("floats", 3, 32, 32)}),
    "deit": ("DeiTConfig", _IMAGE, {"pixel_values": ("floats", 3, 32, 32)}),
    "swin": ("SwinConfig", {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4],
             "window_size": 4}, {"pixel_values": ("floats", 3, 32, 32)}),
    "convnext": ("ConvNextConfig", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]},
                 {"pixel_values": ("floats", 3, 32, 32)}),
    "segformer": ("SegformerConfig", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1],
                  "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 32},
                  {"pixel_values": ("floats", 3, 64, 64)}),
    "wav2vec2": ("Wav2Vec2Config", _SPEECH, {"input_values": ("floats", 400)}),
    "gptj": ("GPTJConfig", {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 96, "n_positions": 64,
             "rotary_dim": 4}, _SEQUENCE),
    "falcon": ("FalconConfig", {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 96,
               "alibi": True}, _SEQUENCE),
    "xlnet": ("XLNetConfig", {"d_model": 32, "n_layer": 1, "n_head": 4, "d_inner": 64, "vocab_size": 96}, _SEQUENCE),
    "fnet": ("FNetConfig", _SMALL, _SEQUENCE),
    "gpt_oss": ("GptOssConfig", _GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4},
                _SEQUENCE),
    "deepseek_v3": ("DeepseekV3Config", _SMALL | {"moe_intermediate_size": 16, "num_hidden_layers": 2,
                    "num_key_value_heads": 4, "n_routed_experts": 8, "n_group": 2, "topk_group": 1,
                    "num_experts_per_tok": 2, "first_k_dense_replace": 1, "q_lora_rank": 16, "kv_lora_rank": 16,
                    "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}, _SEQUENCE),
    "jamba": ("JambaConfig", _SMALL | {"num_hidden_layers": 2, "num_key_value_heads": 2, "attn_layer_period": 2,
              "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 2,
              "mamba_d_state": 4, "mamba_dt_rank": 4}, _SEQUENCE),
    "recurrent_gemma": ("RecurrentGemmaConfig", _SMALL | {"num_hidden_layers": 3, "lru_width": 32,
                        "attention_window_size": 8}, _SEQUENCE),
    "pegasus": ("PegasusConfig", _PAIR, {"input_ids": ("tokens", 10), "decoder_input_ids": ("tokens", 6)}),
    "squeezebert": ("SqueezeBertConfig", _SMALL | {"embedding_size": 32}, _SEQUENCE),
    "convbert": ("ConvBertConfig", _SMALL | {"embedding_size": 32}, _SEQUENCE),
    "esm": ("EsmConfig", _SMALL | {"pad_token_id": 1, "mask_token_id": 3, "position_embedding_type": "rotary"},
            _SEQUENCE),
    "perceiver": ("PerceiverConfig", {"num_latents": 8, "d_latents": 32, "d_model": 16, "num_blocks": 1,
                  "num_self_attends_per_block": 1, "num_self_attention_heads": 4, "num_cross_attention_heads": 4},
                  {"inputs": ("floats", 12, 16)}),
    "conformer": ("Wav2Vec2ConformerConfig", _SPEECH | {"position_embeddings_type": "relative",
                  "conv_depthwise_kernel_size": 7}, {"input_values": ("floats", 400)}),
    "wavlm": ("WavLMConfig", _SPEECH, {"input_values": ("floats", 400)}),
    "ast": ("ASTConfig", _SMALL | {"patch_size": 8, "max_length": 32, "num_mel_bins": 32, "frequency_stride": 8,
            "time_stride": 8}, {"input_values": ("floats", 32, 32)}),
    "dinov2": ("Dinov2Config", _IMAGE, {"pixel_values": ("floats", 3, 32, 32)}),
    "siglip": ("SiglipConfig", {"text_config": _SMALL | {"projection_size": 32}, "vision_config": _IMAGE},
               {"input_ids": ("tokens", 10), "pixel_values": ("floats", 3, 32, 32)}),
    "poolformer": ("PoolFormerConfig", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]},
                   {"pixel_values": ("floats", 3, 64, 64)}),
    "dpt": ("DPTConfig", _IMAGE | {"num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [8, 16, 24, 32], "fusion_hidden_size": 16}, {"pixel_values": ("floats", 3, 32, 32)}),
    "clip": ("CLIPConfig", {"text_config": _SMALL, "vision_config": _IMAGE, "projection_dim": 16},
             {"input_ids": ("tokens", 10), "pixel_values": ("floats", 3, 32, 32)}),
    "funnel": ("FunnelConfig", {"block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 32, "n_head": 4,
               "d_head": 8, "d_inner": 64, "vocab_size": 96, "architectures": ["FunnelModel"]}, _SEQUENCE),
    "xlm": ("XLMConfig", {"emb_dim": 32, "n_layers": 1, "n_heads": 4, "vocab_size": 96,
            "max_position_embeddings": 64}, _SEQUENCE),
    "hubert": ("HubertConfig", _SPEECH, {"input_values": ("floats", 400)}),
    "dac": ("DacConfig", {"encoder_hidden_size": 8, "downsampling_ratios": [2, 4], "decoder_hidden_size": 32,
            "n_codebooks": 2, "codebook_size": 16, "codebook_dim": 4}, {"input_values": ("floats", 1, 400)}),
    "detr": ("DetrConfig", _DETECTOR, {"pixel_values": ("floats", 3, 64, 64)}),
    "deformable_detr": ("DeformableDetrConfig", _DETECTOR | {"num_feature_levels": 2, "encoder_n_points": 2,
                        "decoder_n_points": 2}, {"pixel_values": ("floats", 3, 64, 64)}),
    "yolos": ("YolosConfig", _SMALL | {"image_size": [32, 48], "patch_size": 8, "num_detection_tokens": 4},
              {"pixel_values": ("floats", 3, 32, 48)}),
    "mask2former": ("Mask2FormerConfig", {"backbone_config": _BACKBONE | {"out_features": _STAGES},
                    "feature_size": 32, "mask_feature_size": 32, "hidden_dim": 32, "num_queries": 4,
                    "encoder_feedforward_dim": 32, "encoder_layers": 1, "decoder_layers": 2, "num_attention_heads": 4,
                    "dim_feedforward": 32},
                    {"pixel_values": ("floats", 3, 64, 64)}),
    "maskformer": ("MaskFormerConfig", {"backbone_config": _BACKBONE | {"out_features": _STAGES},
                   "fpn_feature_size": 32, "mask_feature_size": 32,
                   "decoder_config": {"model_type": "detr"} | _DETECTOR}, {"pixel_values": ("floats", 3, 64, 64)}),
    "focalnet": ("FocalNetConfig", {"image_size": 32, "embed_dim": 16, "hidden_sizes": [16, 32], "depths": [1, 1],
                 "focal_levels": [2, 2], "focal_windows": [3, 3]}, {"pixel_values": ("floats", 3, 32, 32)}),
    "swin2sr": ("Swin2SRConfig", {"image_size": 16, "embed_dim": 16, "depths": [2], "num_heads": [2],
                "window_size": 4}, {"pixel_values": ("floats", 3, 16, 16)}),
    "mobilevit": ("MobileViTConfig", {"image_size": 64, "hidden_sizes": [16, 24, 32],
                  "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 64]}, {"pixel_values": ("floats", 3, 64, 64)}),
    "levit": ("LevitConfig", {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": [1, 2, 2],
              "depths": [1, 1, 1], "key_dim": [8, 8, 8]}, {"pixel_values": ("floats", 3, 64, 64)}),
    "blip": ("BlipConfig", {"text_config": _SMALL | {"projection_dim": 16}, "vision_config": _IMAGE,
             "projection_dim": 16, "image_text_hidden_size": 16},
             {"input_ids": ("tokens", 10), "pixel_values": ("floats", 3, 32, 32)}),
    "sam": ("SamConfig", {
            "vision_config": {"hidden_size": 32, "output_channels": 16, "num_hidden_layers": 2, "image_size": 64,
                              "num_attention_heads": 4, "patch_size": 8, "window_size": 4, "global_attn_indexes": [1],
                              "num_pos_feats": 8},
            "prompt_encoder_config": {"hidden_size": 16, "image_size": 64, "patch_size": 8, "mask_input_channels": 8},
            "mask_decoder_config": {"hidden_size": 16, "mlp_dim": 32, "num_hidden_layers": 1,
                                    "num_attention_heads": 2, "iou_head_hidden_dim": 16}},
            {"pixel_values": ("floats", 3, 64, 64), "input_points": ("floats", 1, 2, 2)}),
}  # fmt: skip
TIMM = {
    "mobilevit_xxs": 64, "xcit_nano_12_p16_224": 224, "beit_base_patch16_224": 224, "nfnet_l0": 64,
    "hrnet_w18_small": 64, "edgenext_xx_small": 64, "eva02_tiny_patch14_224": 224, "mixer_s32_224": 224,
    "efficientvit_b0": 64, "efficientformer_l1": 224, "levit_128s": 224, "focalnet_tiny_srf": 64,
    "maxvit_rmlp_pico_rw_256": 256, "mambaout_femto": 64,
}  # fmt: skip
TORCHVISION = {
    "resnet18": 64, "resnet50": 64, "mobilenet_v2": 64, "mobilenet_v3_small": 64, "efficientnet_b0": 64,
    "densenet121": 64, "inception_v3": 96, "shufflenet_v2_x0_5": 64, "squeezenet1_1": 64, "regnet_y_400mf": 64,
    "vgg11": 64, "alexnet": 64, "mnasnet0_5": 64, "googlenet": 64, "swin_t": 64, "swin_v2_t": 64, "vit_b_16": 64,
    "maxvit_t": 224, "deeplabv3_mobilenet_v3_large": 64, "deeplabv3_resnet50": 64, "fcn_resnet50": 64,
    "lraspp_mobilenet_v3_large": 64,
}  # fmt: skip
#: Image models with a separate module each.
_OTHERS = {"deeplabv3_mobilenet_v3_large": "segmentation", "deeplabv3_resnet50": "segmentation",
           "fcn_resnet50": "segmentation", "lraspp_mobilenet_v3_large": "segmentation"}  # fmt: skip
_LANGUAGES = {
    "lstm": lambda: nn.LSTM(8, 16, batch_first=True), "gru": lambda: nn.GRU(8, 16, batch_first=True),
    "rnn": lambda: nn.RNN(8, 16, batch_first=True),
    "transformer": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2),
}  # fmt: skip


class Unet(nn.Module):
    """Convolutions down and up, with connections across."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 3, 1, 1), nn.Conv2d(8, 16, 3, 2, 1), nn.Conv2d(16, 32, 3, 2, 1)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(32, 8, 2, 2)])
        self.norm, self.head = nn.GroupNorm(4, 16), nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two classes for each point of an image."""
        kept = []
        for layer in self.down:
            x = torch.relu(layer(x))
            kept.append(x)
        for layer, across in zip(self.up, (kept[1], kept[0]), strict=True):
            x = torch.cat([torch.relu(layer(x)), across], 1)
        return self.head(self.norm(x))


class Recommender(nn.Module):
    """Embeddings of categories, numbers, and the products of all pairs, as in DLRM."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(96, 8, mode="sum") for _ in range(3)])
        self.bottom = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.top = nn.Linear(8 + 6, 1)

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        """One number for each row."""
        bottom = self.bottom(numbers)
        parts = torch.stack([bottom, *(t(categories[:, i : i + 2]) for i, t in enumerate(self.tables))], 1)
        pairs = torch.bmm(parts, parts.transpose(1, 2))
        rows, columns = torch.tril_indices(4, 4, -1)
        return torch.sigmoid(self.top(torch.cat([bottom, pairs[:, rows, columns]], 1)))


class Mlp(nn.Module):
    """Layers without convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The result of the layers."""
        return self.layers(x)


class LanguageModel(nn.Module):
    """An embedding, two recurrent layers, and logits by the table of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layers = nn.Embedding(96, 16), nn.LSTM(16, 16, num_layers=2, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the token after each token."""
        return self.layers(self.table(tokens))[0] @ self.table.weight.T


class _Residual(nn.Module):
    """Two convolutions with norms, and the time between these."""

    def __init__(self, channels: int, results: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(4, channels), nn.GroupNorm(4, results)])
        self.layers = nn.ModuleList([nn.Conv2d(channels, results, 3, 1, 1), nn.Conv2d(results, results, 3, 1, 1)])
        self.time, self.across = nn.Linear(32, results), nn.Conv2d(channels, results, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Images of `results` channels."""
        h = self.layers[0](F.silu(self.norms[0](x))) + self.time(F.silu(time))[:, :, None, None]
        return self.across(x) + self.layers[1](F.silu(self.norms[1](h)))


class _Attention(nn.Module):
    """Attention of each point of an image to the image, then to a text."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(channels) for _ in range(3)])
        self.attend = nn.ModuleList([nn.MultiheadAttention(channels, 2, batch_first=True, kdim=k, vdim=k)
                                     for k in (channels, 8)])  # fmt: skip
        self.gate, self.out = nn.Linear(channels, 8 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """Images of the shape of `x`."""
        y = x.flatten(2).transpose(1, 2)
        own = self.norms[0](y)
        y = y + self.attend[0](own, own, own, need_weights=False)[0]
        y = y + self.attend[1](self.norms[1](y), text, text, need_weights=False)[0]
        value, gate = self.gate(self.norms[2](y)).chunk(2, -1)
        return x + self.out(value * F.gelu(gate)).transpose(1, 2).reshape(x.shape)


class Denoiser(nn.Module):
    """A U-Net with a time and a text, as in latent diffusion."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.first, self.shrink = nn.Conv2d(4, 8, 3, 1, 1), nn.Conv2d(16, 16, 3, 2, 1)
        self.blocks = nn.ModuleList([_Residual(8, 16), _Residual(16, 16), _Residual(32, 8)])
        self.attention, self.enlarge = _Attention(16), nn.Conv2d(16, 16, 3, 1, 1)
        self.last = nn.Sequential(nn.GroupNorm(4, 8), nn.SiLU(), nn.Conv2d(8, 4, 3, 1, 1))

    def forward(self, x: torch.Tensor, steps: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """The noise in images `x` after `steps`."""
        angles = steps * torch.exp(-torch.arange(8) * math.log(1e4) / 8)
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        kept = self.blocks[0](self.first(x), time)
        h = self.attention(self.blocks[1](self.shrink(kept), time), text)
        h = self.enlarge(F.interpolate(h, scale_factor=2.0, mode="nearest"))
        return self.last(self.blocks[2](torch.cat([h, kept], 1), time))


class Generation(nn.Module):
    """Greedy decoding with a static cache: the prompt, then one token after another."""

    def __init__(self, model: nn.Module, steps: int = 3) -> None:
        super().__init__()
        self.model, self.steps = model, steps

    def forward(self, prompt: torch.Tensor, **source: torch.Tensor) -> list[torch.Tensor]:
        """The last hidden states of each step for a prompt, and for the inputs of the encoder if there is one."""
        caches = importlib.import_module("transformers")
        cache = caches.StaticCache(self.model.config, max_cache_len=prompt.shape[1] + self.steps)
        arguments: dict[str, Any] = {"cache": cache, "use_cache": True}
        if source:
            arguments["cache"] = caches.EncoderDecoderCache(cache, caches.DynamicCache())
            arguments["encoder_outputs"] = self.model.encoder(**source)
        states, table, tokens = [], self.model.get_input_embeddings().weight, prompt
        for _ in range(self.steps):
            state = self.model(**arguments, **{"decoder_input_ids" if source else "input_ids": tokens})[0]
            tokens = (state[:, -1:] @ table.T).argmax(-1)
            states.append(state)
        return states


class ImageAndText(nn.Module):
    """A language model whose text begins with an image."""

    def __init__(self, model: nn.Module, count: int) -> None:
        super().__init__()
        self.model, self.count = model, count

    def forward(self, input_ids: torch.Tensor, pixel_values: torch.Tensor) -> Any:
        """The results of the model for `count` tokens of an image before the tokens of a text."""
        image = input_ids.new_full((input_ids.shape[0], self.count), self.model.config.image_token_id)
        return self.model(input_ids=torch.cat([image, input_ids], 1), pixel_values=pixel_values)


#: Models around a model of transformers.
AROUND: dict[str, tuple[Callable[[nn.Module], nn.Module], tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "llama_generation": (Generation, ("LlamaConfig", _GROUPED, {"prompt": ("tokens", 5)})),
    "gemma2_generation": (Generation, ("Gemma2Config", _GROUPED | {"num_hidden_layers": 2, "sliding_window": 4},
                          {"prompt": ("tokens", 5)})),
    "t5_generation": (Generation, ("T5Config", _T5, {"prompt": ("tokens", 2), "input_ids": ("tokens", 10)})),
    "whisper_generation": (Generation, ("WhisperConfig", TRANSFORMERS["whisper"][1],
                           {"prompt": ("tokens", 2), "input_features": ("floats", 16, 32)})),
    "paligemma": (lambda model: ImageAndText(model, 16), ("PaliGemmaConfig", {
                  "text_config": {"model_type": "gemma"} | _GROUPED, "image_token_id": 95, "projection_dim": 32,
                  "vision_config": {"model_type": "siglip_vision_model", "vision_use_head": False} | _IMAGE},
                  {"input_ids": ("tokens", 6), "pixel_values": ("floats", 3, 32, 32)})),
}  # fmt: skip
#: Models of this script, with inputs.
OWN: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
    "mlp": (Mlp, {"x": ("floats", 8)}),
    "unet": (Unet, {"x": ("floats", 3, 16, 16)}),
    "language_model": (LanguageModel, {"tokens": ("tokens", 7)}),
    "denoiser": (Denoiser, {"x": ("floats", 4, 8, 8), "steps": ("tokens", 1), "text": ("floats", 5, 8)}),
    "dlrm": (Recommender, {"numbers": ("floats", 13), "categories": ("tokens", 4)}),
}


#: A model, and the inputs of the model for a batch size.
Made = tuple[nn.Module, Callable[..., dict[str, torch.Tensor]]]


def available() -> list[str]:
    """The models whose libraries are installed."""
    has = {name: importlib.util.find_spec(name) is not None for name in ("transformers", "timm", "torchvision")}
    return [
        *OWN,
        *_LANGUAGES,
        *((*TRANSFORMERS, *AROUND) if has["transformers"] else ()),
        *(TORCHVISION if has["torchvision"] else ()),
        *(f"timm_{name}" for name in (TIMM if has["timm"] else ())),
    ]


def define_torchvision() -> Any:
    """Defines the operators of torchvision's C++ library, which may be built for another version of PyTorch."""
    library = torch.library.Library("torchvision", "DEF")
    with contextlib.suppress(RuntimeError):
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    return library


def made(name: str) -> Made:
    """A model, and the inputs of the model for a batch size."""
    torch.manual_seed(0)
    if name in OWN:
        make, inputs = OWN[name]
        return make(), lambda n, length=None: _drawn(inputs, n)
    if name in _LANGUAGES:
        shape = ("floats", 5, 32 if name == "transformer" else 8)
        return _LANGUAGES[name](), lambda n, length=None: _drawn(
            {"src" if name == "transformer" else "input": shape}, n
        )
    if name in AROUND:
        around, row = AROUND[name]
        model, inputs_of = _of_transformers(*row)
        return around(model), inputs_of
    if name in TRANSFORMERS:
        return _of_transformers(*TRANSFORMERS[name])
    if name.startswith("timm_"):
        timm = importlib.import_module("timm")
        size = TIMM[name.removeprefix("timm_")]
        options = {"img_size": size} if "patch" in name else {}
        return timm.create_model(name.removeprefix("timm_"), **options), lambda n, length=None: _drawn(
            {"x": ("floats", 3, size, size)}, n
        )
    return _of_torchvision(name)


def _of_transformers(config: str, options: Mapping[str, Any], inputs: Mapping[str, Any]) -> Made:
    transformers = importlib.import_module("transformers")
    settings = getattr(transformers, config)(**options)
    if hasattr(settings, "use_cache"):
        settings.use_cache = False
    return transformers.AutoModel.from_config(settings), lambda n, length=None: _drawn(inputs, n, length)


def _of_torchvision(name: str) -> Made:
    torchvision = importlib.import_module("torchvision")
    options: dict[str, Any] = {"image_size": TORCHVISION[name]} if name == "vit_b_16" else {}
    if name == "maxvit_t":
        options = {"input_size": (TORCHVISION[name],) * 2}
    if name in ("inception_v3", "googlenet"):
        options = {"aux_logits": False, "init_weights": False}
    if name in _OTHERS:
        options = {"weights_backbone": None}
    size = TORCHVISION[name]
    family = getattr(torchvision.models, _OTHERS[name]) if name in _OTHERS else torchvision.models
    return getattr(family, name)(**options), lambda n, length=None: _drawn({"x": ("floats", 3, size, size)}, n)


def _drawn(inputs: Mapping[str, Any], count: int, length: int | None = None) -> dict[str, torch.Tensor]:
    """Random inputs of a batch of `count`; sequences of tokens have the given `length`."""
    torch.manual_seed(count)
    make = {"tokens": lambda *s: torch.randint(2, 90, s), "floats": torch.randn}
    sized = {n: [k, length] if length and k == "tokens" else [k, *shape] for n, (k, *shape) in inputs.items()}
    return {name: make[kind](count, *shape) for name, (kind, *shape) in sized.items()}


def _tensors(result: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(dict(result) if isinstance(result, Mapping) else result)
    return [x for x in leaves if isinstance(x, torch.Tensor)]


class Tensors(nn.Module):
    """A model whose results are a list of tensors."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """The tensors that the model gives for inputs by name."""
        return _tensors(self.model(*inputs.values()) if len(inputs) == 1 else self.model(**inputs))


def _difference(wanted: list[torch.Tensor], results: list[torch.Tensor]) -> float:
    """The largest difference of all tensors, each relative to the largest element of the tensor."""
    pairs = zip(wanted, results, strict=True)
    return max(float((a - b).abs().max() / a.abs().max().clamp(min=1e-3)) for a, b in pairs if a.is_floating_point())


def _report(differences: list[float]) -> str:
    worst = max(differences)
    return "equal" if worst <= TOLERANCE else f"differs by {worst:.1e}"


def check_export(model: nn.Module, inputs: Callable[..., dict[str, torch.Tensor]]) -> str:
    """The results of one program at two batch sizes."""
    model = Tensors(model.eval())
    shapes = {"inputs": {name: {0: Dim.AUTO} for name in inputs(SIZES[0])}}
    program = flow.from_torch(model, (inputs(SIZES[0]),), dynamic_shapes=shapes)
    with torch.no_grad():
        return _report([_difference(model(inputs(n)), program(inputs(n))) for n in SIZES])


def _step(
    function: Callable[..., list[torch.Tensor]], model: nn.Module, inputs: dict[str, torch.Tensor]
) -> list[torch.Tensor]:
    """The loss of a step, which no normalization makes constant, and all gradients."""
    model.zero_grad(set_to_none=True)
    results = [x for x in function(inputs) if x.is_floating_point() and x.requires_grad]
    weights = [torch.cos(torch.arange(x.numel(), dtype=x.dtype)).reshape(x.shape) for x in results]
    loss = sum(((x + x.square()) * w).mean() for x, w in zip(results, weights, strict=True))
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def _without_dropout(model: nn.Module) -> nn.Module:
    """The model in training mode without dropout of elements, and of whole layers (torchvision's `p`)."""
    for module in model.modules():
        for name in ("p", "dropout", "attention_dropout", "activation_dropout", "dropout_rate", "drop_prob"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model.train()


def check_train(model: nn.Module, inputs: Callable[..., dict[str, torch.Tensor]]) -> str:
    """A step in training mode without dropout, whose random numbers differ, with all gradients."""
    wrapped = Tensors(_without_dropout(model))
    state = {k: v.clone() for k, v in model.state_dict().items()}
    wanted = _step(wrapped, model, inputs(SIZES[0]))
    model.load_state_dict(state)
    results = _step(torch.compile(wrapped, backend="oneflow", dynamic=False), model, inputs(SIZES[0]))
    if _difference(wanted, results) <= TOLERANCE:
        return _report([_difference(wanted, results)])
    model.load_state_dict(state)
    wide = {k: v.double() if v.is_floating_point() else v for k, v in inputs(SIZES[0]).items()}
    exact = _step(wrapped.double(), model.double(), wide)
    eager, own = (_difference(exact, [x.double() for x in found]) for found in (wanted, results))
    return (
        f"equal within rounding, {own:.1e} where eager has {eager:.1e}"
        if own <= 2 * eager
        else (f"differs by {own:.1e} from float64, eager by {eager:.1e}")
    )


def check_compile(model: nn.Module, inputs: Callable[..., dict[str, torch.Tensor]]) -> str:
    """The results of `torch.compile` for two batch sizes."""
    wrapped = Tensors(model.eval())
    compiled = torch.compile(wrapped, backend="oneflow", dynamic=True)
    with torch.no_grad():
        return _report([_difference(wrapped(inputs(n)), compiled(inputs(n))) for n in SIZES])


def check_lengths(model: nn.Module, inputs: Callable[..., dict[str, torch.Tensor]]) -> str:
    """The results for five lengths of sequences, or batch sizes, and how often the first graphs were compiled."""
    wrapped = Tensors(model.eval())
    compiled = torch.compile(wrapped, backend="oneflow")
    has_tokens = any(not x.is_floating_point() for x in inputs(2).values())
    counters.clear()
    differences, graphs = [], []
    with torch.no_grad():
        for length in LENGTHS:
            given = inputs(2, length) if has_tokens else inputs(length)
            differences.append(_difference(wrapped(given), compiled(given)))
            graphs.append(counters["stats"]["unique_graphs"])
    times = graphs[-1] / max(graphs[0], 1)
    return _report(differences) + ("" if times <= 2 else f", but compiled {times:.1f} times")


CHECKS = {"export": check_export, "train": check_train, "compile": check_compile, "lengths": check_lengths}


def run_here(name: str, steps: list[str]) -> dict[str, str]:
    """The columns of one model."""
    outcomes, _ = {}, define_torchvision()
    for step in steps:
        model, inputs = made(name)
        if step == "train" and isinstance(model, Generation):
            continue  # PyTorch has no gradients through caches that are updated in place
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            try:
                outcomes[step] = CHECKS[step](model, inputs)
            except Exception as error:
                outcomes[step] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        eager = [str(w.message) for w in noted if "runs in eager PyTorch" in str(w.message)]
        outcomes[step] += f" ({time.perf_counter() - begin:.0f} s)" + "".join(
            f"; {' '.join(t.split())[:300]}" for t in eager
        )
        print(json.dumps({step: outcomes[step]}), flush=True)
    return outcomes


def run_apart(name: str, steps: list[str]) -> dict[str, str]:
    """The columns of one model, measured in a separate process."""
    command = [sys.executable, __file__, "--here", name, "--steps", *steps]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    outcomes: dict[str, str] = {}
    for line in ended.stdout.splitlines():
        if line.startswith("{"):
            outcomes |= json.loads(line)
    if ended.returncode:
        outcomes |= {
            step: f"ended with status {ended.returncode}: {ended.stderr[-200:]}"
            for step in steps
            if step not in outcomes
        }
    return outcomes


def main() -> int:
    """Prints a line for each model, then how many have each column equal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="the models; all that are available unless given")
    parser.add_argument("--steps", nargs="*", default=list(STEPS), choices=STEPS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help="only print the names")
    arguments = parser.parse_args()
    names = arguments.names or available()
    if arguments.list:
        print("\n".join(names))
        return 0
    if arguments.here:
        run_here(names[0], arguments.steps)
        return 0
    counts, measured = dict.fromkeys(arguments.steps, 0), dict.fromkeys(arguments.steps, 0)
    for name in names:
        outcomes = run_apart(name, arguments.steps)
        print(f"{name}: " + " | ".join(f"{step} {text}" for step, text in outcomes.items()), flush=True)
        for step in arguments.steps:
            measured[step] += step in outcomes
            counts[step] += outcomes.get(step, "").startswith("equal") and not any(
                word in outcomes[step] for word in ("runs in eager", "but compiled")
            )
    totals = ", ".join(f"{step} {counts[step]} of {measured[step]}" for step in arguments.steps)
    print(f"{len(names)} models; equal and compiled whole: {totals}")
    return int(counts != measured)


if __name__ == "__main__":
    sys.exit(main())
