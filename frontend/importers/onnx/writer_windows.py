"""The rows of the writer's table for operators with windows: convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.writer_table import channels_first, row


@row("conv1d", "conv2d", "conv3d")
def _conv(w: Any, c: Any) -> Any:
    channels_first(c)
    pads = list(c.attrs["padding_before"])
    result = w.node(
        "Conv", c.inputs["in"], c.weight, c.inputs.get("bias"), kernel_shape=list(c.attrs["kernel_size"]),
        strides=list(c.attrs["strides"]), dilations=list(c.attrs["dilation_rate"]), group=c.attrs["groups"],
        pads=[*pads, *pads],
    )  # fmt: skip
    return result if c.inputs.get("_add_to_output") is None else w.node("Add", result, c.inputs["_add_to_output"])


@row("deconv1d", "deconv2d", "deconv3d")
def _deconv(w: Any, c: Any) -> Any:
    channels_first(c)
    pads = list(c.attrs["padding_before"])
    return w.node(
        "ConvTranspose", c.inputs["in"], c.weight, kernel_shape=list(c.attrs["kernel_size"]),
        strides=list(c.attrs["strides"]), dilations=list(c.attrs["dilation_rate"]), group=c.attrs["groups"],
        pads=[*pads, *pads], output_padding=list(c.attrs["output_padding"]),
    )  # fmt: skip


def _ceil_mode(w: Any, c: Any, dilation: Sequence[int]) -> int:
    """The `ceil_mode` for which ONNX counts the windows of the result.

    With it, ONNX keeps a last window that begins after the end of the image, which the dialect omits.
    """
    modes = {1, 0} if c.attrs["ceil_mode"] else {0}
    counts = c.y.shape[2:]
    rows = zip(
        w.desc(c.x).shape[2:], counts, c.attrs["kernel_size"], c.attrs["stride"], c.attrs["padding"], dilation,
        strict=True,
    )  # fmt: skip
    for size, count, kernel, stride, pad, step in rows:
        reach = step * (kernel - 1) + 1
        if size is not None and count is not None:
            last = size + 2 * pad - reach
            modes &= {mode for mode in (1, 0) if count == (-(-last // stride) if mode else last // stride) + 1}
        elif c.attrs["ceil_mode"]:
            modes &= {1} if pad + stride <= reach else set()
    if not modes:
        raise OnnxError(f"expected {list(counts)} windows by some ceil_mode of ONNX, got none of {w.desc(c.x)}")
    return max(modes)


@row("max_pool_1d", "max_pool_2d", "max_pool_3d")
def _max_pool(w: Any, c: Any) -> Any:
    channels_first(c)
    if c.attrs["return_indices"]:
        raise OnnxError("positions of the largest elements are not written")
    pads = list(c.attrs["padding"])
    return w.node(
        "MaxPool", c.x, kernel_shape=list(c.attrs["kernel_size"]), strides=list(c.attrs["stride"]),
        pads=[*pads, *pads], dilations=list(c.attrs["dilation"]), ceil_mode=_ceil_mode(w, c, c.attrs["dilation"]),
    )  # fmt: skip


@row("avg_pool_1d", "avg_pool_2d", "avg_pool_3d")
def _avg_pool(w: Any, c: Any) -> Any:
    channels_first(c)
    if c.attrs["divisor_override"]:
        raise OnnxError("a divisor other than the number of elements is not written")
    pads = list(c.attrs["padding"])
    return w.node(
        "AveragePool", c.x, kernel_shape=list(c.attrs["kernel_size"]), strides=list(c.attrs["stride"]),
        pads=[*pads, *pads], ceil_mode=_ceil_mode(w, c, [1] * len(pads)),
        count_include_pad=int(c.attrs["count_include_pad"]),
    )  # fmt: skip


@row("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def _adaptive(w: Any, c: Any) -> Any:
    channels_first(c)
    inside, parts = w.desc(c.x).shape[2:], c.attrs["output_size"]
    if set(parts) == {1}:
        return w.node("GlobalAveragePool", c.x)
    if any(n is None or n % p for n, p in zip(inside, parts, strict=True)):
        raise OnnxError(f"parts of several sizes ({list(inside)} into {list(parts)}) are not written")
    kernel = [n // p for n, p in zip(inside, parts, strict=True)]
    return w.node("AveragePool", c.x, kernel_shape=kernel, strides=kernel)
