"""Pooling as in TensorFlow and OneFlow's older programs: borders of two sizes, and means without the border.

`padding` is `valid`, `same_upper`, `same_lower` (as of `same_padding`), or `customized` by `padding_before` and
`padding_after`. Means exclude the border. Every element that equals the maximum of its window receives the gradient.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import adjoint, composite
from oneflow.dialect.compute import Stage
from oneflow.dialect.ops.pool import factors
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.same_padding import SAME, expect_static_sizes, padded_images, same_border
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.ops.spatial import (
    Windows,
    channels_back,
    channels_first,
    expect_images,
    expect_windows,
    layout_of,
)
from oneflow.dialect.record import Call, Rule, define, no_grad
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc

MODES = ("valid", "customized", *SAME)
ATTRS = (
    "padding: string, padding_before: list_int32, padding_after: list_int32, data_format: string,"
    " pool_size: list_int32, strides: list_int32, ceil_mode: bool"
)


@dataclass(frozen=True)
class Row:
    """The windows along one dimension of `size`: `kernel` elements, at the distance `stride`, the first begins
    `before` it.
    """

    size: int
    kernel: int
    stride: int
    before: int
    count: int

    @property
    def last(self) -> int:
        """The first position of the last window in the image."""
        return (self.count - 1) * self.stride - self.before

    @property
    def border(self) -> tuple[int, int]:
        """The border that all windows together read; negative where windows read less than the image."""
        return self.before, self.last + self.kernel - self.size

    def inside(self, window: int) -> slice:
        """The elements of the image in a window."""
        begin = window * self.stride - self.before
        return slice(max(begin, 0), min(begin + self.kernel, self.size))


def _rows(sizes: Sequence[int], attrs: Any) -> list[Row]:
    mode, axes = attrs["padding"], zip(sizes, attrs["pool_size"], attrs["strides"], strict=True)
    if mode in SAME:
        borders = [same_border(mode, n, k, stride)[0] for n, k, stride in axes]
        counts = [-(-n // stride) for n, stride in zip(sizes, attrs["strides"], strict=True)]
    else:
        zeros = [0] * len(sizes)
        customized = mode == "customized"
        borders, after = (attrs[f"padding_{s}"] if customized else zeros for s in ("before", "after"))
        more = [stride - 1 if customized and attrs["ceil_mode"] else 0 for stride in attrs["strides"]]
        sides = zip(axes, borders, after, more, strict=True)
        counts = [(n + b + a - k + up) // stride + 1 for (n, k, stride), b, a, up in sides]
    rows = zip(sizes, attrs["pool_size"], attrs["strides"], borders, counts, strict=True)
    return [Row(*row) for row in rows]


def _check(spatial: int) -> Rule:
    def check(op: Call) -> None:
        expect_dtype(op, "x", op.x, dtypes.FLOATS)
        expect_images(op, "x", op.x, spatial)
        if op.padding not in MODES:
            raise op.error(f"expected padding to be one of {', '.join(MODES)}, got {op.padding!r}")
        borders = {"padding_before": 0, "padding_after": 0} if op.padding == "customized" else {}
        expect_windows(op, spatial, {"pool_size": 1, "strides": 1, **borders})
        for axis, row in enumerate(_rows(expect_static_sizes(op, "x"), op.attrs)):
            if row.count < 1 or row.before >= row.kernel or row.last >= row.size:
                raise op.error(
                    f"expected every window to hold an element of the image, got windows of {row.kernel} from"
                    f" {-row.before} to {row.last} along spatial dimension {axis} of {op.x}"
                )

    return check


def _windows(op: Call) -> dict[str, Any]:
    """The attributes of a pooling of padded images by the same windows."""
    zeros = [0] * len(op.pool_size)
    return {"kernel_size": op.pool_size, "stride": op.strides, "padding": zeros, "data_format": op.data_format}


def _write_max(ops: Builder, op: Call) -> Value:
    borders = [row.border for row in _rows(expect_static_sizes(op, "x"), op.attrs)]
    padded = padded_images(ops, op, op.x, borders, op.x.dtype.bounds[0])
    name, ones = f"max_pool_{len(op.pool_size)}d", [1] * len(op.pool_size)
    return ops.call(name, padded, dilation=ones, **_windows(op))[0]


def _sums(ops: Builder, op: Call, x: Value) -> Value:
    """The sum of each window."""
    borders = [row.border for row in _rows(expect_static_sizes(op, "x"), op.attrs)]
    padded = padded_images(ops, op, x, borders)
    return ops.call(f"avg_pool_{len(op.pool_size)}d", padded, divisor_override=1, **_windows(op))[0]


def _write_avg(ops: Builder, op: Call) -> Value:
    sizes, x = expect_static_sizes(op, "x"), widen(ops, op.x)
    if not any(side > 0 for row in _rows(sizes, op.attrs) for side in row.border):
        means = _sums(ops, op, x) * (1.0 / math.prod(op.pool_size))
    else:
        one_image = layout_of(op, len(sizes)).arrange([1], [1], sizes)
        ones = ops.constant(dtype=x.dtype, shape=one_image, is_floating_value=True, floating_value=1.0)
        means = _sums(ops, op, x) / _sums(ops, op, ones)
    return narrow(ops, means, op.x.dtype)


def _numpy_windows(sizes: Sequence[int], attrs: Any) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Each window's number and its part of images."""
    rows = _rows(sizes, attrs)
    for at in itertools.product(*(range(row.count) for row in rows)):
        yield at, (..., *(row.inside(i) for row, i in zip(rows, at, strict=True)))


def _reference(reduce: Any) -> Rule:
    def reference(x: Any, *, data_format: Any, **attrs: Any) -> Any:
        images = channels_first(x.astype(np.float64), data_format)
        counts = [row.count for row in _rows(images.shape[2:], attrs)]
        y: Any = np.zeros((*images.shape[:2], *counts))
        for at, box in _numpy_windows(images.shape[2:], attrs):
            y[(..., *at)] = reduce(images[box], tuple(range(2, x.ndim)))
        return channels_back(y, data_format).astype(x.dtype)

    return reference


def _max_grad_types(spatial: int) -> Rule:
    def types(op: Call) -> TensorDesc:
        _check(spatial)(op)
        layout = layout_of(op, spatial)
        lead, channels, sizes = layout.split(op.x.shape)
        y = layout.arrange(lead, channels, [row.count for row in _rows(sizes, op.attrs)])
        for name in ("y", "dy"):
            expect_type(op, name, TensorDesc(y, op.x.dtype))
        return TensorDesc(op.x.shape, op.x.dtype)

    return types


def _max_grad_compute(op: Call) -> Stage:
    layout = layout_of(op, len(op.pool_size))
    rows = _rows(layout.split(op.x.shape)[2], op.attrs)
    before = tuple(row.before for row in rows)
    windows = Windows(tuple(op.pool_size), tuple(op.strides), (1,) * len(rows), before)
    y, dy = (windows.bordered(v, layout, [row.size for row in rows], 0) for v in (op.y, op.dy))

    def term(*position: Expr) -> Expr:
        at, numbers = position[: op.x.rank], position[op.x.rank :]
        lead, channels, image = layout.split(at)
        source = layout.arrange(lead, channels, windows.covering(image, numbers))
        hit = op.x[at].eq(y[source])
        hit = hit & windows.covers(image, numbers) if windows.has_partial_overlap else hit
        return s.where(hit, dy[source], 0)

    return c.sum_(op.x.shape, windows.max_overlap, term, op.x.dtype)


def _max_grad_reference(x: Any, y: Any, dy: Any, *, data_format: Any, **attrs: Any) -> Any:
    images, largest, cotangents = (channels_first(a.astype(np.float64), data_format) for a in (x, y, dy))
    dx: Any = np.zeros(images.shape)
    broadcast = (..., *[None] * (x.ndim - 2))
    for at, box in _numpy_windows(images.shape[2:], attrs):
        hits = images[box] == largest[(..., *at)][broadcast]
        dx[box] += np.where(hits, cotangents[(..., *at)][broadcast], 0)
    return channels_back(dx, data_format).astype(x.dtype)


def _gradient_factors(op: Call) -> Factors:
    return Factors(", ".join([factors(op)] * 3) + f" -> {factors(op)}").linear_in(op, "dy")


def _mean(box: Any, axes: tuple[int, ...]) -> Any:
    return box.sum(axes) / math.prod(box.shape[2:])


def _tf_pool(spatial: int) -> None:
    average, largest = f"tf_avg_pool_{spatial}d", f"tf_max_pool_{spatial}d"

    def max_grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"x": lambda: ops.call(f"{largest}_grad", op.x, op.y, dy, **op.attrs)[0]}

    composite(
        f"{average}(x, {ATTRS}) -> y", "The mean of the elements of the image in each window.",
        write=_write_avg, reference=_reference(_mean), check=_check(spatial), depth=2,
        sbp=lambda op: Factors(f"{factors(op)} -> {factors(op)}", "joint"),
    )  # fmt: skip
    adjoint(
        f"{average}_grad(x, y, dy, {ATTRS}) -> dx", f"The gradient of `{average}`; `y` is not read.",
        of=average, seeds=("dy",), check=_max_grad_types(spatial), sbp=_gradient_factors, shapes_of=("x", "y"),
    )  # fmt: skip
    composite(
        f"{largest}(x, {ATTRS}) -> y", "The largest element of the image in each window, NaN if one is NaN.",
        write=_write_max, reference=_reference(np.max), check=_check(spatial), grad=max_grad, depth=2,
        sbp=lambda op: Factors(f"{factors(op)} -> {factors(op)}"),
    )  # fmt: skip
    define(
        f"{largest}_grad(x, y, dy, {ATTRS}) -> dx", depth=2,
        doc=f"The gradient of `{largest}`: every element receives dy of each window whose maximum `y` it equals.",
        types=_max_grad_types(spatial), sbp=_gradient_factors, compute=_max_grad_compute,
        grad=no_grad("OneFlow has no gradient of this operator"), reference=_max_grad_reference,
    )  # fmt: skip


for _spatial in (1, 2, 3):
    _tf_pool(_spatial)
