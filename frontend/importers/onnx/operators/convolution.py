"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.operators.products import shifted
from oneflow.frontend.importers.onnx.operators.shape import padded
from oneflow.frontend.importers.onnx.table import builder
from oneflow.frontend.importers.onnx.types import limits

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def borders(
    sizes: Sequence[Any],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str,
) -> list[tuple[Any, Any]]:
    """The padding before and after each spatial dimension, which `auto_pad` may ask to compute."""
    count = len(kernel)
    if auto_pad == "VALID":
        return [(0, 0)] * count
    if not auto_pad.startswith("SAME"):
        amounts = pads or [0] * (2 * count)
        return list(zip(amounts[:count], amounts[count:], strict=True))
    pairs = []
    for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        if isinstance(size, Size) and s != 1:
            raise OnnxError(f"expected static spatial sizes for auto_pad {auto_pad} with stride {s}")
        total = d * (k - 1) if s == 1 else max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0)
        small = total // 2
        pairs.append((small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small))
    return pairs


def _windows(
    x: Tensor, w: Tensor, kernel_shape: list[int] | None, strides: list[int] | None, dilations: list[int] | None
) -> tuple[int, list[int], list[int], list[int]]:
    """The number of spatial dimensions, and the sizes, steps and dilations of the windows."""
    spatial = x.rank - 2
    if spatial not in _CONVOLUTIONS:
        raise OnnxError(f"expected images of 1 to 3 spatial dimensions, got {x.desc}")
    kernel = kernel_shape or [int(n or 0) for n in w.shape[2:]]
    return spatial, kernel, strides or [1] * spatial, dilations or [1] * spatial


@builder("Conv")
def _conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    spatial, kernel, stride, dilation = _windows(x, w, kernel_shape, strides, dilations)
    padding = borders(x.sizes()[2:], kernel, stride, dilation, pads, auto_pad)
    if any(before != after for before, after in padding):
        x, padding = padded(x, [(0, 0), (0, 0), *padding]), [(0, 0)] * spatial
    return _CONVOLUTIONS[spatial](x, w, b, stride, [before for before, _ in padding], dilation, group)


@builder("ConvTranspose")
def _conv_transpose(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None,
    output_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """The full result without padding, cropped at both ends."""
    spatial, kernel, stride, dilation = _windows(x, w, kernel_shape, strides, dilations)
    extra_sizes = output_padding or [0] * spatial
    result = _TRANSPOSED[spatial](x, w, None, stride, 0, 0, group, dilation)
    rows = enumerate(zip(x.sizes()[2:], kernel, stride, dilation, extra_sizes, strict=True))
    for i, (size, k, s, d, extra) in rows:
        full = s * (size - 1) + d * (k - 1) + 1 + extra
        cut = _cut(full, i, output_shape, pads, auto_pad, size * s)
        amounts = [(0, 0)] * result.rank
        amounts[2 + i] = (-cut[0], extra - cut[1])
        result = padded(result, amounts)
    return result if b is None else F.add(result, F.reshape(b, (-1, *[1] * spatial)))


def _cut(
    full: Any, i: int, output_shape: list[int] | None, pads: list[int] | None, auto_pad: str, same: Any
) -> tuple[Any, Any]:
    """How many elements of a full result of the size `full` are cropped at both ends."""
    if output_shape is None and not auto_pad.startswith("SAME"):
        return (pads[i], pads[len(pads) // 2 + i]) if pads and auto_pad != "VALID" else (0, 0)
    total = full - (same if output_shape is None else output_shape[i])
    small = total // 2
    return (small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small)


def integer_convolution(x: Tensor, w: Tensor, options: dict[str, Any]) -> Tensor:
    """The convolution of integers of 9 bits (bytes less a zero point): sums in float are exact up to 2^24, else in
    double.
    """
    terms = math.prod(int(n or 0) for n in w.shape[1:])
    exact = dtypes.float32 if terms * 2**16 <= 2**24 else dtypes.float64
    return F.cast(_conv(F.cast(x, exact), F.cast(w, exact), **options), dtypes.int32)


def _with_options(function: Any) -> Any:
    """A builder with the attributes of a convolution as `options`."""

    def build(
        *operands: Any,
        auto_pad: str = "NOTSET",
        dilations: list[int] | None = None,
        group: int = 1,
        kernel_shape: list[int] | None = None,
        pads: list[int] | None = None,
        strides: list[int] | None = None,
    ) -> Tensor:
        options = {
            "auto_pad": auto_pad, "dilations": dilations, "group": group, "kernel_shape": kernel_shape, "pads": pads,
            "strides": strides,
        }  # fmt: skip
        tensor: Tensor = function(*operands, options=options)
        return tensor

    return build


@builder("ConvInteger")
@_with_options
def _conv_integer_of(
    x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, *, options: dict[str, Any]
) -> Tensor:
    return integer_convolution(shifted(x, x_zero), shifted(w, per_filter(w_zero, w)), options)


def per_filter(value: Tensor | None, w: Tensor) -> Tensor | None:
    """A number, or a vector with one number for each filter, next to the weights."""
    one = value is None or value.rank == 0 or value.shape[0] == 1
    return value if one or value is None else F.reshape(value, (-1, *[1] * (w.rank - 1)))


@builder("QLinearConv")
@_with_options
def _qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    b: Tensor | None = None,
    *,
    options: dict[str, Any],
) -> Tensor:
    product = integer_convolution(shifted(x, x_zero), shifted(w, per_filter(w_zero, w)), options)

    def channels(v: Tensor) -> Tensor:
        return F.reshape(v, (-1, *[1] * (x.rank - 2))) if v.rank and v.shape[0] != 1 else v

    product = product if b is None else F.add(product, F.reshape(b, (-1, *[1] * (x.rank - 2))))
    factor = F.div(F.mul(x_scale, channels(w_scale)), y_scale)
    return rounded_to(F.mul(F.cast(product, dtypes.float32), factor), y_zero)


def rounded_to(x: Tensor, zero_point: Tensor) -> Tensor:
    """`x` rounded to even, plus a zero point, saturated in the type of that."""
    least, largest = limits(zero_point.dtype)
    rounded = F.add(F.rint(x), F.cast(zero_point, x.dtype))
    return F.cast(F.clamp(rounded, float(least), float(largest)), zero_point.dtype)


@builder("DeformConv")
def _deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    offset_group: int = 1,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    kernel = kernel_shape or [int(n or 0) for n in w.shape[2:]]
    if tuple(kernel) != tuple(w.shape[2:]) or int(w.shape[1] or 0) * group != x.shape[1]:
        raise OnnxError(f"expected filters of kernel_shape {kernel} and {group} groups for {x.desc}, got {w.desc}")
    if offset.shape[1] != 2 * offset_group * math.prod(kernel):
        raise OnnxError(f"expected an offset of {offset_group} groups of {math.prod(kernel)} taps, got {offset.desc}")
    top, left, bottom, right = pads or [0] * 4
    if (top, left) != (bottom, right):
        x, top, left = padded(x, [(0, 0), (0, 0), (top, bottom), (left, right)]), 0, 0
    return F.deform_conv2d(x, offset, w, b, strides or 1, (top, left), dilations or 1, mask)
