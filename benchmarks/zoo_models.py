"""The models of `benchmarks/zoo.py`, each written once for the names that PyTorch and this package share.

`lib` is `torch` or `oneflow`; `Zoo` is the table of the models, with inputs at two sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np


def split_heads(x: Any, heads: int) -> Any:
    """`[batch, tokens, heads * width]` as `[batch, heads, tokens, width]`."""
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(1, 2)


def join_heads(x: Any) -> Any:
    """The inverse of `split_heads`."""
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def repeat_heads(x: Any, count: int) -> Any:
    """Each head `count` times: grouped-query attention."""
    batch, heads, length, width = x.shape
    return x.unsqueeze(2).expand(batch, heads, count, length, width).reshape(batch, heads * count, length, width)


def rotate(lib: ModuleType, x: Any, cosine: Any, sine: Any) -> Any:
    """Rotary position embedding: each pair of halves is rotated by the angle of the position."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return x * cosine + lib.cat([-second, first], dim=-1) * sine


def llama(lib: ModuleType, width: int, layers: int, heads: int, vocabulary: int) -> Any:
    """RMSNorm, rotary embeddings, grouped-query attention with a quarter of the heads, SwiGLU."""
    nn, F = lib.nn, lib.nn.functional  # noqa: N806
    groups, size = heads // 4, width // heads

    class Norm(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(lib.ones(width))

        def forward(self, x: Any) -> Any:
            return x * lib.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = Norm(), Norm()
            self.query, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
            self.key, self.value = (nn.Linear(width, groups * size, bias=False) for _ in range(2))
            self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
            self.down = nn.Linear(3 * width, width, bias=False)

        def forward(self, x: Any, cosine: Any, sine: Any) -> Any:
            y = self.before(x)
            q = rotate(lib, split_heads(self.query(y), heads), cosine, sine)
            k = rotate(lib, split_heads(self.key(y), groups), cosine, sine)
            v = split_heads(self.value(y), groups)
            k, v = (repeat_heads(t, heads // groups) for t in (k, v))
            x = x + self.out(join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
            y = self.after(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Model(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.last, self.head = Norm(), nn.Linear(width, vocabulary, bias=False)

        def forward(self, ids: Any, cosine: Any, sine: Any) -> Any:
            x = self.tokens(ids)
            for block in self.blocks:
                x = block(x, cosine, sine)
            return self.head(self.last(x))

    return Model()


def bert(lib: ModuleType, width: int, layers: int, heads: int, vocabulary: int) -> Any:
    """Post-norm encoder layers whose attention sees a padding mask of bools."""
    nn, F = lib.nn, lib.nn.functional  # noqa: N806

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, mask: Any) -> Any:
            q, k, v = (split_heads(layer(x), heads) for layer in (self.query, self.key, self.value))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = self.first(x + self.out(join_heads(y)))
            return self.second(x + self.down(F.gelu(self.up(x))))

    class Model(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.head = nn.Linear(width, vocabulary)

        def forward(self, ids: Any, mask: Any) -> Any:
            x = self.tokens(ids)
            for block in self.blocks:
                x = block(x, mask)
            return self.head(x)

    return Model()


def vit(lib: ModuleType, width: int, layers: int, heads: int, classes: int) -> Any:
    """A vision transformer: patches of 16, a class token in front, so the number of tokens is odd."""
    nn, F = lib.nn, lib.nn.functional  # noqa: N806

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            q, k, v = (split_heads(t, heads) for t in self.qkv(self.first(x)).chunk(3, -1))
            x = x + self.out(join_heads(F.scaled_dot_product_attention(q, k, v)))
            return x + self.down(F.gelu(self.up(self.second(x))))

    class Model(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, stride=16)
            self.token = nn.Parameter(lib.zeros(1, 1, width))
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.last, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = lib.cat([self.token.expand(x.shape[0], 1, width), x], dim=1)
            for block in self.blocks:
                x = block(x)
            return self.head(self.last(x)[:, 0])

    return Model()


def unet(lib: ModuleType, width: int) -> Any:
    """Two levels down and up again by transposed convolutions, with group norms and skip connections."""
    nn = lib.nn

    def unit(inputs: int, outputs: int) -> Any:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU())

    class Model(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = unit(3, width), unit(width, 2 * width), unit(2 * width, 4 * width)
            self.raise_third = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
            self.raise_second = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
            self.join_second, self.join_first = unit(4 * width, 2 * width), unit(2 * width, width)
            self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(width, 2, 1)

        def forward(self, x: Any) -> Any:
            first = self.first(x)
            second = self.second(self.pool(first))
            third = self.third(self.pool(second))
            y = self.join_second(lib.cat([self.raise_third(third), second], dim=1))
            return self.head(self.join_first(lib.cat([self.raise_second(y), first], dim=1)))

    return Model()


def mobilenet(lib: ModuleType, width: int) -> Any:
    """Inverted residuals: pointwise, depthwise 3 x 3, pointwise, with batch norms."""
    nn = lib.nn

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            inner = 4 * inputs
            self.adds = stride == 1 and inputs == outputs
            self.body = nn.Sequential(
                nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6(),
                nn.Conv2d(inner, inner, 3, stride=stride, padding=1, groups=inner, bias=False),
                nn.BatchNorm2d(inner), nn.ReLU6(),
                nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            y = self.body(x)
            return x + y if self.adds else y

    class Model(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
            self.blocks = nn.Sequential(
                Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 2 * width, 1)
            )
            self.head = nn.Linear(2 * width, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.blocks(self.stem(x)).mean((2, 3)))

    return Model()


def recurrent(lib: ModuleType, kind: str, width: int) -> Any:
    """Two layers of an LSTM or a GRU, and a product on the last state."""
    nn = lib.nn

    class Model(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = getattr(nn, kind)(width, width, num_layers=2, batch_first=True)
            self.head = nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.layers(x)[0][:, -1])

    return Model()


def dlrm(lib: ModuleType, width: int, tables: int, rows: int) -> Any:
    """Embeddings of categories, a perceptron of numbers, and the products of all pairs of both."""
    nn = lib.nn

    class Model(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList([nn.Embedding(rows, width) for _ in range(tables)])
            self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
            self.top = nn.Sequential(nn.Linear(width + (tables + 1) ** 2, 64), nn.ReLU(), nn.Linear(64, 2))

        def forward(self, numbers: Any, categories: Any) -> Any:
            bottom = self.bottom(numbers)
            parts = [bottom] + [table(categories[:, i]) for i, table in enumerate(self.tables)]
            x = lib.stack(parts, dim=1)
            pairs = lib.matmul(x, x.transpose(1, 2)).flatten(1)
            return self.top(lib.cat([bottom, pairs], dim=1))

    return Model()


@dataclass(frozen=True)
class Model:
    """A model of the zoo: constructors of the model from a library, and of inputs and labels from a generator."""

    make: Callable[[ModuleType], Any]
    inputs: Callable[[np.random.Generator], tuple[np.ndarray, ...]]
    labels: Callable[[np.random.Generator], np.ndarray]


def angles(length: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of rotary embeddings, `[length, size]` in f32."""
    rates = 1e4 ** (-np.arange(0, size, 2) / size)
    table = np.concatenate([np.outer(np.arange(length), rates)] * 2, -1)
    return np.cos(table).astype(np.float32), np.sin(table).astype(np.float32)


def padding_mask(rng: np.random.Generator, batch: int, length: int) -> np.ndarray:
    """A mask `[batch, 1, 1, length]`, true at tokens, for rows of random lengths."""
    return (np.arange(length) < rng.integers(length // 3, length, (batch, 1)))[:, None, None, :]


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random numbers of f32."""
    return rng.standard_normal(shape).astype(np.float32)


def zoo(scale: str) -> dict[str, Model]:
    """The models at `scale`: `small` for fast comparisons of numbers, `full` for times."""
    small = scale == "small"
    width, layers, heads, words = (64, 2, 8, 101) if small else (768, 12, 12, 32000)
    batch, length = (2, 37) if small else (8, 1024)
    image, side = (64, 32) if small else (224, 128)

    def ids(rng: np.random.Generator, *shape: int) -> np.ndarray:
        return rng.integers(0, words, shape)

    return {
        "Llama": Model(lambda lib: llama(lib, width, layers, heads, words),
                       lambda rng: (ids(rng, batch, length), *angles(length, width // heads)),
                       lambda rng: ids(rng, batch, length)),
        "BERT with a padding mask": Model(
            lambda lib: bert(lib, width, layers, heads, words),
            lambda rng: (ids(rng, batch, length), padding_mask(rng, batch, length)),
            lambda rng: ids(rng, batch, length)),
        "ViT": Model(lambda lib: vit(lib, width, layers, heads, 10),
                     lambda rng: (normal(rng, batch, 3, image, image),),
                     lambda rng: rng.integers(0, 10, (batch,))),
        "U-Net": Model(lambda lib: unet(lib, 8 if small else 64), lambda rng: (normal(rng, batch, 3, side, side),),
                       lambda rng: rng.integers(0, 2, (batch, side, side))),
        "MobileNet": Model(lambda lib: mobilenet(lib, 8 if small else 32),
                           lambda rng: (normal(rng, 4 * batch, 3, image, image),),
                           lambda rng: rng.integers(0, 10, (4 * batch,))),
        "LSTM": Model(lambda lib: recurrent(lib, "LSTM", 32 if small else 512),
                      lambda rng: (normal(rng, batch, 9 if small else 64, 32 if small else 512),),
                      lambda rng: rng.integers(0, 10, (batch,))),
        "GRU": Model(lambda lib: recurrent(lib, "GRU", 32 if small else 512),
                     lambda rng: (normal(rng, batch, 9 if small else 64, 32 if small else 512),),
                     lambda rng: rng.integers(0, 10, (batch,))),
        "DLRM": Model(lambda lib: dlrm(lib, 16 if small else 64, 5 if small else 26, 50 if small else 10000),
                      lambda rng: (normal(rng, 32 * batch, 13),
                                   rng.integers(0, 50, (32 * batch, 5 if small else 26))),
                      lambda rng: rng.integers(0, 2, (32 * batch,))),
    }  # fmt: skip
