"""Folding on the host: shape arithmetic on small arrays, computed while a model is imported.

A dynamic size is a `Size` in an array of objects, together with integers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.frontend.core.tensor import Size
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.types import FLOAT8, NAMES, NUMBERS, SMALL

#: The most elements of an array that is folded.
MAX_ELEMENTS = 1024
#: The most elements of a table that a builder computes on the host.
MAX_ELEMENTS_ON_HOST = 2**26


def _quotient(a: np.ndarray, b: np.ndarray) -> Any:
    """The quotient of ONNX: of integers it is cut towards zero; sizes are at least 0."""
    if a.dtype == object or b.dtype == object:
        return a // b
    if not np.issubdtype(a.dtype, np.integer):
        return np.divide(a, b)
    if (b == 0).any():
        return NotImplemented
    return np.floor_divide(a, b) + ((np.mod(a, b) != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


def _slice(x: np.ndarray, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    first, last = np.ravel(starts), np.ravel(ends)
    if object in (first.dtype, last.dtype):
        return NotImplemented
    axes = range(len(first)) if axes is None else np.ravel(axes)
    steps = [1] * len(first) if steps is None else np.ravel(steps)
    key = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, first, last, steps, strict=True):
        stop = None if step < 0 and end < -x.shape[axis] else int(end)
        key[int(axis)] = slice(int(start), stop, int(step))
    return x[tuple(key)]


def _squeeze(x: np.ndarray, axes: Any = None) -> np.ndarray:
    return np.squeeze(x, None if axes is None else tuple(int(a) for a in np.ravel(axes)))


def _unsqueeze(x: np.ndarray, axes: Any) -> np.ndarray:
    return np.expand_dims(x, tuple(int(a) for a in np.ravel(axes)))


def _cast(x: np.ndarray, *, to: int, saturate: int = 1, round_mode: str = "") -> Any:
    if NAMES[to] in SMALL or NAMES[to] in FLOAT8:
        return NotImplemented
    if x.dtype != object:
        return x.astype(NAMES[to])
    return x if NAMES[to] in ("int64", "int32") else NotImplemented


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    def fold(x: np.ndarray, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        dims = None if axes is None or not np.size(axes) else tuple(int(a) for a in np.ravel(axes))
        if dims is None and noop_with_empty_axes:
            return NotImplemented
        reduced = function(x, axis=dims, keepdims=bool(keepdims))
        return np.asarray(reduced, x.dtype)

    return fold


def _range(start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> Any:
    if object in (start.dtype, limit.dtype, delta.dtype) or not delta or abs((limit - start) / delta) > MAX_ELEMENTS:
        return NotImplemented
    return np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


def _reshape(x: np.ndarray, shape: np.ndarray, *, allowzero: int = 0) -> Any:
    if shape.dtype == object:
        return NotImplemented
    return x.reshape([x.shape[i] if d == 0 and not allowzero else int(d) for i, d in enumerate(shape)])


def _constant_of_shape(shape: np.ndarray, *, value: Any = None) -> Any:
    filling = np.zeros(1, np.float32) if value is None else value
    sizes = [int(d) for d in shape] if shape.dtype != object else []
    if shape.dtype == object or min(sizes, default=0) < 0 or float(np.prod(sizes, dtype=float)) > MAX_ELEMENTS:
        return NotImplemented
    return np.full(sizes, filling[0], filling.dtype)


def _gather(x: np.ndarray, indices: np.ndarray, *, axis: int = 0) -> np.ndarray:
    return np.take(x, indices, axis)


def _concat(*parts: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate(parts, axis)


def _transpose(x: np.ndarray, *, perm: list[int] | None = None) -> np.ndarray:
    return np.transpose(x, perm)


def _expand(x: np.ndarray, shape: np.ndarray) -> Any:
    if shape.dtype == object or float(np.prod(shape, dtype=float)) * max(x.size, 1) > MAX_ELEMENTS:
        return NotImplemented
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(map(int, shape))))


def _tile(x: np.ndarray, repeats: np.ndarray) -> Any:
    if repeats.dtype == object or float(np.prod(repeats, dtype=float)) * max(x.size, 1) > MAX_ELEMENTS:
        return NotImplemented
    return np.tile(x, repeats)


def _pairwise(function: np.ufunc) -> Callable[..., Any]:
    return lambda *operands: functools.reduce(function, operands)


def _modulo(a: np.ndarray, b: np.ndarray, *, fmod: int = 0) -> np.ndarray:
    array: np.ndarray = np.fmod(a, b) if fmod else np.mod(a, b)
    return array


#: Operators that are folded, and whether their operands may hold sizes of the run.
_FOLDED: dict[str, tuple[Callable[..., Any], bool]] = {
    "Add": (np.add, True), "Sub": (np.subtract, True), "Mul": (np.multiply, True), "Div": (_quotient, True),
    "Neg": (np.negative, False), "Abs": (np.abs, False), "Floor": (np.floor, False), "Ceil": (np.ceil, False),
    "Sqrt": (np.sqrt, False), "Not": (np.logical_not, False), "And": (np.logical_and, False),
    "Or": (np.logical_or, False), "Equal": (np.equal, False), "Greater": (np.greater, False),
    "Less": (np.less, False), "GreaterOrEqual": (np.greater_equal, False), "LessOrEqual": (np.less_equal, False),
    "Where": (np.where, False), "Identity": (np.asarray, True), "Gather": (_gather, True),
    "Concat": (_concat, True), "Slice": (_slice, True), "Squeeze": (_squeeze, True),
    "Unsqueeze": (_unsqueeze, True), "Cast": (_cast, True), "Range": (_range, False),
    "Reshape": (_reshape, True), "ConstantOfShape": (_constant_of_shape, False),
    "Transpose": (_transpose, True), "Expand": (_expand, True), "Tile": (_tile, True),
    "Max": (_pairwise(np.maximum), False), "Min": (_pairwise(np.minimum), False), "Mod": (_modulo, False),
    "ReduceProd": (_reduced(np.prod), True), "ReduceSum": (_reduced(np.sum), True),
    "ReduceMax": (_reduced(np.max), False), "ReduceMin": (_reduced(np.min), False),
}  # fmt: skip
#: Attributes of older versions that are operands by name, after the first operand.
_OPERANDS = {"Squeeze": ("axes",), "Unsqueeze": ("axes",), "ReduceProd": ("axes",), "ReduceSum": ("axes",),
             "ReduceMax": ("axes",), "ReduceMin": ("axes",), "Slice": ("starts", "ends", "axes")}  # fmt: skip


def fold(op: str, operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """The result of an operator on arrays of the host; NotImplemented where it is left to the program.

    Raises:
        ValueError, IndexError, TypeError, KeyError: the operands do not fit.
    """
    function, takes_sizes = _FOLDED.get(op, (None, False))
    if function is None or not all(map(is_small, operands)):
        return NotImplemented
    if not takes_sizes and any(x.dtype == object for x in operands if x is not None):
        return NotImplemented
    options = {k: v for k, v in attributes.items() if k not in _OPERANDS.get(op, ())}
    moved = [attributes.get(name) for name in _OPERANDS.get(op, ()) if name in attributes]
    if isinstance(function, np.ufunc) and options:
        return NotImplemented
    result = function(*operands, *moved, **options)
    if result is NotImplemented:
        return result
    return of_sizes([result]).reshape(()) if isinstance(result, Size) else np.asarray(result)


def is_small(value: Any) -> bool:
    """Whether a value is an array of the host that is folded, or left out."""
    if value is None:
        return True
    known = isinstance(value, np.ndarray) and value.size <= MAX_ELEMENTS
    return known and (value.dtype == object or value.dtype.name in NUMBERS) and not _is_exotic(value.dtype)


def _is_exotic(dtype: np.dtype[Any]) -> bool:
    return NUMBERS.get(dtype.name, 0) >= 16


def expect_small(count: Any, what: str) -> None:
    """Refuses numbers for which tables on the host would be absurdly large.

    Raises:
        OnnxError: there are too many.
    """
    if count > MAX_ELEMENTS_ON_HOST:
        raise OnnxError(f"expected at most {MAX_ELEMENTS_ON_HOST} {what}, got {count}")


def as_sizes(array: np.ndarray) -> list[Any]:
    """The elements of an array of integers and sizes, flattened."""
    return [v if isinstance(v, Size) else int(v) for v in array.ravel()]


def of_sizes(sizes: Sequence[Any]) -> np.ndarray:
    """Sizes as an array: of int64, or of objects where only the run knows one."""
    if not any(isinstance(d, Size) for d in sizes):
        return np.array(sizes, np.int64).reshape(-1)
    return np.asarray(np.frompyfunc(sizes.__getitem__, 1, 1)(np.arange(len(sizes))))  # assignment would convert them
