"""Batches of decoded images: crops, mirror images and normalization, and boxes of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.compute import Stage
from oneflow.dialect.ops.rows import expect_type
from oneflow.dialect.record import Call, no_grad, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import Dim, TensorDesc

#: The number of channels of each color space.
CHANNELS = {"RGB": 3, "BGR": 3, "GRAY": 1}
LAYOUTS = ("NCHW", "NHWC")


def _crop(op: Call) -> tuple[Any, Any]:
    """The height and width of the crop: that of the images where either is 0."""
    sizes = op.in_.shape[1:3]
    if not op.crop_h or not op.crop_w:
        return sizes[0], sizes[1]
    height, width = (
        None if size is None else c.smaller(size, most)
        for size, most in zip(sizes, (op.crop_h, op.crop_w), strict=True)
    )
    return height, width


def _arranged(op: Call, batch: Any, channels: Any, height: Any, width: Any) -> tuple[Any, ...]:
    if op.output_layout == "NCHW":
        return batch, channels, height, width
    return batch, height, width, channels


def _channel_value(values: Sequence[float], channel: Expr) -> Expr:
    """The value of a channel; one value is that of all."""
    chosen = s.const(values[-1], dtypes.float32)
    for number, value in reversed(list(enumerate(values[:-1]))):
        chosen = s.where(channel.eq(number), s.const(value, dtypes.float32), chosen)
    return chosen


def _begin(size: Any, kept: Any, place: float) -> Expr:
    """Where a crop begins, at the share `place` of what is left out."""
    room = c.as_expr(size - kept)
    return s.cast(s.trunc(s.cast(room, dtypes.float32) * place), dtypes.index)


@operator(
    "crop_mirror_normalize_from_uint8(in, mirror?, color_space: string = 'BGR', output_layout: string = 'NCHW',"
    " mean: list_float, std: list_float, crop_h: int64 = 0, crop_w: int64 = 0, crop_pos_x: float = 0.5,"
    " crop_pos_y: float = 0.5, output_dtype: data_type) -> out"
)
class CropMirrorNormalizeFromUint8:
    """A part of each image of u8 (batch, height, width, channels), less `mean`, over `std`.

    The result has the layout NCHW or NHWC. It is mirrored where `mirror` is not 0. The part is crop_h x crop_w, or
    the image where one is 0; crop_pos_x and crop_pos_y say where it lies, from 0 to 1.
    """

    grad = no_grad("the images are integers")

    def types(op: Call) -> TensorDesc:
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

    def sbp(op: Call) -> Factors:
        """Axes that are kept whole and in order can be split."""
        rows, columns = (kept == size is not None for kept, size in zip(_crop(op), op.in_.shape[1:3], strict=True))
        names = ("n", "_", "h" if rows else "_", "w" if columns and op.mirror is None else "_")
        batch, channels, height, width = names
        mirror = "" if op.mirror is None else ", n"
        return Factors(f"{batch} {height} {width} {channels}{mirror} -> {' '.join(_arranged(op, *names))}")

    def compute(op: Call) -> Stage:
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

    def reference(
        x: Any, mirror: Any, *, output_layout: Any, mean: Any, std: Any, crop_h: Any, crop_w: Any,
        crop_pos_x: Any, crop_pos_y: Any,
    ) -> Any:  # fmt: skip
        sizes = x.shape[1:3]
        height, width = map(min, sizes, (crop_h, crop_w)) if crop_h and crop_w else sizes
        top, left = (
            int((n - k) * p) for n, k, p in zip(sizes, (height, width), (crop_pos_y, crop_pos_x), strict=True)
        )
        part = x[:, top : top + height, left : left + width].astype(np.float64)
        if mirror is not None:
            part = np.where((mirror != 0)[:, None, None, None], part[:, :, ::-1], part)
        out = ((part - np.asarray(mean)) / np.asarray(std)).astype(np.float32)
        return out if output_layout == "NHWC" else out.transpose(0, 3, 1, 2)
