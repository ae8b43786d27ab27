"""The kernels that `foundation.py` compares with NumPy and SciPy: name, our function, the reference, arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

import oneflow as flow

Array = np.ndarray
Row = tuple[str, Callable[..., Any], Callable[..., Any], list[Array]]
RNG = np.random.default_rng(0)
F32 = np.float32


def f32(*shape: int) -> Array:
    """Random numbers."""
    return RNG.standard_normal(shape, dtype=np.float32)


def softmax(x: Array, axis: int) -> Array:
    """Softmax as NumPy code would write it."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    quotient: Array = e / e.sum(axis=axis, keepdims=True)
    return quotient


def layer_norm(x: Array, g: Array, b: Array) -> Array:
    """Layer normalization over rows as NumPy code would write it."""
    centred = x - x.mean(axis=1, keepdims=True)
    scaled: Array = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + F32(1e-5)) * g + b
    return scaled


def gelu(x: Array) -> Array:
    """gelu with SciPy's error function."""
    curve: Array = F32(0.5) * x * (1 + special.erf(x * F32(0.7071067811865476)))
    return curve


def conv2d(x: Array, w: Array, pad: int) -> Array:
    """A convolution as a product with windows laid out in columns."""
    outputs, size = w.shape[0], w.shape[2]
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))
    columns = windows.transpose(1, 4, 5, 0, 2, 3).reshape(w[0].size, -1)
    product = (w.reshape(outputs, -1) @ columns).reshape(outputs, x.shape[0], *windows.shape[2:4])
    image: Array = product.transpose(1, 0, 2, 3)
    return image


def pooled(x: Array, how: str) -> Array:
    """2 x 2 windows reduced."""
    n, c, h, w = x.shape
    reduced: Array = getattr(x.reshape(n, c, h // 2, 2, w // 2, 2), how)((3, 5))
    return reduced


def turned(x: flow.Tensor) -> flow.Tensor:
    """The last two dimensions exchanged."""
    transposed: flow.Tensor = flow.permute(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    return transposed


def element_wise() -> list[Row]:
    """Functions of elements, selections, conversions; x and y of 4096 x 1024."""
    x, y, positive, half = f32(4096, 1024), f32(4096, 1024), np.abs(f32(4096, 1024)) + F32(0.1), f32(4096, 1024)
    ints, mask = RNG.integers(-999, 1000, (4096, 1024), dtype=np.int32), x > y
    functions = [
        (n, getattr(flow, n), getattr(np, n), [x]) for n in "exp exp2 expm1 tanh sinh sin cos floor isnan".split()
    ]
    functions += [(n, getattr(flow, n), getattr(np, n), [positive]) for n in "log log2 log10 log1p sqrt".split()]
    return [
        ("x * 2 + 1", lambda x: x * 2.0 + 1.0, lambda x: x * F32(2) + F32(1), [x]),
        ("x + y", lambda x, y: x + y, np.add, [x, y]),
        ("x + row", lambda x, y: x + y, np.add, [x, f32(1024)]),
        ("exp(-x * x) * y", lambda x, y: flow.exp(-x * x) * y, lambda x, y: np.exp(-x * x) * y, [x, y]),
        ("tanh(x * y) + x", lambda x, y: flow.tanh(x * y) + x, lambda x, y: np.tanh(x * y) + x, [x, y]),
        ("gelu(x)", flow.gelu, gelu, [x]),
        *functions,
        ("atan", flow.atan, np.arctan, [x]),
        ("asin", flow.asin, np.arcsin, [np.clip(x, -1, 1)]),
        ("atan2", flow.atan2, np.arctan2, [x, y]),
        ("pow", flow.pow, np.power, [positive, y]),
        ("sigmoid", flow.sigmoid, special.expit, [x]),
        ("erf", flow.erf, special.erf, [x]),
        ("relu", flow.relu, lambda x: np.maximum(x, 0), [x]),
        ("x < y", lambda x, y: x < y, np.less, [x, y]),
        ("where", flow.where, np.where, [mask, x, y]),
        ("i32 a + b", lambda a, b: a + b, np.add, [ints, ints]),
        ("i32 a // b", flow.floor_divide, np.floor_divide, [ints, np.where(ints == 0, 3, ints).astype(np.int32)]),
        ("f32 to f16", lambda x: flow.cast(x, flow.float16), lambda x: x.astype(np.float16), [x]),
        ("f16 to f32", lambda x: flow.cast(x, flow.float32), lambda x: x.astype(F32), [half.astype(np.float16)]),
        ("f32 to i32", lambda x: flow.cast(x, flow.int32), lambda x: x.astype(np.int32), [x]),
    ]  # fmt: skip


def of_f64() -> list[Row]:
    """Functions of f64 and compositions of such functions; x and y are 1024 x 1024."""
    x, y = (f32(1024, 1024).astype(np.float64) for _ in range(2))
    positive, inside = np.abs(x) + 0.1, np.clip(x, -0.99, 0.99)
    rows: list[tuple[str, Callable[..., Any], list[Array]]] = [
        *((name, getattr(np, name), [x]) for name in "exp exp2 expm1 tanh sinh cosh sin cos tan".split()),
        *((name, getattr(np, name), [positive]) for name in "log log2 log10 log1p".split()),
        ("atan", np.arctan, [x]), ("asin", np.arcsin, [inside]), ("atanh", np.arctanh, [inside]),
        ("atan2", np.arctan2, [x, y]), ("pow", np.power, [positive, y]),
        ("erf", special.erf, [x]), ("sigmoid", special.expit, [x]),
    ]  # fmt: skip
    return [
        *((f"{name} of f64", getattr(flow, name), theirs, args) for name, theirs, args in rows),
        ("softmax of rows of f64", lambda x: flow.softmax(x, 1), lambda x: softmax(x, 1), [x]),
        ("sum of rows of f64", lambda x: flow.sum(x, 1), lambda x: x.sum(1), [x]),
        ("argmax of rows of f64", lambda x: flow.argmax(x, 1), lambda x: x.argmax(1), [x]),
        ("matrix times vector of f64", flow.matmul, np.matmul, [x, y[0]]),
    ]


def reductions() -> list[Row]:
    """Reductions along rows, columns and everything, scans, normalizations."""
    x, tall, wide = f32(4096, 1024), f32(1 << 20, 4), f32(4, 1 << 20)
    return [
        ("softmax of rows", lambda x: flow.softmax(x, 1), lambda x: softmax(x, 1), [x]),
        ("softmax of 64 rows", lambda x: flow.softmax(x, 1), lambda x: softmax(x, 1), [f32(64, 4096)]),
        ("softmax of columns", lambda x: flow.softmax(x, 0), lambda x: softmax(x, 0), [x]),
        ("softmax in the middle", lambda x: flow.softmax(x, 1), lambda x: softmax(x, 1), [f32(64, 64, 1024)]),
        ("softmax of columns, 256 x 256", lambda x: flow.softmax(x, 0), lambda x: softmax(x, 0), [f32(256, 256)]),
        ("layer_norm of rows", lambda x, g, b: flow.layer_norm(x, (1024,), g, b), layer_norm,
         [x, f32(1024), f32(1024)]),
        ("sum of rows", lambda x: flow.sum(x, 1), lambda x: x.sum(1), [x]),
        ("sum of columns", lambda x: flow.sum(x, 0), lambda x: x.sum(0), [x]),
        ("sum", flow.sum, np.sum, [x]),
        ("sum of columns, 1 M x 4", lambda x: flow.sum(x, 0), lambda x: x.sum(0), [tall]),
        ("sum of rows, 1 M x 4", lambda x: flow.sum(x, 1), lambda x: x.sum(1), [tall]),
        ("sum of rows, 4 x 1 M", lambda x: flow.sum(x, 1), lambda x: x.sum(1), [wide]),
        ("mean", flow.mean, np.mean, [x]),
        ("var of rows", lambda x: flow.var(x, 1), lambda x: x.var(1, ddof=1), [x]),
        ("var", flow.var, lambda x: x.var(ddof=1), [x]),
        ("max", flow.amax, np.max, [x]),
        ("max of rows", lambda x: flow.amax(x, 1), lambda x: x.max(1), [x]),
        ("max of columns", lambda x: flow.amax(x, 0), lambda x: x.max(0), [x]),
        ("argmax of rows", lambda x: flow.argmax(x, 1), lambda x: x.argmax(1), [x]),
        ("argmax", flow.argmax, np.argmax, [x]),
        ("argmax of columns", lambda x: flow.argmax(x, 0), lambda x: x.argmax(0), [x]),
        ("cumsum of rows", lambda x: flow.cumsum(x, 1), lambda x: x.cumsum(1), [x]),
        ("cumsum of columns", lambda x: flow.cumsum(x, 0), lambda x: x.cumsum(0), [x]),
    ]  # fmt: skip


def movements() -> list[Row]:
    """Elements in another order or position."""
    x, y, images = f32(4096, 1024), f32(4096, 1024), f32(32, 64, 32, 32)
    rows, columns = RNG.integers(0, 4096, 8192), RNG.integers(0, 1024, (4096, 256))
    copy = np.ascontiguousarray
    return [
        ("transpose", lambda x: flow.permute(x, (1, 0)), lambda x: copy(x.T), [x]),
        ("transpose, 1001 x 777", lambda x: flow.permute(x, (1, 0)), lambda x: copy(x.T), [f32(1001, 777)]),
        ("transpose of i8", lambda x: flow.permute(x, (1, 0)), lambda x: copy(x.T), [(x * 10).astype(np.int8)]),
        ("NCHW to NHWC", lambda x: flow.permute(x, (0, 2, 3, 1)), lambda x: copy(x.transpose(0, 2, 3, 1)), [images]),
        ("heads first", lambda x: flow.permute(x, (0, 2, 1, 3)), lambda x: copy(x.transpose(0, 2, 1, 3)),
         [f32(8, 512, 16, 64)]),
        ("cat of rows", lambda x, y: flow.cat([x, y], 0), lambda x, y: np.concatenate([x, y], 0), [x, y]),
        ("cat of columns", lambda x, y: flow.cat([x, y], 1), lambda x, y: np.concatenate([x, y], 1), [x, y]),
        ("stack at the end", lambda x, y: flow.stack([x, y], 2), lambda x, y: np.stack([x, y], 2), [x, y]),
        ("pad", lambda x: flow.pad(x, (1, 1, 1, 1)), lambda x: np.pad(x, 1), [x]),
        ("flip", lambda x: flow.flip(x, [1]), lambda x: copy(x[:, ::-1]), [x]),
        ("roll", lambda x: flow.roll(x, 5, 1), lambda x: np.roll(x, 5, 1), [x]),
        ("slice", lambda x: x[10:4000, 5:1000], lambda x: copy(x[10:4000, 5:1000]), [x]),
        ("every second", lambda x: x[::2, ::2], lambda x: copy(x[::2, ::2]), [x]),
        ("tril", flow.tril, np.tril, [x]),
        ("rows by index", lambda x, i: flow.index_select(x, 0, i), lambda x, i: x[i], [x, rows]),
        ("gather", lambda x, i: flow.gather(x, 1, i), lambda x, i: np.take_along_axis(x, i, 1), [x, columns]),
    ]  # fmt: skip


def products() -> list[Row]:
    """Products of matrices in several shapes and layouts, convolutions, windows."""
    a, b, images = f32(512, 512), f32(512, 512), f32(8, 64, 32, 32)
    shapes = [(512, 512, 512), (1024, 1024, 1024), (1000, 777, 1001), (250, 3001, 515), (512, 8192, 512),
              (16, 4096, 4096), (8, 4096, 4096), (1, 4096, 4096), (4096, 16, 4096), (4096, 1024, 10)]  # fmt: skip
    return [
        *((f"matmul {m} x {k} x {n}", flow.matmul, np.matmul, [f32(m, k), f32(k, n)]) for m, k, n in shapes),
        ("a @ b.T, 512", lambda a, b: flow.matmul(a, turned(b)), lambda a, b: a @ b.T, [a, b]),
        ("a.T @ b, 512", lambda a, b: flow.matmul(turned(a), b), lambda a, b: a.T @ b, [a, b]),
        ("x @ w.T, 8 x 4096 x 4096", lambda a, b: flow.matmul(a, turned(b)), lambda a, b: a @ b.T,
         [f32(8, 4096), f32(4096, 4096)]),
        ("linear, 128 x 784 x 256", flow.linear, lambda x, w, b: x @ w.T + b,
         [f32(128, 784), f32(256, 784), f32(256)]),
        ("gelu(a @ b + c), 512", lambda a, b, c: flow.gelu(a @ b + c), lambda a, b, c: gelu(a @ b + c),
         [a, b, f32(512)]),
        ("matrix times vector, 4096", flow.matmul, np.matmul, [f32(4096, 4096), f32(4096)]),
        ("dot product of 4 M", flow.matmul, np.matmul, [f32(1 << 22), f32(1 << 22)]),
        ("64 products of 128", flow.matmul, np.matmul, [f32(64, 128, 128), f32(64, 128, 128)]),
        ("512 products of 16", flow.matmul, np.matmul, [f32(512, 16, 16), f32(512, 16, 16)]),
        ("q @ k.T, 64 x 256 x 64", lambda q, k: flow.matmul(q, turned(k)), lambda q, k: q @ k.transpose(0, 2, 1),
         [f32(64, 256, 64), f32(64, 256, 64)]),
        ("matmul of f64, 512", flow.matmul, np.matmul, [a.astype(np.float64), b.astype(np.float64)]),
        ("conv2d 3 x 3, 64 to 64", lambda x, w: flow.conv2d(x, w, padding=1), lambda x, w: conv2d(x, w, 1),
         [images, f32(64, 64, 3, 3)]),
        ("conv2d 3 x 3, 512 to 512, 7 x 7", lambda x, w: flow.conv2d(x, w, padding=1), lambda x, w: conv2d(x, w, 1),
         [f32(1, 512, 7, 7), f32(512, 512, 3, 3)]),
        ("conv2d 3 x 3, 64 to 64, 30 x 161", lambda x, w: flow.conv2d(x, w, padding=1), lambda x, w: conv2d(x, w, 1),
         [f32(1, 64, 30, 161), f32(64, 64, 3, 3)]),
        ("conv2d 3 x 3, 3 to 32", lambda x, w: flow.conv2d(x, w, padding=1), lambda x, w: conv2d(x, w, 1),
         [f32(8, 3, 64, 64), f32(32, 3, 3, 3)]),
        ("conv2d 1 x 1, 64 to 128", flow.conv2d, lambda x, w: conv2d(x, w, 0), [images, f32(128, 64, 1, 1)]),
        ("max_pool2d 2 x 2", lambda x: flow.max_pool2d(x, 2, 2), lambda x: pooled(x, "max"), [images]),
        ("avg_pool2d 2 x 2", lambda x: flow.avg_pool2d(x, 2, 2), lambda x: pooled(x, "mean"), [images]),
    ]  # fmt: skip


def rows() -> list[Row]:
    """Every kernel, by group."""
    return [*element_wise(), *of_f64(), *reductions(), *movements(), *products()]
