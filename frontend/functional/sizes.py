"""Sizes that are only known at run time as operands: tensors of which only the shape is read."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend.core.dispatch import dispatch, dispatch_all
from oneflow.frontend.core.tensor import Real, Size, Tensor

#: Functions of floating-point numbers, by the names that the operator `positions` reads.
_REAL_FUNCTIONS: dict[str, Callable[..., float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
}
_ROUNDINGS: dict[str, Callable[[float], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
}


def as_size(size: Any) -> Any:
    """A size as an integer or a `Size`: integer tensors with values and NumPy integers become their number.

    Raises:
        TraceError: a traced tensor has none yet.
    """
    if type(size) is int or isinstance(size, Size):
        return size
    return operator.index(size) if isinstance(size, (Tensor, np.integer)) else size


def shaped(sizes: Sequence[Any]) -> Tensor:
    """A tensor (int64) with the elements 0, 1, 2, .. whose shape has numbers and sizes of the run."""
    dims = dict.fromkeys(d for size in sizes if isinstance(size, Size) for d in size.dimensions())
    if not dims:
        return dispatch("constant", dtype=dtypes.int64, shape=list(sizes))
    tensors = list(dict.fromkeys(x for x, _ in dims))
    if len(tensors) == 1:
        return _written(tensors, sizes, lambda _, at: f"d{at}")
    # Operands of one list have one type: there each dimension is the length of a vector.
    vectors = [_written([x], [Size("", x, at)], lambda _, at: f"d{at}") for x, at in dims]
    names = {dim: f"d{number}" for number, dim in enumerate(dims)}
    return _written(vectors, sizes, lambda x, at: names[x, at])


def _written(likes: Sequence[Tensor], sizes: Sequence[Any], name: Callable[[Tensor, int], str]) -> Tensor:
    text = ", ".join(d.to_text(name) if isinstance(d, Size) else str(operator.index(d)) for d in sizes)
    return dispatch("positions", list(likes), shape=text)


def sections(x: Tensor, dim: int, sizes: Sequence[Any]) -> tuple[Tensor, ...]:
    """`x` cut along `dim` into chunks of these sizes, which have to add up to its own."""
    shape = x.sizes()
    likes = [shaped((*shape[:dim], size, *shape[dim + 1 :])) for size in sizes]
    return dispatch_all("split_like", x, likes, axis=dim)


def between(x: Tensor, dim: int, first: Any, length: Any) -> Tensor:
    """`length` slices of `x` along `dim` from `first` on."""
    before = [] if isinstance(first, int) and first == 0 else [first]
    return sections(x, dim, [*before, length, x.size(dim) - first - length])[len(before)]


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two sizes."""
    return Size("min", a, b) if isinstance(a, Size) or isinstance(b, Size) else min(a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two sizes."""
    return Size("max", a, b) if isinstance(a, Size) or isinstance(b, Size) else max(a, b)


def real(kind: str, *operands: Any) -> Any:
    """A function of sizes and floating-point numbers, as Python computes it with floating-point numbers."""
    if any(isinstance(x, (Size, Real)) for x in operands):
        return Real(kind, *operands)
    return _REAL_FUNCTIONS[kind](*map(float, operands))


def rounded(kind: str, value: Any) -> Any:
    """A floating-point number as a size: its `floor`, `ceil`, `trunc` or `round`."""
    return Size(kind, value) if isinstance(value, Real) else _ROUNDINGS[kind](value)


def clamp(size: Any, low: Any, high: Any) -> Any:
    """`size`, but at least `low` and at most `high`."""
    return minimum(maximum(size, low), high)


def bound(position: Any, size: Any) -> Any:
    """A bound of a slice as Python reads it: negative bounds count from the end, and bounds are clipped."""
    if isinstance(position, Size) and not _is_natural(position):
        negative = clamp(-position, 0, 1)
        return clamp(position, 0, size) + negative * maximum(position + size, 0)
    if isinstance(position, Size) or position > 0:
        return minimum(position, size)
    return maximum(position + size, 0) if position else 0


def _is_natural(size: Any) -> bool:
    """Whether a size cannot be negative, as far as its expression shows."""
    if not isinstance(size, Size):
        return bool(size >= 0)
    if size.kind == "max":
        return _is_natural(size.a) or _is_natural(size.b)
    return not size.kind or (size.kind in ("+", "*", "//", "%", "min") and all(map(_is_natural, size.operands)))
