"""Gated linear units: a product times an activation of another product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect._scipy import scipy
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.ops.reduce import accumulator_type
from oneflow.dialect.ops.row_normalization import expect_present, expect_type
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype, expect_rank, letters
from oneflow.dialect.tensor_desc import TensorDesc

TANH_SCALE, CUBIC = np.sqrt(2 / np.pi), 0.044714998453855515


def _normal_cdf(x: Any) -> Any:
    return 0.5 * (1 + scipy.special.erf(x / np.sqrt(2)))


def _fast_gelu_grad(x: Any, dy: Any) -> Any:
    tanh = np.tanh(TANH_SCALE * (x + CUBIC * x**3))
    return dy * (0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * TANH_SCALE * (1 + 3 * CUBIC * x**2))


def _gelu_grad(x: Any, dy: Any) -> Any:
    return dy * (_normal_cdf(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi))


def _silu_grad(x: Any, dy: Any) -> Any:
    share = scipy.special.expit(x)
    return dy * (share * (1 + x * (1 - share)))


def _sigmoid_grad(x: Any, dy: Any) -> Any:
    return dy * scipy.special.expit(x) * scipy.special.expit(-x)


#: The activations: their NumPy forms and gradients.
ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "none": (lambda x: x, lambda x, dy: dy),
    "sigmoid": (lambda x: scipy.special.expit(x), _sigmoid_grad),
    "relu": (lambda x: np.maximum(x, 0), lambda x, dy: np.where(x > 0, dy, 0)),
    "gelu": (lambda x: x * _normal_cdf(x), _gelu_grad),
    "fast_gelu": (lambda x: 0.5 * x * (1 + np.tanh(TANH_SCALE * (x + CUBIC * x**3))), _fast_gelu_grad),
    "silu": (lambda x: x * scipy.special.expit(x), _silu_grad),
}
#: The operators of gradients that read results instead of operands.
BY_RESULT = ("sigmoid", "relu")


def _expect_activation(op: Call) -> None:
    if op.activation not in ACTIVATIONS:
        raise op.error(f"expected activation {', '.join(ACTIVATIONS)}, got {op.activation!r}")


def _check(op: Call) -> None:
    _expect_activation(op)
    expect_dtype(op, "x", op.x, dtypes.FLOATS)
    expect_rank(op, "x", op.x, 2, -1)
    expect_present(op, "b", "has_bias")
    expect_present(op, "v", "is_split")
    if (op.c is not None) != (op.has_bias and op.is_split):
        given = ", ".join(f"{name} {'given' if op[name] is not None else 'missing'}" for name in "bcv")
        raise op.error(f"expected c exactly where b and v are given, got {given}")
    expect_type(op, "w", TensorDesc((None, op.x.shape[-1]), op.x.dtype))
    rows = op.w.shape[0]
    expect_type(op, "v", op.w)
    for name in ("b", "c"):
        expect_type(op, name, TensorDesc((rows,), op.x.dtype))
    if not op.is_split and (rows is None or rows % 2):
        raise op.error(f"expected a static, even number of rows of w without v, got {op.w}")


def _halves(ops: Builder, product: Value) -> tuple[Value, ...]:
    """The halves of the last axis."""
    axis, half = product.rank - 1, (product.shape[-1] or 0) // 2
    return tuple(ops.narrow(product, dim=axis, start=start, length=half) for start in (0, half))


def _linear(ops: Builder, x: Value, w: Value, b: Value | None) -> Value:
    y: Value = ops.broadcast_matmul(x, w, transpose_b=True) if b is None else ops.fused_matmul_bias(x, w, b)
    return y


def _activated(ops: Builder, activation: str, x: Value) -> Value:
    return x if activation == "none" else ops.call(activation, x)[0]


def _write_glu(ops: Builder, op: Call) -> tuple[Value, ...]:
    products = [_linear(ops, op.x, op.w, op.b)]
    products += [_linear(ops, op.x, op.v, op.c)] if op.is_split else []
    hidden, gate = (widen(ops, p) for p in (products if op.is_split else _halves(ops, products[0])))
    y = hidden * _activated(ops, op.activation, gate)
    return narrow(ops, y, op.x.dtype), *products


def _numpy_glu(x: Any, w: Any, b: Any, v: Any, c: Any, *, activation: Any) -> Any:
    def linear(weight: Any, bias: Any) -> Any:
        product = x.astype(accumulator_type(x)) @ weight.astype(accumulator_type(x)).T
        return (product if bias is None else product + bias).astype(x.dtype)

    products = [linear(w, b), *([] if v is None else [linear(v, c)])]
    parts = products if len(products) == 2 else np.split(products[0], 2, -1)
    hidden, gate = (p.astype(np.float64) for p in parts)
    return (hidden * ACTIVATIONS[activation][0](gate)).astype(x.dtype), *products


def _factors(op: Call) -> Factors:
    """Rows can be split; with two weights columns too, and partial sums of one product pass through."""
    last = "m" if op.is_split else "_"
    rows = " ".join(letters(op.x.shape[:-1]))
    sides = {"x": f"{rows} _", "w": f"{last} _", "b": last, "v": f"{last} _", "c": last}
    operands = ", ".join(sides[name] for name, operand in op.inputs.items() if operand is not None)
    factors = Factors(f"{operands} -> {', '.join([f'{rows} {last}'] * len(op.results))}")
    if not op.is_split:
        return factors
    first = factors.linear_in(op, "w", "b", results=(0, 1))
    return first.linear_in(op, "v", "c", results=(0, 2)) if op.activation == "none" else first


composite(
    "fused_glu(x, w, b?, v?, c?, activation: string = 'none', has_bias: bool = False, is_split: bool = False)"
    " -> y, matmul_wx, matmul_vx?",
    "(x @ w^T + b) * activation(x @ v^T + c), and both products; without v the two are the halves of one product.",
    write=_write_glu, reference=_numpy_glu, check=_check, sbp=_factors,
)  # fmt: skip


def _check_gradient(op: Call) -> None:
    _expect_activation(op)
    expect_dtype(op, "dy", op.dy, dtypes.FLOATS)
    expect_rank(op, "dy", op.dy, 2, -1)
    expect_type(op, "matmul_vx", op.dy)
    size = op.dy.shape[-1]
    if size is None or op.matmul_wx.shape is None or op.matmul_wx.shape[-1:] == (None,):
        raise op.error(f"expected static last axes of dy and matmul_wx, got {op.dy} and {op.matmul_wx}")
    width = size if op.matmul_vx is not None else 2 * size
    expect_type(op, "matmul_wx", TensorDesc((*op.dy.shape[:-1], width), op.dy.dtype))


def _activation_grad(ops: Builder, activation: str, x: Value, dy: Value) -> Value:
    """The gradient of an activation."""
    if activation == "none":
        return dy
    read = _activated(ops, activation, x) if activation in BY_RESULT else x
    return ops.call(f"{activation}_grad", read, dy)[0]


def _write_gradient(ops: Builder, op: Call) -> tuple[Value, ...]:
    parts = (op.matmul_wx, op.matmul_vx) if op.matmul_vx is not None else _halves(ops, op.matmul_wx)
    dy, hidden, gate = (widen(ops, p) for p in (op.dy, *parts))
    act = _activated(ops, op.activation, gate)
    grads = [narrow(ops, p, op.dy.dtype) for p in (dy * act, _activation_grad(ops, op.activation, gate, dy * hidden))]
    return tuple(grads) if op.matmul_vx is not None else (ops.cat(grads, axis=op.dy.rank - 1),)


def _numpy_gradient(dy: Any, wx: Any, vx: Any, *, activation: Any) -> Any:
    hidden, gate = (p.astype(np.float64) for p in ((wx, vx) if vx is not None else np.split(wx, 2, -1)))
    act, derivative = ACTIVATIONS[activation]
    found = [p.astype(dy.dtype) for p in (dy * act(gate), derivative(gate, dy * hidden))]
    return found if vx is not None else [np.concatenate(found, -1)]


def _gradient_layouts(op: Call) -> Factors:
    is_split_in_two = op.matmul_vx is not None
    names = " ".join(letters(op.dy.shape, () if is_split_in_two else (op.dy.rank - 1,)))
    count = len(op.results)
    factors = Factors(f"{', '.join([names] * len(op.operands))} -> {', '.join([names] * count)}")
    factors = factors.linear_in(op, "dy", results=range(count))
    if not is_split_in_two:
        return factors
    factors = factors.linear_in(op, "matmul_wx", results=(1,))
    if op.activation != "none":
        return factors
    return factors.linear_in(op, "matmul_vx").linear_in(op, "matmul_wx", "matmul_vx", results=(0, 1))


composite(
    "fused_glu_without_linear_grad(dy, matmul_wx, matmul_vx?, activation: string = 'none')"
    " -> d_matmul_wx, d_matmul_vx?",
    "The gradients of `fused_glu` with respect to its products.",
    write=_write_gradient, reference=_numpy_gradient, check=_check_gradient, sbp=_gradient_layouts,
)  # fmt: skip
