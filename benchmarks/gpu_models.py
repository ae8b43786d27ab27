"""The models of `benchmarks/gpu.py`, written once for PyTorch's and this package's names.

`lib` is `torch` or `oneflow`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

LAYERS, HEADS, WIDTH, VOCABULARY = 12, 12, 768, 50304


def mlp(lib: ModuleType) -> Any:
    """784-512-256-10 with ReLU."""
    nn = lib.nn
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


def gpt2(lib: ModuleType, context: int = 1024) -> Any:
    """GPT-2 small: 12 layers of width 768, the vocabulary padded to 50304, without dropout."""
    nn, F = lib.nn, lib.nn.functional  # noqa: N806

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
            self.out = nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def heads(self, x: Any) -> Any:
            return x.reshape(x.shape[0], x.shape[1], HEADS, WIDTH // HEADS).transpose(1, 2)

        def forward(self, x: Any) -> Any:
            y = self.first(x)
            q, k, v = self.heads(self.query(y)), self.heads(self.key(y)), self.heads(self.value(y))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(*x.shape))
            return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))

    class Model(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(context, WIDTH)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.last = nn.LayerNorm(WIDTH)

        def forward(self, ids: Any, positions: Any) -> Any:
            x = self.tokens(ids) + self.positions(positions)
            return F.linear(self.last(self.blocks(x)), self.tokens.weight)

    return Model()


def resnet50(lib: ModuleType) -> Any:
    """ResNet-50 for images of 224 x 224 and 1000 classes."""
    nn, F = lib.nn, lib.nn.functional  # noqa: N806

    def unit(inputs: int, outputs: int, size: int, stride: int = 1) -> Any:
        layer = nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)
        return nn.Sequential(layer, nn.BatchNorm2d(outputs))

    class Bottleneck(nn.Module):  # type: ignore[name-defined]
        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            self.narrow, self.middle = unit(inputs, width, 1), unit(width, width, 3, stride)
            self.wide = unit(width, 4 * width, 1)
            self.short = unit(inputs, 4 * width, 1, stride) if stride > 1 or inputs != 4 * width else None

        def forward(self, x: Any) -> Any:
            y = self.wide(F.relu(self.middle(F.relu(self.narrow(x)))))
            return F.relu(y + (x if self.short is None else self.short(x)))

    class Model(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.stem, stages, inputs = unit(3, 64, 7, 2), [], 64
            for index, depth in enumerate((3, 4, 6, 3)):
                width = 64 << index
                for block in range(depth):
                    stages.append(Bottleneck(inputs, width, 2 if block == 0 and index else 1))
                    inputs = 4 * width
            self.stages, self.head = nn.Sequential(*stages), nn.Linear(inputs, 1000)

        def forward(self, x: Any) -> Any:
            x = F.max_pool2d(F.relu(self.stem(x)), 3, stride=2, padding=1)
            return self.head(self.stages(x).mean((2, 3)))

    return Model()
