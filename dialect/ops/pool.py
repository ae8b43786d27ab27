"""Largest elements and averages of windows that move over images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.ops.reduce import accumulator_type
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.spatial import (
    Layout,
    Windows,
    channels_back,
    channels_first,
    expect_images,
    expect_window_fits,
    expect_windows,
    layout_of,
)
from oneflow.dialect.record import Call, Operator, define
from oneflow.dialect.sbp import Factors, repeated_factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc, count

MAX_ATTRS = (
    "padding: list_int32, data_format: string, kernel_size: list_int32, stride: list_int32, dilation: list_int32,"
    " return_indices: bool = False, ceil_mode: bool = False"
)
AVG_ATTRS = (
    "padding: list_int32, data_format: string, kernel_size: list_int32, stride: list_int32, ceil_mode: bool = False,"
    " count_include_pad: bool = False, divisor_override: int32 = 0"
)
CEIL = " With `ceil_mode` a last window may extend beyond the end, if it begins inside the image or before it."


#: The most elements of a window that is searched without a loop.
UNROLLED = 16


def _windows(op: Call) -> Windows:
    dilation = op.attrs.get("dilation", (1,) * len(op.kernel_size))
    return Windows(op.kernel_size, op.stride, dilation, op.padding, op.ceil_mode)


def factors(op: Call) -> str:
    """Factors of images: batch and channels can be split."""
    layout = layout_of(op, op.x.rank - 2)
    return " ".join(layout.arrange(["n"], ["c"], ["_"] * layout.spatial))


def _expect_windows(op: Call, spatial: int, allowed: Sequence[DType]) -> TensorDesc:
    """Checks images and windows; returns the type of one value per window."""
    expect_dtype(op, "x", op.x, allowed)
    least = {"kernel_size": 1, "stride": 1, "padding": 0, **({"dilation": 1} if "dilation" in op.attrs else {})}
    expect_windows(op, spatial, least)
    if any(2 * p > k for p, k in zip(op.padding, op.kernel_size, strict=True)):
        raise op.error(f"expected padding of at most half of kernel_size {op.kernel_size}, got {op.padding}")
    layout = layout_of(op, spatial)
    expect_images(op, "x", op.x, spatial)
    lead, channels, sizes = layout.split(op.x.shape)
    return TensorDesc(layout.arrange(lead, channels, expect_window_fits(op, _windows(op), sizes)), op.x.dtype)


def _window_shape(op: Call, layout: Layout) -> tuple[Size, ...]:
    lead, channels, sizes = layout.split(op.x.shape)
    return layout.arrange(lead, channels, _windows(op).counts(sizes))


def flat_position(positions: Sequence[Expr], sizes: Sequence[Size]) -> Expr:
    """The row-major index in the spatial plane."""
    flat = positions[0]
    for position, size in zip(positions[1:], sizes[1:], strict=True):
        flat = flat * c.as_expr(size) + position
    return s.cast(flat, dtypes.int64)


def _within(positions: Sequence[Expr], sizes: Sequence[Size]) -> Expr:
    """Whether positions are in the image."""
    inside = s.const(True, dtypes.bool_)
    for position, size in zip(positions, sizes, strict=True):
        inside = inside & (position >= 0) & (position < c.as_expr(size))
    return inside


def numpy_windows(sizes: Sequence[int], op: dict[str, Any]) -> Iterator[tuple[tuple[int, ...], list[range]]]:
    """Each window's index and the positions that its elements have in each dimension of the padded image."""
    dilations = op.get("dilation", (1,) * len(sizes))
    rows = zip(sizes, op["kernel_size"], op["stride"], dilations, op["padding"], strict=True)
    axes = []
    for size, kernel, stride, dilation, padding in rows:
        last_begin = size + 2 * padding - dilation * (kernel - 1) - 1
        windows = -(-last_begin // stride) + 1 if op["ceil_mode"] else last_begin // stride + 1
        if op["ceil_mode"] and (windows - 1) * stride >= size + padding:
            windows -= 1
        begins = [i * stride - padding for i in range(windows)]
        axes.append([range(b, b + dilation * kernel, dilation) for b in begins])
    for at in np.ndindex(*map(len, axes)):
        yield at, [axis[i] for axis, i in zip(axes, at, strict=True)]


def _numpy_inside(spans: Sequence[range], sizes: Sequence[int]) -> list[list[int]]:
    return [[p for p in span if 0 <= p < size] for span, size in zip(spans, sizes, strict=True)]


def _numpy_counts(sizes: Sequence[int], op: dict[str, Any]) -> tuple[int, ...]:
    last = max((at for at, _ in numpy_windows(sizes, op)), default=(-1,) * len(sizes))
    return tuple(i + 1 for i in last)


def _max_types(spatial: int) -> Any:
    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        y = _expect_windows(op, spatial, dtypes.NUMERIC)
        return y, TensorDesc(y.shape, dtypes.int64)

    return types


def _max_compute(op: Call) -> tuple[Stage, Stage]:
    layout, windows = layout_of(op, op.x.rank - 2), _windows(op)
    low, sizes = op.x.dtype.bounds[0], layout.split(op.x.shape)[2]
    x, shape = windows.padded(op.x, layout, low), _window_shape(op, layout)
    is_unpadded = x is op.x

    def element(*position: Expr) -> tuple[Expr, tuple[Expr, ...]]:
        lead, channels, window = layout.split(position[: op.x.rank])
        image = windows.inside(window, position[op.x.rank :])
        return x[layout.arrange(lead, channels, image)], image

    def step(at: tuple[Expr, ...], r: tuple[Expr, ...], acc: tuple[Expr, ...]) -> list[Expr]:
        value, reached = element(*at, *r)
        image = [p - padding for p, padding in zip(reached, op.padding, strict=True)]
        better = (value > acc[0]) | (s.isnan(value) & ~s.isnan(acc[0])) | (acc[1] < 0)
        better = better if is_unpadded else better & _within(image, sizes)
        return [s.where(better, value, acc[0]), s.where(better, flat_position(image, sizes), acc[1])]

    def search(*at: Expr) -> Expr:
        """The first position of the largest element of a window without padding."""
        best, position = y[at], s.const(-1, dtypes.int64)
        for offset in reversed(list(np.ndindex(*windows.kernel))):
            value, reached = element(*at, *map(c.as_expr, offset))
            position = s.where(
                value.eq(best) | (s.isnan(value) & s.isnan(best)), flat_position(reached, sizes), position
            )
        return position

    y = c.reduce_(shape, windows.kernel, low, s.maximum, lambda *p: element(*p)[0], op.x.dtype)
    if is_unpadded and all(isinstance(n, int) for n in sizes) and (count(windows.kernel) or 0) <= UNROLLED:
        return y, c.element_wise(shape, search, dtypes.int64)
    inits = [s.const(low, op.x.dtype.accumulator), s.const(-1, dtypes.int64)]
    return y, c.fold(shape, windows.kernel, inits, step)[1]


def _max_reference(x: Any, **op: Any) -> tuple[Any, Any]:
    images = channels_first(x, op["data_format"])
    sizes = images.shape[2:]
    shape = (*images.shape[:2], *_numpy_counts(sizes, op))
    y: Any = np.full(shape, dtypes.from_numpy(x.dtype).bounds[0], x.dtype)
    indice: Any = np.full(shape, -1, np.int64)
    for at, spans in numpy_windows(sizes, op):
        inside = np.ix_(*_numpy_inside(spans, sizes))
        if all(part.size for part in inside):
            flat = np.ravel_multi_index(np.broadcast_arrays(*inside), sizes).ravel()
            plane = images.reshape(*images.shape[:2], int(np.prod(sizes)))[..., flat]
            best = np.argmax(plane, axis=-1)
            y[(..., *at)] = np.take_along_axis(plane, best[..., None], -1)[..., 0]
            indice[(..., *at)] = flat[best]
    return channels_back(y, op["data_format"]), channels_back(indice, op["data_format"])


def _options(op: Call) -> dict[str, Any]:
    return dict(op.attrs)


def _max_pool(spatial: int) -> Operator:
    name = f"max_pool_{spatial}d"

    def grad(ops: Builder, op: Call, dy: Value, dindice: None) -> dict[str, Any]:
        return {"x": lambda: ops.call(f"{name}_grad", op.x, op.indice, dy, **_options(op))[0]}

    return define(
        f"{name}(x, {MAX_ATTRS}) -> y, indice", depth=2,
        doc="The largest element of each window, NaN if an element is NaN, and its index (i64).\n\n"
        "`indice` counts positions of the spatial dimensions in row-major order, without padding; the first of\n"
        "equals wins. A window without elements has the smallest value and -1." + CEIL,
        types=_max_types(spatial), sbp=lambda op: Factors(f"{factors(op)} -> {factors(op)}, {factors(op)}"),
        grad=grad, compute=_max_compute, reference=_max_reference,
    )  # fmt: skip


def _grad_types(spatial: int, allowed: Sequence[DType]) -> Any:
    def types(op: Call) -> TensorDesc:
        y = _expect_windows(op, spatial, allowed)
        expect_type(op, "dy", y)
        if "indice" in op.inputs:
            expect_type(op, "indice", TensorDesc(y.shape, dtypes.int64))
        return TensorDesc(op.x.shape, op.x.dtype)

    return types


def _tiled(op: Call, element: Callable[[tuple[Expr, ...], list[Expr]], Expr]) -> Stage:
    """The gradient where windows tile the image: `element` computes it from the window of a position, and the
    position in the window.

    Every dimension of the image becomes two, the window and the offset in the window, so that reads are contiguous.
    """
    layout, kernel = layout_of(op, op.x.rank - 2), op.kernel_size
    tiles = Layout(2 * layout.spatial, layout.first)
    lead, channels, counts = layout.split(op.dy.shape)
    spans = [size for pair in zip(counts, kernel, strict=True) for size in pair]

    def body(*position: Expr) -> Expr:
        n, channel, spots = tiles.split(position)
        pairs = zip(spots[::2], spots[1::2], kernel, strict=True)
        return element(layout.arrange(n, channel, spots[::2]), [w * k + offset for w, offset, k in pairs])

    return c.reshape(c.element_wise(tiles.arrange(lead, channels, spans), body, op.x.dtype), op.x.shape)


def _max_grad_compute(op: Call) -> Stage:
    layout, windows = layout_of(op, op.x.rank - 2), _windows(op)
    sizes = layout.split(op.x.shape)[2]
    if windows.tile(sizes):
        return _tiled(op, lambda at, place: s.where(op.indice[at].eq(flat_position(place, sizes)), op.dy[at], 0))
    # Positions are read as 32 bits where 32 bits suffice: half the memory traffic.
    small = all(isinstance(n, int) for n in sizes) and (count(sizes) or 0) < 2**31
    places = c.convert(op.indice, dtypes.int32 if small else dtypes.int64)
    dy, indice = (windows.bordered(v, layout, sizes, fill) for v, fill in ((op.dy, 0), (places, -1)))

    def term(*position: Expr) -> Expr:
        lead, channels, image = layout.split(position[: op.x.rank])
        source = layout.arrange(lead, channels, windows.covering(image, position[op.x.rank :]))
        return s.where(indice[source].eq(s.cast(flat_position(image, sizes), indice.dtype)), dy[source], 0)

    return c.sum_(op.x.shape, windows.max_overlap, term, op.x.dtype)


def max_grad_reference(x: Any, indice: Any, dy: Any, *, data_format: Any) -> Any:
    """The NumPy form of the gradient of a max pooling of `x`, whose elements were read at the indices `indice`."""
    images, cotangents, places = (channels_first(a, data_format) for a in (x, dy, indice))
    plane = np.zeros((*images.shape[:2], int(np.prod(images.shape[2:]))), accumulator_type(x))
    for at in np.ndindex(*cotangents.shape):
        if places[at] >= 0:
            plane[(*at[:2], places[at])] += cotangents[at]
    return channels_back(plane.reshape(images.shape), data_format).astype(x.dtype)


def flattened(ops: Builder, op: Call, value: Value, layout: Layout) -> Value:
    """Images whose spatial dimensions are one."""
    lead, channels, sizes = layout.split(value.shape)
    shape = layout.arrange(lead, channels, [count(sizes)])
    if shape.count(None) > 1:
        raise op.error(f"expected static sizes but for one, got {value.desc}")
    return ops.call("reshape", value, shape=[-1 if d is None else d for d in shape])[0]


def _max_pool_grad(spatial: int) -> Operator:
    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        layout = layout_of(op, spatial)

        def dy() -> Value:
            plane, index = (flattened(ops, op, v, layout) for v in (ddx, op.indice))
            dim = Layout(1, layout.first).split((0, 1, 2))[2][0]
            second_gradient: Value = ops.reshape_like(ops.dim_gather(plane, index, dim=dim), op.dy)
            return second_gradient

        return {"dy": dy}

    return define(
        f"max_pool_{spatial}d_grad(x, indice, dy, {MAX_ATTRS}) -> dx", depth=2,
        doc=f"The gradient of `max_pool_{spatial}d`: dy at the indices `indice`, added up.",
        types=_grad_types(spatial, dtypes.FLOATS), sbp=linear_in_dy, grad=grad, compute=_max_grad_compute,
        reference=max_grad_reference, shapes_of=("x",),
    )  # fmt: skip


def _divide(op: Call, sizes: Sequence[Size], at: Sequence[Expr], value: Expr) -> Expr:
    """`value` divided by the number of elements of window `at`: `divisor_override`, or the elements that count."""
    hangs = op.ceil_mode or (any(op.padding) and not op.count_include_pad)
    if op.divisor_override or not hangs:
        return value * (1.0 / (op.divisor_override or int(np.prod(op.kernel_size))))
    rest = [p if op.count_include_pad else 0 for p in op.padding]
    spans = zip(at, op.stride, op.padding, op.kernel_size, sizes, rest, strict=True)
    counts = []
    for i, stride, padding, kernel, size, more in spans:
        begin = i * stride - padding
        counts.append(s.minimum(begin + kernel, c.as_expr(size) + more) - s.maximum(begin, -more))
    return value / s.cast(c.as_expr(c.product(counts)), value.dtype)


def _avg_compute(op: Call) -> Stage:
    layout, windows = layout_of(op, op.x.rank - 2), _windows(op)
    sizes = layout.split(op.x.shape)[2]
    x, shape = windows.padded(op.x, layout, 0), _window_shape(op, layout)

    def element(*position: Expr) -> Expr:
        lead, channels, window = layout.split(position[: op.x.rank])
        return x[layout.arrange(lead, channels, windows.inside(window, position[op.x.rank :]))]

    total = c.sum_(shape, windows.kernel, element)
    return c.element_wise(shape, lambda *i: _divide(op, sizes, layout.split(i)[2], total[i]), op.x.dtype)


def _avg_grad_compute(op: Call) -> Stage:
    layout, windows = layout_of(op, op.x.rank - 2), _windows(op)
    sizes = layout.split(op.x.shape)[2]
    share = c.element_wise(
        op.dy.shape, lambda *i: _divide(op, sizes, layout.split(i)[2], op.dy[i]), op.x.dtype.accumulator
    )
    if windows.tile(sizes):
        return _tiled(op, lambda at, place: share[at])
    bordered = windows.bordered(share, layout, sizes, 0)

    def term(*position: Expr) -> Expr:
        (lead, channels, image), numbers = layout.split(position[: op.x.rank]), position[op.x.rank :]
        value = bordered[layout.arrange(lead, channels, windows.covering(image, numbers))]
        return s.where(windows.covers(image, numbers), value, 0) if windows.has_partial_overlap else value

    return c.sum_(op.x.shape, windows.max_overlap, term, op.x.dtype)


def _numpy_divisor(spans: Sequence[range], sizes: Sequence[int], op: dict[str, Any]) -> float:
    if op["divisor_override"]:
        return float(op["divisor_override"])
    more = op["padding"] if op["count_include_pad"] else [0] * len(sizes)
    rows = zip(spans, sizes, more, strict=True)
    return float(np.prod([sum(-m <= p < size + m for p in span) for span, size, m in rows]))


def _avg_reference(x: Any, **op: Any) -> Any:
    images = channels_first(x.astype(np.float64), op["data_format"])
    sizes = images.shape[2:]
    y: Any = np.zeros((*images.shape[:2], *_numpy_counts(sizes, op)))
    for at, spans in numpy_windows(sizes, op):
        box = images[(slice(None), slice(None), *np.ix_(*_numpy_inside(spans, sizes)))]
        y[(..., *at)] = box.sum(axis=tuple(range(2, box.ndim))) / _numpy_divisor(spans, sizes, op)
    return channels_back(y, op["data_format"]).astype(x.dtype)


def _avg_grad_reference(x: Any, dy: Any, **op: Any) -> Any:
    cotangents = channels_first(dy.astype(np.float64), op["data_format"])
    dx: Any = np.zeros(channels_first(x, op["data_format"]).shape)
    sizes = dx.shape[2:]
    for at, spans in numpy_windows(sizes, op):
        share = cotangents[(..., *at)] / _numpy_divisor(spans, sizes, op)
        dx[(slice(None), slice(None), *np.ix_(*_numpy_inside(spans, sizes)))] += share.reshape(
            *share.shape, *[1] * len(sizes)
        )
    return channels_back(dx, op["data_format"]).astype(x.dtype)


def _avg_pool(spatial: int) -> tuple[Operator, Operator]:
    name = f"avg_pool_{spatial}d"

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        return {"x": lambda: ops.call(f"{name}_grad", op.x, dy, **_options(op))[0]}

    def second(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        return {"dy": lambda: ops.call(name, ddx, **_options(op))[0]}

    forward = define(
        f"{name}(x, {AVG_ATTRS}) -> y", depth=2,
        doc="The mean of each window: its sum divided by `divisor_override`, or by the number of its elements.\n\n"
        "Elements of the padding count with `count_include_pad`." + CEIL,
        types=lambda op: _expect_windows(op, spatial, dtypes.FLOATS),
        sbp=lambda op: Factors(f"{factors(op)} -> {factors(op)}", "joint"),
        grad=grad, compute=_avg_compute, reference=_avg_reference,
    )  # fmt: skip
    backward = define(
        f"{name}_grad(x, dy, {AVG_ATTRS}) -> dx", depth=2,
        doc=f"The gradient of `{name}`: every element receives its share of dy of each window that contains the "
             f"element.",
        types=_grad_types(spatial, dtypes.FLOATS), sbp=linear_in_dy, grad=second, compute=_avg_grad_compute,
        reference=_avg_grad_reference, shapes_of=("x",),
    )  # fmt: skip
    return forward, backward


def linear_in_dy(op: Call) -> Factors:
    """Signatures of a linear map of the last operand, to the shape of x."""
    return repeated_factors(factors(op), len(op.operands)).linear_in(op, list(op.inputs)[-1])


for _spatial in (1, 2, 3):
    _max_pool(_spatial)
    _max_pool_grad(_spatial)
    _avg_pool(_spatial)
