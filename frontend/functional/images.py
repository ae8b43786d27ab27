"""Convolutions and pooling. Imports `shape`, `rules`.

Images are (batch, channels, spatial dimensions..), or one without a batch; sizes of windows are one number for all
spatial dimensions, or one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oneflow.frontend.dispatch import as_tensor, dispatch, dispatch_all
from oneflow.frontend.errors import fail
from oneflow.frontend.functional.rules import as_common, describe
from oneflow.frontend.functional.shape import pad, squeeze, unsqueeze
from oneflow.frontend.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "conv1d", "conv2d", "conv3d", "max_pool1d", "max_pool2d", "max_pool3d",
]  # fmt: skip

Sizes = int | Sequence[int]


def _each(value: Sizes, count: int, name: str) -> tuple[int, ...]:
    """One number per spatial dimension."""
    values = (value,) * count if isinstance(value, int) else tuple(value)
    if len(values) == 1:
        values *= count
    if len(values) != count:
        raise fail(f"expected {name} as a number or {count} numbers, got {value!r}")
    return values


def _alone(x: Tensor, spatial: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Images, a single one as a batch of its own, and what takes results out of that again."""
    if x.rank != spatial + 1:
        return x, lambda result: result
    return unsqueeze(x, 0), lambda result: squeeze(result, 0)


def _convolution(spatial: int) -> Callable[..., Tensor]:
    def function(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        data_format: str = "channels_first",
    ) -> Tensor:
        x, w = as_common(input, weight)
        if w.rank != spatial + 2 or None in w.shape:
            raise fail(f"expected a weight of {spatial + 2} static dimensions for conv{spatial}d, got {w.desc}")
        kernel = w.shape[2:] if data_format == "channels_first" else w.shape[1:-1]
        spread = _each(dilation, spatial, "dilation")
        x, taken_out = _alone(x, spatial)
        x, before = _padded(x, padding, kernel, spread, data_format)
        return taken_out(dispatch(
            f"conv{spatial}d", x, w, None if bias is None else as_tensor(bias),
            filters=w.shape[0], padding_before=before, data_format=data_format, kernel_size=kernel,
            strides=_each(stride, spatial, "stride"), dilation_rate=spread, groups=groups,
        ))  # fmt: skip

    doc = f"""Convolution over {spatial} spatial dimension{"s"[: spatial - 1]}, plus one number of `bias` per filter.

    `weight` is (filters, channels / groups, kernel..); `padding` is a number or one per dimension, "valid" for none,
    or "same" for results of the size of the images (stride 1). With data_format "channels_last" images and weights
    have their channels last. Floats of one type; f16 and bf16 are accumulated in f32."""
    return describe(function, f"conv{spatial}d", doc)


def _padded(
    x: Tensor, padding: Sizes | str, kernel: Sequence[Any], dilation: Sequence[int], data_format: str
) -> tuple[Tensor, tuple[int, ...]]:
    """The images, and the padding on both sides that is left to the operator."""
    if padding == "valid":
        return x, (0,) * len(kernel)
    if not isinstance(padding, str):
        return x, _each(padding, len(kernel), "padding")
    if padding != "same":
        raise fail(f'expected padding as numbers, "same" or "valid", got {padding!r}')
    total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if any(t % 2 for t in total):
        after = [amount for t in reversed(total) for amount in (0, t % 2)]
        x = pad(x, after if data_format == "channels_first" else [0, 0, *after])
    return x, tuple(t // 2 for t in total)


conv1d = _convolution(1)
conv2d = _convolution(2)
conv3d = _convolution(3)


def _pool(
    kind: str, spatial: int, x: Any, kernel_size: Sizes, stride: Sizes | None, **attrs: Any
) -> tuple[Tensor, ...]:
    kernel = _each(kernel_size, spatial, "kernel_size")
    lists = {n: _each(attrs.pop(n), spatial, n) for n in ("padding", "dilation") if n in attrs}
    steps = kernel if stride is None else _each(stride, spatial, "stride")
    images, taken_out = _alone(as_tensor(x), spatial)
    found = dispatch_all(f"{kind}_pool_{spatial}d", images, kernel_size=kernel, stride=steps, **lists, **attrs)
    return tuple(map(taken_out, found))


def _max_pool(spatial: int) -> Callable[..., Any]:
    def function(
        x: Any,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
        data_format: str = "channels_first",
    ) -> Any:
        options = {"padding": padding, "dilation": dilation, "ceil_mode": ceil_mode, "data_format": data_format}
        values, indices = _pool("max", spatial, x, kernel_size, stride, return_indices=return_indices, **options)
        return (values, indices) if return_indices else values

    doc = """The largest element of each window; windows are `stride` (their own size unless given) apart.

    With `return_indices` also where it is (int64), counted over the spatial dimensions; the first of equals."""
    return describe(function, f"max_pool{spatial}d", doc)


def _avg_pool(spatial: int) -> Callable[..., Tensor]:
    def function(
        x: Any,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        data_format: str = "channels_first",
    ) -> Tensor:
        options = {"padding": padding, "ceil_mode": ceil_mode, "data_format": data_format}
        divisor = {"count_include_pad": count_include_pad, "divisor_override": divisor_override or 0}
        return _pool("avg", spatial, x, kernel_size, stride, **options, **divisor)[0]

    doc = """The mean of each window; windows are `stride` (their own size unless given) apart.

    Padding counts unless `count_include_pad` is false; `divisor_override` is divided by in place of the count."""
    return describe(function, f"avg_pool{spatial}d", doc)


def _adaptive(spatial: int) -> Callable[..., Tensor]:
    def function(x: Any, output_size: Sizes, data_format: str = "channels_first") -> Tensor:
        sizes = _each(output_size, spatial, "output_size")
        images, taken_out = _alone(as_tensor(x), spatial)
        name = f"adaptive_avg_pool{spatial}d"
        return taken_out(dispatch(name, images, output_size=sizes, data_format=data_format))

    doc = "The means of windows that cut each spatial dimension into `output_size` parts of nearly one size."
    return describe(function, f"adaptive_avg_pool{spatial}d", doc)


max_pool1d = _max_pool(1)
max_pool2d = _max_pool(2)
max_pool3d = _max_pool(3)
avg_pool1d = _avg_pool(1)
avg_pool2d = _avg_pool(2)
avg_pool3d = _avg_pool(3)
adaptive_avg_pool1d = _adaptive(1)
adaptive_avg_pool2d = _adaptive(2)
adaptive_avg_pool3d = _adaptive(3)
