"""Images read at computed positions: grid_sample, affine_grid, roi_align and deformable convolution.

All are compositions. A `Tap` is an element that a position reads along one axis, with its weight.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import adjoint, composite
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank

#: The parameter of the cubic convolution kernel.
SHARPNESS = -0.75


@dataclass(frozen=True)
class Tap:
    """A position along one axis, whole numbers as floats, and the weight of its element; None: 1."""

    position: Value
    weight: Value | None


def static_shape(op: Call, name: str) -> tuple[int, ...]:
    """The shape of an operand.

    Raises:
        OperatorError: the size is not static.
    """
    if None in op[name].shape:
        raise op.error(f"expected a static shape of {name}, got {op[name]}")
    return tuple(op[name].shape)


def linear_taps(ops: Builder, at: Value) -> list[Tap]:
    """The two elements around a position."""
    low = ops.floor(at)
    part = at - low
    return [Tap(low, -part + 1.0), Tap(low + 1.0, part)]


def _cubic_taps(ops: Builder, at: Value) -> list[Tap]:
    """The four elements around a position, weighted by Keys' cubic convolution."""
    low, a = ops.floor(at), SHARPNESS
    t = at - low

    def near(d: Value) -> Value:
        return (d * (a + 2) - (a + 3)) * d * d + 1.0

    def far(d: Value) -> Value:
        return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a

    distances = (t + 1.0, t, -t + 1.0, -t + 2.0)
    weights = (far(distances[0]), near(distances[1]), near(distances[2]), far(distances[3]))
    return [Tap(low + float(k - 1), w) for k, w in enumerate(weights)]


def clipped(ops: Builder, x: Value, low: float, high: float) -> Value:
    """`x` between two bounds; NaN stays."""
    result: Value = ops.clip_by_scalar(x, floating_min=float(low), floating_max=float(high))
    return result


def read_taps(ops: Builder, images: Value, batch: Value, axes: Sequence[Sequence[Tap]]) -> Value:
    """Elements of `images` (batch, sizes.., channels) at taps along each spatial axis, weighted and added up.

    `batch` (i64) and the taps have one shape; elements outside are 0. The result has that shape and the channels.
    A NaN position is outside; its weights may be NaN.
    """
    sizes = images.shape[1:-1]
    parts = [[_inside(ops, tap, size or 0) for tap in taps] for taps, size in zip(axes, sizes, strict=True)]
    total: Value | None = None
    for corner in itertools.product(*parts):
        share = _corner(ops, images, batch, corner)
        total = share if total is None else total + share
    assert total is not None
    return total


@dataclass(frozen=True)
class Reached:
    """A tap with its position in the image (i64), and whether its element was inside."""

    position: Value
    inside: Value
    weight: Value | None


def _inside(ops: Builder, tap: Tap, size: int) -> Reached:
    held = clipped(ops, tap.position, 0, max(size - 1, 0))
    index = ops.clip_by_scalar(ops.cast(held, dtype=dtypes.int64), integral_max=max(size - 1, 0))
    return Reached(index, ops.broadcast_equal(held, tap.position), tap.weight)


def _corner(ops: Builder, images: Value, batch: Value, corner: Sequence[Reached]) -> Value:
    """The elements at one tap of each axis by their weights.

    Elements outside become 0 before the product: the element that is read in place of them may be infinite.
    """
    columns = [batch, *(tap.position for tap in corner)]
    rows = ops.cat([ops.call("expand_dims", c, axis=c.rank)[0] for c in columns], axis=batch.rank)
    inside = reduce(ops.broadcast_logical_and, (tap.inside for tap in corner))
    read = ops.gather_nd(images, rows)
    kept: Value = ops.where(ops.call("expand_dims", inside, axis=inside.rank)[0], read, ops.zero_like(read))
    weights = [tap.weight for tap in corner if tap.weight is not None]
    if not weights:
        return kept
    weight = reduce(operator.mul, weights)
    return kept * ops.call("expand_dims", weight, axis=weight.rank)[0]


def iota(ops: Builder, shape: Sequence[int], axis: int) -> Value:
    """The index along an axis of each element of a tensor of `shape` (i64)."""
    indices = ops.arange(dtype=dtypes.int64, integer_delta=1, integer_limit=shape[axis])
    row = ops.reshape(indices, shape=[n if i == axis else 1 for i, n in enumerate(shape)])
    broadcast_indices: Value = row + ops.constant(
        dtype=dtypes.int64, shape=list(shape), is_floating_value=False, integer_value=0
    )
    return broadcast_indices


def _image_indices(ops: Builder, like: Value) -> Value:
    """The index of the image (i64) of each element of `like`, whose first dimension is the images."""
    sizes = [size for size in like.shape if size is not None]
    if len(sizes) == like.rank:
        return iota(ops, sizes, 0)
    zeros = ops.cast(ops.zero_like(like), dtype=dtypes.int64)
    ones: Value = ops.scalar_add(zeros, has_int_operand=True, int_operand=1)
    indices: Value = ops.scalar_add(ops.cumsum(ones, dim=0), has_int_operand=True, int_operand=-1)
    return indices


def _channels_last(ops: Builder, x: Value) -> Value:
    moved: Value = ops.transpose(x, perm=[0, *range(2, x.rank), 1])
    return moved


def _channels_first(ops: Builder, x: Value) -> Value:
    moved: Value = ops.transpose(x, perm=[0, x.rank - 1, *range(1, x.rank - 1)])
    return moved


# grid_sample

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


def _check_grid(op: Call) -> None:
    expect_rank(op, "input", op.input, 4, 5)
    expect_dtype(op, "input", op.input, dtypes.FLOATS)
    expect_dtype(op, "grid", op.grid, (op.input.dtype,))
    expect_rank(op, "grid", op.grid, op.input.rank)
    shape, grid = op.input.shape, op.grid.shape
    if None in shape[1:] or 0 in shape:
        raise op.error(f"expected static sizes of images of input, none of them 0, got {op.input}")
    expect_dim(op, "dimension 0 of grid, the number of images,", grid[0], shape[0])
    expect_dim(op, "the last dimension of grid, the coordinates,", grid[-1], len(shape) - 2)
    if op.interpolation_mode not in MODES or (op.interpolation_mode == "bicubic" and len(shape) == 5):
        raise op.error(
            f"expected interpolation_mode bilinear or nearest, or bicubic for rank 4, got {op.interpolation_mode!r}"
        )
    if op.padding_mode not in PADDINGS:
        raise op.error(f"expected padding_mode {', '.join(PADDINGS)}, got {op.padding_mode!r}")


def _unnormalized(at: Any, size: int, align: bool) -> Any:
    """A coordinate in [-1, 1] as a position: the ends are the middles of the outer elements, or their edges."""
    return (at + 1.0) * ((size - 1) / 2) if align else ((at + 1.0) * float(size) - 1.0) * 0.5


def _padded(ops: Builder, at: Value, size: int, op: Call) -> Value:
    """A position moved by the padding mode; "zeros" leaves an element outside."""
    if op.padding_mode == "zeros":
        return clipped(ops, at, -2, size + 1)
    if op.padding_mode == "reflection":
        at = _reflected(ops, at, *((0, size - 1) if op.align_corners else (-0.5, size - 0.5)))
    return clipped(ops, at, 0, size - 1)


def _reflected(ops: Builder, at: Value, low: float, high: float) -> Value:
    """A position reflected at both ends as often as needed."""
    span = float(high - low)
    if span == 0:
        return ops.call("zero_like", at)[0]
    distance = ops.abs(at - low)
    flips = ops.floor(distance * (1 / span))
    rest = distance - flips * span
    odd = flips - ops.floor(flips * 0.5) * 2.0
    turned: Value = ops.where(ops.cast(odd, dtype=dtypes.bool_), -rest + span, rest) + low
    return turned


def _grid_taps(ops: Builder, op: Call, at: Value, size: int) -> list[Tap]:
    at = _unnormalized(at, size, op.align_corners)
    if op.interpolation_mode == "bicubic":
        return [Tap(_padded(ops, tap.position, size, op), tap.weight) for tap in _cubic_taps(ops, at)]
    at = _padded(ops, at, size, op)
    return linear_taps(ops, at) if op.interpolation_mode == "bilinear" else [Tap(ops.rint(at), None)]


def _write_grid_sample(ops: Builder, op: Call) -> Value:
    images, grid = widen(ops, op.input), widen(ops, op.grid)
    sizes, last = op.input.shape[2:], grid.rank - 1
    columns = [ops.narrow(grid, dim=last, start=index, length=1) for index in reversed(range(len(sizes)))]
    at = [ops.squeeze(column, axes=[last]) for column in columns]
    axes = [_grid_taps(ops, op, position, size) for position, size in zip(at, sizes, strict=True)]
    samples = read_taps(ops, _channels_last(ops, images), _image_indices(ops, at[0]), axes)
    return narrow(ops, _channels_first(ops, samples), op.input.dtype)


def _numpy_reflected(p: float, low: float, high: float) -> float:
    """A position reflected at both ends as often as needed; NaN for an infinite position."""
    if high == low:
        return 0.0
    flips = np.floor(abs(p - low) / (high - low))
    rest = abs(p - low) - flips * (high - low)
    return float(low + (high - low - rest if flips % 2 else rest))


def _numpy_taps(at: float, size: int, mode: str, padding: str, align: bool) -> list[tuple[int | None, float]]:
    """Positions, None outside, and their weights."""

    def pad(p: float) -> float:
        if padding == "reflection":
            p = _numpy_reflected(p, *((0, size - 1) if align else (-0.5, size - 0.5)))
        return float(np.clip(p, *((-2.0, size + 1.0) if padding == "zeros" else (0.0, size - 1.0))))

    at = _unnormalized(at, size, align)
    if mode == "bicubic":
        low, a = np.floor(at), SHARPNESS
        ds = [abs(at - low - k) for k in (-1, 0, 1, 2)]
        ws = [
            ((a + 2) * d - (a + 3)) * d * d + 1 if d <= 1 else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in ds
        ]
        taps = [(pad(low + k), w) for k, w in zip((-1, 0, 1, 2), ws, strict=True)]
    elif mode == "bilinear":
        at = pad(at)
        low = np.floor(at)
        taps = [(low, 1 - (at - low)), (low + 1, at - low)]
    else:
        taps = [(np.rint(pad(at)), 1.0)]
    return [(int(p) if 0 <= p < size else None, w) for p, w in taps]


def _numpy_grid_sample(x: Any, grid: Any, *, interpolation_mode: Any, padding_mode: Any, align_corners: Any) -> Any:
    wide, out = x.astype(np.float64), np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for at in np.ndindex(grid.shape[:-1]):
        coordinates = grid[at][::-1].astype(np.float64)
        taps = [
            _numpy_taps(float(p), n, interpolation_mode, padding_mode, align_corners)
            for p, n in zip(coordinates, x.shape[2:], strict=True)
        ]
        for corner in itertools.product(*taps):
            weight, places = math.prod(w for _, w in corner), [p for p, _ in corner]
            value = 0.0 if None in places else wide[(at[0], slice(None), *places)]
            out[(at[0], slice(None), *at[1:])] += weight * value
    return out.astype(x.dtype)


def _grid_sbp(op: Call) -> Factors:
    unsplit = " _" * (op.input.rank - 2)
    return Factors(f"n c{unsplit}, n{unsplit} _ -> n c{unsplit}").linear_in(op, "input")


def _grid_grad_sbp(op: Call) -> Factors:
    images = "n" + " _" * (op.input.rank - 1)
    return Factors(f"{images}, {images}, {images} -> {images}, {images}").linear_in(op, "doutput", results=(0, 1))


_ATTRS = "interpolation_mode: string, padding_mode: string, align_corners: bool = False"
composite(
    f"grid_sample(input, grid, {_ATTRS}) -> output",
    "`input` (batch, channels, sizes) at the positions of `grid` (batch, sizes, coordinates), from -1 to 1.",
    write=_write_grid_sample, reference=_numpy_grid_sample, check=_check_grid, sbp=_grid_sbp,
)  # fmt: skip
adjoint(
    f"grid_sample_grad(doutput, input, grid, {_ATTRS}) -> dinput, dgrid", "The gradients of `grid_sample`.",
    of="grid_sample", seeds=("doutput",), check=_check_grid, sbp=_grid_grad_sbp,
    unoffered="partial images, of which one result reads the shape alone and the other the elements",
)  # fmt: skip


# affine_grid


def _base_grid(size: Sequence[int], align: bool) -> np.ndarray:
    """The coordinates of all positions of an image, innermost axis first, and 1: (positions, axes + 1)."""
    rows = []
    for n in size[2:]:
        ends = (n - 1) / n if not align and n else 1.0
        rows.append(np.linspace(-ends, ends, n) if n > 1 else np.zeros(n))
    mesh = np.meshgrid(*rows, indexing="ij")
    columns = [m.reshape(-1) for m in reversed(mesh)]
    return np.stack([*columns, np.ones(math.prod(size[2:]))], -1)


def _check_affine(name: str) -> Callable[[Call], None]:
    def check(op: Call) -> None:
        size, axes = op.size, len(op.size) - 2
        wanted = (size[0], axes, axes + 1) if name == "theta" else (size[0], *size[2:], axes)
        if axes not in (2, 3) or min(size) < 1:
            raise op.error(f"expected a size of 4 or 5 positive numbers, got {list(size)}")
        expect_dtype(op, name, op[name], dtypes.FLOATS)
        if static_shape(op, name) != wanted:
            raise op.error(
                f"expected {name} of shape {'x'.join(map(str, wanted))} for size {list(size)}, got {op[name]}"
            )

    return check


def _base(ops: Builder, op: Call, dtype: Any) -> Value:
    """The base grid once for each image: (batch, positions, axes + 1)."""
    shape, columns = (op.size[0], *op.size[2:]), []
    for axis in range(len(shape) - 1, 0, -1):
        n = shape[axis]
        step = 0.0 if n == 1 else 2.0 / (n - 1) if op.align_corners else 2.0 / n
        places = ops.cast(iota(ops, shape, axis), dtype=dtype.accumulator)
        columns.append(places * step - step * (n - 1) / 2)
    grid = ops.cat(
        [ops.expand_dims(c, axis=len(shape)) for c in (*columns, ops.ones_like(columns[0]))], axis=len(shape)
    )
    rows: Value = ops.reshape(grid, shape=[shape[0], math.prod(shape[1:]), len(shape)])
    return rows


def _write_affine(ops: Builder, op: Call) -> Value:
    axes = len(op.size) - 2
    points = ops.batch_matmul(_base(ops, op, op.theta.dtype), widen(ops, op.theta), transpose_b=True)
    return narrow(ops, ops.reshape(points, shape=[op.size[0], *op.size[2:], axes]), op.theta.dtype)


def _write_affine_grad(ops: Builder, op: Call) -> Value:
    rows = ops.reshape(widen(ops, op.dgrid), shape=[op.size[0], math.prod(op.size[2:]), len(op.size) - 2])
    return narrow(ops, ops.batch_matmul(rows, _base(ops, op, op.dgrid.dtype), transpose_a=True), op.dgrid.dtype)


def _numpy_affine(theta: Any, *, size: Any, align_corners: Any) -> Any:
    points = _base_grid(size, align_corners) @ theta.astype(np.float64).transpose(0, 2, 1)
    return points.reshape(size[0], *size[2:], len(size) - 2).astype(theta.dtype)


def _numpy_affine_grad(dgrid: Any, *, size: Any, align_corners: Any) -> Any:
    rows = dgrid.astype(np.float64).reshape(size[0], -1, len(size) - 2)
    return (rows.transpose(0, 2, 1) @ _base_grid(size, align_corners)).astype(dgrid.dtype)


composite(
    "affine_grid(theta, size: shape, align_corners: bool = False) -> grid",
    "The grid of `grid_sample` that maps the positions of images of `size` by the matrices `theta`.",
    write=_write_affine, reference=_numpy_affine, check=_check_affine("theta"),
    sbp=lambda op: Factors(f"_ _ _ -> {' '.join('_' * len(op.size))}", "joint"),
)  # fmt: skip
composite(
    "affine_grid_grad(dgrid, size: shape, align_corners: bool = False) -> dtheta", "The gradient of `affine_grid`.",
    write=_write_affine_grad, reference=_numpy_affine_grad, check=_check_affine("dgrid"),
    sbp=lambda op: Factors(f"{' '.join('_' * len(op.size))} -> _ _ _", "joint"),
)  # fmt: skip
