"""Files of images as arrays, decoded by Pillow.

    decode(data, "RGB", (600, 800))     the image as (height, width, channels) of uint8

A file with zero padding after it is decoded like the file. The size is read and checked before pixels are decoded, so
that a small file of a huge image is an error and takes no memory.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect._pillow import pillow
from oneflow.dialect.numpy_kernel import DataError

#: The formats that are read: raster images whose decoders start no other program.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
#: The number of channels of each color space.
CHANNELS = {"RGB": 3, "BGR": 3, "GRAY": 1}
#: The pixels of an image as it is seen, by its orientation in the Exif data.
_ORIENTED: dict[int, Callable[[Any], Any]] = {
    1: lambda x: x, 2: lambda x: x[:, ::-1], 3: lambda x: x[::-1, ::-1], 4: lambda x: x[::-1],
    5: lambda x: x.swapaxes(0, 1), 6: lambda x: np.rot90(x, -1), 7: lambda x: x[::-1, ::-1].swapaxes(0, 1),
    8: np.rot90,
}  # fmt: skip
#: The first orientation that makes rows of columns.
FIRST_TURNED = 5
#: Pillow's modes of images with more than 8 bits for a pixel.
_DEEP = ("I", "F")
_WORDS = f"expected an image of one of the formats {', '.join(FORMATS)}"


def _opened(data: Any) -> Any:
    try:
        return pillow.Image.open(io.BytesIO(np.asarray(data).tobytes()), formats=FORMATS)
    except ImportError:
        raise
    except Exception as error:  # each format has errors of its own
        raise DataError(f"{_WORDS}, got bytes of none of them, or more pixels than Pillow allows ({error})") from None


def size_of(data: Any, is_oriented: bool = True) -> tuple[int, int]:
    """The height and width of the image in a file, without decoding the image.

    Raises:
        DataError: the bytes are no image.
    """
    with _opened(data) as image:
        height, width = image.height, image.width
        return (width, height) if is_oriented and _orientation(image) >= FIRST_TURNED else (height, width)


def decode(data: Any, color_space: str, most: Sequence[int], is_oriented: bool = True) -> np.ndarray:
    """The image in a file as (height, width, channels) of uint8; deeper pixels are clipped to 255.

    Args:
        data: the bytes of the file.
        color_space: "RGB", "BGR" or "GRAY".
        most: the most rows and columns that the image may have.
        is_oriented: whether the image is turned as its Exif data says.

    Raises:
        DataError: the bytes are no image, the file is truncated, or the image is larger.
    """
    height, width = size_of(data, is_oriented)
    if height > most[0] or width > most[1]:
        raise DataError(f"expected an image of at most {most[0]} x {most[1]} pixels, got one of {height} x {width}")
    with _opened(data) as image:
        try:
            pixels = _pixels(image, "L" if color_space == "GRAY" else "RGB")
            pixels = _ORIENTED[_orientation(image)](pixels) if is_oriented else pixels
        except Exception as error:  # each format has errors of its own
            raise DataError(f"{_WORDS}, got a damaged file of the format {image.format} ({error})") from None
    return pixels[..., ::-1] if color_space == "BGR" else pixels


def _orientation(image: Any) -> int:
    """The orientation of an image in its Exif data, from 1 to 8. The method of the base class decodes no pixels."""
    try:
        found: int = pillow.Image.Image.getexif(image).get(pillow.ExifTags.Base.Orientation, 1)
    except Exception:  # damaged Exif data says nothing
        return 1
    return found if found in _ORIENTED else 1


def _pixels(image: Any, mode: str) -> np.ndarray:
    if image.mode.startswith(_DEEP):
        gray = np.clip(np.asarray(image), 0, 255).astype(np.uint8)[..., None]
        return gray if mode == "L" else np.repeat(gray, 3, axis=2)
    pixels = np.asarray(image.convert(mode))
    return pixels[..., None] if mode == "L" else pixels
