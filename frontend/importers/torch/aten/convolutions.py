"""Convolutions."""

from __future__ import annotations

from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.importers.torch.table import aten, rows
from oneflow.frontend.tracing.autograd import vjp

_FORWARD = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}

rows({
    F.conv1d: "conv1d conv1d.padding", F.conv2d: "conv2d conv2d.padding", F.conv3d: "conv3d conv3d.padding",
    F.conv_transpose1d: "conv_transpose1d", F.conv_transpose2d: "conv_transpose2d.input",
    F.conv_transpose3d: "conv_transpose3d.input",
})  # fmt: skip


@aten("convolution.default")
def convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any,
    groups: int,
) -> Any:  # fmt: skip
    spatial = weight.rank - 2
    if transposed:
        return _TRANSPOSED[spatial](x, weight, bias, stride, padding, output_padding, groups, dilation)
    return _FORWARD[spatial](x, weight, bias, stride, padding, dilation, groups)


@aten("convolution_backward.default")
def convolution_backward(
    grad: Any, x: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, output_mask: Any,
) -> Any:  # fmt: skip
    options = (stride, padding, dilation, transposed, output_padding, groups)
    pull_back = vjp(lambda v, w: convolution(v, w, None, *options), x, weight)[1]
    dx, dweight = pull_back(grad) if any(output_mask[:2]) else (None, None)
    channel = grad.rank - weight.rank + 1
    others = [axis for axis in range(grad.rank) if axis != channel]
    return [dx, dweight, F.sum(grad, others) if output_mask[2] else None]
