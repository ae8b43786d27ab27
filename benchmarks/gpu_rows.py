"""The rows of the tables of `benchmarks/gpu.py`, in groups. This module has products, attention and whole steps.

A row is made when the row is measured, so that a row that fails does not affect other rows.
"""

from __future__ import annotations

import copy
import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gpu_models as models
import torch
from gpu_bandwidth import long_rows, pointwise, rows
from gpu_layers import columns, convolutions, other_products, tf32
from gpu_row import COMPILED, COPY, CUDNN, DTYPES, EAGER, FLASH, Action, Row, both, compare, compiled, normal
from steps import step_of
from torch.nn.attention import SDPBackend, sdpa_kernel

import oneflow as flow

#: Products: M, N, K, and which operands are stored transposed (t) or not (n).
PRODUCTS = [
    (512, 512, 512, "nn"), (1024, 1024, 1024, "nn"), (1536, 1536, 1536, "nn"), (2048, 2048, 2048, "nn"),
    (3000, 3000, 3000, "nn"), (4096, 4096, 4096, "nn"), (4096, 4096, 4096, "nt"), (4096, 4096, 4096, "tn"),
    (4096, 4096, 4096, "tt"), (8192, 8192, 8192, "nn"), (16384, 16384, 16384, "nn"), (16384, 4096, 4096, "nn"),
    (8192, 4096, 1024, "nn"), (8192, 1024, 4096, "nn"), (8192, 1024, 1024, "nn"), (2048, 8192, 512, "nn"),
    (8192, 2048, 512, "nt"), (16384, 512, 2048, "nt"), (512, 16384, 2048, "nn"), (4096, 4096, 64, "nn"),
    (8192, 768, 768, "nt"), (8192, 2304, 768, "nt"), (8192, 3072, 768, "nt"), (8192, 768, 3072, "nt"),
    (8192, 50304, 768, "nt"), (8192, 768, 3072, "nn"), (8192, 768, 50304, "nn"), (768, 768, 8192, "tn"),
    (768, 3072, 8192, "tn"), (50304, 768, 8192, "tn"), (1024, 3072, 768, "nt"), (1024, 768, 3072, "nt"),
    (1, 4096, 4096, "nt"), (16, 4096, 4096, "nt"), (64, 4096, 4096, "nt"), (128, 4096, 4096, "nn"),
    (512, 4096, 4096, "nt"), (256, 256, 16384, "nn"), (64, 64, 65536, "nn"), (1000, 777, 1001, "nn"),
]  # fmt: skip


def matmul() -> Iterator[Callable[[], Row]]:
    """Products; eager is cuBLAS."""
    for m, n, k, form in PRODUCTS:
        yield functools.partial(product_row, m, n, k, form, "bf16")
    yield lambda: product_row(4096, 4096, 4096, "nn", "f16")
    yield lambda: product_row(4096, 4096, 4096, "nn", "f32")
    yield lambda: weight_gradients_row(7, 768, 3072, 8192)
    yield from (gelu_row, residual_row)


def gelu_row() -> Row:
    """A product with bias and GELU; the library fuses both into the epilogue."""

    def function(lib: Any) -> Callable[..., Any]:
        fused = lambda a, b, c: torch._addmm_activation(c, a, b.t(), use_gelu=True)  # noqa: E731
        plain = lambda a, b, c: flow.nn.functional.gelu(flow.nn.functional.linear(a, b, c), approximate="tanh")  # noqa: E731
        return plain if lib is flow else fused

    arrays = [normal(*shape, dtype="bf16") for shape in ((8192, 768), (3072, 768), (3072,))]
    return both("gelu(a @ b.T + c) 8192 x 3072 x 768 bf16", function, arrays, flops=2.0 * 8192 * 3072 * 768)


def residual_row() -> Row:
    """A product and a residual; the library's call also adds the residual."""
    arrays = [normal(*shape, dtype="bf16") for shape in ((8192, 3072), (768, 3072), (8192, 768))]

    def function(lib: Any) -> Callable[..., Any]:
        return (
            (lambda a, b, r: a @ b.transpose(0, 1) + r) if lib is flow else lambda a, b, r: torch.addmm(r, a, b.t())
        )

    return both("a @ b.T + r 8192 x 768 x 3072 bf16", function, arrays, flops=2.0 * 8192 * 768 * 3072)


def multiply(form: str) -> Callable[[Any, Any], Any]:
    """The product of operands in the stored layout, without transposition."""

    def stored(a: Any, how: str) -> Any:
        return a.transpose(0, 1) if how == "t" else a

    return lambda a, b: stored(a, form[0]) @ stored(b, form[1])


def product_row(m: int, n: int, k: int, form: str, dtype: str) -> Row:
    """One product, of operands in the stored layout."""
    left = normal(*((k, m) if form[0] == "t" else (m, k)), dtype=dtype)
    right = normal(*((n, k) if form[1] == "t" else (k, n)), dtype=dtype)
    name = f"matmul {m} x {n} x {k} {form} {dtype}"
    row = both(name, lambda lib: multiply(form), [left, right], flops=2.0 * m * n * k)
    del row.peers[COMPILED]
    return row


def weight_gradients_row(count: int, m: int, n: int, k: int) -> Row:
    """Products that do not need each other, as the gradients of equal layers' weights."""
    name = f"{count} times matmul {m} x {n} x {k} tn bf16"

    def function(lib: Any) -> Callable[..., Any]:
        return lambda *x: tuple(a.transpose(0, 1) @ b for a, b in zip(x[::2], x[1::2], strict=True))

    arrays = [normal(k, size, dtype="bf16") for _ in range(count) for size in (m, n)]
    row = both(name, function, arrays, flops=2.0 * count * m * n * k)
    del row.peers[COMPILED]
    return row


def attention() -> Iterator[Callable[[], Row]]:
    """Rows of attention, each shape without and with gradients."""
    shapes = [(1024, 64, True), (4096, 64, True), (4096, 64, False), (1024, 128, True), (4096, 128, True),
              (4096, 128, False), (16384, 128, True), (4096, 256, True), (4096, 256, False)]  # fmt: skip
    for size, head, causal in shapes:
        yield functools.partial(attention_row, size, head, causal, False)
        yield functools.partial(attention_row, size, head, causal, True)


def attention_row(size: int, head: int, causal: bool, gradient: bool) -> Row:
    """16k tokens of 2048 channels."""
    shape = 16384 // size, 2048 // head, size, head
    arrays = [normal(*shape, dtype="bf16") for _ in range(4 if gradient else 3)]
    flops = 4.0 * 16384 * size * 2048 / (2 if causal else 1) * (3.5 if gradient else 1)
    name = f"attention{' and gradients' if gradient else ''} {size} tokens, heads of {head}"

    def function(lib: Any) -> Callable[..., Any]:
        return lambda q, k, v: lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    row = both(f"{name}{', causal' if causal else ''}, bf16", function, arrays, leaves=3 * gradient, flops=flops)
    theirs, libraries = row.peers[EAGER], {CUDNN: SDPBackend.CUDNN_ATTENTION, FLASH: SDPBackend.FLASH_ATTENTION}
    row.peers = {column: by(library, theirs) for column, library in libraries.items()}
    return row


def by(library: SDPBackend, action: Action) -> Action:
    """An action whose attention is a library's."""

    def run() -> object:
        with sdpa_kernel(library):
            return action()

    return run


def step_row(name: str, make: Callable[[Any], Any], loss: Callable[..., Any], arrays: Sequence[torch.Tensor],
             dtype: str, optimizer: Callable[[Any, Any], Any] | None, mode: str) -> Row:  # fmt: skip
    """A training step of a model, or the forward pass if there is no optimizer."""
    torch.manual_seed(0)
    theirs = make(torch).cuda().to(DTYPES[dtype])
    mine = make(flow)
    mine.load_state_dict({k: v.float().cpu().numpy() for k, v in theirs.state_dict().items()}, strict=False)
    mine = mine.to(getattr(flow, {"f32": "float32", "bf16": "bfloat16"}[dtype])).to("cuda")
    tensors = [flow.from_numpy(a) for a in arrays]
    ours: Callable[..., Any] = functools.partial(loss, flow, mine)
    slow: Callable[..., Any] = functools.partial(loss, torch, theirs)
    if optimizer is None:
        mine.eval(), theirs.eval()
    else:
        ours, slow = step_of(ours, optimizer(flow, mine)), step_of(slow, optimizer(torch, theirs))
    ours = flow.compile(ours)
    begin = time.perf_counter()
    first = ours(*tensors)
    flow.cuda.synchronize()
    took = time.perf_counter() - begin
    peers: dict[str, Action] = {EAGER: lambda: slow(*arrays)}
    if optimizer is None:
        fast = compiled(slow, mode=mode)
        peers[COMPILED] = lambda: fast(*arrays)
        peers = {column: unrecorded(action) for column, action in peers.items()}
    else:
        others = copy.deepcopy(theirs)
        forward, chosen = compiled(functools.partial(loss, torch, others), mode=mode), optimizer(torch, others)
        peers[COMPILED] = lambda: training_step(forward, chosen, arrays)
    row = Row(f"{name} (first call {took:.1f} s)", lambda: ours(*tensors), peers, step=True)
    compare(row, first, peers[EAGER]())
    return row


def training_step(forward: Callable[..., Any], optimizer: Any, arrays: Sequence[Any]) -> None:
    """A step of PyTorch's whose forward and backward parts are compiled."""
    forward(*arrays).backward()
    optimizer.step()
    optimizer.zero_grad()


def unrecorded(action: Action) -> Action:
    """An action of PyTorch's without gradients."""

    def run() -> object:
        with torch.no_grad():
            return action()

    return run


def classify(lib: Any, model: Any, x: Any, y: Any) -> Any:
    """The loss of a classifier."""
    return lib.nn.functional.cross_entropy(model(x), y)


def next_token(lib: Any, model: Any, ids: Any, positions: Any, labels: Any) -> Any:
    """The loss of a language model."""
    logits = model(ids, positions)
    return lib.nn.functional.cross_entropy(logits.reshape(-1, models.VOCABULARY), labels.reshape(-1))


def sgd(lib: Any, model: Any) -> Any:
    """SGD."""
    return lib.optim.SGD(model.parameters(), lr=0.1)


def adamw(lib: Any, model: Any) -> Any:
    """AdamW, PyTorch's fused one."""
    return lib.optim.AdamW(model.parameters(), lr=1e-4, **({"fused": True} if lib is torch else {}))


def tokens(batch: int, size: int = 1024) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens, positions of the tokens, and the following tokens."""
    ids, labels = (torch.randint(0, 50257, (batch, size), device="cuda") for _ in range(2))
    return ids, torch.arange(size, device="cuda").expand(batch, size).contiguous(), labels


def steps() -> Iterator[Callable[[], Row]]:
    """Whole models."""
    digits = normal(64, 784), torch.randint(0, 10, (64,), device="cuda")
    yield lambda: step_row("MLP training step, batch 64, f32, SGD", models.mlp, classify, digits, "f32", sgd,
                           "reduce-overhead")  # fmt: skip
    yield lambda: step_row("GPT-2 small forward, 1 x 1024, bf16", models.gpt2, lambda lib, m, *a: m(*a),
                           tokens(1)[:2], "bf16", None, "reduce-overhead")  # fmt: skip
    yield lambda: step_row("GPT-2 small forward, 8 x 1024, bf16", models.gpt2, lambda lib, m, *a: m(*a),
                           tokens(8)[:2], "bf16", None, "default")  # fmt: skip
    yield lambda: step_row("GPT-2 small training step, 8 x 1024, bf16, AdamW", models.gpt2, next_token, tokens(8),
                           "bf16", adamw, "default")  # fmt: skip


def images() -> Iterator[Callable[[], Row]]:
    """ResNet-50."""
    batch = normal(128, 3, 224, 224, dtype="bf16"), torch.randint(0, 1000, (128,), device="cuda")
    yield lambda: step_row("ResNet-50 training step, batch 128, bf16, SGD", models.resnet50, classify, batch,
                           "bf16", sgd, "default")  # fmt: skip


def launches() -> Iterator[Callable[[], Row]]:
    """The cost of a launch: 64 small kernels, launched one by one and as a CUDA graph."""
    for graphs in ("0", "1"):
        yield functools.partial(launch_row, graphs)


def launch_row(graphs: str) -> Row:
    """64 softmaxes of 64 rows, which nothing merges, on the same arrays in every call."""
    os.environ["ONEFLOW_CUDA_GRAPHS"] = graphs

    def function(lib: Any) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for _ in range(32):
                x = lib.softmax(lib.softmax(x, 0), 1)
            return x

        return run

    row = both(f"64 small kernels, {'as a graph' if graphs == '1' else 'one by one'}", function, [normal(64, 64)],
               step=True, tolerance=1e-3)  # fmt: skip
    os.environ["ONEFLOW_CUDA_GRAPHS"] = "1"
    return row


#: Columns of peers of a group's table, if the peers of the group are not `PEERS`.
COLUMNS = {"attention": (CUDNN, FLASH)}
PEERS = (EAGER, COMPILED, COPY)

GROUPS: dict[str, Callable[[], Iterator[Callable[[], Row]]]] = {
    "launches": launches, "rows": rows, "long rows": long_rows, "pointwise": pointwise, "matmul": matmul,
    "attention": attention, "steps": steps, "images": images, "columns": columns, "convolutions": convolutions,
    "tf32": tf32, "other products": other_products,
}  # fmt: skip
