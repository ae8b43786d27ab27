"""Rows of `benchmarks/gpu.py` for reductions over columns, convolutions, tf32 products and other products."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from gpu_row import COMPILED, EAGER, Row, both, normal

import oneflow as flow


def columns() -> Iterator[Callable[[], Row]]:
    """Reductions over the first dimension, positions, and tensors that are joined."""
    for shape in ((8192, 8192), (65536, 1024)):
        yield functools.partial(_columns_row, "argmax", shape, 4 << 26)
        yield functools.partial(_columns_row, "log_softmax", shape, 8 << 26)
    yield lambda: both("max with positions 8192 x 8192 f32", lambda lib: lambda x: tuple(lib.max(x, 1)),
                       [normal(8192, 8192)], bytes=4 << 26)  # fmt: skip
    yield lambda: both("max backward 8192 x 8192 f32", lambda lib: lambda x: lib.max(x, 1)[0],
                       [normal(8192, 8192), normal(8192)], leaves=1, bytes=8 << 26)  # fmt: skip
    for dim, dtype in ((1, "f32"), (1, "bf16"), (0, "bf16")):
        yield functools.partial(_cat_row, dim, dtype)


def _columns_row(name: str, shape: tuple[int, int], size: int) -> Row:
    """A function of columns that moves `size` bytes."""
    title = f"{name} of columns {shape[0]} x {shape[1]} f32"
    return both(title, lambda lib: lambda x: getattr(lib, name)(x, 0), [normal(*shape)], bytes=size)


def _cat_row(dim: int, dtype: str) -> Row:
    arrays = [normal(4096, 4096, dtype=dtype) for _ in range(4)]
    return both(f"cat of 4 along {dim}, 4096 x 4096 {dtype}", lambda lib: lambda *x: lib.cat(x, dim), arrays,
                bytes=(4 if dtype == "bf16" else 8) << 26)  # fmt: skip


#: Convolutions in bf16: the name, the spatial rank, the images, the filters, and options.
CONVOLUTIONS: list[tuple[str, int, tuple[int, ...], tuple[int, ...], dict[str, int]]] = [
    ("depthwise 7x7", 2, (32, 384, 56, 56), (384, 1, 7, 7), {"padding": 3, "groups": 384}),
    ("grouped 3x3", 2, (32, 256, 56, 56), (256, 8, 3, 3), {"padding": 1, "groups": 32}),
    ("conv1d k9", 1, (32, 256, 2048), (256, 256, 9), {"padding": 4}),
    ("conv3d 3x3x3", 3, (8, 64, 16, 56, 56), (64, 64, 3, 3, 3), {"padding": 1}),
    ("3x3 of 320 channels", 2, (8, 320, 64, 64), (320, 320, 3, 3), {"padding": 1}),
]


def convolutions() -> Iterator[Callable[[], Row]]:
    """Convolutions with channels first, and pools; eager is cuDNN."""
    for convolution in CONVOLUTIONS:
        yield functools.partial(_convolution_row, *convolution)
    yield lambda: both("max_pool2d 3x3 32 x 64 x 112 x 112 bf16",
                       lambda lib: lambda x: lib.nn.functional.max_pool2d(x, 3, 2, 1),
                       [normal(32, 64, 112, 112, dtype="bf16")])  # fmt: skip


def _convolution_row(
    name: str, rank: int, image: tuple[int, ...], filters: tuple[int, ...], options: dict[str, int]
) -> Row:
    def function(lib: Any) -> Callable[..., Any]:
        return lambda x, w: getattr(lib.nn.functional, f"conv{rank}d")(x, w, **options)

    return both(f"{name} bf16", function, [normal(*image, dtype="bf16"), normal(*filters, dtype="bf16")])


#: Products whose operands TMA, split-K or whole waves do not fit well: M, N, K, and which operands are transposed.
OTHER_PRODUCTS = [(1000, 1000, 50000, "nn"), (2048, 768, 3072, "nt"), (5000, 5000, 5000, "nn"),
                  (320, 320, 98304, "nn")]  # fmt: skip
#: tf32 products.
TF32_PRODUCTS = [(4096, 4096, 4096, "nn"), (4096, 4096, 4096, "nt"), (4096, 4096, 4096, "tn"),
                 (8192, 768, 3072, "nn"), (8192, 768, 3072, "nt"), (3072, 768, 8192, "tn")]  # fmt: skip


def other_products() -> Iterator[Callable[[], Row]]:
    """Products in bf16; eager is cuBLAS."""
    for m, n, k, form in OTHER_PRODUCTS:
        yield functools.partial(_product, m, n, k, form, "bf16")


def tf32() -> Iterator[Callable[[], Row]]:
    """Products of f32 by tf32; eager is cuBLAS with `allow_tf32`."""
    for m, n, k, form in TF32_PRODUCTS:
        yield functools.partial(_tf32_product, m, n, k, form)


def _product(m: int, n: int, k: int, form: str, dtype: str) -> Row:
    left = normal(*((k, m) if form[0] == "t" else (m, k)), dtype=dtype)
    right = normal(*((n, k) if form[1] == "t" else (k, n)), dtype=dtype)

    def multiply(lib: Any) -> Callable[..., Any]:
        one, two = (how == "t" for how in form)
        return lambda a, b: (a.transpose(0, 1) if one else a) @ (b.transpose(0, 1) if two else b)

    row = both(f"matmul {m} x {n} x {k} {form} {dtype}", multiply, [left, right], flops=2.0 * m * n * k)
    del row.peers[COMPILED]
    return row


def _tf32_product(m: int, n: int, k: int, form: str) -> Row:
    """A program keeps the precision setting of the first call; PyTorch reads the setting at each call."""
    flow.cuda.set_matmul_precision("tf32")
    try:
        row = _product(m, n, k, form, "f32")
    finally:
        flow.cuda.set_matmul_precision("ieee")
    exact = row.peers[EAGER]

    def rounded() -> object:
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return exact()
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    row.name, row.peers[EAGER] = row.name.replace("f32", "tf32"), rounded
    return row
