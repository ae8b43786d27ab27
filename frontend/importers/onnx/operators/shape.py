"""Operators that make, reshape, join and cut tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional.index_parts import broadcast_sizes
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.host import as_sizes, expect_small, of_sizes
from oneflow.frontend.importers.onnx.table import builder
from oneflow.frontend.importers.onnx.types import Codes, type_of_number


def sizes_of(x: Any) -> tuple[Any, ...]:
    """The sizes of a value, which may be an array of the host."""
    if isinstance(x, Codes):
        x = x.tensor
    return tuple(x.sizes()) if isinstance(x, Tensor) else tuple(x.shape)


@builder("Constant")
def _constant_of(
    *,
    value: Any = None,
    sparse_value: Any = None,
    value_int: int | None = None,
    value_ints: list[int] | None = None,
    value_float: float | None = None,
    value_floats: list[float] | None = None,
) -> np.ndarray:
    if value is not None or sparse_value is not None:
        array: np.ndarray = value if value is not None else sparse_value
        return array
    for number in (value_int, value_ints):
        if number is not None:
            return np.array(number, np.int64)
    for real in (value_float, value_floats):
        if real is not None:
            return np.array(real, np.float32)
    raise OnnxError("expected the value of a constant as a tensor, integers or floats")


@builder("Shape", raw=True)
def _shape(x: Any, *, start: int = 0, end: int | None = None) -> np.ndarray:
    return of_sizes(sizes_of(x)[start:end])


@builder("Size", raw=True)
def _size(x: Any) -> np.ndarray:
    return of_sizes([math.prod(sizes_of(x))]).reshape(())


@builder("Reshape", known="shape")
def _reshape(x: Tensor, shape: np.ndarray, *, allowzero: int = 0) -> Tensor:
    pairs = enumerate(as_sizes(shape))
    sizes = [x.size(i) if isinstance(d, int) and d == 0 and not allowzero else d for i, d in pairs]
    return F.reshape(x, sizes)


@builder("Flatten")
def _flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    sizes = x.sizes()
    at = axis + x.rank if axis < 0 else axis
    return F.reshape(x, (math.prod(sizes[:at]), math.prod(sizes[at:])))


@builder("Transpose")
def _transpose(x: Tensor, *, perm: list[int] | None = None) -> Tensor:
    return F.permute(x, perm or list(range(x.rank))[::-1])


@builder("Squeeze", known="axes")
def _squeeze(x: Tensor, axes: Any = None) -> Tensor:
    if axes is None:
        return F.squeeze(x)
    dims = as_sizes(axes)
    if any(x.shape[a] not in (1, None) for a in dims):
        raise OnnxError(f"expected size 1 along {dims} to squeeze, got {x.desc}")
    kept = [d for i, d in enumerate(x.sizes()) if i not in [a % x.rank for a in dims]]
    return F.reshape(x, kept) if any(x.shape[a] is None for a in dims) else F.squeeze(x, dims)


@builder("Unsqueeze", known="axes")
def _unsqueeze(x: Tensor, axes: np.ndarray) -> Tensor:
    rank = x.rank + axes.size
    for axis in sorted(a % rank for a in as_sizes(axes)):
        x = F.unsqueeze(x, axis)
    return x


@builder("Concat")
def _concat(*xs: Tensor, axis: int = 1) -> Tensor:
    return F.cat(xs, axis) if len(xs) > 1 else xs[0]


@builder("Split", known="split")
def _split(
    x: Tensor, split: Any = None, *, axis: int = 0, num_outputs: int | None = None, node: Any
) -> tuple[Tensor, ...]:
    at = axis % x.rank
    if split is not None:
        return F.split(x, as_sizes(split), at)
    count = num_outputs or node.result_count()
    size = x.size(at)
    each = (size + count - 1) // count
    if isinstance(size, Size):
        return F.split(x, [each] * (count - 1) + [size - each * (count - 1)], at)
    return F.split(x, [max(min(each, size - each * i), 0) for i in range(count)], at)


@builder("Expand", known="shape")
def _expand(x: Tensor, shape: np.ndarray) -> Tensor:
    return F.expand(x, *broadcast_sizes([x.sizes(), as_sizes(shape)]))


@builder("Tile", since=6, known="repeats")
def _tile(x: Tensor, repeats: np.ndarray) -> Tensor:
    counts = as_sizes(repeats)
    for count in counts:
        if not isinstance(count, Size):
            expect_small(count, "repetitions")
    return F.repeat(x, *counts)


@builder("Tile", known="tiles axis")
def _tile_1(x: Tensor, tiles: np.ndarray, axis: np.ndarray) -> Tensor:
    return F.repeat(x, *[int(tiles) if i == int(axis) else 1 for i in range(x.rank)])


@builder("Slice", known="starts ends axes steps")
def _slice(x: Tensor, starts: np.ndarray, ends: np.ndarray, axes: Any = None, steps: Any = None) -> Tensor:
    axes = range(starts.size) if axes is None else as_sizes(axes)
    steps = [1] * starts.size if steps is None else as_sizes(steps)
    for axis, start, end, step in zip(axes, as_sizes(starts), as_sizes(ends), steps, strict=True):
        x = _cut(x, axis % max(x.rank, 1), start, end, step)
    return x


def _cut(x: Tensor, axis: int, start: Any, end: Any, step: int) -> Tensor:
    """Every `step`-th slice from `start` to `end`; a negative step counts backwards."""
    if step > 0:
        slices = [slice(None)] * axis
        return F.getitem(x, (*slices, slice(start, end, step)))
    size = x.size(axis)
    if any(isinstance(v, Size) for v in (start, end, size)):
        raise OnnxError(f"expected sizes as numbers to slice backwards, got {x.desc}")
    first = min(start + size if start < 0 else start, size - 1)
    last = max(end + size if end < 0 else end, -1)
    backwards = slice(size - 1 - first, size - 1 - last, -step)
    return F.getitem(F.flip(x, [axis]), (*[slice(None)] * axis, backwards))


@builder("Pad", known="pads axes constant_value", renamed={"paddings": "pads", "value": "constant_value"})
def _pad(
    x: Tensor, pads: np.ndarray, constant_value: Any = None, axes: Any = None, *, mode: str = "constant"
) -> Tensor:
    dims = list(range(x.rank)) if axes is None else [a % x.rank for a in as_sizes(axes)]
    amounts = as_sizes(pads)
    pairs = {a: (amounts[i], amounts[i + len(dims)]) for i, a in enumerate(dims)}
    if mode == "constant":
        value = 0 if constant_value is None else constant_value.reshape(-1)[0].item()
        return padded(x, [pairs.get(i, (0, 0)) for i in range(x.rank)], value)
    for axis, (before, after) in pairs.items():
        if (before, after) != (0, 0):
            x = _bordered(x, axis, before, after, mode)
    return x


def padded(x: Tensor, pairs: list[tuple[Any, Any]], value: Any = 0) -> Tensor:
    """`x` with a border of one value, `(before, after)` along each dimension; negative amounts cut."""
    before, after = zip(*pairs, strict=True) if pairs else ((), ())
    if x.dtype == dtypes.bool_:
        return F.cast(padded(F.cast(x, dtypes.uint8), pairs, int(value)), dtypes.bool_)
    kind, number = ("floating", float(value)) if x.dtype.is_float else ("integral", int(value))
    return dispatch("pad", x, padding_before=before, padding_after=after, **{f"{kind}_constant_value": number})


def _bordered(x: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    """Borders that repeat elements along one axis, read at positions that NumPy computes."""
    size = x.size(axis)
    if isinstance(size, Size):
        raise OnnxError(f"expected a static size along axis {axis} for mode {mode!r}, got {x.desc}")
    expect_small(size + max(before, 0) + max(after, 0), "elements along a padded axis")
    inside = np.arange(size)
    cut = inside[max(-before, 0) : size - max(-after, 0)]
    border: Any = mode
    positions = np.pad(cut, (max(before, 0), max(after, 0)), border)
    return dispatch("gather", x, as_tensor(positions.astype(np.int64)), axis=axis)


@builder("ConstantOfShape", known="shape")
def _constant_of_shape(shape: np.ndarray, *, value: Any = None) -> Tensor:
    filling = np.zeros(1, np.float32) if value is None else value.reshape(-1)
    filled = F.expand(F.reshape(as_tensor(filling), (1,) * shape.size), *as_sizes(shape)) if shape.size else None
    return F.reshape(as_tensor(filling), ()) if filled is None else filled


@builder("Range", known="start limit delta")
def _range(start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> Tensor:
    first, last, step = (x.reshape(-1)[0] for x in (start, limit, delta))
    if any(isinstance(v, Size) for v in (first, last, step)):
        begin, end = (v if isinstance(v, Size) else int(v) for v in (first, last))
        return F.arange(begin, end, int(step))
    if not step:
        raise OnnxError("expected a step other than 0")
    count = max(math.ceil((float(last) - float(first)) / float(step)), 0)
    dtype = as_tensor(start).dtype
    number = F.arange(count)
    return F.cast(F.add(F.mul(F.cast(number, _wide(dtype)), step.item()), first.item()), dtype)


def _wide(dtype: Any) -> Any:
    return dtypes.float64 if dtype.is_float else dtypes.int64


@builder("EyeLike")
def _eye_like(x: Tensor, *, k: int = 0, dtype: int | None = None) -> Tensor:
    target: Any = x.dtype if dtype is None else type_of_number(dtype)
    rows, columns = x.sizes()
    return F.cast(F.eq(F.add(F.unsqueeze(F.arange(rows), 1), k), F.arange(columns)), target)


@builder("Trilu", known="k")
def _trilu(x: Tensor, k: Any = None, *, upper: int = 1) -> Tensor:
    diagonal = 0 if k is None else int(k.item())
    if 0 in x.shape:
        return x
    return F.triu(x, diagonal) if upper else F.tril(x, diagonal)


@builder("DepthToSpace")
def _depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.sizes()
    b, rest = blocksize, c // (blocksize * blocksize)
    if mode == "CRD":
        parts, order = F.reshape(x, (n, rest, b, b, h, w)), (0, 1, 4, 2, 5, 3)
    else:
        parts, order = F.reshape(x, (n, b, b, rest, h, w)), (0, 3, 4, 1, 5, 2)
    return F.reshape(F.permute(parts, *order), (n, rest, h * b, w * b))


@builder("SpaceToDepth")
def _space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.sizes()
    b = blocksize
    parts = F.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return F.reshape(F.permute(parts, *order), (n, c * b * b, h // b, w // b))


@builder("CenterCropPad", known="shape")
def _center_crop_pad(x: Tensor, shape: np.ndarray, *, axes: list[int] | None = None) -> Tensor:
    dims = range(x.rank) if axes is None else [a % x.rank for a in axes]
    pairs = [(0, 0)] * x.rank
    for axis, wanted in zip(dims, as_sizes(shape), strict=True):
        missing = wanted - x.size(axis)
        before = missing // 2 if missing >= 0 else -(-missing // 2)
        pairs[axis] = (before, missing - before)
    return padded(x, pairs)
