"""Epilogues of a product, by this package and by NumPy."""

import ml_dtypes
import numpy as np
import scipy.special

import oneflow as flow

F = flow.nn.functional


def sigmoid(y):
    return 1 / (1 + np.exp(-y))


#: Epilogues of a product `y` with a bias `c` and a residual `r`, here and in NumPy.
FOLLOWING = {
    "bias": (lambda y, c, r: y + c, lambda y, c, r: y + c),
    "residual": (lambda y, c, r: F.relu(y + c) + r, lambda y, c, r: np.maximum(y + c, 0) + r),
    "exp": (lambda y, c, r: flow.exp(y * 0.125), lambda y, c, r: np.exp(y / 8)),
    "abs": (lambda y, c, r: flow.abs(y + c), lambda y, c, r: np.abs(y + c)),
    "gelu": (
        lambda y, c, r: F.gelu(y + c, approximate="tanh"),
        lambda y, c, r: (y + c) / 2 * (1 + np.tanh(0.7978845608 * ((y + c) + 0.044715 * (y + c) ** 3))),
    ),
    "erf": (lambda y, c, r: F.gelu(y + c), lambda y, c, r: (y + c) / 2 * (1 + scipy.special.erf((y + c) / 2**0.5))),
    "relu": (lambda y, c, r: F.relu(y + c), lambda y, c, r: np.maximum(y + c, 0)),
    "maximum": (lambda y, c, r: flow.maximum(y, r), lambda y, c, r: np.maximum(y, r)),
    "minimum": (lambda y, c, r: flow.minimum(y, r) + c, lambda y, c, r: np.minimum(y, r) + c),
    "silu": (lambda y, c, r: F.silu(y) + r, lambda y, c, r: y * sigmoid(y) + r),
    "sine": (lambda y, c, r: flow.sin((y * 0.125).to(flow.float32)), lambda y, c, r: np.sin(y / 8)),
    "root": (lambda y, c, r: flow.sqrt(flow.abs(y)) - r, lambda y, c, r: np.sqrt(np.abs(y)) - r),
    "quotient": (lambda y, c, r: (y.to(flow.float32) / r.to(flow.float32)).to(y.dtype), lambda y, c, r: y / r),
    "cast": (lambda y, c, r: y.to(flow.float32) + r.to(flow.float32), lambda y, c, r: y + r),
    "choice": (lambda y, c, r: flow.where(r > 0, y, c), lambda y, c, r: np.where(r > 0, y, c)),
}


def operands(rows, columns, depth):
    """Two factors of a product of about 1, a bias and a residual, with some infinite and NaN elements."""
    rng = np.random.default_rng(6)
    shapes = [(rows, depth), (depth, columns), (columns,), (rows, columns)]
    a, b, c, r = (rng.standard_normal(s) for s in shapes)
    a[3, 5], a[60, 7], r[4, 9], r[5, columns - 1] = np.nan, np.inf, np.nan, -np.inf
    return [x.astype(ml_dtypes.bfloat16) for x in (a / np.sqrt(depth), b, c, r)]


def after(name, a, b, c, r):
    """The epilogue in f32 of a product whose elements are rounded."""
    a, b, c, r = (x.astype(np.float32) for x in (a, b, c, r))
    with np.errstate(all="ignore"):
        product = (a @ b).astype(ml_dtypes.bfloat16).astype(np.float32)
        return FOLLOWING[name][1](product, c, r)
