"""Images in another size, and with elements moved between channels and pixels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional.dynamic_resizing import averaged, resized
from oneflow.frontend.functional.images import Sizes, per_dimension
from oneflow.frontend.functional.indexing import getitem
from oneflow.frontend.functional.padding import as_batch, pad
from oneflow.frontend.functional.shape import permute, reshape, stack, transpose, unbind
from oneflow.frontend.functional.sizes import as_size, real, rounded

__all__ = [
    "channel_shuffle", "fold", "interpolate", "pixel_shuffle", "pixel_unshuffle", "unfold",
    "upsample",
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
    """Images (batch, channels, spatial dimensions..) in the spatial sizes `size`, or `scale_factor` times the sizes
    of the images.

    `mode` is "nearest", or "nearest-exact", which takes the element at the centre of a pixel; "linear",
    "bilinear" or "trilinear" by the number of dimensions, which interpolate between neighbours; "bicubic" for two
    dimensions, which reads four neighbours along each; or "area", the means of windows. With `align_corners` the
    outermost elements have the same centres, otherwise the images have the same borders. With
    `recompute_scale_factor` positions follow from the sizes, not from the factor.
    """
    x = as_tensor(input)
    spatial = x.rank - 2
    linear = _LINEAR.get(spatial, "")
    if not linear:
        raise fail(f"expected images of 1 to 3 spatial dimensions for interpolate, got {x.desc}")
    smooth = (linear, "bicubic") if spatial == 2 else (linear,)
    if mode not in ("nearest", "nearest-exact", "area", *smooth):
        wanted = f"nearest, nearest-exact, area or {' or '.join(smooth)}"
        raise fail(f"expected mode {wanted} for interpolate of {x.desc}, got {mode!r}")
    if (size is None) == (scale_factor is None):
        raise fail(f"expected size or scale_factor for interpolate, got {size} and {scale_factor}")
    if align_corners is not None and mode not in smooth:
        raise fail(f"expected no align_corners for mode {mode!r}: align_corners is for {' and '.join(smooth)}")
    scales = [0.0] * spatial if scale_factor is None else _factors(scale_factor, spatial)
    sizes = [] if size is None else [as_size(n) for n in per_dimension(size, spatial, "size")]
    if size is None and (recompute_scale_factor or mode == "area"):
        sizes = [rounded("floor", real("*", n, s)) for n, s in zip(x.sizes()[2:], scales, strict=True)]
        scales = [0.0] * spatial
    if any(isinstance(n, Size) for n in sizes):
        return averaged(x, sizes) if mode == "area" else resized(x, sizes, scales, mode, bool(align_corners))
    if mode == "area":
        return dispatch(f"adaptive_avg_pool{spatial}d", x, output_size=sizes, data_format="channels_first")
    corners = {"align_corners": bool(align_corners)} if mode in smooth else {}
    attrs = dict(zip(_SCALES[spatial], scales, strict=True)) | corners | {"data_format": "channels_first"}
    return dispatch(f"upsample_{mode.replace('-', '_')}_{spatial}d", x, output_size=sizes, **attrs)


def _factors(scale_factor: Any, spatial: int) -> list[float]:
    factors = [scale_factor] * spatial if isinstance(scale_factor, (int, float)) else list(scale_factor)
    if len(factors) != spatial:
        raise fail(f"expected scale_factor as a number or {spatial} numbers, got {scale_factor!r}")
    return [float(f) for f in factors]


def pixel_shuffle(
    input: Any,
    upscale_factor: int | None = None,
    h_upscale_factor: int | None = None,
    w_upscale_factor: int | None = None,
) -> Tensor:
    """Channels as pixels: `(.., c * r * s, h, w)` as `(.., c, h * r, w * s)`, where r and s are `upscale_factor`, or
    one for each dimension.
    """
    x = as_tensor(input)
    r, s = (upscale_factor if n is None else n for n in (h_upscale_factor, w_upscale_factor))
    if r is None or s is None or r < 1 or s < 1:
        raise fail(f"expected upscale_factor, or one of height and of width, of at least 1, got {r} and {s}")
    if x.rank < 3 or (x.shape[-3] or 0) % (r * s):
        raise fail(f"expected images of channels that {r} * {s} divides for pixel_shuffle, got {x.desc}")
    *lead, channels, height, width = x.sizes()
    parts = reshape(x, (math.prod(lead), channels // (r * s), r, s, height, width))
    return reshape(permute(parts, 0, 1, 4, 2, 5, 3), (*lead, channels // (r * s), height * r, width * s))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Tensor:
    """Pixels as channels: `(.., c, h * r, w * r)` as `(.., c * r * r, h, w)`, where r is `downscale_factor`."""
    x, r = as_tensor(input), downscale_factor
    *lead, channels, height, width = x.sizes()
    parts = reshape(x, (math.prod(lead), channels, height // r, r, width // r, r))
    return reshape(permute(parts, 0, 1, 3, 5, 2, 4), (*lead, channels * r * r, height // r, width // r))


def channel_shuffle(input: Any, groups: int) -> Tensor:
    """Channels, dimension 1, in the order of their position in their group: `(n, g * c, ..)` seen as `(n, c, g,
    ..)`.
    """
    x = as_tensor(input)
    batch, channels, *inside = x.sizes()
    parts = reshape(x, (batch, groups, channels // groups, *inside))
    return reshape(transpose(parts, 1, 2), (batch, channels, *inside))


@dataclass(frozen=True)
class _Blocks:
    """The positions of sliding blocks in images."""

    kernel: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    stride: tuple[int, ...]

    @classmethod
    def of(cls, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> _Blocks:
        numbers = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
        return cls(*(per_dimension(value, 2, name) for name, value in numbers.items()))

    def counts(self, sizes: Sequence[Any]) -> list[Any]:
        """The number of blocks along each dimension of padded images."""
        rows = zip(sizes, self.kernel, self.dilation, self.stride, strict=True)
        return [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in rows]

    def slices(self, counts: Sequence[Any]) -> list[list[tuple[Any, Any, int]]]:
        """For each element of a block, its positions in all blocks: (start, stop, step) along each dimension."""
        rows = [range(0, k * d, d) for k, d in zip(self.kernel, self.dilation, strict=True)]
        return [
            [(b, b + (n - 1) * s + 1, s) for b, n, s in zip(begins, counts, self.stride, strict=True)]
            for begins in itertools.product(*rows)
        ]

    def border(self, sign: int) -> list[int]:
        """The padding in the form of `pad`."""
        height, width = (sign * p for p in self.padding)
        return [width, width, height, height]


def unfold(input: Any, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """Blocks that slide over images, as columns: from `(n, c, h, w)` to `(n, c * elements of a block, blocks)`."""
    blocks = _Blocks.of(kernel_size, dilation, padding, stride)
    x, drop_batch = as_batch(as_tensor(input), 2)
    x = pad(x, blocks.border(1))
    batch, channels, *sizes = x.sizes()
    counts = blocks.counts(sizes)
    every = slice(None)
    parts = [getitem(x, (every, every, *(slice(*triple) for triple in at))) for at in blocks.slices(counts)]
    return drop_batch(reshape(stack(parts, 2), (batch, channels * len(parts), counts[0] * counts[1])))


def fold(
    input: Any,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Images of the sizes `output_size` that are the sums of blocks, which are columns as from `unfold`."""
    blocks = _Blocks.of(kernel_size, dilation, padding, stride)
    x = as_tensor(input)
    x, drop_batch = as_batch(x, 1)
    count = math.prod(blocks.kernel)
    wide = [n + 2 * p for n, p in zip(per_dimension(output_size, 2, "output_size"), blocks.padding, strict=True)]
    counts = blocks.counts(wide)
    if x.rank != 3 or None in x.shape or x.shape[1] % count or x.shape[2] != counts[0] * counts[1]:
        wanted = f"(batch, multiple of {count}, {counts[0] * counts[1]})"
        raise fail(f"expected {wanted} of static sizes for fold, got {x.desc}")
    batch, channels = x.shape[0], x.shape[1] // count
    parts = unbind(reshape(x, (batch, channels, count, *counts)), 2)
    shape, placed = [batch, channels, *wide], []
    for part, at in zip(parts, blocks.slices(counts), strict=True):
        start, stop, step = zip((0, batch, 1), (0, channels, 1), *at, strict=True)
        placed.append(dispatch("slice_grad", part, like_shape=shape, start=start, stop=stop, step=step))
    image = placed[0] if count == 1 else dispatch("add_n", placed)
    return drop_batch(pad(image, blocks.border(-1)))


def upsample(
    input: Any,
    size: Sizes | None = None,
    scale_factor: float | Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate`, under PyTorch's older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)
