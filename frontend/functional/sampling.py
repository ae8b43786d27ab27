"""Images read at positions of a grid, and the inverse of pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.images import Sizes, per_dimension
from oneflow.frontend.functional.padding import as_batch
from oneflow.frontend.functional.resizing import interpolate
from oneflow.frontend.functional.rules import describe
from oneflow.frontend.functional.scattering import scatter
from oneflow.frontend.functional.shape import reshape
from oneflow.frontend.functional.source import zeros

__all__ = [
    "affine_grid",
    "deform_conv2d",
    "grid_sample",
    "interpolate_like",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "roi_align",
]


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """The grid of `grid_sample` for images of `size` (batch, channels, sizes..) that matrices `theta` move:
    `(batch, 2, 3)` for images, `(batch, 3, 4)` for volumes.
    """
    return dispatch("affine_grid", as_tensor(theta), size=tuple(size), align_corners=bool(align_corners))


def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:
    """Images `(batch, channels, sizes..)` at the positions of `grid` `(batch, sizes.., coordinates)`, from -1 to 1.

    `mode` is "bilinear", "nearest" or "bicubic". Outside of the images there are zeros, or with `padding_mode`
    "border" the nearest element, with "reflection" a mirror image.

    Raises:
        OneFlowError: a mode is another, or sizes do not fit.
    """
    modes = {"interpolation_mode": mode, "padding_mode": padding_mode}
    return dispatch("grid_sample", as_tensor(input), as_tensor(grid), **modes, align_corners=bool(align_corners))


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
    weights = zeros((1, 1, 1, 1), dtype=x.dtype) if mask is None else mask
    return dispatch("deform_conv2d", x, moves, kernel, bias, weights, **sizes, **groups, use_mask=mask is not None)


def interpolate_like(input: Any, like: Any, mode: str = "nearest", align_corners: bool | None = None) -> Tensor:
    """`interpolate` to the spatial sizes of another tensor."""
    return interpolate(input, as_tensor(like).sizes()[2:], None, mode, align_corners)


def written_at(write: Callable[..., Tensor], x: Tensor, indices: Tensor, sizes: Sequence[Any]) -> Tensor:
    """The elements of `x` at the positions `indices` of images of these sizes, zeros elsewhere.

    `write(zeros, dim, positions, elements)` is `scatter`, or `scatter_add` where positions repeat.
    """
    lead = x.sizes()[: x.rank - len(sizes)]
    flat = zeros(*lead, math.prod(sizes), dtype=x.dtype)
    elements, positions = (reshape(v, (*lead, -1)) for v in (x, indices))
    return reshape(write(flat, len(lead), positions, elements), (*lead, *sizes))


def _unpool(spatial: int) -> Callable[..., Tensor]:
    def function(
        x: Any,
        indices: Any,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        x, indices = as_tensor(x), as_tensor(indices)
        if x.rank not in (spatial + 1, spatial + 2) or indices.shape != x.shape:
            raise fail(
                f"expected a tensor of {spatial + 1} or {spatial + 2} dimensions for max_unpool{spatial}d, and "
                f"indices of its shape, got {x.desc} and {indices.desc}"
            )
        kernel, steps, borders = (
            per_dimension(value, spatial, name)
            for name, value in (("kernel_size", kernel_size), ("stride", stride or kernel_size), ("padding", padding))
        )
        sizes = x.sizes()[-spatial:]
        usual = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(sizes, steps, borders, kernel, strict=True)]
        target = usual if output_size is None else list(output_size)[-spatial:]
        if any(abs(n - u) >= s for n, u, s in zip(target, usual, steps, strict=True)):
            raise fail(f"expected an output_size less than {list(steps)} from {usual}, got {output_size}")
        if None in x.shape:
            return written_at(scatter, x, indices, target)
        windows = {"kernel_size": kernel, "stride": steps, "padding": borders}
        (images, drop_batch), (at, _) = as_batch(x, spatial), as_batch(indices, spatial)
        options = {**windows, "has_output_size": True, "output_size": (*images.shape[:2], *target)}
        return drop_batch(dispatch(f"max_unpool_{spatial}d", images, at, **options))

    return describe(
        function,
        f"max_unpool{spatial}d",
        f"The elements of `max_pool{spatial}d` at the positions `indices`, zeros elsewhere.\n\n"
        "`output_size` are the sizes before the pooling, where the sizes after the pooling are ambiguous.",
    )


max_unpool1d, max_unpool2d, max_unpool3d = (_unpool(n) for n in (1, 2, 3))


def roi_align(
    x: Any,
    rois: Any,
    spatial_scale: float,
    pooled_h: int,
    pooled_w: int,
    sampling_ratio: int,
    aligned: bool = False,
) -> Tensor:
    """Means of parts of images `(images, channels, h, w)`, one of `(channels, pooled_h, pooled_w)` for each row of
    `rois`: the index of an image, and the corners x1, y1, x2, y2, which `spatial_scale` multiplies.

    The mean of a cell has `sampling_ratio` interpolated samples along each dimension; `aligned` moves the corners by
    half a pixel.

    Raises:
        OneFlowError: a size or `sampling_ratio` is less than 1, or an operand has another shape.
    """
    sizes = {"pooled_h": pooled_h, "pooled_w": pooled_w, "sampling_ratio": sampling_ratio}
    scale = {"spatial_scale": spatial_scale, "aligned": aligned}
    return dispatch("roi_align", as_tensor(x), as_tensor(rois), **sizes, **scale)
