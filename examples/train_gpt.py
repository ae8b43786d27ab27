"""Trains a GPT on characters of the docstrings and the licence of Python's standard library.

    python examples/train_gpt.py [--resume]

At the end the model generates some text. The whole step (forward, backward, clipping, update) is one program, an
`nn.Graph`.
"""

from __future__ import annotations

import ast
import sysconfig
import time
from pathlib import Path

import numpy as np
from training import Batches, arguments, train

import oneflow as flow
from oneflow import nn
from oneflow.optim.lr_scheduler import LRScheduler

BATCH, LENGTH, WIDTH, HEADS, LAYERS = 16, 64, 128, 4, 4
HELD_OUT = 0.05


def docstrings(path: Path) -> list[str]:
    """The docstrings of a module, and of the classes and functions of the module."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes: list[ast.AST] = [ast.parse(path.read_bytes())]
    for node in nodes:  # expressions define no functions with docstrings
        nodes += (
            n for n in ast.iter_child_nodes(node) if isinstance(n, (ast.stmt, ast.ExceptHandler, ast.match_case))
        )
    return [text for n in nodes if isinstance(n, documented) and (text := ast.get_docstring(n))]


def corpus() -> str:
    """All text, in ASCII."""
    library = Path(sysconfig.get_path("stdlib"))
    parts = [p.read_text() for p in library.glob("LICENSE*")]
    for path in sorted(library.glob("*.py")):
        parts += docstrings(path)
    text = "\n\n".join(parts)
    return "".join(c for c in text if c == "\n" or " " <= c <= "~")


class Block(nn.Module):
    """Causal attention, then two linear layers, both with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: flow.Tensor) -> flow.Tensor:
        """`x` (batch, length, width), one block on."""
        h = self.ln1(x)
        x = x + self.attention(h, h, h, need_weights=False, is_causal=True)[0]
        following: flow.Tensor = x + self.mlp(self.ln2(x))
        return following


class GPT(nn.Module):
    """Scores of the next character `(batch, length, letters)` at each position of texts `(batch, length)`."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letters, self.positions = nn.Embedding(letters, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.ln, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters, bias=False)
        for embedding in (self.letters, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, text: flow.Tensor) -> flow.Tensor:
        """The scores."""
        scores: flow.Tensor = self.head(self.ln(self.blocks(self.letters(text) + self.positions.weight)))
        return scores


def loss_of(model: GPT, text: flow.Tensor, following: flow.Tensor) -> flow.Tensor:
    """The cross entropy of the characters that follow."""
    scores = model(text).reshape(BATCH * LENGTH, -1)
    loss: flow.Tensor = nn.functional.cross_entropy(scores, following.reshape(-1))
    return loss


class Step(nn.Graph):
    """One training step; the result is the loss before the update."""

    def __init__(self, model: GPT, optimizer: flow.optim.Optimizer, schedule: LRScheduler) -> None:
        super().__init__()
        self.model = model
        self.add_optimizer(optimizer, lr_sch=schedule)

    def build(self, text: flow.Tensor, following: flow.Tensor) -> flow.Tensor:
        """Forward, backward and clipping; the update follows."""
        loss = loss_of(self.model, text, following)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        return loss


def batches(codes: np.ndarray, seed: int) -> Batches:
    """The function from the number of a step to sequences of text, and the same moved by one character."""

    def batch(number: int) -> tuple[np.ndarray, np.ndarray]:
        starts = np.random.default_rng((seed, number)).integers(0, len(codes) - LENGTH, BATCH)
        sequences = codes[starts[:, None] + np.arange(LENGTH + 1)]
        return sequences[:, :-1].copy(), sequences[:, 1:].copy()

    return batch


@flow.no_grad()
def write(model: GPT, prompt: list[int], count: int, seed: int, temperature: float = 0.8) -> list[int]:
    """`prompt` and `count` characters that the model adds, drawn one by one."""
    scores = flow.compile(model)
    rng, text = np.random.default_rng(seed), list(prompt)
    for _ in range(count):
        seen = text[-LENGTH:]
        padded = np.zeros((1, LENGTH), np.int64)
        padded[0, : len(seen)] = seen
        row = np.asarray(scores(padded).numpy()[0, len(seen) - 1], np.float64) / temperature
        chances = np.exp(row - row.max())
        text.append(int(rng.choice(len(row), p=chances / chances.sum())))
    return text


def main() -> None:
    """Trains, prints the loss on text that was held out, and some text."""
    options = arguments(__doc__, "runs/gpt", steps=1500, every=100)
    flow.manual_seed(options.seed)
    letters, codes = np.unique(list(corpus()), return_inverse=True)
    split = int(len(codes) * (1 - HELD_OUT))
    model = GPT(len(letters))
    optimizer = flow.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.99), weight_decay=0.1)
    cosine = flow.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps, eta_min=2e-4)
    schedule = flow.optim.lr_scheduler.WarmupLR(cosine, warmup_factor=0.1, warmup_iters=100)

    begin = time.perf_counter()
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    train(options, Step(model, optimizer, schedule), batches(codes[:split], options.seed), "characters", **parts)
    model.eval()
    held_out = batches(codes[split:], options.seed + 1)
    measure = flow.compile(lambda text, following: loss_of(model, text, following))
    with flow.no_grad():
        loss = np.mean([float(measure(*held_out(i))) for i in range(20)])
    print(f"held-out loss {loss:.3f} of {len(codes):,} characters, {time.perf_counter() - begin:.1f} s\n")
    prompt = np.searchsorted(letters, list("Return the ")).tolist()
    print("".join(letters[write(model, prompt, 400, options.seed)]))


if __name__ == "__main__":
    main()
