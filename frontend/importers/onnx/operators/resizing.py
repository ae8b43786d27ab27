"""Resizing: one matrix of weights for each dimension, which NumPy computes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.host import as_sizes, expect_small
from oneflow.frontend.importers.onnx.table import builder
from oneflow.frontend.importers.onnx.types import limits

_ROUNDED: dict[str, Any] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@builder("Upsample", known="scales")
def _upsample(x: Tensor, scales: np.ndarray, *, mode: str = "nearest") -> Tensor:
    tensor: Tensor = _resize(
        x, None, np.asarray(scales), mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    return tensor


@builder("Resize", known="scales")
def _resize_10(x: Tensor, scales: np.ndarray, *, mode: str = "nearest") -> Tensor:
    tensor: Tensor = _upsample(x, scales, mode=mode)
    return tensor


@builder("Resize", since=11, known="roi scales sizes")
def _resize(
    x: Tensor,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    antialias: int = 0,
    axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    resized = [a % x.rank for a in axes] if axes is not None else list(range(x.rank))
    own = [x.size(a) for a in resized]
    factors, results = _factors(own, scales, sizes, keep_aspect_ratio_policy)
    region = None if roi is None or not roi.size else roi.reshape(2, -1)
    crops, dtype, outside = coordinate_transformation_mode == "tf_crop_and_resize", x.dtype, np.False_
    sampling = _Sampling(mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias))
    if not dtype.is_float and mode != "nearest":
        x = F.cast(x, dtypes.float32)
    for i, axis in enumerate(resized):
        if _is_same(own[i], results[i], factors[i]) and not crops:
            continue
        if isinstance(own[i], Size):
            if not _repeats(factors[i], mode, coordinate_transformation_mode, nearest_mode):
                raise OnnxError(f"expected a static size along axis {axis} to resize, got {x.desc}")
            x = _enlarged(x, axis, int(factors[i]))
            continue
        bounds = None if region is None else (float(region[0, i]), float(region[1, i]))
        at = _positions(own[i], results[i], factors[i], coordinate_transformation_mode, bounds)
        if crops:
            beyond = (at < 0) | (at > own[i] - 1)
            outside = outside | beyond.reshape([-1 if d == axis else 1 for d in range(x.rank)])
        x = sampling.along(x, axis, at, factors[i])
    if np.any(outside):
        x = F.where(as_tensor(np.broadcast_to(outside, x.shape).copy()), float(extrapolation_value), x)
    if dtype != x.dtype:
        least, largest = limits(dtype)
        x = F.clamp(F.rint(x), float(least), float(largest))
    return F.cast(x, dtype)


@dataclass(frozen=True)
class _Sampling:
    """How elements at fractional positions are computed, from the attributes of `Resize`."""

    mode: str
    nearest_mode: str
    cubic: float
    excludes_outside: bool
    antialias: bool

    def along(self, x: Tensor, axis: int, at: np.ndarray, factor: float) -> Tensor:
        """The elements at positions along an axis of static size, which is resized by a factor."""
        size: int = x.size(axis)
        if self.mode == "nearest":
            chosen = np.clip(_ROUNDED[self.nearest_mode](at), 0, size - 1).astype(np.int64)
            picked: Tensor = dispatch("gather", x, as_tensor(chosen), axis=axis)
            return picked
        scale = min(factor, 1.0) if self.antialias else 1.0
        matrix = _weights(at, size, self.mode, scale, self.cubic, self.excludes_outside, self.antialias)
        product = F.matmul(F.movedim(x, axis, -1), as_tensor(matrix.T.astype(x.dtype.numpy)))
        return F.movedim(product, -1, axis)


def _factors(own: list[Any], scales: Any, sizes: Any, policy: str) -> tuple[list[float], list[Any]]:
    """The factor of each dimension, and the size of the result."""
    if sizes is None or not sizes.size:
        if scales.dtype == object:
            raise OnnxError("expected the scales of a resized tensor as numbers, got dynamic sizes")
        factors = [float(s) for s in scales]
        return factors, [n * int(f) if f == int(f) else math.floor(n * f) for n, f in zip(own, factors, strict=True)]
    wanted = as_sizes(sizes)
    if policy == "stretch":
        same = [w is n or (isinstance(w, int) and w == n) for w, n in zip(wanted, own, strict=True)]
        if any(isinstance(w, Size) and not s for w, s in zip(wanted, same, strict=True)):
            raise OnnxError("expected the sizes of a resized tensor as numbers")
        return [1.0 if s else w / n for w, n, s in zip(wanted, own, same, strict=True)], wanted
    choose = min if policy == "not_larger" else max
    factor = choose(w / n for w, n in zip(wanted, own, strict=True))
    return [factor] * len(own), [math.floor(n * factor + 0.5) for n in own]


def _repeats(factor: float, mode: str, transformation: str, rounding: str) -> bool:
    """Whether each element is repeated `factor` times."""
    halves = transformation in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round")
    floors = transformation == "asymmetric" and rounding == "floor"
    return mode == "nearest" and factor == int(factor) and (halves or floors)


def _enlarged(x: Tensor, axis: int, count: int) -> Tensor:
    """`x` with each element repeated along an axis."""
    sizes = x.sizes()
    wide = F.expand(F.unsqueeze(x, axis + 1), *sizes[: axis + 1], count, *sizes[axis + 1 :])
    return F.reshape(wide, (*sizes[:axis], sizes[axis] * count, *sizes[axis + 1 :]))


def _is_same(own: Any, result: Any, factor: float) -> bool:
    return (
        own is result
        or (factor == 1 and isinstance(own, int) and own == result)
        or (factor == 1 and isinstance(own, Size))
    )


def _positions(own: int, result: int, factor: float, mode: str, region: Any) -> np.ndarray:
    """The position in the dimension of each element of the result."""
    expect_small(result, "elements along a resized axis")
    x, width = np.arange(result, dtype=np.float64), own * factor
    if mode == "half_pixel":
        return (x + 0.5) / factor - 0.5
    if mode == "half_pixel_symmetric":
        centre = own / 2 * (1 - result / width)
        return centre + (x + 0.5) / factor - 0.5
    if mode == "pytorch_half_pixel":
        return (x + 0.5) / factor - 0.5 if result > 1 else np.zeros_like(x) - 0.0
    if mode == "align_corners":
        return x * (own - 1) / (width - 1) if width != 1 else np.zeros_like(x)
    if mode == "asymmetric":
        return x / factor
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / factor
    if mode == "tf_crop_and_resize" and region is not None:
        first, last = region
        if result == 1:
            return np.full(1, (first + last) * (own - 1) / 2)
        array: np.ndarray = first * (own - 1) + x * (last - first) * (own - 1) / (result - 1)
        return array
    raise OnnxError(f"the coordinate transformation {mode!r} is not supported")


def _weights(
    at: np.ndarray, size: int, mode: str, scale: float, a: float, exclude_outside: bool, antialias: bool
) -> np.ndarray:
    """The matrix whose rows are the weights of the elements of a dimension; positions outside are clamped to the
    ends.
    """
    expect_small(len(at) * size, "weights along a resized axis")
    reach = math.ceil((2 if mode == "cubic" else 1) / scale)
    kernel = _cubic if mode == "cubic" else _linear
    matrix = np.zeros((len(at), size))
    for row, coordinate in enumerate(at):
        base = math.floor(coordinate)
        neighbours = np.arange(base - reach + 1, base + reach + 1)
        weights = kernel(np.abs(neighbours - coordinate) * scale, a)
        inside = (neighbours >= 0) & (neighbours < size)
        if exclude_outside:
            weights = np.where(inside, weights, 0)
        if exclude_outside or antialias:
            weights = weights / weights.sum()
        np.add.at(matrix[row], np.clip(neighbours, 0, size - 1), weights)
    return matrix


def _linear(distance: np.ndarray, a: float) -> np.ndarray:
    array: np.ndarray = np.maximum(1 - distance, 0)
    return array


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x <= 1, inner, np.where(x < 2, outer, 0))
