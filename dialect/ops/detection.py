"""Regions of images: roi_align, convolutions whose windows are moved element by element, boxes that are kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import adjoint, composite
from oneflow.dialect.numpy_kernel import numpy_kernel
from oneflow.dialect.ops.indexing import numpy_checked_indices
from oneflow.dialect.ops.interpolation import Tap, clipped, iota, linear_taps, read_taps, static_shape
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, no_grad, no_sbp, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc


def _transpose(ops: Builder, x: Value, *perm: int) -> Value:
    return ops.call("transpose", x, perm=list(perm))[0]


def _reshape(ops: Builder, x: Value, *shape: int) -> Value:
    return ops.call("reshape", x, shape=list(shape))[0]


def _broadcast_to(ops: Builder, x: Value, shape: Sequence[int]) -> Value:
    """`x` broadcast to `shape`."""
    zeros = ops.constant(dtype=x.dtype, shape=list(shape), is_floating_value=x.dtype.is_float)
    broadcast: Value = x + zeros
    return broadcast


# roi_align


def _check_regions(op: Call) -> None:
    name = "x" if "x" in op.inputs else "x_like"
    expect_rank(op, name, op[name], 4)
    expect_dtype(op, name, op[name], dtypes.FLOATS)
    expect_rank(op, "rois", op.rois, 2)
    expect_dtype(op, "rois", op.rois, (op[name].dtype,))
    if static_shape(op, "rois")[1] != 5 or 0 in static_shape(op, name):
        raise op.error(f"expected rois of 5 columns and images that are not empty, got {op.rois} and {op[name]}")
    if min(op.pooled_h, op.pooled_w, op.sampling_ratio) < 1:
        raise op.error(
            "expected pooled_h, pooled_w and sampling_ratio of at least 1 (a number of samples that follows from the"
            f" regions is not supported), got {op.pooled_h}, {op.pooled_w} and {op.sampling_ratio}"
        )


def _region_taps(ops: Builder, op: Call, rois: Value, first: int, pooled: int, size: int) -> list[Tap]:
    """The taps of all samples along one axis: (regions, pooled * sampling_ratio)."""
    count, samples = rois.shape[0] or 0, pooled * op.sampling_ratio
    begin, end = (ops.slice(rois, start=[0, c], stop=[count, c + 1], step=[1, 1]) for c in (first, first + 2))
    begin, end = (edge * op.spatial_scale - (0.5 if op.aligned else 0.0) for edge in (begin, end))
    length = end - begin
    if not op.aligned:
        length = ops.clip_by_scalar_min(length, floating_min=1.0)
    steps = (ops.cast(iota(ops, (count, samples), 1), dtype=rois.dtype) + 0.5) * (1.0 / samples)
    at = begin + steps * length
    inside = ops.broadcast_equal(clipped(ops, at, -1, size), at)
    return linear_taps(ops, ops.where(inside, clipped(ops, at, 0, size - 1), clipped(ops, at, -3, size + 2)))


def _write_roi_align(ops: Builder, op: Call) -> Value:
    images, rois, ratio = widen(ops, op.x), widen(ops, op.rois), op.sampling_ratio
    count, sizes, pooled = rois.shape[0] or 0, images.shape[2:], (op.pooled_h, op.pooled_w)
    shape = (count, pooled[0] * ratio, pooled[1] * ratio)
    axes = []
    for axis, (p, n) in enumerate(zip(pooled, sizes, strict=True)):
        lone = [count, shape[1], 1] if axis == 0 else [count, 1, shape[2]]
        taps = _region_taps(ops, op, rois, 2 - axis, p, n or 0)
        axes.append(
            [Tap(*(_broadcast_to(ops, _reshape(ops, v, *lone), shape) for v in (t.position, t.weight))) for t in taps]  # type: ignore[arg-type]
        )
    image = ops.cast(ops.slice(rois, start=[0, 0], stop=[count, 1], step=[1, 1]), dtype=dtypes.int64)
    batch = _broadcast_to(ops, _reshape(ops, image, count, 1, 1), shape)
    samples = read_taps(ops, _transpose(ops, images, 0, 2, 3, 1), batch, axes)
    channels = images.shape[1] or 0
    split = _reshape(ops, samples, count, pooled[0], ratio, pooled[1], ratio, channels)
    means = ops.reduce_sum(split, axis=[2, 4]) * (1.0 / ratio**2)
    return narrow(ops, _transpose(ops, means, 0, 3, 1, 2), op.x.dtype)


def _numpy_bilinear(image: Any, y: float, x: float) -> Any:
    """The channels of an image (channels, height, width) at a position; elements outside are 0."""
    total = np.full(image.shape[0], np.nan if np.isnan(y) or np.isnan(x) else 0.0)
    if not (np.isfinite(y) and np.isfinite(x)):
        return total
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]:
                total += image[:, row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
    return total


def _numpy_roi_align(
    x: Any, rois: Any, *, pooled_h: Any, pooled_w: Any, spatial_scale: Any, sampling_ratio: Any, aligned: Any
) -> Any:
    wide, (height, width) = x.astype(np.float64), x.shape[2:]
    images = numpy_checked_indices("roi_align: rois", rois[:, 0].astype(np.int64), len(x))
    out = np.zeros((len(rois), x.shape[1], pooled_h, pooled_w))
    for roi_index, roi in enumerate(rois.astype(np.float64)):
        left, top, right, bottom = roi[1:] * np.float32(spatial_scale) - (0.5 if aligned else 0.0)
        least = -np.inf if aligned else 1.0
        for i, j, a, b in np.ndindex(pooled_h, pooled_w, sampling_ratio, sampling_ratio):
            y = top + max(bottom - top, least) / pooled_h * (i + (a + 0.5) / sampling_ratio)
            at = left + max(right - left, least) / pooled_w * (j + (b + 0.5) / sampling_ratio)
            outside = y < -1 or y > height or at < -1 or at > width
            if np.isnan(y) or np.isnan(at) or not outside:
                y, at = np.clip(y, 0, height - 1), np.clip(at, 0, width - 1)
                out[roi_index, :, i, j] += _numpy_bilinear(wide[images[roi_index]], y, at) / sampling_ratio**2
    return out.astype(x.dtype)


_ATTRS = (
    "pooled_h: int32 = 0, pooled_w: int32 = 0, spatial_scale: float = 0.0, sampling_ratio: int32 = 0,"
    " aligned: bool = False"
)
composite(
    f"roi_align(x, rois, {_ATTRS}) -> y",
    "Means of `sampling_ratio`^2 samples for each of pooled_h x pooled_w parts of regions of images.\n\n"
    "A row of `rois` is the index of an image, and left, top, right and bottom of the region.",
    write=_write_roi_align, reference=_numpy_roi_align, check=_check_regions,
    sbp=lambda op: Factors("_ c _ _, r _ -> r c _ _").linear_in(op, "x"),
)  # fmt: skip


adjoint(
    f"roi_align_grad(dy, x_like, rois, {_ATTRS}) -> dx", "The gradient of `roi_align` with respect to its images.",
    of="roi_align", seeds=("dy",), wanted=("x",), names={"x": "x_like"}, check=_check_regions, shapes_of=("x_like",),
    sbp=lambda op: Factors("r c _ _, _ c _ _, r _ -> _ c _ _").linear_in(op, "dy"),
)  # fmt: skip


# deform_conv2d


def _check_deform(op: Call) -> None:
    for name in ("input", "offset", "weight", "mask"):
        expect_rank(op, name, op[name], 4)
        expect_dtype(op, name, op[name], dtypes.FLOATS if name == "input" else (op.input.dtype,))
    (n, c, _, _), (out, per, kh, kw) = static_shape(op, "input"), static_shape(op, "weight")
    names = ("stride_h", "stride_w", "dilation_h", "dilation_w", "groups", "offset_groups")
    if min(op[name] for name in names) < 1:
        given = ", ".join(f"{name}={op[name]}" for name in names)
        raise op.error(f"expected strides, dilations, groups and offset_groups of at least 1, got {given}")
    if c % op.offset_groups or c != per * op.groups or out % op.groups or 0 in op.input.shape:
        raise op.error(
            f"expected channels in {op.groups} groups and {op.offset_groups} offset_groups,"
            f" got {op.input} and {op.weight}"
        )
    sizes = _deform_sizes(op)
    if min(sizes) < 1:
        raise op.error(f"expected windows of at most the padded image, got {op.input} and {op.weight}")
    taps = op.offset_groups * kh * kw
    wanted = {"offset": (n, 2 * taps, *sizes)} | ({"mask": (n, taps, *sizes)} if op.use_mask else {})
    for name, shape in wanted.items():
        if static_shape(op, name) != shape:
            raise op.error(f"expected {name} of shape {'x'.join(map(str, shape))}, got {op[name]}")
    bias = op.inputs.get("bias")
    if bias is not None:
        expect_dtype(op, "bias", bias, (op.input.dtype,))
        expect_rank(op, "bias", bias, 1)
        expect_dim(op, "the size of bias", bias.shape[0], out)


def _deform_sizes(op: Call) -> tuple[int, int]:
    rows = zip(
        op.input.shape[2:], op.weight.shape[2:], (op.stride_h, op.stride_w), (op.pad_h, op.pad_w),
        (op.dilation_h, op.dilation_w), strict=True,
    )  # fmt: skip
    height, width = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in rows)
    return height, width


def _deformed_columns(ops: Builder, op: Call) -> Value:
    """The elements under each tap of each window: (batch * offset_groups, taps, height, width, channels)."""
    (n, c, h, w), (_, _, kh, kw) = op.input.shape, op.weight.shape
    groups, taps, sizes = op.offset_groups, kh * kw, _deform_sizes(op)
    shape = (n * groups, taps, *sizes)
    images = _reshape(ops, widen(ops, op.input), n * groups, c // groups, h, w)
    moves = _reshape(ops, widen(ops, op.offset), n * groups, taps, 2, *sizes)
    tap, axes = iota(ops, shape, 1), []
    inner = (_divided(ops, tap, kw), tap - _divided(ops, tap, kw) * kw)
    steps = ((op.stride_h, op.pad_h, op.dilation_h), (op.stride_w, op.pad_w, op.dilation_w))
    for axis, (k, (stride, pad, dilation), size) in enumerate(zip(inner, steps, (h, w), strict=True)):
        move = ops.slice(moves, start=[0, 0, axis, 0, 0], stop=[n * groups, taps, axis + 1, *sizes], step=[1] * 5)
        base = iota(ops, shape, 2 + axis) * stride + k * dilation + (-pad)
        at = ops.cast(base, dtype=images.dtype) + _reshape(ops, move, *shape)
        axes.append(linear_taps(ops, clipped(ops, at, -2, size + 1)))
    samples = read_taps(ops, _transpose(ops, images, 0, 2, 3, 1), iota(ops, shape, 0), axes)
    if not op.use_mask:
        return samples
    scaled: Value = samples * _reshape(ops, widen(ops, op.mask), *shape, 1)
    return scaled


def _divided(ops: Builder, x: Value, divisor: int) -> Value:
    return ops.call("scalar_floordiv", x, has_int_operand=True, int_operand=divisor)[0]


def _write_deform(ops: Builder, op: Call) -> Value:
    n, (out, per, kh, kw) = op.input.shape[0], op.weight.shape
    (height, width), groups, taps = _deform_sizes(op), op.groups, kh * kw
    columns = _transpose(ops, _deformed_columns(ops, op), 0, 4, 1, 2, 3)
    columns = _reshape(ops, columns, n, groups, per * taps, height * width)
    columns = _reshape(ops, _transpose(ops, columns, 1, 2, 0, 3), groups, per * taps, n * height * width)
    weight = _reshape(ops, widen(ops, op.weight), groups, out // groups, per * taps)
    output = _reshape(ops, ops.batch_matmul(weight, columns), out, n, height, width)
    result = _transpose(ops, output, 1, 0, 2, 3)
    if op.bias is not None:
        result = result + _reshape(ops, widen(ops, op.bias), out, 1, 1)
    return narrow(ops, result, op.input.dtype)


def _numpy_deform(x: Any, offset: Any, weight: Any, bias: Any, mask: Any, **attrs: Any) -> Any:
    a = attrs
    (n, c, *_), (out, per, kh, kw), (oh, ow) = x.shape, weight.shape, offset.shape[2:]
    wide, result = x.astype(np.float64), np.zeros((n, out, oh, ow))
    share = c // a["offset_groups"]
    for b, i, j, p, q in np.ndindex(n, kh, kw, oh, ow):
        for g in range(a["offset_groups"]):
            tap = (g * kh + i) * kw + j
            y = p * a["stride_h"] - a["pad_h"] + i * a["dilation_h"] + float(offset[b, 2 * tap, p, q])
            z = q * a["stride_w"] - a["pad_w"] + j * a["dilation_w"] + float(offset[b, 2 * tap + 1, p, q])
            values = _numpy_bilinear(wide[b, g * share : (g + 1) * share], y, z)
            values = values * (float(mask[b, tap, p, q]) if a["use_mask"] else 1.0)
            for k, value in enumerate(values):
                group, inner = divmod(g * share + k, per)
                rows = slice(group * (out // a["groups"]), (group + 1) * (out // a["groups"]))
                result[b, rows, p, q] += weight[rows, inner, i, j] * value
    return (result + (0 if bias is None else bias.astype(np.float64)[:, None, None])).astype(x.dtype)


def _deform_sbp(op: Call) -> Factors:
    """Splits of the batch, and partial sums of one factor of the products, together with the bias."""
    images, unsplit = "n _ _ _", "_ _ _ _"
    sides = [images, images, unsplit, *["_"] * (op.bias is not None), images if op.use_mask else unsplit]
    factors = Factors(f"{', '.join(sides)} -> {images}")
    for name in ("input", "weight", *["mask"] * op.use_mask):
        factors = factors.linear_in(op, name, "bias")
    return factors


def _deform_grad_sbp(op: Call) -> Factors:
    images, unsplit = "n _ _ _", "_ _ _ _"
    mask = images if op.use_mask else unsplit
    results = [unsplit] if len(op.results) == 1 else [images, images, mask]
    factors = Factors(f"{images}, {images}, {images}, {unsplit}, {mask} -> {', '.join(results)}")
    return factors.linear_in(op, "output_grad", results=range(len(results)))


_ATTRS = ", ".join(
    [f"{name}: int32 = 0" for name in
     "stride_h stride_w pad_h pad_w dilation_h dilation_w groups offset_groups".split()] + ["use_mask: bool = False"]
)  # fmt: skip
composite(
    f"deform_conv2d(input, offset, weight, bias?, mask, {_ATTRS}) -> out",
    "A convolution of images whose windows' elements are moved by `offset` and, with use_mask, scaled by `mask`.",
    write=_write_deform, reference=_numpy_deform, check=_check_deform, sbp=_deform_sbp,
)  # fmt: skip
adjoint(
    f"deform_conv2d_input_grad(output_grad, input, offset, weight, mask, {_ATTRS}) -> input_grad, offset_grad,"
    " mask_grad",
    "The gradients of `deform_conv2d` with respect to its input, offset and mask.",
    of="deform_conv2d", seeds=("output_grad",), wanted=("input", "offset", "mask"), check=_check_deform,
    sbp=_deform_grad_sbp,
)  # fmt: skip
adjoint(
    f"deform_conv2d_param_grad(output_grad, input, offset, weight, mask, {_ATTRS}) -> weight_grad",
    "The gradient of `deform_conv2d` with respect to its weight.",
    of="deform_conv2d", seeds=("output_grad",), wanted=("weight",), check=_check_deform, sbp=_deform_grad_sbp,
)  # fmt: skip


# nms


def _kept_boxes(boxes: Any, *, iou_threshold: Any, keep_n: Any) -> Any:
    """The mask of the boxes that overlap no kept box before them."""
    wide, kept = boxes.astype(np.float64), np.zeros(len(boxes), np.int8)
    left, top, right, bottom = wide.T
    areas, free = (right - left) * (bottom - top), np.ones(len(boxes), bool)
    most = keep_n if 0 < keep_n < len(boxes) else len(boxes)
    for k in range(len(boxes)):
        if not free[k]:
            continue
        if kept.sum() == most:
            break
        kept[k] = 1
        width = np.minimum(right, right[k]) - np.maximum(left, left[k])
        height = np.minimum(bottom, bottom[k]) - np.maximum(top, top[k])
        shared = np.maximum(width, 0) * np.maximum(height, 0)
        free &= ~(shared > np.float32(iou_threshold) * (areas + areas[k] - shared))
    return kept


@operator("nms(in, iou_threshold: float = 0.0, keep_n: int32 = 0) -> out")
class Nms:
    """Non-maximum suppression: the mask (i8) of the boxes (left, top, right, bottom) that overlap no kept box before
    them by more than a threshold.

    Boxes are in the order of their scores. At most `keep_n` are kept, if that is above 0. The operator runs on the
    host.
    """

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "in", op.in_, (dtypes.float32, dtypes.float64))
        expect_rank(op, "in", op.in_, 2)
        expect_dim(op, "the columns of in", op.in_.shape[1], 4)
        return TensorDesc((op.in_.shape[0],), dtypes.int8)

    sbp = no_sbp("every box is compared with those before")
    grad = no_grad("the result says which boxes are kept")
    reference = _kept_boxes
    kernel = numpy_kernel(_kept_boxes)
