"""Rows of `benchmarks/gpu.py` for kernels that are bound by memory bandwidth, as a copy of the same bytes is."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gpu_models as models
import torch
from gpu_row import COMPILED, DTYPES, EAGER, Row, both, compare, compiled, normal

import oneflow as flow

#: Bytes of an element.
WIDTHS = {"f32": 4, "bf16": 2}

#: Row-wise functions by library, and the number of further operands, vectors of the row length.
ALONG_ROWS: dict[str, tuple[Callable[[Any, int], Callable[..., Any]], int]] = {
    "softmax": (lambda lib, size: lambda x: lib.softmax(x, -1), 0),
    "layer_norm": (lambda lib, size: lambda x, w, b: lib.nn.functional.layer_norm(x, (size,), w, b), 2),
    "rms_norm": (lambda lib, size: lambda x, w: lib.nn.functional.rms_norm(x, (size,), w), 1),
}


def rows() -> Iterator[Callable[[], Row]]:
    """Functions along rows, forward and backward."""
    for dtype, size, gradient, name in itertools.product(WIDTHS, (256, 1024, 8192, 32768), (False, True), ALONG_ROWS):
        yield functools.partial(along_rows, name, size, dtype, gradient)


def along_rows(name: str, size: int, dtype: str, gradient: bool) -> Row:
    """A row-wise function of 64 Mi elements, or the gradients by all inputs; bytes belong to the measured pass."""
    make, vectors = ALONG_ROWS[name]
    count = (1 << 26) // size
    arrays = [normal(count, size, dtype=dtype), *(normal(size, dtype=dtype) for _ in range(vectors))]
    arrays += [normal(count, size, dtype=dtype)] * gradient

    title = f"{name}{' backward' if gradient else ''} {count} x {size} {dtype}"
    return both(title, lambda lib: make(lib, size), arrays, leaves=gradient * (vectors + 1),
                bytes=(3 if gradient else 2) * WIDTHS[dtype] << 26)  # fmt: skip


#: Functions of few long rows, by library: the rows leave most of the device idle unless each one is split.
OF_LONG_ROWS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "softmax": lambda lib: lambda x: lib.softmax(x, -1),
    "log_softmax": lambda lib: lambda x: lib.log_softmax(x, -1),
    "layer_norm": lambda lib: lambda x: lib.nn.functional.layer_norm(x, (x.shape[-1],)),
    "cumsum": lambda lib: lambda x: lib.cumsum(x, -1),
    "norm": lambda lib: lambda x: (x * x).sum(-1).sqrt(),
}


def long_rows() -> Iterator[Callable[[], Row]]:
    """Functions of few long rows, forward and, of the softmax and the norm, backward."""
    for shape, (name, function) in itertools.product(((2, 1_000_003), (1, 1_000_000), (128, 131_072)),
                                                     OF_LONG_ROWS.items()):  # fmt: skip
        yield functools.partial(_long_row, f"{name} {shape[0]} x {shape[1]} f32", function, [shape])
    for name in ("softmax", "layer_norm"):
        title = f"{name} backward 2 x 1000003 f32"
        yield functools.partial(_long_row, title, OF_LONG_ROWS[name], [(2, 1_000_003)] * 2, leaves=1)


def _long_row(
    title: str, function: Callable[[Any], Callable[..., Any]], shapes: Sequence[tuple[int, int]], leaves: int = 0
) -> Row:
    return both(title, function, [normal(*shape) for shape in shapes], leaves=leaves, tolerance=1e-3)


def pointwise() -> Iterator[Callable[[], Row]]:
    """Chains, transposes, sums and cross-entropy."""
    for dtype in WIDTHS:
        for row in (_chain_row, _transpose_row, _sum_row, adamw_row):
            yield functools.partial(row, dtype)
    yield cross_entropy_row


def _chain_row(dtype: str) -> Row:
    arrays = [normal(16384, 4096, dtype=dtype), normal(4096, dtype=dtype), normal(16384, 4096, dtype=dtype)]
    return both(f"gelu(x + b) * r + y, 16384 x 4096 {dtype}",
                lambda lib: lambda x, b, y: lib.nn.functional.gelu(x + b) * 2.0 + y, arrays,
                bytes=3 * WIDTHS[dtype] << 26)  # fmt: skip


def _transpose_row(dtype: str) -> Row:
    """A transpose into other memory."""

    def function(lib: Any) -> Callable[[Any], Any]:
        return lambda x: x.transpose(0, 1) + 0.0 if lib is flow else x.transpose(0, 1).contiguous()

    return both(f"transpose 8192 x 8192 {dtype}", function, [normal(8192, 8192, dtype=dtype)],
                bytes=2 * WIDTHS[dtype] << 26)  # fmt: skip


def _sum_row(dtype: str) -> Row:
    return both(f"sum of columns 65536 x 1024 {dtype}", lambda lib: lambda x: x.sum(0),
                [normal(65536, 1024, dtype=dtype)], bytes=WIDTHS[dtype] << 26)  # fmt: skip


def adamw_row(dtype: str) -> Row:
    """A step of AdamW over all parameters of GPT-2; PyTorch runs its fused kernel."""
    weights = [p.detach().to(DTYPES[dtype]) for p in models.gpt2(torch).cuda().parameters()]
    gradients = [torch.randn_like(p) for p in weights]

    def step(lib: Any, parameters: list[Any], **options: Any) -> Callable[..., Any]:
        chosen = lib.optim.AdamW(parameters, lr=1e-4, **options)

        def run(*gradients: Any) -> Any:
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            chosen.step()
            chosen.zero_grad()

        return run

    mine = [flow.nn.Parameter(flow.from_numpy(p.clone())) for p in weights]
    theirs, others = ([torch.nn.Parameter(p.clone()) for p in weights] for _ in range(2))
    ours, received = flow.compile(step(flow, mine)), [flow.from_numpy(g) for g in gradients]
    slow, fast = step(torch, theirs, fused=True), compiled(step(torch, others))
    moved = 7 * WIDTHS[dtype] * sum(p.numel() for p in weights)
    row = Row(f"AdamW over {len(weights)} parameters of GPT-2 {dtype}", lambda: ours(*received),
              {EAGER: lambda: slow(*gradients), COMPILED: lambda: fast(*gradients)}, bytes=moved)  # fmt: skip
    row.ours(), row.peers[EAGER]()
    compare(row, [m.detach() for m in mine], theirs)
    return row


def cross_entropy_row() -> Row:
    """The mean loss over 50304 classes and its gradient."""
    logits, labels = normal(8192, 50304, dtype="bf16"), torch.randint(0, 50304, (8192,), device="cuda")

    def function(lib: Any) -> Callable[..., Any]:
        def ours(x: Any, y: Any) -> Any:
            return flow.value_and_grad(lambda x: flow.nn.functional.cross_entropy(x, y))(x)

        def theirs(x: Any, y: Any) -> Any:
            leaf = x.detach().requires_grad_()
            loss = torch.nn.functional.cross_entropy(leaf, y)
            return loss, *torch.autograd.grad(loss, [leaf])

        return ours if lib is flow else theirs

    moved = 3 * 8192 * 50304 * 2
    return both("cross_entropy and gradient, 8192 x 50304 bf16", function, [logits, labels], bytes=moved)
