"""Averages over windows that divide images into a given number of parts. Window t of `out` along a dimension of
`size` holds positions from t * size / out (rounded down) to (t + 1) * size / out (rounded up). If `out` divides
`size`, all windows have one size and positions are affine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.ops.pool import factors, linear_in_dy
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.spatial import channels_back, channels_first, expect_images, expect_windows, layout_of
from oneflow.dialect.record import Call, Operator, define
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc

ATTRS = "output_size: list_int64, data_format: string"


@dataclass(frozen=True)
class Parts:
    """A dimension of `size` in `out` windows."""

    size: Size
    out: int

    @property
    def uniform_size(self) -> Size | None:
        """The size of every window, where all have one size."""
        if self.out == 1:
            return self.size
        return self.size // self.out if isinstance(self.size, int) and self.size % self.out == 0 else None

    def max_size(self) -> Size:
        """An upper bound of the size of a window."""
        return self.uniform_size if self.uniform_size is not None else (self.size + (self.out - 1)) // self.out + 1

    def begin(self, window: Expr) -> Expr:
        """The first position of a window."""
        return window * self.uniform_size if self.uniform_size is not None else window * self.size // self.out

    def end(self, window: Expr) -> Expr:
        """The position after the last of a window."""
        return ((window + 1) * self.size + (self.out - 1)) // self.out

    def count(self, window: Expr) -> Size:
        """The number of elements of a window."""
        return self.uniform_size if self.uniform_size is not None else self.end(window) - self.begin(window)

    def max_windows(self) -> Size:
        """An upper bound of the number of windows that contain a position."""
        if self.uniform_size is not None:
            return 1
        more = self.out - 1
        return (self.size + more) // self.size + 1 if isinstance(self.size, Expr) else more // self.size + 2

    def first(self, position: Expr) -> Expr:
        """The first window that a position is in."""
        if self.out == 1:
            return s.const(0, dtypes.index)
        return position // self.uniform_size if self.uniform_size is not None else position * self.out // self.size

    def last(self, position: Expr) -> Expr:
        """The last window that a position is in."""
        return ((position + 1) * self.out - 1) // self.size


def parts_of(op: Call) -> list[Parts]:
    """The windows along each spatial dimension of the operand `x`."""
    sizes = layout_of(op, op.x.rank - 2).split(op.x.shape)[2]
    return [Parts(size, out) for size, out in zip(sizes, op.output_size, strict=True)]


def masked(positions: Sequence[tuple[Expr, Expr | None, Size]]) -> tuple[list[Expr], Expr | None]:
    """Positions clamped into the image, and whether all of them were inside (None: always).

    Each position comes with its bound, None where it is always below, and with the size that it indexes.
    """
    safe, meant = [], None
    for position, bound, size in positions:
        if bound is not None:
            inside = position < bound
            meant = inside if meant is None else meant & inside
            position = s.minimum(position, c.as_expr(size) - 1)
        safe.append(position)
    return safe, meant


def _sum_of(read: Any, positions: Sequence[tuple[Expr, Expr | None, Size]]) -> Expr:
    safe, meant = masked(positions)
    value: Expr = read(safe)
    return value if meant is None else s.where(meant, value, 0)


def _share(parts: Sequence[Parts], windows: Sequence[Expr], value: Expr) -> Expr:
    """`value` divided by the number of elements of a window."""
    count = c.product([p.count(w) for p, w in zip(parts, windows, strict=True)])
    if isinstance(count, int):
        return value * (1.0 / count if count else np.inf)
    return value / s.cast(count, value.dtype)


def expect_parts(op: Call, spatial: int, allowed: Sequence[DType] = dtypes.FLOATS) -> TensorDesc:
    """Checks images and sizes; returns the type of one value per window."""
    expect_dtype(op, "x", op.x, allowed)
    expect_windows(op, spatial, {"output_size": 1})
    layout = layout_of(op, spatial)
    expect_images(op, "x", op.x, spatial)
    lead, channels, sizes = layout.split(op.x.shape)
    if 0 in sizes:
        raise op.error(f"expected spatial sizes of at least 1, got {op.x}")
    return TensorDesc(layout.arrange(lead, channels, op.output_size), op.x.dtype)


def _compute(op: Call) -> Stage:
    layout, parts = layout_of(op, op.x.rank - 2), parts_of(op)
    lead, channels, _ = layout.split(op.x.shape)
    shape = layout.arrange(lead, channels, op.output_size)

    def element(*position: Expr) -> Expr:
        n, k, windows = layout.split(position[: op.x.rank])
        rows = zip(parts, windows, position[op.x.rank :], strict=True)
        places = [(p.begin(w) + r, None if p.uniform_size is not None else p.end(w), p.size) for p, w, r in rows]
        return _sum_of(lambda safe: op.x[layout.arrange(n, k, safe)], places)

    total = c.sum_(shape, [p.max_size() for p in parts], element)
    return c.element_wise(shape, lambda *i: _share(parts, layout.split(i)[2], total[i]), op.x.dtype)


def _grad_compute(op: Call) -> Stage:
    layout, parts = layout_of(op, op.x.rank - 2), parts_of(op)
    wide = op.x.dtype.accumulator
    share = c.element_wise(op.dy.shape, lambda *i: _share(parts, layout.split(i)[2], op.dy[i]), wide)

    def element(*position: Expr) -> Expr:
        n, k, image = layout.split(position[: op.x.rank])
        rows = zip(parts, image, position[op.x.rank :], strict=True)
        places = [(p.first(i) + r, None if p.uniform_size is not None else p.last(i) + 1, p.out) for p, i, r in rows]
        return _sum_of(lambda safe: share[layout.arrange(n, k, safe)], places)

    return c.sum_(op.x.shape, [p.max_windows() for p in parts], element, op.x.dtype)


def numpy_boxes(sizes: Sequence[int], outs: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Each window's index and the slices of images in the window."""
    for at in np.ndindex(*outs):
        rows = zip(at, sizes, outs, strict=True)
        yield at, (..., *(slice(i * n // o, -(-(i + 1) * n // o)) for i, n, o in rows))


def _reference(x: Any, *, output_size: Any, data_format: Any) -> Any:
    images = channels_first(x.astype(np.float64), data_format)
    y: Any = np.zeros((*images.shape[:2], *output_size))
    for at, box in numpy_boxes(images.shape[2:], output_size):
        part = images[box]
        y[(..., *at)] = part.sum(axis=tuple(range(2, x.ndim))) / np.prod(part.shape[2:])
    return channels_back(y, data_format).astype(x.dtype)


def _grad_reference(x: Any, dy: Any, *, output_size: Any, data_format: Any) -> Any:
    dx: Any = np.zeros(channels_first(x, data_format).shape)
    cotangents = channels_first(dy.astype(np.float64), data_format)
    for at, box in numpy_boxes(dx.shape[2:], output_size):
        share = cotangents[(..., *at)] / np.prod(dx[box].shape[2:])
        dx[box] += share.reshape(*share.shape, *[1] * len(output_size))
    return channels_back(dx, data_format).astype(x.dtype)


def _adaptive_pool(spatial: int) -> tuple[Operator, Operator]:
    name = f"adaptive_avg_pool{spatial}d"

    def grad_types(op: Call) -> TensorDesc:
        expect_type(op, "dy", expect_parts(op, spatial))
        return TensorDesc(op.x.shape, op.x.dtype)

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"x": lambda: ops.call(f"{name}_grad", op.x, dy, **op.attrs)[0]}

    def second(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        return {"dy": lambda: ops.call(name, ddx, **op.attrs)[0]}

    forward = define(
        f"{name}(x, {ATTRS}) -> y", depth=2,
        doc="The mean of each of `output_size` windows, which divide the image as evenly as they can.",
        types=lambda op: expect_parts(op, spatial),
        sbp=lambda op: Factors(f"{factors(op)} -> {factors(op)}", "joint"),
        grad=grad, compute=_compute, reference=_reference,
    )  # fmt: skip
    backward = define(
        f"{name}_grad(x, dy, {ATTRS}) -> dx", depth=2,
        doc=f"The gradient of `{name}`: every element receives its share of dy of each window that contains the "
             f"element.",
        types=grad_types, sbp=linear_in_dy, grad=second, compute=_grad_compute, reference=_grad_reference,
        shapes_of=("x",),
    )  # fmt: skip
    return forward, backward


for _spatial in (1, 2, 3):
    _adaptive_pool(_spatial)
