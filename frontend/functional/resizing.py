"""Images in another size, and with elements moved between channels and pixels. Imports `images`, `shape`."""

from __future__ import annotations

from typing import Any

from oneflow.frontend.dispatch import as_tensor, dispatch
from oneflow.frontend.errors import fail
from oneflow.frontend.functional.images import Sizes, each
from oneflow.frontend.functional.shape import permute, reshape, transpose
from oneflow.frontend.tensor import Tensor

__all__ = [
    "channel_shuffle", "interpolate", "pixel_shuffle", "pixel_unshuffle",
]  # fmt: skip

#: The mode that interpolates linearly, for each number of spatial dimensions, and the attributes with scales.
_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
_SCALES = {
    1: ("scale_factor",),
    2: ("height_scale", "width_scale"),
    3: ("depth_scale", "height_scale", "width_scale"),
}


def interpolate(
    input: Any,
    size: Sizes | None = None,
    scale_factor: float | Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Tensor:
    """Images (batch, channels, spatial dimensions..) in the spatial sizes `size`, or `scale_factor` times their own.

    `mode` is "nearest", "linear", "bilinear" or "trilinear" as there are dimensions, which take neighbours in
    proportion, or "area", the means of windows. With `align_corners` the outermost elements lie in each other,
    otherwise the borders of the images do. With `recompute_scale_factor` positions follow from the sizes, not from
    the factor.
    """
    x = as_tensor(input)
    spatial = x.rank - 2
    linear = _LINEAR.get(spatial, "")
    if not linear:
        raise fail(f"expected images of 1 to 3 spatial dimensions for interpolate, got {x.desc}")
    if mode not in ("nearest", "area", linear):
        raise fail(f"expected mode nearest, area or {linear} for interpolate of {x.desc}, got {mode!r}")
    if (size is None) == (scale_factor is None):
        raise fail(f"expected size or scale_factor for interpolate, got {size} and {scale_factor}")
    if align_corners is not None and mode != linear:
        raise fail(f"expected no align_corners for mode {mode!r}: it is for {linear}")
    scales = [0.0] * spatial if scale_factor is None else _factors(scale_factor, spatial)
    sizes = [] if size is None else list(each(size, spatial, "size"))
    if size is None and (recompute_scale_factor or mode == "area"):
        sizes = [int(n * s) for n, s in zip(x.sizes()[2:], scales, strict=True)]
    if mode == "area":
        return dispatch(f"adaptive_avg_pool{spatial}d", x, output_size=sizes)
    corners = {"align_corners": bool(align_corners)} if mode == linear else {}
    attrs = dict(zip(_SCALES[spatial], scales, strict=True)) | corners
    return dispatch(f"upsample_{mode}_{spatial}d", x, output_size=sizes, **attrs)


def _factors(scale_factor: Any, spatial: int) -> list[float]:
    factors = [scale_factor] * spatial if isinstance(scale_factor, (int, float)) else list(scale_factor)
    if len(factors) != spatial:
        raise fail(f"expected scale_factor as a number or {spatial} numbers, got {scale_factor!r}")
    return [float(f) for f in factors]


def pixel_shuffle(input: Any, upscale_factor: int) -> Tensor:
    """Channels as pixels: `(.., c * r * r, h, w)` as `(.., c, h * r, w * r)`, where r is `upscale_factor`."""
    x, r = as_tensor(input), upscale_factor
    *lead, channels, height, width = x.sizes()
    parts = reshape(x, (-1, channels // (r * r), r, r, height, width))
    return reshape(permute(parts, 0, 1, 4, 2, 5, 3), (*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Tensor:
    """Pixels as channels: `(.., c, h * r, w * r)` as `(.., c * r * r, h, w)`, where r is `downscale_factor`."""
    x, r = as_tensor(input), downscale_factor
    *lead, channels, height, width = x.sizes()
    parts = reshape(x, (-1, channels, height // r, r, width // r, r))
    return reshape(permute(parts, 0, 1, 3, 5, 2, 4), (*lead, channels * r * r, height // r, width // r))


def channel_shuffle(input: Any, groups: int) -> Tensor:
    """Channels, dimension 1, in the order of their place in their group: `(n, g * c, ..)` seen as `(n, c, g, ..)`."""
    x = as_tensor(input)
    batch, channels, *inside = x.sizes()
    parts = reshape(x, (batch, groups, channels // groups, *inside))
    return reshape(transpose(parts, 1, 2), (batch, channels, *inside))
