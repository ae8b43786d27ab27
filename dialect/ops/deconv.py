"""Transposed convolutions: the gradients of convolutions with respect to their images, as separate operators.

The images of the convolution are the result here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import bilinear
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.elementwise import conjugate
from oneflow.dialect.ops.conv import (
    SHARED_TEXT,
    by_group,
    expect_attributes,
    factor_names,
    filters_by_group,
    grouped,
    local_groups,
    moves,
    shared_of,
    windows_of,
)
from oneflow.dialect.ops.group_norm import expect_groups
from oneflow.dialect.ops.reduce import accumulator_type
from oneflow.dialect.ops.spatial import (
    Layout,
    channels_back,
    channels_first,
    expect_images,
    layout_of,
    numpy_groups,
    numpy_windows,
)
from oneflow.dialect.ops.transposed_conv_phases import transposed
from oneflow.dialect.record import Call, Operator, define
from oneflow.dialect.sbp import Factors, Shard
from oneflow.dialect.shapes import expect_dim, expect_dtype, same_dtype
from oneflow.dialect.tensor_desc import TensorDesc


def _outs(op: Call, sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Spatial sizes of the result: the least of images that have so many windows, and `output_padding` more."""
    windows = windows_of(op)
    rows = zip(sizes, windows.stride, windows.padding, windows.extent, op.output_padding, strict=True)
    return tuple(None if n is None else (n - 1) * s + (reach + more + 1 - 2 * p) for n, s, p, reach, more in rows)


def _expect_padding(op: Call, spatial: int) -> None:
    """Checks `output_padding`: more would be another window."""
    if len(op.output_padding) != spatial:
        raise op.error(f"expected {spatial} numbers in output_padding, got {list(op.output_padding)}")
    for more, stride in zip(op.output_padding, op.strides, strict=True):
        if not 0 <= more < stride:
            raise op.error(f"expected output_padding from 0 to below strides {list(op.strides)}, got {more}")


def _expect_weight(op: Call, layout: Layout) -> int | None:
    """Checks the weight against the images and the kernel; returns the number of filters."""
    _, (channels,), _ = layout.split(op.in_.shape)
    (inputs,), (per_group,), kernel = layout.split(op.weight.shape)
    expect_dim(op, "dimension 0 of weight", inputs, channels)
    expect_groups(op, inputs, op.groups)
    for axis, (got, wanted) in enumerate(zip(kernel, op.kernel_size, strict=True)):
        expect_dim(op, f"kernel dimension {axis} of weight", got, wanted)
    return expect_dim(op, "filters", op.filters or None, None if per_group is None else per_group * op.groups)


def _types(spatial: int) -> Any:
    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "in", op.in_, dtypes.FLOATS)
        same_dtype(op, op.operands)
        layout = expect_attributes(op, spatial)
        _expect_padding(op, spatial)
        expect_images(op, "in", op.in_, spatial)
        expect_images(op, "weight", op.weight, spatial)
        filters = _expect_weight(op, layout)
        lead, _, sizes = layout.split(op.in_.shape)
        outs = _outs(op, sizes)
        for size, out in zip(sizes, outs, strict=True):
            if (size is not None and size < 1) or (out is not None and out < 1):
                raise op.error(f"expected spatial sizes of at least 1, got {op.in_} and sizes {outs} of the result")
        return TensorDesc(layout.arrange(lead, [filters], outs), op.in_.dtype)

    return types


def _sbp(op: Call) -> Factors:
    """Batch and filters of a group stay split; splitting the channels of the images leaves partial sums."""
    out, weight, x = factor_names(op, layout_of(op, op.in_.rank - 2))
    return Factors(f"{x}, {weight} -> {out}", "each")


def _local(op: Call, shard: Shard) -> dict[str, Any]:
    """`filters` and `groups` of one device's share."""
    out = shard.outputs[0]
    filters = {"filters": out.shape[layout_of(op, out.rank - 2).channel]} if op.filters and out.shape else {}
    return filters | local_groups(op, out, shard.inputs[1])


def _grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
    spatial, shared = op.in_.rank - 2, shared_of(op)
    return {
        "in": lambda: ops.call(f"conv{spatial}d", dout, conjugate(ops, op.weight), **shared)[0],
        "weight": lambda: ops.call(
            "conv_filter_grad", conjugate(ops, op.in_), dout, num_spatial_dims=spatial, **shared
        )[0],
    }


def _filters(op: Call, layout: Layout) -> Size:
    _, (per_group,), _ = layout.split(op.weight.shape)
    filters: Size = per_group * op.groups
    return filters


def _compute(op: Call) -> Stage:
    layout = layout_of(op, op.in_.rank - 2)
    lead, _, sizes = layout.split(op.in_.shape)
    filters, outs = _filters(op, layout), _outs(op, sizes)
    shape = layout.arrange(lead, grouped(op, filters), outs)
    operands = by_group(op, layout, op.in_), filters_by_group(op, op.weight)
    product = transposed(*operands, shape, layout, windows_of(op), op.in_.dtype)
    return c.reshape(product, layout.arrange(lead, [filters], outs)) if op.groups > 1 else product


def _reference(x: Any, weight: Any, **op: Any) -> Any:
    order, groups = op["data_format"], op["groups"]
    images = numpy_groups(channels_first(x.astype(accumulator_type(x)), order), groups, 1)
    filters = numpy_groups(channels_first(weight.astype(accumulator_type(x)), order), groups, 0)
    rows = zip(images.shape[3:], *moves(op), op["output_padding"], strict=True)
    reached = [(n - 1) * s + d * (k - 1) + 1 + more for n, k, s, d, more in rows]
    out: Any = np.zeros((*images.shape[:2], filters.shape[2], *reached), accumulator_type(x))
    for k, box in numpy_windows(images.shape[3:], *moves(op)):
        out[box] += np.einsum("ngo...,goc->ngc...", images, filters[(..., *k)])
    inner = out[(..., *(slice(p, n - p) for p, n in zip(op["padding_before"], reached, strict=True)))]
    return channels_back(inner.reshape(len(x), groups * filters.shape[2], *inner.shape[3:]), order).astype(x.dtype)


def _transposed_convolution(spatial: int) -> Operator:
    return define(
        f"deconv{spatial}d(in, weight, filters: int32 = 0, {SHARED_TEXT},"
        " output_padding: list_int32, groups: int32 = 1) -> out",
        depth=2,
        doc=f"Transposed convolution over {spatial} spatial dimension{'s'[: spatial - 1]}.\n\n"
        "`weight` is (channels of the images, filters of a group, kernel), its filters last if the channels are.\n"
        "The result is as large as the operand of a convolution with the images as result, plus `output_padding` "
        "elements,\n"
        "fewer than the stride.",
        types=_types(spatial),
        sbp=_sbp,
        local=_local,
        grad=_grad,
        compute=_compute,
        reference=_reference,
        parts=bilinear,
    )


for _spatial in (1, 2, 3):
    _transposed_convolution(_spatial)
