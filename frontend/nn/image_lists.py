"""Images of different sizes: out of files, and in other sizes.

images = nn.image.decode(color_space="RGB")(files)           an ImageList
batch, scale, _ = nn.image.Resize((224, 224))(images)        one tensor
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.dialect.image_files import size_of
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch, dispatch_all
from oneflow.frontend.core.errors import fail
from oneflow.frontend.nn.module import Module

__all__ = ["ImageList"]

#: The largest rows and columns of images of one batch are rounded up to multiples of this number, so that few
#: programs are compiled.
STEP = 64


class ImageList(NamedTuple):
    """Images of different sizes in one tensor.

    `images` is a tensor (images, height, width, channels), in which images are padded with zeros, `size` (int32) has
    the height and width of each image.
    """

    images: Any
    size: Any

    def numpy(self) -> list[np.ndarray]:
        """The images, each of its own size."""
        sizes = self.size.numpy().tolist()
        return [image[:height, :width] for image, (height, width) in zip(self.images.numpy(), sizes, strict=True)]


class Bound:
    """The most rows and columns of the images that a module decodes: stated, or what the images had so far."""

    def __init__(self, most: Sequence[int] | None) -> None:
        self.stated = None if most is None else list(most)
        self._seen = [STEP, STEP]

    def of(self, files: Any, sizes: Callable[[np.ndarray], Any], what: str) -> list[int]:
        """The most rows and columns of the images in `files`; `sizes(array)` are the sizes of its images.

        Raises:
            OneFlowError: no sizes are stated, and the files are not known while a function is traced.
        """
        if self.stated is not None:
            return self.stated
        if not current_builder().eager:
            raise fail(
                f"expected max_size=(rows, columns) for {what}, the most that an image has: sizes of images are not"
                " known while a function is traced"
            )
        for size in sizes(files.numpy()):
            self._seen = [max(n, -(-d // STEP) * STEP) for n, d in zip(self._seen, size, strict=True)]
        return self._seen


def image_list(name: str, /, *operands: Any, **attrs: Any) -> ImageList:
    """The results of an operator as images and their sizes."""
    return ImageList(*dispatch_all(name, *operands, **attrs))


class ImageDecode(Module):
    """The images in files: a tensor of uint8 or int8 (files, bytes), padded with zeros.

    The result is an `ImageList` of uint8 or floats from 0 to 255. In compiled functions `max_size` is needed, the
    most rows and columns of an image; larger images are errors.
    """

    def __init__(
        self, dtype: DType = dtypes.uint8, color_space: str = "BGR", max_size: Sequence[int] | None = None
    ) -> None:
        super().__init__()
        self.dtype, self.color_space, self.bound = dtype, color_space, Bound(max_size)

    def forward(self, input: Any) -> ImageList:
        """The images."""
        files = as_tensor(input)
        most = self.bound.of(files, _sizes, "nn.image.decode")
        options = {"color_space": self.color_space, "data_type": self.dtype, "max_size": most}
        return image_list("image_decode", files, **options)


def _sizes(files: np.ndarray) -> list[tuple[int, int]]:
    try:
        return [size_of(file) for file in files]
    except ValueError as error:
        raise fail(str(error)) from None


class ImageResize(Module):
    """Images in other sizes: `(images, scale, size)`; `scale` and `size` have a width and a height.

    The images are an `ImageList`, or a tensor of images of one size. `target_size` is (width, height), and the size
    is None then. With `keep_aspect_ratio` it is the size of the side `resize_side`, the other side following with at
    most `max_size` for the longer and at least `min_size` for the shorter.
    """

    def __init__(
        self,
        target_size: int | Sequence[int] | None = None,
        min_size: int | None = None,
        max_size: int | None = None,
        keep_aspect_ratio: bool = False,
        resize_side: str = "shorter",
        channels: int = 3,
        dtype: DType | None = None,
        interpolation_type: str = "auto",
    ) -> None:
        super().__init__()
        self.keep_aspect_ratio = keep_aspect_ratio
        self.options: dict[str, Any] = {"interpolation_type": interpolation_type}
        if not keep_aspect_ratio:
            width, height = _pair(target_size)
            self.options |= {"target_width": width, "target_height": height, "channels": channels}
            self.options["data_type"] = dtype or dtypes.uint8
            return
        if not isinstance(target_size, int):
            raise fail(f"expected target_size as a number with keep_aspect_ratio, got {target_size!r}")
        if resize_side not in ("shorter", "longer"):
            raise fail(f'expected resize_side to be "shorter" or "longer", got {resize_side!r}')
        self.options |= {"target_size": target_size, "min_size": min_size or 0, "max_size": max_size or 0}
        self.options["resize_longer"] = resize_side == "longer"

    def forward(self, input: Any) -> tuple[Any, Any, Any]:
        """The images, the scales and the sizes."""
        operands = input if isinstance(input, ImageList) else (as_tensor(input),)
        if not self.keep_aspect_ratio:
            images, scale = dispatch_all("image_resize_to_fixed", *operands, **self.options)
            return images, scale, None
        images, size, scale = dispatch_all("image_resize_keep_aspect_ratio", *operands, **self.options)
        if isinstance(input, ImageList):
            return ImageList(images, dispatch("flip", size, dims=[1])), scale, size
        return images, scale, size

    def extra_repr(self) -> str:
        """The options."""
        return ", ".join(f"{k}={v!r}" for k, v in self.options.items())


def _pair(target_size: Any) -> tuple[int, int]:
    if not isinstance(target_size, (list, tuple)) or len(target_size) != 2:
        raise fail(f"expected target_size as (width, height), got {target_size!r}")
    return target_size[0], target_size[1]
