"""Modules of data programs: mirrored, cut and normalized batches of decoded images, and the random coins of
mirroring.

Images are (batch, height, width, channels).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.factories import tensor_factory
from oneflow.frontend.core.generator import Generator
from oneflow.frontend.functional.random import random_offset
from oneflow.frontend.nn.image_lists import ImageList
from oneflow.frontend.nn.module import Module

__all__ = ["CoinFlip", "CropMirrorNormalize"]


class CoinFlip(Module):
    """`batch_size` coins (int8): 1 with `probability`, else 0.

    Coins with a `random_seed` are drawn from the seed, others from the generator of the thread.
    """

    def __init__(
        self,
        batch_size: int = 1,
        random_seed: int | None = None,
        probability: float = 0.5,
        device: Any = None,
        placement: Any = None,
        sbp: Any = None,
    ) -> None:
        super().__init__()
        self.batch_size, self.probability = batch_size, probability
        self.tensor_options = {"device": device, "placement": placement, "sbp": sbp}
        self.generator = None if random_seed is None else Generator().manual_seed(random_seed)

    def forward(self) -> Any:
        """The coins."""

        @tensor_factory
        def flipped() -> Any:
            options = {"batch_size": self.batch_size, "probability": self.probability}
            return dispatch("coin_flip", random_offset(self.generator), **options)

        return flipped(**self.tensor_options)

    def extra_repr(self) -> str:
        """The options."""
        return f"batch_size={self.batch_size}, probability={self.probability}"


class CropMirrorNormalize(Module):
    """A part of each image of uint8, mirrored where `mirror` says so, less `mean`, over `std`.

    The part is crop_h x crop_w, the whole image where one of them is 0; crop_pos_x and crop_pos_y state its position,
    from 0 to 1. The result has the layout NCHW or NHWC.
    """

    def __init__(
        self,
        color_space: str = "BGR",
        output_layout: str = "NCHW",
        crop_h: int = 0,
        crop_w: int = 0,
        crop_pos_y: float = 0.5,
        crop_pos_x: float = 0.5,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
        output_dtype: DType = dtypes.float32,
    ) -> None:
        super().__init__()
        self.options: dict[str, Any] = {
            "color_space": color_space, "output_layout": output_layout, "crop_h": crop_h, "crop_w": crop_w,
            "crop_pos_x": crop_pos_x, "crop_pos_y": crop_pos_y, "mean": list(mean), "std": list(std),
            "output_dtype": output_dtype,
        }  # fmt: skip

    def forward(self, input: Any, mirror: Any = None) -> Any:
        """The parts of the images; `mirror` has an int8 for each image."""
        operands = [as_tensor(input), *([] if mirror is None else [as_tensor(mirror)])]
        return dispatch("crop_mirror_normalize_from_uint8", *operands, **self.options)

    def extra_repr(self) -> str:
        """The options."""
        return ", ".join(f"{k}={v!r}" for k, v in self.options.items())


def _flipped(images: Any, extent: Any, flag: Any, axis: int) -> Any:
    """Images of a list with the pixels along an axis the other way round where `flag` is set."""
    at = F.arange(images.shape[axis], dtype=dtypes.int32)
    index = F.where(F.logical_and(flag, at < extent), extent - 1 - at, at)
    shape = [-1 if i in (0, axis) else 1 for i in range(images.rank)]
    shape[0] = images.shape[0]
    return F.gather(images, axis, F.expand(F.reshape(index, shape), images.shape))


class ImageFlip(Module):
    """Mirrored images: from left to right where bit 0 of the code (int8) of an image is set, upside down by bit 1."""

    def forward(self, images: Any, flip_code: Any) -> Any:
        """The images, an `ImageList` of such."""
        if not isinstance(images, ImageList):
            return dispatch("image_flip", as_tensor(images), as_tensor(flip_code))
        pixels, codes = images.images, F.reshape(as_tensor(flip_code), (-1, 1))
        for bit, axis in ((1, 2), (2, 1)):
            extent = F.narrow(images.size, 1, axis - 1, 1)
            pixels = _flipped(pixels, extent, F.ne(F.bitwise_and(codes, bit), 0), axis)
        return ImageList(pixels, images.size)


def _inside(images: ImageList) -> Any:
    """The mask of the pixels of a list that belong to an image: (images, height, width, 1)."""
    inside = [
        F.lt(F.arange(images.images.shape[axis], dtype=dtypes.int32), F.narrow(images.size, 1, axis - 1, 1))
        for axis in (1, 2)
    ]
    rows, columns = (F.unsqueeze(x, dim) for x, dim in zip(inside, (2, 1), strict=True))
    return F.unsqueeze(F.logical_and(rows, columns), 3)


class ImageNormalize(Module):
    """Images less `mean`, over `std`: one number of each for every channel."""

    def __init__(self, std: Sequence[float], mean: Sequence[float]) -> None:
        super().__init__()
        self.std, self.mean = list(std), list(mean)

    def forward(self, input: Any) -> Any:
        """The images, an `ImageList` of such."""
        options = {"std": self.std, "mean": self.mean}
        if not isinstance(input, ImageList):
            return dispatch("image_normalize", as_tensor(input), **options)
        images = dispatch("image_normalize", input.images, **options)
        return ImageList(F.where(_inside(input), images, 0.0), input.size)


class ImageBatchAlign(Module):
    """Images padded with zeros, up to the next multiples of `alignment`.

    `shape` are the height, the width and the channels of the result.
    """

    def __init__(self, shape: Sequence[int], dtype: DType, alignment: int) -> None:
        super().__init__()
        self.shape, self.dtype, self.alignment = list(shape), dtype, alignment

    def forward(self, input: Any) -> Any:
        """The images."""
        options = {"shape": self.shape, "data_type": self.dtype, "alignment": self.alignment}
        images = input.images if isinstance(input, ImageList) else as_tensor(input)
        return dispatch("image_batch_align", images, **options)
