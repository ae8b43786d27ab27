"""Decoding of image files, and random crops of images, on the host; `image_lists` defines lists of images.

A list of files is a tensor (files, bytes) with zeros as padding after each file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.image_files import CHANNELS, decode
from oneflow.dialect.numpy_kernel import numpy_kernel
from oneflow.dialect.ops.image_lists import (
    PIXELS,
    each_image,
    expect_images,
    expect_most,
    image_factors,
    mapped,
    padded,
    size_desc,
)
from oneflow.dialect.ops.random import RANDOM, expect_offset, seed_of
from oneflow.dialect.philox import numpy_philox
from oneflow.dialect.record import Call, define, no_grad, operator
from oneflow.dialect.sbp import Factors, Shard
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import TensorDesc

BYTES = (dtypes.uint8, dtypes.int8)
INTEGERS = no_grad("the images are integers, or come from files")
#: The attributes of the operators that cut random parts.
CROPPED = (
    "num_attempts: int32 = 10, seed: int64 = -1, has_seed: bool = False, random_area: list_float,"
    " random_aspect_ratio: list_float, logical_begin: int64 = 0"
)


def expect_color_space(op: Call) -> int:
    """The number of channels of the color space of a call."""
    if op.color_space not in CHANNELS:
        raise op.error(f"expected color_space to be one of {', '.join(CHANNELS)}, got {op.color_space!r}")
    return CHANNELS[op.color_space]


def expect_files(op: Call) -> None:
    """Checks a list of files."""
    expect_rank(op, "in", op.in_, 2)
    expect_dtype(op, "in", op.in_, BYTES)
    if op.in_.shape[1] == 0:
        raise op.error(f"expected files of at least 1 byte, got {op.in_}")


@operator("image_decode(in, color_space: string = 'BGR', data_type: data_type, max_size: shape) -> out, out_size")
class ImageDecode:
    """The images in a list of files, (files, bytes) with zeros as padding; and the sizes of the images.

    Images are (rows, columns, channels) of u8, f32 or f64, from 0 to 255, rotated according to Exif data, and at
    most `max_size`, rows and columns. Files of other formats, damaged files and larger images are run-time errors.
    """

    grad = INTEGERS

    def types(op: Call) -> tuple[TensorDesc, TensorDesc]:
        expect_files(op)
        expect_dtype(op, "data_type", TensorDesc((), op.data_type), PIXELS)
        images = op.in_.shape[0]
        shape = (images, *expect_most(op, op.max_size), expect_color_space(op))
        return TensorDesc(shape, op.data_type), size_desc(images)

    def sbp(op: Call) -> Factors:
        return Factors("n _ -> n _ _ _, n _")

    def reference(x: Any, *, color_space: Any, data_type: Any, max_size: Any) -> Any:
        images = mapped(lambda data: decode(data, color_space, max_size), x)
        return padded(images, (len(x), *max_size, CHANNELS[color_space]), data_type.numpy)

    kernel = numpy_kernel(reference)


@dataclass(frozen=True)
class RandomCrop:
    """The distribution of random crops: the fraction of the area, and the ratio of width to height."""

    attempts: int
    area: Sequence[float]
    ratio: Sequence[float]
    seed: int

    def window(self, image_index: int, height: int, width: int) -> tuple[int, int, int, int]:
        """The first row and column, the rows and the columns of the crop of image `image_index`."""
        rows, columns = self._size(image_index, height, width)
        fractions = self._numbers(image_index, self.attempts)
        top, left = (
            int(fraction * (n + 1)) for fraction, n in zip(fractions, (height - rows, width - columns), strict=False)
        )
        return top, left, rows, columns

    def _numbers(self, image_index: int, attempt: int) -> list[float]:
        """Four uniform random numbers in [0, 1)."""
        counter = [np.array(n, np.uint64) for n in (image_index, attempt, 0, 0)]
        return [float(word) / 2.0**32 for word in numpy_philox(counter, self.seed)]

    def _size(self, image_index: int, height: int, width: int) -> tuple[int, int]:
        """The first drawn size that fits into the image; without such a size the largest size of an allowed ratio."""
        (least, most), (narrow, wide) = self.area, self.ratio
        columns, rows = max(1, int(height * wide)), max(1, int(width / narrow))
        if height * columns < least * height * width:
            return height, columns
        if width * rows < least * height * width:
            return rows, width
        for attempt in range(self.attempts):
            share, log_ratio = self._numbers(image_index, attempt)[:2]
            area = (least + share * (most - least)) * height * width
            ratio = math.exp(math.log(narrow) + log_ratio * (math.log(wide) - math.log(narrow)))
            h, w = max(1, round(math.sqrt(area / ratio))), max(1, round(math.sqrt(area * ratio)))
            if h <= height and w <= width and narrow <= w / h <= wide:
                return h, w
        return self._largest(height, width, columns, rows)

    def _largest(self, height: int, width: int, columns: int, rows: int) -> tuple[int, int]:
        ratio = width / height
        h, w = (
            (height, columns)
            if ratio > self.ratio[1]
            else (rows, width)
            if ratio < self.ratio[0]
            else (height, width)
        )
        scale = math.sqrt(min(1.0, self.area[1] * height * width / (h * w)))
        return max(1, int(h * scale)), max(1, int(w * scale))


def expect_crop(op: Call) -> None:
    """Checks the attributes by which parts are drawn."""
    expect_offset(op)
    area, ratio = op.random_area, op.random_aspect_ratio
    if len(area) != 2 or not 0 < area[0] <= area[1] <= 1:
        raise op.error(f"expected random_area as two shares above 0 and up to 1, the smaller first, got {list(area)}")
    if len(ratio) != 2 or not 0 < ratio[0] <= ratio[1] < math.inf:
        raise op.error(
            f"expected random_aspect_ratio as two finite numbers above 0, the smaller first, got {list(ratio)}"
        )
    if op.num_attempts < 1 or op.logical_begin < 0:
        raise op.error(
            "expected num_attempts of at least 1 and logical_begin of at least 0, got"
            f" {op.num_attempts} and {op.logical_begin}"
        )


def crop_of(attrs: dict[str, Any], offset: Any) -> RandomCrop:
    """How the parts of a call with these attributes are drawn."""
    seed = seed_of(attrs["seed"], offset)
    return RandomCrop(attrs["num_attempts"], attrs["random_area"], attrs["random_aspect_ratio"], seed)


def local_begin(op: Call, shard: Shard) -> dict[str, Any]:
    """The index of the first image of one device's shard."""
    local, logical = (shape or (None,) for shape in (shard.inputs[0].shape, op.operands[0].shape))
    return {"logical_begin": op.logical_begin + (shard.begins[0] if local[0] != logical[0] else 0)}


def cutter(attrs: dict[str, Any], offset: Any) -> Callable[[tuple[int, np.ndarray]], np.ndarray]:
    """A function from the index of an image and the image to a random crop."""
    crop = crop_of(attrs, offset)

    def cut(item: tuple[int, np.ndarray]) -> np.ndarray:
        index, image = item
        top, left, rows, columns = crop.window(attrs["logical_begin"] + index, *image.shape[:2])
        return image[top : top + rows, left : left + columns]

    return cut


def _crop_types(op: Call) -> tuple[TensorDesc, TensorDesc]:
    expect_images(op)
    expect_crop(op)
    return op.in_, size_desc(op.in_.shape[0])


def _numpy_crop(x: Any, in_size: Any, offset: Any, **attrs: Any) -> Any:
    return padded(map(cutter(attrs, offset), enumerate(each_image(x, in_size))), x.shape, x.dtype)


define(
    f"image_random_crop(in, in_size?, offset?, {CROPPED}) -> out, out_size",
    doc="A random crop of each image of a list, and the sizes of the crops.\n\n"
    "The fraction of the image's area is drawn from `random_area`, the ratio of width to height from"
    " `random_aspect_ratio`.\nSizes that do not fit are drawn again up to `num_attempts` times. The seed is used with"
    " and without `has_seed`.",
    types=_crop_types, sbp=lambda op: image_factors(op, "n _", channels="c").linear_in(op, "in"), local=local_begin,
    grad=INTEGERS, reference=_numpy_crop, kernel=numpy_kernel(_numpy_crop), traits=RANDOM,
)  # fmt: skip
