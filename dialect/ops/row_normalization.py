"""Rows of a tensor normalized by their moments: the common part of all normalizations.

A row has the dimensions from some axis on. `moments` and `row_gradient` are stages, `second_gradient` and
`moment_gradient` are written with operators, `numpy_*` are the references. The variance is the mean of the squared
deviations, in a second pass over the row; Welford's update is not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.ops.softmax import narrow
from oneflow.dialect.record import Call
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import class_of_mismatch
from oneflow.dialect.tensor_desc import Shape, TensorDesc

Element = Callable[..., Expr]


def expect_type(op: Call, name: str, wanted: TensorDesc) -> None:
    """Checks the type of operand `name`, where given.

    Raises:
        OperatorError: the type differs.
    """
    got = op[name]
    if got is not None and not got.compatible(wanted):
        raise op.error(f"expected {name} of type {wanted}, got {got}", class_of_mismatch(got, wanted))


def expect_present(op: Call, name: str, attribute: str) -> None:
    """Checks that operand `name` is given exactly where a bool attribute says so.

    Raises:
        OperatorError: the shapes contradict each other.
    """
    wanted = op[attribute]
    if wanted != (op[name] is not None):
        which = (
            f"{name} with {attribute} = true, got none" if wanted else f"{attribute} = true with {name}, got false"
        )
        raise op.error(f"expected {which}")


def letters(rank: int, split: int) -> str:
    """Factors of a tensor whose first `split` dimensions can be split."""
    return " ".join(f"d{i}" if i < split else "_" for i in range(rank))


def reciprocal(count: Size, dtype: DType) -> Expr:
    """1 / count, infinite for none; the count may be known only at run time."""
    if isinstance(count, Expr):
        return 1.0 / s.cast(count, dtype)
    return s.const(1.0 / count if count else np.inf, dtype)


def row_mean(shape: Sequence[Size], begin: int, dtype: DType, element: Element) -> Stage:
    """The mean of `element(*position)` over the dimensions from `begin` on."""
    total = c.sum_(shape[:begin], shape[begin:], element)
    scale = reciprocal(c.product(shape[begin:]), dtype)
    return c.element_wise(shape[:begin], lambda *i: total[i] * scale, dtype)


def moments(x: Stage, begin: int, epsilon: float, centred: bool = True) -> tuple[Stage | None, Stage]:
    """The mean of `x` over the dimensions from `begin` on (None unless `centred`), and 1 / deviation."""
    dtype = x.dtype.accumulator
    mean = row_mean(x.shape, begin, dtype, lambda *i: x[i]) if centred else None

    def squared(*i: Expr) -> Expr:
        deviation = centre(x, mean, i)
        return deviation * deviation

    variance = row_mean(x.shape, begin, dtype, squared)
    return mean, c.element_wise(variance.shape, lambda *i: s.rsqrt(variance[i] + epsilon), dtype)


def centre(x: Stage, mean: Stage | None, i: Sequence[Expr]) -> Expr:
    """x - mean at a position."""
    return x[tuple(i)] if mean is None else x[tuple(i)] - mean[tuple(i[: mean.rank])]


def row_gradient(x: Stage, mean: Stage | None, inv: Stage, cotangent: Element) -> Element:
    """The gradient with respect to `x` of normal = (x - mean) * inv, both depending on x; `cotangent` is the gradient
    with respect to `normal`.

    inv * (cotangent - mean(cotangent) - normal * mean(cotangent * normal)), for norms without mean without the second
    term.
    """
    begin, dtype = inv.rank, inv.dtype

    def normal(*i: Expr) -> Expr:
        return centre(x, mean, i) * inv[i[:begin]]

    projection = row_mean(x.shape, begin, dtype, lambda *i: cotangent(*i) * normal(*i))
    level = None if mean is None else row_mean(x.shape, begin, dtype, cotangent)

    def element(*i: Expr) -> Expr:
        rest = cotangent(*i) - normal(*i) * projection[i[:begin]]
        return (rest if level is None else rest - level[i[:begin]]) * inv[i[:begin]]

    return element


def broadcast_rows(ops: Builder, value: Value, x: Value) -> Value:
    """A value per row, broadcast to the shape of `x`."""
    axes = range(value.rank, x.rank)
    return ops.call("broadcast_like", value, x, broadcast_axes=axes)[0] if axes else value


def row_sum(ops: Builder, value: Value, begin: int) -> Value:
    """The sum over the dimensions from `begin` on."""
    axes = range(begin, value.rank)
    return ops.call("reduce_sum", value, axis=axes)[0] if axes else value


def lead_sum(ops: Builder, value: Value, begin: int) -> Value:
    """The sum over the dimensions before `begin`."""
    return ops.call("reduce_sum", value, axis=range(begin))[0] if begin else value


def row_share(ops: Builder, value: Value, x: Value) -> Value:
    """A value per row divided by the number of elements of a row, at every element of `x`."""
    sizes = x.shape[value.rank :]
    everywhere = broadcast_rows(ops, value, x)
    if None not in sizes:
        count = math.prod(d for d in sizes if d is not None)
        return everywhere * (1.0 / count if count else np.inf)
    return everywhere / broadcast_rows(ops, row_sum(ops, ops.call("ones_like", x)[0], value.rank), x)


def standardized(
    ops: Builder, x: Value, begin: int, epsilon: float, centred: bool = True
) -> tuple[Value, Value | None, Value]:
    """(x - mean) / deviation over the dimensions from `begin` on, which are static, the mean and 1 / deviation.

    By operators that may be split along these dimensions; without the mean unless `centred`.
    """
    sizes = [d for d in x.shape[begin:] if d is not None]
    assert len(sizes) == x.rank - begin
    count = math.prod(sizes)
    share = 1.0 / count if count else np.inf
    mean = row_sum(ops, x, begin) * share if centred else None
    deviation = x if mean is None else x - broadcast_rows(ops, mean, x)
    inv = ops.call("rsqrt", row_sum(ops, deviation * deviation, begin) * share + float(epsilon))[0]
    return deviation * broadcast_rows(ops, inv, x), mean, inv


def projected(ops: Builder, x: Value, cotangent: Value, mean: Value | None, inv: Value) -> Value:
    """The gradient `row_gradient` by operators that may be split along the rows."""
    return second_gradient(ops, x, cotangent, cotangent, mean, inv)["cotangent"]()


def moment_gradient(
    ops: Builder, x: Value, mean: Value | None, inv: Value, dmean: Value | None, dinv: Value | None
) -> list[Value]:
    """The terms of the gradient of `x` by cotangents of the mean and of 1 / deviation."""
    terms = [] if dmean is None else [row_share(ops, dmean, x)]
    if dinv is not None:
        deviation = x if mean is None else x - broadcast_rows(ops, mean, x)
        terms.append(-(deviation * row_share(ops, dinv * inv * inv * inv, x)))
    return terms


def sum_of_terms(ops: Builder, like: Value, terms: Sequence[Value]) -> Value | None:
    """The sum of terms in the type of `like`; None for none."""
    if not terms:
        return None
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return narrow(ops, result, like.dtype)


def second_gradient(
    ops: Builder, x: Value, cotangent: Value, ddx: Value, mean: Value | None, inv: Value
) -> dict[str, Callable[[], Value]]:
    """The gradients of `row_gradient` with respect to its operands (cotangent, x, mean, inv), all in the
    accumulator's type.
    """
    begin = inv.rank
    scale = broadcast_rows(ops, inv, x)
    deviation = x if mean is None else x - broadcast_rows(ops, mean, x)
    normal, seed = deviation * scale, ddx * scale

    def level(value: Value) -> Value:
        return row_share(ops, row_sum(ops, value, begin), x)

    def projected(value: Value) -> Value:
        rest = value - normal * level(value * normal)
        return rest if mean is None else rest - level(value)

    def by_normal() -> Value:
        return -(seed * level(cotangent * normal) + cotangent * level(seed * normal))

    return {
        "cotangent": lambda: projected(seed),
        "x": lambda: by_normal() * scale,
        "mean": lambda: -row_sum(ops, by_normal() * scale, begin),
        "inv": lambda: row_sum(ops, by_normal() * deviation + ddx * projected(cotangent), begin),
    }


def param_gradient(
    ops: Builder, x: Value, dy: Value, mean: Value | None, inv: Value, shift: Value | None, scale: Value | None
) -> dict[str, Callable[[], Value]]:
    """The gradients with respect to dy, x, mean and inv of the sums of dy and of dy * normal over rows.

    `shift` and `scale`, cotangents of the two sums, have the shape of `x`; all is in the accumulator's type.
    """
    if scale is None:
        return {} if shift is None else {"dy": lambda: shift}
    everywhere = broadcast_rows(ops, inv, x)
    deviation = x if mean is None else x - broadcast_rows(ops, mean, x)
    cotangent = dy * scale

    def by_dy() -> Value:
        product: Value = deviation * everywhere * scale
        return product if shift is None else product + shift

    return {
        "dy": by_dy,
        "x": lambda: cotangent * everywhere,
        "mean": lambda: -row_sum(ops, cotangent * everywhere, inv.rank),
        "inv": lambda: row_sum(ops, cotangent * deviation, inv.rank),
    }


def narrowed(
    ops: Builder, parts: dict[str, Callable[[], Value]], dtype: DType, **names: str
) -> dict[str, Callable[[], Value]]:
    """The present `parts` under the operands' names, dy and x converted to `dtype`."""

    def thunk(part: str, value: Callable[[], Value]) -> Callable[[], Value]:
        return (lambda: narrow(ops, value(), dtype)) if part in ("dy", "x") else value

    return {name: thunk(part, parts[part]) for name, part in names.items() if part in parts}


def statistics(shape: Shape, x: TensorDesc) -> TensorDesc:
    """The type of means and deviations of `x`: f32 for 16-bit floats."""
    return TensorDesc(shape, x.dtype.accumulator)


def numpy_moments(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and 1 / deviation over `axes`, kept as 1, in f64."""
    in_f64 = x.astype(np.float64)
    count = np.float64(np.prod([x.shape[a] for a in axes]))
    mean = in_f64.sum(axis=axes, keepdims=True) / count
    variance = ((in_f64 - mean) ** 2).sum(axis=axes, keepdims=True) / count
    return mean, 1 / np.sqrt(variance + epsilon)


def numpy_gradient(cotangent: Any, normal: Any, inv: Any, axes: tuple[int, ...], centred: bool = True) -> Any:
    """The gradient through a normalization, in f64: d normal / dx applied to `cotangent`."""
    count = np.float64(np.prod([normal.shape[a] for a in axes]))
    projection = normal * (cotangent * normal).sum(axis=axes, keepdims=True) / count
    level = cotangent.sum(axis=axes, keepdims=True) / count if centred else 0
    return inv * (cotangent - level - projection)


def as_rows(values: np.ndarray, rank: int) -> np.ndarray:
    """Statistics as f64 with dimensions of 1 for the rows."""
    return values.astype(np.float64).reshape(values.shape + (1,) * (rank - values.ndim))
