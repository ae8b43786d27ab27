"""Functions that read images at computed positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.images import Sizes, per_dimension
from oneflow.frontend.functional.source import zeros

__all__ = ["affine_grid", "deform_conv2d", "grid_sample"]


def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:
    """Images (batch, channels, sizes) read at the positions of `grid` (batch, sizes, coordinates), from -1 to 1.

    `mode` is "bilinear", "nearest" or, for two dimensions, "bicubic"; `padding_mode` is "zeros", "border" or
    "reflection". The ends of coordinates are the edges of the outer elements, with `align_corners` their middles.
    """
    attrs = {"interpolation_mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    return dispatch("grid_sample", input, grid, **attrs)


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """The grid for `grid_sample` by affine matrices of shape `[batch, 2, 3]` (images) or `[batch, 3, 4]` (volumes)."""
    return dispatch("affine_grid", theta, size=list(size), align_corners=align_corners)


def deform_conv2d(
    input: Any,
    offset: Any,
    weight: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    mask: Any = None,
) -> Tensor:
    """A convolution whose windows' elements are moved by `offset` (batch, 2 * groups * taps, sizes of the result).

    `mask` (batch, groups * taps, sizes) scales them. The groups of the offset and of the weight follow from shapes.

    Raises:
        OneFlowError: shapes do not fit.
    """
    x, moves, kernel = as_tensor(input), as_tensor(offset), as_tensor(weight)
    if x.rank != 4 or moves.rank != 4 or kernel.rank != 4 or None in (*x.shape, *moves.shape, *kernel.shape):
        raise fail(
            f"expected input, offset and weight of four static dimensions, got {x.desc}, {moves.desc}, {kernel.desc}"
        )
    sizes = {
        f"{name}_{axis}": n
        for name, value in (("stride", stride), ("pad", padding), ("dilation", dilation))
        for axis, n in zip("hw", per_dimension(value, 2, name), strict=True)
    }
    taps = kernel.shape[2] * kernel.shape[3]
    groups = {"groups": x.shape[1] // kernel.shape[1], "offset_groups": moves.shape[1] // (2 * taps)}
    given = zeros((1, 1, 1, 1), dtype=x.dtype) if mask is None else mask
    return dispatch("deform_conv2d", x, moves, kernel, bias, given, **sizes, **groups, use_mask=mask is not None)
