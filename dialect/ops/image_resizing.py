"""Resizing of the images of a list, on the host; `image_lists` defines lists of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.numpy_kernel import DataError, numpy_kernel
from oneflow.dialect.ops.image_lists import (
    PIXELS,
    each_image,
    expect_color,
    expect_images,
    image_factors,
    mapped,
    padded,
    size_desc,
)
from oneflow.dialect.record import Call, define, no_grad
from oneflow.dialect.resampling import KINDS, NEAREST, convert, longer_and_shorter, resize
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype
from oneflow.dialect.tensor_desc import TensorDesc

NO_GRAD = no_grad("OneFlow has none")
KIND = "interpolation_type: string = 'bilinear'"


def _expect_kind(op: Call) -> None:
    if op.interpolation_type not in KINDS:
        raise op.error(f"expected interpolation_type to be one of {', '.join(KINDS)}, got {op.interpolation_type!r}")


def _linear(op: Call, factors: Factors, dtype: dtypes.DType) -> Factors:
    """Factors of a map that is linear where nothing is rounded."""
    is_exact = dtype.is_float or op.attrs.get("interpolation_type") in NEAREST
    return factors.linear_in(op, "in") if is_exact and op.in_.dtype == dtype else factors


def _fixed_types(op: Call) -> tuple[TensorDesc, TensorDesc]:
    expect_images(op)
    expect_color(op, op.channels)
    expect_dtype(op, "data_type", TensorDesc((), op.data_type), PIXELS)
    _expect_kind(op)
    if min(op.target_height, op.target_width) < 1:
        raise op.error(
            f"expected target_height and target_width of at least 1, got {op.target_height} and {op.target_width}"
        )
    images = op.in_.shape[0]
    shape = (images, op.target_height, op.target_width, op.channels)
    return TensorDesc(shape, op.data_type), TensorDesc((images, 2), dtypes.float32)


def _numpy_fixed(
    x: Any, in_size: Any, *, target_width: Any, target_height: Any, data_type: Any, interpolation_type: Any
) -> Any:
    out = np.zeros((len(x), target_height, target_width, x.shape[3]), data_type.numpy)
    scale = np.zeros((len(x), 2), np.float32)
    for index, image in enumerate(each_image(x, in_size)):
        out[index] = convert(resize(image, target_height, target_width, interpolation_type), out.dtype)
        scale[index] = target_width / image.shape[1], target_height / image.shape[0]
    return out, scale


define(
    "image_resize_to_fixed(in, in_size?, target_width: int64 = 0, target_height: int64 = 0, channels: int64 = 3,"
    f" data_type: data_type, {KIND}) -> out, scale",
    doc="The images of a list resized to one size, and the scales (f32) of widths and heights.\n\n"
    "Interpolations are bilinear, bicubic, nearest_neighbor (nn), area, the mean of the area of a pixel, and auto,\n"
    "which is area for images that become smaller and bilinear for other images.",
    types=_fixed_types, sbp=lambda op: _linear(op, image_factors(op, "n _"), op.data_type), grad=NO_GRAD,
    reference=_numpy_fixed, kernel=numpy_kernel(_numpy_fixed),
)  # fmt: skip


def _kept_ratio(
    height: int, width: int, *, target_size: int, min_size: int, max_size: int, resize_longer: bool
) -> Any:
    """The height and width of an image with one side resized to the target size, halves rounded to even."""
    ratio = min(height, width) / max(height, width)
    if resize_longer:
        longer, shorter = target_size, round(target_size * ratio)
        if min_size > 0 and shorter < min_size:
            longer, shorter = round(min_size / ratio), min_size
    else:
        longer, shorter = round(target_size / ratio), target_size
        if max_size > 0 and longer > max_size:
            longer, shorter = max_size, round(max_size * ratio)
    return longer_and_shorter(height, width, shorter, longer)


def _target(height: int, width: int, *, target_size: int, max_size: int) -> Any:
    """The height and width of an image whose shorter side gets the target's size, or less for max_size."""
    return _kept_ratio(height, width, target_size=target_size, min_size=0, max_size=max_size, resize_longer=False)


def _sizes(op: Call) -> dict[str, Any]:
    names = ("target_size", "min_size", "max_size", "resize_longer")
    return {name: op.attrs[name] for name in names if name in op.attrs}


def _expect_target(op: Call, needs_most: bool) -> None:
    expect_images(op)
    if op.target_size < 1 or op.max_size < (op.target_size if op.max_size or needs_most else 0):
        raise op.error(
            f"expected target_size of at least 1 and max_size of at least that{'' if needs_most else ', or 0'}, got"
            f" {op.target_size} and {op.max_size}"
        )


def _most(op: Call, of_image: Callable[..., Any]) -> tuple[int, int]:
    """The largest numbers of rows and columns of the results, exact if all images have one size."""
    _, height, width, _ = op.in_.shape
    if op.in_size is None:
        try:
            rows, columns = of_image(height, width, **_sizes(op))
        except DataError as error:
            raise op.error(str(error)) from None
        return rows, columns
    most = op.max_size or (op.target_size if op.attrs.get("resize_longer") and not op.min_size else 0)
    if not most:
        raise op.error(
            "expected max_size above 0 for images of different sizes, so that the results have a largest size"
        )
    return most, most


def _resized(x: Any, in_size: Any, most: Any, of_image: Callable[..., Any], kind: str) -> Any:
    """The images in other sizes, and how many rows and columns images had and have."""
    images = list(each_image(x, in_size))

    def resized(image: np.ndarray) -> np.ndarray:
        height, width = of_image(*image.shape[:2])
        if height > most[0] or width > most[1]:
            raise DataError(f"expected a result of at most {most[0]} x {most[1]} pixels, got {height} x {width}")
        made: np.ndarray = resize(image, height, width, kind)
        return made

    out, sizes = padded(mapped(resized, images), (len(x), *most, x.shape[3]), x.dtype)
    before = np.array([image.shape[:2] for image in images], np.float64).reshape(-1, 2)
    return out, sizes, (sizes / before).astype(np.float32)


def _keep_types(op: Call) -> tuple[TensorDesc, TensorDesc, TensorDesc]:
    _expect_target(op, needs_most=False)
    _expect_kind(op)
    if op.min_size < 0 or (op.resize_longer and op.min_size > op.target_size):
        raise op.error(f"expected min_size from 0 to target_size {op.target_size}, got {op.min_size}")
    return _list_desc(op, _kept_ratio)


def _list_desc(op: Call, of_image: Callable[..., Any]) -> tuple[TensorDesc, TensorDesc, TensorDesc]:
    images, channels = op.in_.shape[0], op.in_.shape[3]
    out = TensorDesc((images, *_most(op, of_image), channels), op.in_.dtype)
    return out, size_desc(images), TensorDesc((images, 2), dtypes.float32)


def _target_types(op: Call) -> tuple[TensorDesc, TensorDesc, TensorDesc]:
    _expect_target(op, needs_most=True)
    return _list_desc(op, _target)


def _numpy_list(x: Any, in_size: Any, attrs: dict[str, Any], of_image: Callable[..., Any], kind: str) -> Any:
    bound = attrs["max_size"] or attrs["target_size"]
    most = of_image(*x.shape[1:3], **attrs) if in_size is None else (bound, bound)
    return _resized(x, in_size, most, lambda h, w: of_image(h, w, **attrs), kind)


def _numpy_keep(x: Any, in_size: Any, *, interpolation_type: Any, **attrs: Any) -> Any:
    out, sizes, scale = _numpy_list(x, in_size, attrs, _kept_ratio, interpolation_type)
    return out, sizes[:, ::-1], scale[:, ::-1]


def _numpy_target(x: Any, in_size: Any, *, target_size: Any, max_size: Any) -> Any:
    return _numpy_list(x, in_size, {"target_size": target_size, "max_size": max_size}, _target, "bilinear")


def _list_factors(op: Call) -> Factors:
    return _linear(op, image_factors(op, "n _", "n _", channels="c"), op.in_.dtype)


define(
    "image_resize_keep_aspect_ratio(in, in_size?, target_size: int32 = 0, min_size: int32 = 0, max_size: int32 = 0,"
    f" resize_longer: bool = False, {KIND}) -> out, size, scale",
    doc="The images of a list with shorter sides of `target_size`; the widths and heights; and the scales.\n\n"
    "A longer side above `max_size` becomes `max_size`, unless `max_size` is 0. With `resize_longer` `target_size`\n"
    "is the size of longer sides, and `min_size` the least size of shorter sides. Images of different sizes need\n"
    "`max_size` as the limit of the rows and columns of results, unless other attributes limit both.",
    types=_keep_types, sbp=_list_factors, grad=NO_GRAD, reference=_numpy_keep, kernel=numpy_kernel(_numpy_keep),
)  # fmt: skip
define(
    "image_target_resize(in, in_size?, target_size: int32 = 0, max_size: int32 = 0) -> out, size, scale",
    doc="The images of a list with shorter sides of `target_size`, or less, so that longer sides are at most\n"
    "`max_size`; the heights and widths; and the scales of heights and widths.",
    types=_target_types, sbp=_list_factors, grad=NO_GRAD, reference=_numpy_target, kernel=numpy_kernel(_numpy_target),
)  # fmt: skip
