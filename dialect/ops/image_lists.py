"""Lists of images of different sizes as one tensor: (images, height, width, channels), with zero padding after each
image.

The sizes are a tensor (images, 2) of i32: the heights and widths. Without sizes all images fill the tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.numpy_kernel import DataError
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import Dim, TensorDesc

#: The types of the elements of images that host kernels read and write.
PIXELS = (dtypes.uint8, dtypes.float32, dtypes.float64)
SIZE = "in_size"


def size_desc(images: Dim) -> TensorDesc:
    """The type of the sizes of images."""
    return TensorDesc((images, 2), dtypes.int32)


def expect_images(op: Call) -> None:
    """Checks the operand `in` and the sizes of the images."""
    expect_rank(op, "in", op.in_, 4)
    expect_dtype(op, "in", op.in_, PIXELS)
    if None in op.in_.shape[1:] or 0 in op.in_.shape[1:]:
        raise op.error(f"expected static sizes of images of at least 1, got {op.in_}")
    if op[SIZE] is not None:
        expect_type(op, SIZE, size_desc(op.in_.shape[0]))


def expect_color(op: Call, channels: Any) -> None:
    """Checks that the number of channels is the number of a color space."""
    if channels not in (1, 3):
        raise op.error(f"expected images of 1 or 3 channels, got {channels}")
    expect_dim(op, "the channels of in", op.in_.shape[3], channels)


def expect_most(op: Call, sizes: Sequence[int]) -> tuple[int, int]:
    """Checks the most rows and columns of an image."""
    if len(sizes) != 2 or min(sizes) < 1:
        raise op.error(f"expected max_size as the most rows and columns of an image, got {list(sizes)}")
    return sizes[0], sizes[1]


def each_image(images: np.ndarray, sizes: np.ndarray | None) -> Iterator[np.ndarray]:
    """The images of a list, each without padding.

    Raises:
        DataError: a size is outside of the tensor.
    """
    for index, image in enumerate(images):
        if sizes is None:
            yield image
            continue
        height, width = map(int, sizes[index])
        if not (1 <= height <= image.shape[0] and 1 <= width <= image.shape[1]):
            raise DataError(
                f"image {index}: expected a size from 1 x 1 to {image.shape[0]} x {image.shape[1]}, got"
                f" {height} x {width}"
            )
        yield image[:height, :width]


def padded(images: Iterable[np.ndarray], shape: Sequence[int], dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    """A list of images as one tensor of the shape (images, height, width, channels), and the sizes of the images."""
    out, sizes = np.zeros(shape, dtype), np.zeros((shape[0], 2), np.int32)
    for index, image in enumerate(images):
        out[index, : image.shape[0], : image.shape[1]] = image
        sizes[index] = image.shape[:2]
    return out, sizes


def mapped(function: Any, items: Iterable[Any], name: str = "image") -> Iterator[Any]:
    """The results of a function of each item; an error names the item."""
    for index, item in enumerate(items):
        try:
            yield function(item)
        except DataError as error:
            raise DataError(f"{name} {index}: {error}") from None


def image_factors(op: Call, *results: str, channels: str = "_") -> Factors:
    """Factors of an operator on a list `in`: images can be split, and channels if `channels` is a letter; the first
    result is a list.
    """
    rest = {"in": f"n _ _ {channels}", SIZE: "n _"}
    operands = [rest.get(name) or " ".join("_" * x.rank) for name, x in op.inputs.items() if x is not None]
    return Factors(f"{', '.join(operands)} -> {', '.join([f'n _ _ {channels}', *results])}")
