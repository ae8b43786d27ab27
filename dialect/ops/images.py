"""Batches of decoded images of one size: crops, mirror images, normalization, borders; boxes and outlines.

OneFlow reads most of them from lists of images (tensor buffers), which here are one tensor; see `tensor_lists`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composite
from oneflow.dialect.compute import Stage
from oneflow.dialect.image_files import CHANNELS
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.record import Call, Rule, define, no_grad
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import Dim, TensorDesc

LAYOUTS = ("NCHW", "NHWC")


def _crop(op: Call) -> tuple[Any, Any]:
    """The height and width of the crop: the size of the images where either is 0."""
    sizes = op.in_.shape[1:3]
    if not op.crop_h or not op.crop_w:
        return sizes[0], sizes[1]
    height, width = (
        None if size is None else c.min_size(size, most)
        for size, most in zip(sizes, (op.crop_h, op.crop_w), strict=True)
    )
    return height, width


def _arranged(op: Call, batch: Any, channels: Any, height: Any, width: Any) -> tuple[Any, ...]:
    if op.output_layout == "NCHW":
        return batch, channels, height, width
    return batch, height, width, channels


def _channel_value(values: Sequence[float], channel: Expr, dtype: dtypes.DType = dtypes.float32) -> Expr:
    """The value of a channel; a single value is the value of all channels."""
    chosen = s.const(values[-1], dtype)
    for index, value in reversed(list(enumerate(values[:-1]))):
        chosen = s.where(channel.eq(index), s.const(value, dtype), chosen)
    return chosen


def _begin(size: Any, kept: Any, share: float) -> Expr:
    """The first position of a crop, which leaves out the share `share` of the border before the crop."""
    border = c.as_expr(size - kept)
    return s.cast(s.trunc(s.cast(border, dtypes.float32) * share), dtypes.index)


def _crop_types(op: Call) -> TensorDesc:
    expect_dtype(op, "in", op.in_, (dtypes.uint8,))
    expect_rank(op, "in", op.in_, 4)
    expect_dtype(op, "output_dtype", TensorDesc((), op.output_dtype), (dtypes.float32,))
    if op.color_space not in CHANNELS or op.output_layout not in LAYOUTS:
        raise op.error(
            f"expected color_space to be one of {', '.join(CHANNELS)} and output_layout NCHW or NHWC, got"
            f" {op.color_space!r} and {op.output_layout!r}"
        )
    channels = CHANNELS[op.color_space]
    expect_dim(op, "the channels of in", op.in_.shape[3], channels)
    for name in ("mean", "std"):
        if len(op[name]) not in (1, channels):
            raise op.error(f"expected 1 or {channels} numbers in {name}, got {list(op[name])}")
    if 0.0 in op.std or min(op.crop_h, op.crop_w) < 0:
        raise op.error(f"expected std other than 0 and sizes of at least 0, got {list(op.std)}")
    if not (0 <= op.crop_pos_x <= 1 and 0 <= op.crop_pos_y <= 1):
        raise op.error(f"expected crop_pos from 0 to 1, got {op.crop_pos_x} and {op.crop_pos_y}")
    expect_type(op, "mirror", TensorDesc(op.in_.shape[:1], dtypes.int8))
    batch: Dim = op.in_.shape[0]
    return TensorDesc(_arranged(op, batch, channels, *_crop(op)), op.output_dtype)


def _part_types(op: Call) -> TensorDesc:
    """Also checks that the crop is not empty, and a part of the images."""
    desc = _crop_types(op)
    pairs = zip((op.crop_h, op.crop_w), op.in_.shape[1:3], strict=True)
    if any(kept < 1 or (size is not None and kept > size) for kept, size in pairs):
        raise op.error(f"expected a crop that fits into {op.in_}, got {op.crop_h} x {op.crop_w}")
    return desc


def _crop_factors(op: Call) -> Factors:
    """Axes that are kept whole and in order can be split."""
    rows, columns = (kept == size is not None for kept, size in zip(_crop(op), op.in_.shape[1:3], strict=True))
    names = ("n", "_", "h" if rows else "_", "w" if columns and op.mirror is None else "_")
    batch, channels, height, width = names
    mirror = "" if op.mirror is None else ", n"
    return Factors(f"{batch} {height} {width} {channels}{mirror} -> {' '.join(_arranged(op, *names))}")


def _crop_compute(op: Call) -> Stage:
    batch, height, width, channels = op.in_.shape
    kept = _crop(op)
    top, left = _begin(height, kept[0], op.crop_pos_y), _begin(width, kept[1], op.crop_pos_x)

    def element(*at: Expr) -> Expr:
        image, channel, row, column = at if op.output_layout == "NCHW" else (at[0], at[3], at[1], at[2])
        if op.mirror is not None:
            column = s.where(op.mirror[image].ne(0), c.as_expr(kept[1]) - 1 - column, column)
        value = s.cast(op.in_[image, top + row, left + column, channel], dtypes.float32)
        inverse = [1.0 / deviation for deviation in op.std]
        return (value - _channel_value(op.mean, channel)) * _channel_value(inverse, channel)

    return c.element_wise(_arranged(op, batch, channels, *kept), element, op.output_dtype)


def _crop_reference(
    x: Any, mirror: Any, *, output_layout: Any, mean: Any, std: Any, crop_h: Any, crop_w: Any,
    crop_pos_x: Any, crop_pos_y: Any,
) -> Any:  # fmt: skip
    sizes = x.shape[1:3]
    height, width = map(min, sizes, (crop_h, crop_w)) if crop_h and crop_w else sizes
    top, left = (int((n - k) * p) for n, k, p in zip(sizes, (height, width), (crop_pos_y, crop_pos_x), strict=True))
    part = x[:, top : top + height, left : left + width].astype(np.float64)
    if mirror is not None:
        part = np.where((mirror != 0)[:, None, None, None], part[:, :, ::-1], part)
    out = ((part - np.asarray(mean)) / np.asarray(std)).astype(np.float32)
    return out if output_layout == "NHWC" else out.transpose(0, 3, 1, 2)


CROP = (
    "color_space: string = 'BGR', output_layout: string = 'NCHW', mean: list_float, std: list_float,"
    " crop_h: int64 = 0, crop_w: int64 = 0, crop_pos_x: float = 0.5, crop_pos_y: float = 0.5, output_dtype: data_type"
)
for _source, _types, _rest in (
    ("uint8", _crop_types, " or the image where one is 0"),
    ("tensorbuffer", _part_types, " which has to be a part of the image"),
):
    define(
        f"crop_mirror_normalize_from_{_source}(in, mirror?, {CROP}) -> out",
        doc="A part of each image of u8 (batch, height, width, channels), less `mean`, over `std`.\n\n"
        "The result has the layout NCHW or NHWC. An image is mirrored where `mirror` is not 0. The part is"
        f" crop_h x crop_w,{_rest}; crop_pos_x and crop_pos_y are its relative position, from 0 to 1.",
        types=_types, sbp=_crop_factors, grad=no_grad("the images are integers"), compute=_crop_compute,
        reference=_crop_reference,
    )  # fmt: skip


def _check_images(op: Call) -> None:
    expect_rank(op, "in", op.in_, 4)
    if "flip_code" in op.inputs:
        expect_dtype(op, "in", op.in_, dtypes.NUMERIC)
        expect_type(op, "flip_code", TensorDesc(op.in_.shape[:1], dtypes.int8))


def _flips(ops: Builder, codes: Value, bit: int, rank: int) -> Value:
    """Whether each image is flipped along an axis, in a shape that broadcasts to tensors of `rank` axes."""
    flags = ops.cast(ops.scalar_bitwise_and(codes, operand=bit), dtype=dtypes.bool_)
    return ops.call("expand_dims", _columns(ops, flags, rank - 1), axis=rank - 1)[0]


def _columns(ops: Builder, rows: Value, rank: int) -> Value:
    """A value of each image, in a shape that broadcasts to tensors of `rank` axes."""
    for axis in range(1, rank):
        rows = ops.call("expand_dims", rows, axis=axis)[0]
    return rows


def _write_flip(ops: Builder, op: Call) -> Value:
    image: Value = op.in_
    for bit, axis in ((1, 2), (2, 1)):
        image = ops.where(_flips(ops, op.flip_code, bit, 4), ops.flip(image, dims=[axis]), image)
    return image


def _numpy_flip(x: Any, flip_code: Any) -> Any:
    mirrored = np.where((flip_code & 1)[:, None, None, None], x[:, :, ::-1], x)
    return np.where((flip_code & 2)[:, None, None, None], mirrored[:, ::-1], mirrored)


composite(
    "image_flip(in, flip_code) -> out",
    "Images (batch, height, width, channels) mirrored from left to right where bit 0 of `flip_code` (i8) is set,\n"
    "and upside down where bit 1 is.",
    write=_write_flip, reference=_numpy_flip, check=_check_images,
    sbp=lambda op: Factors("n _ _ c, n -> n _ _ c").linear_in(op, "in"),
)  # fmt: skip


def _normalize_types(op: Call) -> TensorDesc:
    _check_images(op)
    expect_dtype(op, "in", op.in_, dtypes.FLOATS)
    channels = expect_dim(op, "the channels of in", op.in_.shape[3], len(op.std))
    if len(op.mean) != len(op.std) or 0.0 in op.std:
        raise op.error(f"expected as many numbers in mean as in std, and none of std 0, got {op.mean} and {op.std}")
    return TensorDesc((*op.in_.shape[:3], channels), op.in_.dtype)


def _normalize_compute(op: Call) -> Stage:
    def element(*at: Expr) -> Expr:
        value: Expr = op.in_[at]
        return (value - _channel_value(op.mean, at[3], value.dtype)) / _channel_value(op.std, at[3], value.dtype)

    return c.element_wise((*op.in_.shape[:3], len(op.std)), element, op.in_.dtype)


def _normalize_gradient(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
    return {"in": lambda: ops.image_normalize(dout, std=op.std, mean=[0.0] * len(op.std))}


define(
    "image_normalize(in, std: list_float, mean: list_float) -> out",
    doc="Images (batch, height, width, channels) less `mean`, over `std`; one number of each for every channel.",
    types=_normalize_types, grad=_normalize_gradient, compute=_normalize_compute,
    sbp=lambda op: Factors("n h w _ -> n h w _", None if any(op.mean) else "joint"),
    reference=lambda x, *, std, mean: ((x.astype(np.float64) - mean) / np.asarray(std)).astype(x.dtype),
)  # fmt: skip


def _aligned(size: int, alignment: int) -> int:
    return -(-size // max(alignment, 1)) * max(alignment, 1)


def _check_align(op: Call) -> None:
    expect_rank(op, "in", op.in_, 4)
    expect_dtype(op, "in", op.in_, (dtypes.uint8, *dtypes.FLOATS))
    expect_dtype(op, "data_type", TensorDesc((), op.data_type), (dtypes.uint8, *dtypes.FLOATS))
    if None in op.in_.shape[1:]:
        raise op.error(f"expected static sizes of images, got {op.in_}")
    if op.alignment < 0 or op.alignment & (op.alignment - 1):
        raise op.error(f"expected an alignment of 0 or a power of 2, got {op.alignment}")
    *sizes, channels = op.in_.shape[1:]
    wanted = [*(_aligned(n, op.alignment) for n in sizes), channels]
    if list(op.shape) != wanted:
        raise op.error(f"expected the shape {wanted} for {op.in_} aligned to {op.alignment}, got {list(op.shape)}")


def _write_align(ops: Builder, op: Call) -> Value:
    images = op.in_ if op.in_.dtype == op.data_type else ops.call("cast", op.in_, dtype=op.data_type)[0]
    after = [0, *(most - (n or 0) for n, most in zip(op.in_.shape[1:], op.shape, strict=True))]
    return ops.call("pad", images, padding_before=[0] * 4, padding_after=after)[0]


def _numpy_align(x: Any, *, shape: Any, data_type: Any) -> Any:
    after = [(0, 0), *((0, most - n) for n, most in zip(x.shape[1:], shape, strict=True))]
    return np.pad(x.astype(data_type.numpy), after)


composite(
    "image_batch_align(in, shape: shape, data_type: data_type, alignment: int32 = 0, dynamic_out: bool = False)"
    " -> out",
    "Images (batch, height, width, channels) with zero padding up to the next multiples of `alignment`.\n\n"
    "`shape` are the height, the width and the channels of the result.",
    write=_write_align, reference=_numpy_align, check=_check_align,
    sbp=lambda op: Factors(
        "n _ _ _ -> n _ _ _", "joint" if op.in_.dtype == op.data_type else None
    ),
)  # fmt: skip


def _operand(op: Call) -> str:
    return next(iter(op.inputs))


def _check_objects(columns: int) -> Rule:
    def check(op: Call) -> None:
        name = _operand(op)
        objects = op[name]
        expect_rank(op, name, objects, 3)
        expect_dtype(op, name, objects, dtypes.FLOATS)
        expect_dim(op, f"the last axis of {name}", objects.shape[2], columns)
        pairs = (objects.shape[0], 2)
        if "scale" in op.inputs:
            expect_dtype(op, "scale", op.scale, (dtypes.float32, objects.dtype))
            expect_type(op, "scale", TensorDesc(pairs, op.scale.dtype))
        else:
            expect_type(op, "image_size", TensorDesc(pairs, dtypes.int32))
            expect_type(op, "flip_code", TensorDesc(pairs[:1], dtypes.int8))

    return check


def _each(ops: Builder, pairs: Value, columns: int, dtype: dtypes.DType) -> Value:
    """A pair for the width and the height of each image as a row of the columns of its objects."""
    rows = pairs if pairs.dtype == dtype else ops.call("cast", pairs, dtype=dtype)[0]
    wide = ops.call("cat", [rows] * (columns // 2), axis=1)[0] if columns > 2 else rows
    return ops.call("expand_dims", wide, axis=1)[0]


def _write_objects_flip(columns: int) -> Rule:
    def write(ops: Builder, op: Call) -> Value:
        objects: Value = op[_operand(op)]
        sides = _each(ops, op.image_size, columns, objects.dtype)
        # The left side of a box becomes the right side; its pixels are counted from 0.
        swapped = ops.roll(objects, shifts=[2], dims=[2]) + 1.0 if columns == 4 else objects
        bits = (ops.scalar_bitwise_and(op.flip_code, operand=bit) for bit in (1, 2))
        pairs = ops.call("cat", [ops.call("expand_dims", bit, axis=1)[0] for bit in bits], axis=1)[0]
        flipped: Value = ops.where(_each(ops, pairs, columns, dtypes.bool_), sides - swapped, objects)
        return flipped

    return write


def _numpy_objects_flip(objects: Any, image_size: Any, flip_code: Any) -> Any:
    out = objects.astype(np.float64)
    for rows, sides, code in zip(out, image_size, flip_code, strict=True):
        for axis in (a for a in (0, 1) if code & (1 << a)):
            rows[:, axis::2] = sides[axis] - rows[:, axis::2][:, ::-1] - (1 if objects.shape[2] == 4 else 0)
    return out.astype(objects.dtype)


def _flip_factors(op: Call) -> Factors:
    """Points are less than sizes, boxes by one pixel more."""
    name, factors = _operand(op), Factors("n k _, n _, n -> n k _")
    return factors.linear_in(op, name, "image_size") if op[name].shape[2] == 2 else factors


def _write_objects_scale(columns: int) -> Rule:
    def write(ops: Builder, op: Call) -> Value:
        objects: Value = op[_operand(op)]
        scaled: Value = objects * _each(ops, op.scale, columns, objects.dtype)
        return scaled

    return write


def _scale_factors(op: Call) -> Factors:
    name = _operand(op)
    factors = Factors("n k _, n _ -> n k _").linear_in(op, name)
    return factors.linear_in(op, "scale") if op.scale.dtype == op[name].dtype else factors


def _numpy_objects_scale(objects: Any, scale: Any) -> Any:
    return (objects * np.tile(scale.astype(np.float64), objects.shape[2] // 2)[:, None]).astype(objects.dtype)


for _name, _operand_name, _count, _what in (
    ("object_bbox", "bbox", 4, "Boxes (batch, boxes, 4) of left, top, right and bottom"),
    ("object_segmentation_polygon", "poly", 2, "Points (batch, points, 2)"),
):
    composite(
        f"{_name}_flip({_operand_name}, image_size, flip_code) -> out",
        f"{_what} in images that `image_flip` flips; `image_size` (i32) are their widths and heights.",
        write=_write_objects_flip(_count), reference=_numpy_objects_flip, check=_check_objects(_count),
        sbp=_flip_factors,
    )  # fmt: skip
    composite(
        f"{_name}_scale({_operand_name}, scale) -> out",
        f"{_what} times the scales (f32) of the widths and heights of their images.",
        write=_write_objects_scale(_count), reference=_numpy_objects_scale, check=_check_objects(_count),
        sbp=_scale_factors,
    )  # fmt: skip
