"""Images of other sizes: rows and columns as weighted sums of rows and columns.

    resize(image, 224, 224, "bilinear")

Pixels are areas: pixel i of n covers i / n to (i + 1) / n of a side. Weights are OpenCV's weights: where an image
shrinks, only the weights of "area" widen. Integers are rounded to the nearest, halves up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect.numpy_kernel import DataError

Array = Any
#: The names of the interpolations.
KINDS = ("bilinear", "nearest_neighbor", "nn", "bicubic", "area", "auto")
#: Kinds that copy pixels.
NEAREST = ("nearest_neighbor", "nn")
#: The parameter of the cubic kernel (Keys, 1981) that OpenCV takes.
CUBIC = -0.75


def resize(image: Array, height: int, width: int, kind: str) -> Array:
    """An image (rows, columns, channels) with `height` rows and `width` columns, of the same element type."""
    rows, columns = image.shape[:2]
    if kind == "auto":
        kind = "bilinear" if height * width >= rows * columns else "area"
    if kind in NEAREST:
        return image[_nearest(rows, height)[:, None], _nearest(columns, width)]
    if kind == "area" and not (height <= rows and width <= columns):
        kind = "enlarged area"
    weights = _WEIGHTS[kind]
    wide = image.astype(np.float64)
    down = np.tensordot(weights(rows, height), wide, 1)
    return convert(np.matmul(weights(columns, width), down), image.dtype)


def convert(image: Array, dtype: np.dtype[Any]) -> Array:
    """An image of another element type; integers are rounded and clipped."""
    if dtype.kind == "u" and image.dtype.kind == "f":
        return np.clip(np.floor(image + 0.5), 0, np.iinfo(dtype).max).astype(dtype)
    return image.astype(dtype)


def _nearest(old: int, new: int) -> Array:
    return np.minimum(np.arange(new) * old // new, old - 1)


def _taps(old: int, first: Array, weights: list[Array]) -> Array:
    """The matrix of sums of neighbours, from `first` on; those outside are the pixels at the border."""
    matrix = np.zeros((len(first), old))
    for step, weight in enumerate(weights):
        np.add.at(matrix, (np.arange(len(first)), np.clip(first + step, 0, old - 1)), weight)
    return matrix


def _centers(old: int, new: int) -> tuple[Array, Array]:
    """The pixel before each center, and how far behind that pixel's center it is."""
    center = (np.arange(new) + 0.5) * (old / new) - 0.5
    first = np.floor(center)
    return first.astype(np.int64), center - first


def _linear(old: int, new: int) -> Array:
    first, behind = _centers(old, new)
    return _taps(old, first, [1 - behind, behind])


def _cubic(old: int, new: int) -> Array:
    first, behind = _centers(old, new)

    def near(x: Array) -> Array:
        return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1

    def far(x: Array) -> Array:
        return ((x - 5) * x + 8) * x * CUBIC - 4 * CUBIC

    return _taps(old, first - 1, [far(behind + 1), near(behind), near(1 - behind), far(2 - behind)])


def _area(old: int, new: int) -> Array:
    """The share of each old pixel in a new one."""
    edges = np.arange(new + 1) * (old / new)
    pixels = np.arange(old)
    begin = np.maximum(edges[:-1, None], pixels)
    end = np.minimum(edges[1:, None], pixels + 1)
    overlaps = np.maximum(end - begin, 0)
    return overlaps / overlaps.sum(1, keepdims=True)


def _enlarged_area(old: int, new: int) -> Array:
    """New pixels that lie in one old pixel are that one; those over a border are between both."""
    step = np.arange(new)
    first = np.floor(step * (old / new)).astype(np.int64)
    over = (step + 1) - (first + 1) * (new / old)
    behind = np.where(over <= 0, 0.0, over - np.floor(over))
    return _taps(old, first, [1 - behind, behind])


_WEIGHTS: dict[str, Callable[[int, int], Array]] = {
    "bilinear": _linear, "bicubic": _cubic, "area": _area, "enlarged area": _enlarged_area,
}  # fmt: skip


def longer_and_shorter(height: int, width: int, shorter: float, longer: float) -> tuple[int, int]:
    """The height and width of an image whose sides become `shorter` and `longer`.

    Raises:
        DataError: a side has no pixels.
    """
    if shorter < 1:
        raise DataError(f"expected a side of at least 1 pixel, got {shorter:g} for an image of {height} x {width}")
    return (int(longer), int(shorter)) if width < height else (int(shorter), int(longer))
