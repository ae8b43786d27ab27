"""Convolutions and pooling. Images are (batch, channels, spatial dimensions..), or one without a batch; sizes of
windows are one number for all spatial dimensions, or one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oneflow.frontend.core.dispatch import as_tensor, dispatch, dispatch_all
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional.dynamic_resizing import averaged
from oneflow.frontend.functional.padding import as_batch, pad
from oneflow.frontend.functional.rules import as_common, check_parameters, describe

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "conv1d", "conv2d",
    "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "max_pool1d", "max_pool2d", "max_pool3d",
]  # fmt: skip

Sizes = int | Sequence[int]
#: Sizes of which None leaves a dimension as it is.
Kept = int | Sequence[int | None] | None
_KEPT = "None leaves a dimension as it is."


def per_dimension(value: Sizes, count: int, name: str) -> tuple[int, ...]:
    """A number for each spatial dimension."""
    values = (value,) * count if isinstance(value, (int, Size)) else tuple(value)
    if len(values) == 1:
        values *= count
    if len(values) != count:
        raise fail(f"expected {name} as a number or {count} numbers, got {value!r}")
    return values


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
        if bias is not None:
            check_parameters(f"conv{spatial}d", x, input, weight, bias)
        if w.rank != spatial + 2 or None in w.shape:
            raise fail(f"expected a weight of {spatial + 2} static dimensions for conv{spatial}d, got {w.desc}")
        kernel = w.shape[2:] if data_format == "channels_first" else w.shape[1:-1]
        dilations, strides = per_dimension(dilation, spatial, "dilation"), per_dimension(stride, spatial, "stride")
        if padding == "same" and any(s != 1 for s in strides):
            raise fail(f'expected a stride of 1 with the padding "same" of conv{spatial}d, got {stride}')
        x, drop_batch = as_batch(x, spatial)
        x, before = _padded(x, padding, kernel, dilations, data_format)
        return drop_batch(dispatch(
            f"conv{spatial}d", x, w, None if bias is None else as_tensor(bias),
            filters=w.shape[0], padding_before=before, data_format=data_format, kernel_size=kernel,
            strides=strides, dilation_rate=dilations, groups=groups,
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
        return x, per_dimension(padding, len(kernel), "padding")
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


def _transposed_convolution(spatial: int) -> Callable[..., Tensor]:
    def function(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
    ) -> Tensor:
        x, w = as_common(input, weight)
        if w.rank != spatial + 2 or None in w.shape:
            raise fail(
                f"expected a weight of {spatial + 2} static dimensions for conv_transpose{spatial}d, got {w.desc}"
            )
        x, drop_batch = as_batch(x, spatial)
        lists = {
            "strides": stride, "padding_before": padding, "output_padding": output_padding, "dilation_rate": dilation,
        }  # fmt: skip
        attrs: dict[str, Any] = {name: per_dimension(value, spatial, name) for name, value in lists.items()}
        attrs |= {"kernel_size": w.shape[2:], "data_format": "channels_first", "groups": groups}
        y = dispatch(f"deconv{spatial}d", x, w, **attrs)
        return drop_batch(y if bias is None else dispatch("bias_add", y, as_tensor(bias), axis=1))

    doc = f"""Transposed convolution over {spatial} dimension{"s"[: spatial - 1]}, plus a number of `bias` per filter.

    The result is as large as the operand of a `conv{spatial}d` whose result has the sizes of `input`, plus
    `output_padding` elements, fewer than `stride`. `weight` is (channels, filters / groups, kernel..)."""
    return describe(function, f"conv_transpose{spatial}d", doc)


conv_transpose1d = _transposed_convolution(1)
conv_transpose2d = _transposed_convolution(2)
conv_transpose3d = _transposed_convolution(3)


def _pool(
    kind: str, spatial: int, x: Any, kernel_size: Sizes, stride: Sizes | None, **attrs: Any
) -> tuple[Tensor, ...]:
    kernel = per_dimension(kernel_size, spatial, "kernel_size")
    lists = {n: per_dimension(attrs.pop(n), spatial, n) for n in ("padding", "dilation") if n in attrs}
    steps = kernel if stride is None else per_dimension(stride, spatial, "stride")
    images, drop_batch = as_batch(as_tensor(x), spatial)
    if 0 in images.shape[1:]:
        raise fail(f"expected images with elements for {kind}_pool{spatial}d, got {as_tensor(x).desc}")
    results = dispatch_all(f"{kind}_pool_{spatial}d", images, kernel_size=kernel, stride=steps, **lists, **attrs)
    return tuple(map(drop_batch, results))


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

    doc = """The largest element of each window; windows are `stride` apart (by default the size of a window).

    With `return_indices` also its position (int64) over the spatial dimensions; the first of equal elements."""
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
        if divisor_override == 0:
            raise fail(f"expected divisor_override of avg_pool{spatial}d to be a number other than 0, got 0")
        divisor = {"count_include_pad": count_include_pad, "divisor_override": divisor_override or 0}
        return _pool("avg", spatial, x, kernel_size, stride, **options, **divisor)[0]

    doc = """The mean of each window; windows are `stride` apart (by default the size of a window).

    Padding counts unless `count_include_pad` is false; `divisor_override` is divided by in place of the count."""
    return describe(function, f"avg_pool{spatial}d", doc)


def _adaptive(spatial: int) -> Callable[..., Tensor]:
    def function(x: Any, output_size: Kept, data_format: str = "channels_first") -> Tensor:
        images, drop_batch = as_batch(as_tensor(x), spatial)
        sizes = images.sizes()
        parts = _windows(output_size, sizes[2:] if data_format == "channels_first" else sizes[1:-1])
        if any(isinstance(n, Size) for n in parts) and data_format == "channels_first":
            return drop_batch(averaged(images, parts))
        name = f"adaptive_avg_pool{spatial}d"
        return drop_batch(dispatch(name, images, output_size=_static(parts, output_size), data_format=data_format))

    doc = "The means of windows that cut each spatial dimension into `output_size` parts of nearly one size."
    return describe(function, f"adaptive_avg_pool{spatial}d", f"{doc} {_KEPT}")


def _windows(output_size: Kept, inside: Sequence[Any]) -> list[Any]:
    """The number of parts of each dimension."""
    entries = (output_size,) if output_size is None or isinstance(output_size, (int, Size)) else output_size
    wanted = per_dimension(entries, len(inside), "output_size")  # type: ignore[arg-type]
    return [n if n is not None else size for n, size in zip(wanted, inside, strict=True)]


def _static(parts: Sequence[Any], output_size: Kept) -> list[int]:
    """The numbers of parts.

    Raises:
        TraceError: a number is known at run time only.
    """
    if any(isinstance(n, Size) for n in parts):
        raise fail(f"expected a number in output_size for each dimension of unknown size, got {output_size}")
    return [int(n) for n in parts]


def _adaptive_max(spatial: int) -> Callable[..., Any]:
    def function(x: Any, output_size: Kept, return_indices: bool = False) -> Any:
        images, drop_batch = as_batch(as_tensor(x), spatial)
        parts = _static(_windows(output_size, images.sizes()[2:]), output_size)
        name = f"adaptive_max_pool{spatial}d"
        results = dispatch_all(name, images, output_size=parts, data_format="channels_first")
        largest, index = map(drop_batch, results)
        return (largest, index) if return_indices else largest

    doc = """The largest elements of windows that cut each dimension into `output_size` parts of nearly one size.

    With `return_indices` also their positions (int64) over the spatial dimensions; the first of equal elements."""
    return describe(function, f"adaptive_max_pool{spatial}d", f"{doc} {_KEPT}")


max_pool1d = _max_pool(1)
max_pool2d = _max_pool(2)
max_pool3d = _max_pool(3)
avg_pool1d = _avg_pool(1)
avg_pool2d = _avg_pool(2)
avg_pool3d = _avg_pool(3)
adaptive_avg_pool1d = _adaptive(1)
adaptive_avg_pool2d = _adaptive(2)
adaptive_avg_pool3d = _adaptive(3)
adaptive_max_pool1d = _adaptive_max(1)
adaptive_max_pool2d = _adaptive_max(2)
adaptive_max_pool3d = _adaptive_max(3)
