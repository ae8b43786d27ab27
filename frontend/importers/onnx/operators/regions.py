"""Regions of images: sampling on grids, pooling of boxes, suppression of boxes."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.host import expect_small
from oneflow.frontend.importers.onnx.table import builder


@builder("GridSample")
def _grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    """Images at the positions of `grid`, computed in the wider of both types, of at least 32 bits."""
    method = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if not x.dtype.is_float:
        raise OnnxError(f"expected images of floating-point numbers, got {x.desc}")
    dtype = max(x.dtype.accumulator, grid.dtype.accumulator, key=lambda d: d.bits)
    image, coordinates = F.cast(x, dtype), F.cast(grid, dtype)
    sample = _sampled_images if (x.rank, method) in _SAMPLED else _sampled_at_points
    return F.cast(sample(image, coordinates, method, padding_mode, align_corners), x.dtype)


#: The ranks and modes of the dialect's `grid_sample`.
_SAMPLED = {(4, "linear"), (4, "nearest"), (4, "cubic"), (5, "linear"), (5, "nearest")}


def _sampled_images(x: Tensor, grid: Tensor, method: str, padding_mode: str, align_corners: int) -> Tensor:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(method, method)
    return F.grid_sample(x, grid, mode, padding_mode, bool(align_corners))


def _sampled_at_points(x: Tensor, grid: Tensor, method: str, padding_mode: str, align_corners: int) -> Tensor:
    """Each point reads the elements around it, which have weights along each dimension."""
    sizes = [int(n or 0) for n in x.shape[2:]]
    spatial = len(sizes)
    coordinates = [F.select(grid, -1, spatial - 1 - i) for i in range(spatial)]
    at = [_unnormalized(p, n, align_corners) for p, n in zip(coordinates, sizes, strict=True)]
    if padding_mode != "zeros" and method != "cubic":
        at = [_inside(p, n, padding_mode, align_corners) for p, n in zip(at, sizes, strict=True)]
    terms = [_terms(p, method) for p in at]
    n, c = (int(d or 0) for d in x.shape[:2])
    points = [int(d or 0) for d in grid.shape[1:-1]]
    flat = F.reshape(x, (n, c, math.prod(sizes)))
    parts = []
    for choice in itertools.product(*terms):
        index, valid, weight = _combined(choice, sizes, padding_mode, align_corners)
        expanded = F.expand(F.reshape(index, (n, 1, math.prod(points))), -1, c, -1)
        values = F.reshape(F.gather(flat, 2, expanded), (n, c, *points))
        values = F.where(F.unsqueeze(valid, 1), values, 0.0) if padding_mode == "zeros" else values
        parts.append(values if weight is None else F.mul(values, F.unsqueeze(weight, 1)))
    total: Tensor = functools.reduce(F.add, parts)
    return total


def _unnormalized(p: Tensor, size: int, align_corners: int) -> Tensor:
    """Positions from -1 to 1 as positions of elements."""
    if align_corners:
        return F.mul(F.add(p, 1.0), (size - 1) / 2)
    return F.div(F.sub(F.mul(F.add(p, 1.0), float(size)), 1.0), 2.0)


def _inside(p: Tensor, size: int, padding_mode: str, align_corners: int) -> Tensor:
    """Positions brought inside: to the border, or mirrored at it."""
    if padding_mode == "reflection":
        low, high = (0.0, float(size - 1)) if align_corners else (-0.5, size - 0.5)
        width = high - low
        if width <= 0:
            return F.zeros_like(p)
        moved = F.abs(F.sub(p, low))
        folded = F.remainder(moved, 2 * width)
        p = F.add(F.where(F.gt(folded, width), F.sub(2 * width, folded), folded), low)
    return F.clamp(p, 0.0, float(size - 1))


def _terms(p: Tensor, method: str) -> list[tuple[Tensor, Tensor | None]]:
    """The elements that are read along a dimension, and their weights."""
    if method == "nearest":
        return [(F.rint(p), None)]
    first = F.floor(p)
    rest = F.sub(p, first)
    if method == "linear":
        return [(first, F.sub(1.0, rest)), (F.add(first, 1.0), rest)]
    if method != "cubic":
        raise OnnxError(f"expected the mode linear, nearest or cubic, got {method!r}")
    return [(F.add(first, float(k)), _cubic(F.abs(F.sub(rest, float(k))), -0.75)) for k in (-1, 0, 1, 2)]


def _cubic(x: Tensor, a: float) -> Tensor:
    inner = F.add(F.mul(F.mul(F.sub(F.mul(x, a + 2), a + 3), x), x), 1.0)
    outer = F.sub(F.mul(F.mul(F.add(F.mul(F.sub(x, 5.0), x), 8.0), x), a), 4 * a)
    tensor: Tensor = F.where(F.le(x, 1.0), inner, outer)
    return tensor


def _combined(choice: Any, sizes: list[int], padding_mode: str, align_corners: int) -> tuple[Any, Any, Any]:
    """The flat position of one choice of elements, whether it is inside, and its weight."""
    index: Any = None
    valid: Any = None
    weight: Any = None
    for (coordinate, share), size in zip(choice, sizes, strict=True):
        ok = F.logical_and(F.ge(coordinate, 0.0), F.le(coordinate, float(size - 1)))
        valid = ok if valid is None else F.logical_and(valid, ok)
        mode = "border" if padding_mode == "zeros" else padding_mode
        own = F.cast(F.rint(_inside(coordinate, size, mode, align_corners)), dtypes.int64)
        index = own if index is None else F.add(F.mul(index, size), own)
        weight = share if weight is None else F.mul(weight, share)
    return index, valid, weight


@builder("RoiAlign", known="rois")
def _roi_align(
    x: Tensor,
    rois: np.ndarray,
    batch: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    node: Any,
) -> Tensor:
    half = 0.5 if coordinate_transformation_mode == "half_pixel" and node.version >= 16 else 0.0
    scaled = rois * np.asarray(spatial_scale, rois.dtype) - half
    chosen = F.index_select(x, 0, F.cast(batch, dtypes.int64))
    height, width = (int(n or 0) for n in x.shape[2:])
    regions = []
    for number, (x1, y1, x2, y2) in enumerate(scaled.tolist()):
        w, h = (x2 - x1, y2 - y1) if half else (max(x2 - x1, 1.0), max(y2 - y1, 1.0))
        rows = _sampled(y1, h, output_height, sampling_ratio, height)
        columns = _sampled(x1, w, output_width, sampling_ratio, width)
        image = F.select(chosen, 0, number)
        regions.append(_averages(image, rows, columns) if mode == "avg" else _largest(image, rows, columns))
    return F.stack(regions, 0)


def _sampled(first: float, length: float, count: int, ratio: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The two elements of a dimension around each sample of each part of a region, and their weights:
    `(count, samples, 2)`. Samples outside have the weight 0.
    """
    samples = ratio or max(math.ceil(length / count), 1)
    expect_small(count * samples * size, "samples of a region")
    coordinates = first + (np.arange(count)[:, None] + (np.arange(samples) + 0.5) / samples) * length / count
    inside = np.clip(coordinates, 0, size - 1)
    low = inside.astype(np.int64)
    share = np.stack([low + 1 - inside, inside - low], -1)
    positions = np.stack([low, np.minimum(low + 1, size - 1)], -1)
    return positions, np.where(((coordinates >= -1) & (coordinates <= size))[..., None], share, 0)


def _averages(image: Tensor, rows: Any, columns: Any) -> Tensor:
    """The means of the samples of each part of a region: products with a matrix for each dimension."""
    matrices = []
    for (positions, weights), size in zip((rows, columns), image.shape[1:], strict=True):
        matrix = np.zeros((len(positions), size or 0))
        part = np.broadcast_to(np.arange(len(positions))[:, None, None], positions.shape)
        np.add.at(matrix, (part, positions), weights / positions.shape[1])
        matrices.append(matrix.astype(image.dtype.numpy))
    return F.matmul(F.matmul(as_tensor(matrices[0]), image), as_tensor(matrices[1].T.copy()))


def _largest(image: Tensor, rows: Any, columns: Any) -> Tensor:
    """The largest weighed element around the samples of each part of a region."""
    weights: Any = 1.0
    for axis, (positions, shares) in ((1, rows), (2, columns)):
        image = F.index_select(image, axis, as_tensor(positions.reshape(-1)))
        weights = np.multiply.outer(weights, shares.reshape(-1))
    weighed = F.mul(image, as_tensor(weights.astype(image.dtype.numpy)))
    sizes = [n for positions, _ in (rows, columns) for n in (len(positions), positions[0].size)]
    return F.amax(F.reshape(weighed, (image.size(0), *sizes)), [2, 4])


@builder("MaxRoiPool", known="rois")
def _max_roi_pool(x: Tensor, rois: np.ndarray, *, pooled_shape: list[int], spatial_scale: float = 1.0) -> Tensor:
    regions = []
    for number, x1, y1, x2, y2 in rois.tolist():
        image = F.select(x, 0, int(number))
        for axis, low, high, count in ((1, y1, y2, pooled_shape[0]), (2, x1, x2, pooled_shape[1])):
            first, last = round(low * spatial_scale), round(high * spatial_scale)
            size, n = max(last - first + 1, 1), int(image.shape[axis] or 0)
            cuts = [(first + i * size // count, first - (-(i + 1) * size // count)) for i in range(count)]
            clipped = [(min(max(a, 0), n), min(max(b, 0), n)) for a, b in cuts]
            image = F.stack([_largest_between(image, axis, a, b) for a, b in clipped], axis)
        regions.append(image)
    return F.stack(regions, 0)


def _largest_between(x: Tensor, axis: int, first: int, last: int) -> Tensor:
    """The largest elements of some slices, 0 of none."""
    return (
        F.amax(F.narrow(x, axis, first, last - first), axis) if last > first else F.zeros_like(F.select(x, axis, 0))
    )


@builder("NonMaxSuppression", known="boxes scores most overlap least")
def _non_max_suppression(
    boxes: np.ndarray,
    scores: np.ndarray,
    most: Any = None,
    overlap: Any = None,
    least: Any = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """Rows of batch, class and box, the best first, without boxes that overlap a better one; on the host."""
    limit, share = (0 if v is None else v.reshape(-1)[0] for v in (most, overlap))
    floor = -np.inf if least is None else least.reshape(-1)[0]
    rows = []
    for batch, label in itertools.product(range(scores.shape[0]), range(scores.shape[1])):
        corners = _corners(boxes[batch], center_point_box)
        kept: list[int] = []
        for box in np.argsort(-scores[batch, label], kind="stable"):
            if len(kept) >= limit or scores[batch, label, box] <= floor:
                break
            if all(_overlap(corners[box], corners[other]) <= share for other in kept):
                kept.append(int(box))
        rows += [(batch, label, box) for box in kept]
    return as_tensor(np.array(rows, np.int64).reshape(-1, 3))


def _corners(boxes: np.ndarray, center_point_box: int) -> np.ndarray:
    """Boxes as their lower and upper corners."""
    if center_point_box:
        centre, half = boxes[:, :2], boxes[:, 2:] / 2
        return np.concatenate([centre - half, centre + half], 1)
    pairs = boxes.reshape(-1, 2, 2)
    return np.concatenate([pairs.min(1), pairs.max(1)], 1)


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    """The area of the intersection, divided by the area of the union."""
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    areas = [np.prod(v[2:] - v[:2]) for v in (a, b)]
    union = areas[0] + areas[1] - np.prod(sides)
    return float(np.prod(sides) / union) if union > 0 else 0.0
