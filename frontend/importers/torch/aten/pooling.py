"""Pooling and resizing of images, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import dispatch, dispatch_all
from oneflow.frontend.core.tensor import Size
from oneflow.frontend.functional.dynamic_resizing import resized
from oneflow.frontend.functional.images import per_dimension
from oneflow.frontend.functional.padding import as_batch
from oneflow.frontend.functional.sampling import written_at
from oneflow.frontend.importers.torch.aten.gradients import pulled_back, wanted
from oneflow.frontend.importers.torch.aten.indexing import scatter, scatter_add
from oneflow.frontend.importers.torch.table import aten, rows

_AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_ADAPTIVE = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
_ADAPTIVE_MAX = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}


def _gradient(function: Callable[..., Any], name: str) -> None:
    """Makes the gradient of a function with the parameters `(x, ..)` the builder of `(grad, x, ..)`."""
    aten(name)(lambda grad, x, *args: pulled_back(lambda v: function(v, *args), grad, x))


def _max_pool(spatial: int) -> Callable[..., Any]:
    def build(x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False) -> Any:
        images, drop_batch = as_batch(x, spatial)
        pooled = dispatch_all(
            f"max_pool_{spatial}d", images, **_window(spatial, kernel, stride, padding, dilation, ceil)
        )
        return list(map(drop_batch, pooled))

    return build


def _window(spatial: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> dict[str, Any]:
    """The attributes of a pooling operator."""
    lists = {"kernel_size": kernel, "stride": stride or kernel, "padding": padding, "dilation": dilation}
    attrs: dict[str, Any] = {name: per_dimension(value, spatial, name) for name, value in lists.items()}
    return attrs | {"ceil_mode": ceil, "return_indices": True, "data_format": "channels_first"}


def _max_pool_backward(spatial: int) -> Callable[..., Any]:
    def build(grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, at: Any) -> Any:
        operands, drop_batch = [as_batch(v, spatial)[0] for v in (x, at, grad)], as_batch(x, spatial)[1]
        window = _window(spatial, kernel, stride, padding, dilation, ceil)
        return drop_batch(dispatch(f"max_pool_{spatial}d_grad", *operands, **window))

    return build


def _average_pool(spatial: int) -> Callable[..., Any]:
    return lambda x, kernel, stride=(), *rest: _AVERAGE[spatial](x, kernel, stride or None, *rest)


aten("max_unpool2d.default", "max_unpool3d.default")(lambda x, at, size, *_: written_at(scatter, x, at, size))
for _spatial in (2, 3):
    aten(f"adaptive_max_pool{_spatial}d_backward.default")(
        lambda grad, x, at, _n=_spatial: written_at(scatter_add, grad, at, x.sizes()[x.rank - _n :])
    )
for _spatial in (1, 2, 3):
    aten(f"max_pool{_spatial}d_with_indices.default")(_max_pool(_spatial))
    if _spatial > 1:
        aten(f"max_pool{_spatial}d_with_indices_backward.default")(_max_pool_backward(_spatial))
    rows({
        _average_pool(_spatial): f"avg_pool{_spatial}d",
        _ADAPTIVE[_spatial]: f"adaptive_avg_pool{_spatial}d _adaptive_avg_pool{_spatial}d",
    })  # fmt: skip
    aten(f"max_pool{_spatial}d.default")(
        lambda x, kernel, stride=(), padding=0, dilation=1, ceil=False, _pool=_MAX[_spatial]: _pool(
            x, kernel, stride or None, padding, dilation, ceil_mode=ceil
        )
    )
    aten(f"adaptive_max_pool{_spatial}d.default")(
        lambda x, size, _pool=_ADAPTIVE_MAX[_spatial]: list(_pool(x, size, True))
    )
    if _spatial > 1:
        _gradient(_average_pool(_spatial), f"avg_pool{_spatial}d_backward.default")
        aten(f"_adaptive_avg_pool{_spatial}d_backward.default")(
            lambda grad, x, _pool=_ADAPTIVE[_spatial], _n=_spatial: pulled_back(
                lambda v: _pool(v, grad.sizes()[grad.rank - _n :]), grad, x
            )
        )


def _resize(mode: str, has_corners: bool, spatial: int) -> Callable[..., Any]:
    """The builder of `upsample_*.vec`: sizes or factors."""

    def build(x: Any, size: Any, *rest: Any) -> Any:
        corners, factors = (rest if has_corners else (None, *rest)) if rest else (None, None)
        target = {"size": size} if size is not None else {"scale_factor": factors}
        return F.interpolate(x, **target, mode=mode, **({"align_corners": corners} if has_corners else {}))

    return build


def _resize_sizes(mode: str, has_corners: bool, spatial: int) -> Callable[..., Any]:
    """The builder of `upsample_*.default`: sizes, and factors by which positions are computed."""

    def build(x: Any, size: Any, *rest: Any) -> Any:
        corners, factors = (rest[0], rest[1:]) if has_corners else (None, rest)
        scales = [f or 0.0 for f in (*factors, *[None] * spatial)][:spatial]
        if any(isinstance(n, Size) for n in size):
            return resized(x, size, scales, mode, bool(corners))
        attrs = dict(zip(_SCALES[spatial], scales, strict=True)) | ({"align_corners": corners} if has_corners else {})
        name = f"upsample_{mode.replace('-', '_')}_{spatial}d"
        return dispatch(name, x, output_size=size, data_format="channels_first", **attrs)

    return build


_SCALES = {
    1: ("scale_factor",),
    2: ("height_scale", "width_scale"),
    3: ("depth_scale", "height_scale", "width_scale"),
}
#: The modes of resizing: ATen's name, this library's, whether corners may be aligned, the spatial dimensions.
_MODES: list[tuple[str, str, bool, int]] = [
    ("upsample_nearest1d", "nearest", False, 1), ("upsample_nearest2d", "nearest", False, 2),
    ("upsample_nearest3d", "nearest", False, 3), ("_upsample_nearest_exact1d", "nearest-exact", False, 1),
    ("_upsample_nearest_exact2d", "nearest-exact", False, 2),
    ("_upsample_nearest_exact3d", "nearest-exact", False, 3),
    ("upsample_linear1d", "linear", True, 1), ("upsample_bilinear2d", "bilinear", True, 2),
    ("upsample_trilinear3d", "trilinear", True, 3), ("upsample_bicubic2d", "bicubic", True, 2),
]  # fmt: skip


def _resize_backward(forward: Callable[..., Any], spatial: int) -> Callable[..., Any]:
    def build(grad: Any, size: Any, input_size: Any, *rest: Any) -> Any:
        return pulled_back(lambda v: forward(v, size, *rest), grad, F.zeros(input_size, dtype=grad.dtype))

    return build


for _name, _mode, _has_corners, _spatial in _MODES:
    aten(f"{_name}.vec")(_resize(_mode, _has_corners, _spatial))
    aten(f"{_name}.default")(_by_sizes := _resize_sizes(_mode, _has_corners, _spatial))
    aten(f"{_name}_backward.default")(_resize_backward(_by_sizes, _spatial))

rows({F.pixel_shuffle: "pixel_shuffle", F.pixel_unshuffle: "pixel_unshuffle", F.channel_shuffle: "channel_shuffle"})
aten("im2col.default")(F.unfold)


@aten("col2im.default")
def fold(x: Any, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Sums of blocks; of dynamic sizes, the gradient of the images by their blocks."""
    windows = kernel, dilation, padding, stride
    if None not in x.shape and not any(isinstance(n, Size) for n in size):
        return F.fold(x, size, *windows)
    *batch, columns, _ = x.sizes()
    images = F.zeros((*batch, columns // math.prod(kernel), *size), dtype=x.dtype)
    return pulled_back(lambda v: F.unfold(v, *windows), x, images)


#: The numbers by which ATen names how images are read between and outside of their elements.
_BETWEEN, _OUTSIDE = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@aten("grid_sampler_2d.default", "grid_sampler_3d.default", "grid_sampler.default")
def grid_sample(x: Any, grid: Any, between: int, outside: int, corners: bool) -> Any:
    return F.grid_sample(x, grid, _BETWEEN[between], _OUTSIDE[outside], corners)


@aten("grid_sampler_2d_backward.default", "grid_sampler_3d_backward.default")
def grid_sample_backward(grad: Any, x: Any, grid: Any, between: int, outside: int, corners: bool, mask: Any) -> Any:
    grads = pulled_back(lambda v, g: grid_sample(v, g, between, outside, corners), grad, x, grid)
    return wanted(grads, mask)
