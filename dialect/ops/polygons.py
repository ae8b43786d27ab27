"""Masks of objects that are outlined by polygons, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.numpy_kernel import DataError, numpy_kernel
from oneflow.dialect.ops.image_lists import mapped
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.record import Call, no_grad, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc


def fill(shape: tuple[int, int], polygons: list[np.ndarray]) -> np.ndarray:
    """The mask of the pixels inside of an odd number of polygons, or on an edge.

    `polygons` are the columns and rows of their corners, integers.
    """
    before, up_to = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    edges = np.zeros(shape, np.bool_)
    columns = np.arange(shape[1])
    for corners in polygons:
        for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, 0), strict=True):
            _draw(edges, x0, y0, x1, y1)
            rows = np.arange(max(0, min(y0, y1)), min(shape[0], max(y0, y1)))
            if len(rows):
                crossing = (x0 + (rows - y0) * ((x1 - x0) / (y1 - y0)))[:, None]
                before[rows] += crossing < columns
                up_to[rows] += crossing <= columns
    filled: np.ndarray = edges | (before % 2 == 1) | (up_to % 2 == 1)
    return filled


def _draw(pixels: np.ndarray, x0: int, y0: int, x1: int, y1: int) -> None:
    """Sets the pixels of a line, one in each step along its longer side."""
    steps = int(max(abs(x1 - x0), abs(y1 - y0)))
    share = np.arange(steps + 1) / max(steps, 1)
    columns, rows = (np.floor(a + share * (b - a) + 0.5).astype(np.int64) for a, b in ((x0, x1), (y0, y1)))
    inside = (columns >= 0) & (columns < pixels.shape[1]) & (rows >= 0) & (rows < pixels.shape[0])
    pixels[rows[inside], columns[inside]] = True


def _polygons(points: np.ndarray, index: np.ndarray, objects: int) -> list[list[np.ndarray]]:
    """The polygons of each object of an image, by the indices (point, polygon, object) of the points.

    Raises:
        DataError: the indices are not in order, or there are more objects.
    """
    known = index[:, 2] >= 0
    corners, indices = np.rint(points[known].astype(np.float64)).astype(np.int64), index[known]
    found: list[list[list[np.ndarray]]] = []
    for corner, (point, polygon, object_index) in zip(corners, indices, strict=True):
        while object_index >= len(found):
            found.append([])
            if object_index >= objects:
                raise DataError(f"expected at most {objects} objects, the first of shape, got object {object_index}")
        if object_index == len(found) - 1 and polygon == len(found[-1]):
            found[-1].append([])
        if object_index != len(found) - 1 or polygon != len(found[-1]) - 1 or point != len(found[-1][-1]):
            raise DataError(
                "expected poly_index with the indices of points, polygons and objects in order, got"
                f" {[int(point), int(polygon), int(object_index)]} after {len(found)} objects"
            )
        found[-1][-1].append(corner)
    return [[np.array(one) for one in polygons] for polygons in found]


@operator("object_segmentation_polygon_to_mask(poly, poly_index, image_size, shape: shape) -> out")
class ObjectSegmentationPolygonToMask:
    """The masks (i8) of the objects of each image: 1 inside of an odd number of polygons of the object or on an edge.

    `poly` are points (images, points, 2) of columns and rows, rounded to the nearest. `poly_index`
    (images, points, 3) has the index of a point in its polygon, of the polygon in its object and of the object, -1
    for no point.
    `image_size` (i32) are the widths and heights of the images. `shape` are the most objects, rows and columns.
    """

    grad = no_grad("the masks are integers")

    def types(op: Call) -> TensorDesc:
        expect_rank(op, "poly", op.poly, 3)
        expect_dtype(op, "poly", op.poly, (dtypes.float32, dtypes.float64))
        expect_dim(op, "the last axis of poly", op.poly.shape[2], 2)
        expect_dtype(op, "poly_index", op.poly_index, (dtypes.int32, dtypes.int64))
        images, points = op.poly.shape[:2]
        expect_type(op, "poly_index", TensorDesc((images, points, 3), op.poly_index.dtype))
        expect_type(op, "image_size", TensorDesc((images, 2), dtypes.int32))
        if len(op.shape) != 3 or min(op.shape) < 0:
            raise op.error(f"expected shape as the most objects, rows and columns, got {list(op.shape)}")
        return TensorDesc((images, *op.shape), dtypes.int8)

    def sbp(op: Call) -> Factors:
        return Factors("n _ _, n _ _, n _ -> n _ _ _")

    def reference(poly: Any, poly_index: Any, image_size: Any, *, shape: Any) -> Any:
        out = np.zeros((len(poly), *shape), np.int8)

        def write(index: int) -> None:
            width, height = map(int, image_size[index])
            if not (0 <= height <= shape[1] and 0 <= width <= shape[2]):
                raise DataError(f"expected a size of at most {shape[1]} x {shape[2]}, got {height} x {width}")
            if not np.isfinite(poly[index]).all():
                raise DataError(f"expected finite points in poly, got infinities or NaN in list {index}")
            for mask, polygons in zip(out[index], _polygons(poly[index], poly_index[index], shape[0]), strict=False):
                mask[:height, :width] = fill((height, width), polygons)

        list(mapped(write, range(len(poly))))
        return out

    kernel = numpy_kernel(reference)
