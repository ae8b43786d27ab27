"""Convolutions over one, two or three spatial dimensions, and their gradients, which are convolutions too.

Images are padded, then one sum over window elements reads them at affine positions. With groups, channels are two
dimensions, the group and the channel in the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import bilinear, composed
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.elementwise import conjugate
from oneflow.dialect.ops.group_norm import expect_groups
from oneflow.dialect.ops.matmul import expect_addend, scale_and_add, with_addend
from oneflow.dialect.ops.reduce import accumulator_type
from oneflow.dialect.ops.spatial import (
    Layout,
    Windows,
    channels_back,
    channels_first,
    expect_images,
    expect_window_fits,
    expect_windows,
    layout_of,
    numpy_groups,
    numpy_windows,
)
from oneflow.dialect.ops.transposed_conv_phases import transposed
from oneflow.dialect.record import Call, Operator, define, operator
from oneflow.dialect.sbp import Factors, Shard
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank, same_dtype
from oneflow.dialect.tensor_desc import Dim, TensorDesc

SHARED = ("padding_before", "data_format", "kernel_size", "strides", "dilation_rate", "groups")
SHARED_TEXT = (
    "padding_before: list_int32, data_format: string, kernel_size: list_int32, strides: list_int32,"
    " dilation_rate: list_int32"
)


def windows_of(op: Call) -> Windows:
    return Windows(op.kernel_size, op.strides, op.dilation_rate, op.padding_before)


def shared_of(op: Call) -> dict[str, Any]:
    return {name: op[name] for name in SHARED}


def expect_attributes(op: Call, spatial: int) -> Layout:
    """Checks the attributes of windows, and returns the layout."""
    expect_windows(op, spatial, {"kernel_size": 1, "strides": 1, "dilation_rate": 1, "padding_before": 0})
    return layout_of(op, spatial)


def _expect_channels(op: Call, layout: Layout, x: TensorDesc, filters: TensorDesc, name: str) -> None:
    """Checks the weight's dimensions against the channels of the images and the kernel."""
    (out,), (per_group,), kernel = layout.split(filters.shape or ())
    _, (channels,), _ = layout.split(x.shape or ())
    expect_groups(op, channels, op.groups)
    expect_groups(op, out, op.groups)
    expect_dim(op, f"channels of a group in {name}", per_group, None if channels is None else channels // op.groups)
    for axis, (got, wanted) in enumerate(zip(kernel, op.kernel_size, strict=True)):
        expect_dim(op, f"kernel dimension {axis} of {name}", got, wanted)


def grouped(op: Call, channels: Size) -> tuple[Size, ...]:
    """Channels as dimensions: the group and the channel in the group, or one dimension without groups."""
    return (channels,) if op.groups == 1 else (op.groups, channels // op.groups)


def by_group(op: Call, layout: Layout, x: Stage) -> Stage:
    """Images whose channels are `grouped`."""
    lead, (channels,), sizes = layout.split(x.shape)
    return x if op.groups == 1 else c.reshape(x, layout.arrange(lead, grouped(op, channels), sizes))


def filters_by_group(op: Call, weight: Stage) -> Stage:
    return weight if op.groups == 1 else c.reshape(weight, (*grouped(op, weight.shape[0]), *weight.shape[1:]))


def factor_names(op: Call, layout: Layout) -> tuple[str, str, str]:
    """Factors of images, weight and result; groups keep their channels together."""
    grouped = f"g*{op.groups}"
    images, within, filters = ("c", "c", "o") if op.groups == 1 else (grouped, "_", grouped)
    sides = (["n"], [images]), ([filters], [within]), (["n"], [filters])
    x, weight, y = (" ".join(layout.arrange(*side, ["_"] * layout.spatial)) for side in sides)
    return x, weight, y


def _types(spatial: int) -> Any:
    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "in", op.in_, dtypes.FLOATS)
        same_dtype(op, op.operands)
        layout = expect_attributes(op, spatial)
        expect_images(op, "in", op.in_, spatial)
        expect_images(op, "weight", op.weight, spatial)
        _expect_channels(op, layout, op.in_, op.weight, "weight")
        filters = expect_dim(op, "filters", op.filters or None, op.weight.shape[0])
        if op.bias is not None:
            expect_rank(op, "bias", op.bias, 1)
            filters = expect_dim(op, "dimension 0 of bias", op.bias.shape[0], filters)
        lead, _, sizes = layout.split(op.in_.shape)
        out = TensorDesc(layout.arrange(lead, [filters], expect_window_fits(op, windows_of(op), sizes)), op.in_.dtype)
        expect_addend(op, out)
        return out

    return types


def _sbp(op: Call) -> Factors:
    """Batch and filters stay split; splitting the channels of the images leaves partial sums."""
    layout = layout_of(op, op.in_.rank - 2)
    x, weight, y = factor_names(op, layout)
    factors = Factors(f"{x}, {weight} -> {y}", "each")
    return with_addend(op, factors if op.bias is None else factors.plus(y.split()[layout.channel]), y)


def local_groups(op: Call, x: Any, weight: Any) -> dict[str, Any]:
    """`groups` of one device's share, described by its images and weight."""
    channel = layout_of(op, x.rank - 2).channel
    return {} if op.groups == 1 else {"groups": x.shape[channel] // weight.shape[channel]}


def _local(op: Call, shard: Shard) -> dict[str, Any]:
    """`filters` and `groups` of one device's share."""
    x, weight, *_ = shard.inputs
    return ({"filters": weight.shape[0]} if op.filters and weight.shape else {}) | local_groups(op, x, weight)


def _grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
    options = {"num_spatial_dims": op.in_.rank - 2, **shared_of(op)}
    bias = {k: options[k] for k in ("num_spatial_dims", "data_format")}
    return {
        "in": lambda: ops.call("conv_data_grad", dout, conjugate(ops, op.weight), op.in_, **options)[0],
        "weight": lambda: ops.call("conv_filter_grad", dout, conjugate(ops, op.in_), **options)[0],
        "bias": lambda: ops.call("conv_bias_grad", dout, **bias)[0],
        "_add_to_output": dout,
    }


def _compute(op: Call) -> Stage:
    layout, windows = layout_of(op, op.in_.rank - 2), windows_of(op)
    lead, _, sizes = layout.split(op.in_.shape)
    filters, weight = op.weight.shape[0], filters_by_group(op, op.weight)
    x = by_group(op, layout, windows.padded(op.in_, layout, 0))
    channels = grouped(op, filters)
    shape = layout.arrange(lead, channels, windows.counts(sizes))

    def term(*position: Expr) -> Expr:
        at, inner = position[: len(shape)], position[len(shape) :]
        n, (*group, o), window = layout.split(at)
        _, channel, offset = layout.split(inner, 0)
        source = layout.arrange(n, (*group, *channel), windows.inside(window, offset))
        return x[source] * weight[(*group, o, *inner)]

    images = _epilogue(op, c.sum_(shape, weight.shape[len(channels) :], term), layout, channels)
    return c.reshape(images, layout.arrange(lead, [filters], windows.counts(sizes))) if op.groups > 1 else images


def _epilogue(op: Call, product: Stage, layout: Layout, channels: tuple[Size, ...]) -> Stage:
    """product + bias + _add_to_output, in the operands' type, with channels that are `grouped`."""
    addend = None if op._add_to_output is None else by_group(op, layout, op._add_to_output)
    if op.bias is None:
        return scale_and_add(product, 1.0, addend, op.in_.dtype)
    bias = op.bias if op.groups == 1 else c.reshape(op.bias, channels)

    def body(*i: Expr) -> Expr:
        _, channel, _ = layout.split(i)
        biased = product[i] + bias[channel]
        return biased if addend is None else biased + addend[i]

    return c.element_wise(product.shape, body, op.in_.dtype)


def _numpy_padded(x: Any, padding: Sequence[int]) -> Any:
    return np.pad(x.astype(accumulator_type(x)), [(0, 0), (0, 0), *((p, p) for p in padding)])


def moves(op: dict[str, Any]) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """The attributes of windows, in the form of `numpy_windows`."""
    return op["kernel_size"], op["strides"], op["dilation_rate"]


def _reference(x: Any, weight: Any, bias: Any, add: Any, **op: Any) -> Any:
    order, groups = op["data_format"], op["groups"]
    images = numpy_groups(_numpy_padded(channels_first(x, order), op["padding_before"]), groups, 1)
    filters = numpy_groups(channels_first(weight.astype(accumulator_type(x)), order), groups, 0)
    boxes = zip(images.shape[3:], *moves(op), strict=True)
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in boxes]
    out = np.zeros((*images.shape[:2], filters.shape[1], *counts), accumulator_type(x))
    for k, box in numpy_windows(counts, *moves(op)):
        out += np.einsum("ngc...,goc->ngo...", images[box], filters[(..., *k)])
    out = out.reshape(len(x), weight.shape[0], *counts)
    out = out if bias is None else out + bias.astype(accumulator_type(x)).reshape(-1, *[1] * len(counts))
    out = channels_back(out, order)
    return (out if add is None else out + add.astype(accumulator_type(x))).astype(x.dtype)


def _convolution(spatial: int) -> Operator:
    return define(
        f"conv{spatial}d(in, weight, bias?, _add_to_output?, filters: int32 = 0, {SHARED_TEXT}, groups: int32 = 1)"
        " -> out",
        depth=2,
        doc=f"Convolution over {spatial} spatial dimension{'s'[: spatial - 1]} (+ bias + _add_to_output).\n\n"
        "`weight` is (filters, channels of a group, kernel), in the order of the images' dimensions. Padding\n"
        "is the same on both sides; f16 and bf16 are accumulated in f32.",
        types=_types(spatial),
        sbp=_sbp,
        local=_local,
        grad=_grad,
        compute=_compute,
        reference=_reference,
        parts=bilinear,
    )


for _spatial in (1, 2, 3):
    _convolution(_spatial)


def _expect_spatial(op: Call) -> int:
    """Checks and returns `num_spatial_dims`."""
    spatial: int = op.num_spatial_dims
    if not 1 <= spatial <= 3:
        raise op.error(f"expected num_spatial_dims of 1 to 3, got {spatial}")
    return spatial


def _expect_gradient(op: Call, x: TensorDesc, name: str) -> tuple[Layout, Dim]:
    """Checks dy of a convolution of images of type `x`; returns the layout and dy's channels."""
    spatial = _expect_spatial(op)
    layout = expect_attributes(op, spatial)
    expect_images(op, "dy", op.dy, spatial)
    expect_images(op, name, x, spatial)
    expect_dtype(op, "dy", op.dy, dtypes.FLOATS)
    same_dtype(op, op.operands)
    (batch,), (channels,), got = layout.split(op.dy.shape)
    lead, _, sizes = layout.split(x.shape or ())
    expect_dim(op, "dimension 0 of dy", batch, lead[0])
    for axis, (count, wanted) in enumerate(zip(got, expect_window_fits(op, windows_of(op), sizes), strict=True)):
        expect_dim(op, f"spatial dimension {axis} of dy", count, wanted)
    return layout, channels


@operator(
    "conv_data_grad(dy, filter, x_like, _add_to_output?, num_spatial_dims: int32 = 0,"
    f" {SHARED_TEXT}, groups: int32 = 0) -> dx"
)
class ConvDataGrad:
    """The gradient of a convolution with respect to its images, of the shape of `x_like` (+ _add_to_output)."""

    parts = bilinear
    shapes_of = ("x_like",)

    def types(op: Call) -> TensorDesc:
        layout, channels = _expect_gradient(op, op.x_like, "x_like")
        expect_images(op, "filter", op["filter"], op.num_spatial_dims)
        _expect_channels(op, layout, op.x_like, op["filter"], "filter")
        expect_dim(op, "dimension 0 of filter", op["filter"].shape[0], channels)
        dx = TensorDesc(op.x_like.shape, op.dy.dtype)
        expect_addend(op, dx)
        return dx

    def sbp(op: Call) -> Factors:
        x, weight, y = factor_names(op, layout_of(op, op.num_spatial_dims))
        factors = Factors(f"{y}, {weight}, {x} -> {x}").linear_in(op, "dy").linear_in(op, "filter")
        return with_addend(op, factors, x)

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return local_groups(op, shard.inputs[2], shard.inputs[1])

    def grad(ops: Builder, op: Call, ddx: Value) -> dict[str, Any]:
        options = {"num_spatial_dims": op.num_spatial_dims, **shared_of(op)}
        return {
            "dy": lambda: ops.call(f"conv{op.num_spatial_dims}d", ddx, conjugate(ops, op["filter"]), **shared_of(op))[
                0
            ],
            "filter": lambda: ops.call("conv_filter_grad", conjugate(ops, op.dy), ddx, **options)[0],
            "_add_to_output": ddx,
        }

    def compute(op: Call) -> Stage:
        layout, windows = layout_of(op, op.num_spatial_dims), windows_of(op)
        lead, (channels,), sizes = layout.split(op.x_like.shape)
        shape = layout.arrange(lead, grouped(op, channels), sizes)
        dy, weight = by_group(op, layout, op.dy), filters_by_group(op, op["filter"])
        dtype = op.dy.dtype if op._add_to_output is None else op.dy.dtype.accumulator
        product = transposed(dy, weight, shape, layout, windows, dtype)
        images = c.reshape(product, op.x_like.shape) if op.groups > 1 else product
        return scale_and_add(images, 1.0, op._add_to_output, op.dy.dtype)

    def reference(dy: Any, weight: Any, x_like: Any, add: Any, **op: Any) -> Any:
        order, groups, padding = op["data_format"], op["groups"], op["padding_before"]
        cotangents = numpy_groups(channels_first(dy.astype(accumulator_type(dy)), order), groups, 1)
        filters = numpy_groups(channels_first(weight.astype(accumulator_type(dy)), order), groups, 0)
        like = channels_first(x_like, order)
        padded = numpy_groups(_numpy_padded(np.zeros(like.shape, accumulator_type(dy)), padding), groups, 1)
        for k, box in numpy_windows(cotangents.shape[3:], *moves(op)):
            padded[box] += np.einsum("ngo...,goc->ngc...", cotangents, filters[(..., *k)])
        pairs = zip(padding, like.shape[2:], strict=True)
        inner = padded[(..., *(slice(p, p + n) for p, n in pairs))]
        dx = channels_back(inner.reshape(like.shape), order)
        return (dx if add is None else dx + add.astype(accumulator_type(dy))).astype(dy.dtype)


@operator(f"conv_filter_grad(dy, x, num_spatial_dims: int32 = 0, {SHARED_TEXT}, groups: int32 = 0) -> filter_diff")
class ConvFilterGrad:
    """The gradient of a convolution with respect to its weight."""

    parts = bilinear

    def types(op: Call) -> TensorDesc:
        layout, filters = _expect_gradient(op, op.x, "x")
        _, (channels,), _ = layout.split(op.x.shape)
        expect_groups(op, channels, op.groups)
        expect_groups(op, filters, op.groups)
        per_group = None if channels is None else channels // op.groups
        return TensorDesc(layout.arrange([filters], [per_group], op.kernel_size), op.dy.dtype)

    def sbp(op: Call) -> Factors:
        x, weight, y = factor_names(op, layout_of(op, op.num_spatial_dims))
        return Factors(f"{y}, {x} -> {weight}", "each")

    def local(op: Call, shard: Shard) -> dict[str, Any]:
        return local_groups(op, shard.inputs[1], shard.outputs[0])

    def grad(ops: Builder, op: Call, dw: Value) -> dict[str, Any]:
        options = {"num_spatial_dims": op.num_spatial_dims, **shared_of(op)}
        return {
            "dy": lambda: ops.call(f"conv{op.num_spatial_dims}d", conjugate(ops, op.x), dw, **shared_of(op))[0],
            "x": lambda: ops.call("conv_data_grad", conjugate(ops, op.dy), dw, op.x, **options)[0],
        }

    def compute(op: Call) -> Stage:
        layout, windows = layout_of(op, op.num_spatial_dims), windows_of(op)
        lead, (filters,), counts = layout.split(op.dy.shape)
        _, (channels,), _ = layout.split(op.x.shape)
        dy = by_group(op, layout, op.dy)
        x = by_group(op, layout, windows.padded(op.x, layout, 0))
        per_group = grouped(op, channels)[-1]
        out = grouped(op, filters)
        shape = layout.arrange(out, [per_group], op.kernel_size)

        def term(*position: Expr) -> Expr:
            at, (n, *window) = position[: len(shape)], position[len(shape) :]
            (*group, o), channel, offset = layout.split(at, len(out))
            source = layout.arrange([n], (*group, *channel), windows.inside(window, offset))
            return dy[layout.arrange([n], (*group, o), window)] * x[source]

        product = c.sum_(shape, (*lead, *counts), term, op.dy.dtype)
        weight_shape = layout.arrange([filters], [per_group], op.kernel_size)
        return c.reshape(product, weight_shape) if op.groups > 1 else product

    def reference(dy: Any, x: Any, **op: Any) -> Any:
        order, groups = op["data_format"], op["groups"]
        cotangents = numpy_groups(channels_first(dy.astype(accumulator_type(dy)), order), groups, 1)
        images = numpy_groups(_numpy_padded(channels_first(x, order), op["padding_before"]), groups, 1)
        filters, channels = cotangents.shape[2], images.shape[2]
        diff: Any = np.zeros((groups, filters, channels, *op["kernel_size"]), accumulator_type(dy))
        for k, box in numpy_windows(cotangents.shape[3:], *moves(op)):
            pair = (a.reshape(*a.shape[:3], int(np.prod(a.shape[3:]))) for a in (cotangents, images[box]))
            diff[(..., *k)] = np.einsum("ngot,ngct->goc", *pair)
        weight_diff = diff.reshape(groups * filters, channels, *op["kernel_size"])
        return channels_back(weight_diff, order).astype(dy.dtype)


@operator("conv_bias_grad(dy, data_format: string, num_spatial_dims: int32 = 0) -> bias_diff")
class ConvBiasGrad:
    """The gradient of a convolution with respect to its bias: the sum of dy over all but the channels."""

    parts = composed

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "dy", op.dy, dtypes.FLOATS)
        expect_images(op, "dy", op.dy, _expect_spatial(op))
        return TensorDesc((op.dy.shape[layout_of(op, op.num_spatial_dims).channel],), op.dy.dtype)

    def sbp(op: Call) -> Factors:
        layout = layout_of(op, op.num_spatial_dims)
        spatial = [f"d{i}" for i in range(layout.spatial)]
        return Factors(f"{' '.join(layout.arrange(['n'], ['o'], spatial))} -> o", "joint")

    def grad(ops: Builder, op: Call, db: Value) -> dict[str, Any]:
        channel = layout_of(op, op.num_spatial_dims).channel
        axes = [i for i in range(op.dy.rank) if i != channel]
        return {"dy": lambda: ops.broadcast_like(db, op.dy, broadcast_axes=axes)}

    def decompose(ops: Builder, op: Call) -> Value:
        channel = layout_of(op, op.num_spatial_dims).channel
        sums: Value = ops.reduce_sum(op.dy, axis=[i for i in range(op.dy.rank) if i != channel])
        return sums

    def reference(dy: Any, *, data_format: Any) -> Any:
        images = channels_first(dy.astype(accumulator_type(dy)), data_format)
        return images.sum(axis=(0, *range(2, dy.ndim))).astype(dy.dtype)
