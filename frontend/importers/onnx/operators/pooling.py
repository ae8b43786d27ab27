"""Pooling: windows of padded images."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.host import expect_small
from oneflow.frontend.importers.onnx.operators.convolution import borders
from oneflow.frontend.importers.onnx.operators.shape import padded
from oneflow.frontend.importers.onnx.table import builder
from oneflow.frontend.importers.onnx.types import limits

#: The most elements of a window of which each is a slice of the images.
MAX_PARTS = 4096
_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


@dataclass(frozen=True)
class Windows:
    """Windows over images, with a border that every window fits in.

    Attributes:
        around: the padding that the model asks for, before and after each spatial dimension.
        further: the additional padding at the end, where sizes of results are rounded up.
    """

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    around: list[tuple[Any, Any]]
    further: list[Any]

    @classmethod
    def of(
        cls,
        x: Tensor,
        kernel: Sequence[int],
        strides: Sequence[int] | None,
        dilations: Sequence[int] | None,
        pads: Sequence[int] | None,
        auto_pad: str,
        ceil_mode: int,
    ) -> Windows:
        """The windows that attributes describe."""
        count = len(kernel)
        if x.rank != count + 2:
            raise OnnxError(f"expected images of {count} spatial dimensions for windows {list(kernel)}, got {x.desc}")
        stride, dilation = strides or [1] * count, dilations or [1] * count
        padding = borders(x.sizes()[2:], kernel, stride, dilation, pads, auto_pad)
        extra: list[Any] = [0] * count
        if ceil_mode:
            rows = enumerate(zip(x.sizes()[2:], kernel, stride, dilation, padding, strict=True))
            for i, (size, k, s, d, (before, after)) in rows:
                if isinstance(size, Size):
                    raise OnnxError(f"expected static spatial sizes for ceil_mode, got {x.desc}")
                free = size + before + after - d * (k - 1) - 1
                number = -(-free // s)
                number -= number * s >= size + before
                extra[i] = max(number * s - free, 0)
        return cls(kernel, stride, dilation, padding, extra)

    @property
    def is_plain(self) -> bool:
        """Whether the pooling of the functional API has the same windows."""
        halves = all(a == b and 2 * a <= k for (a, b), k in zip(self.around, self.kernel, strict=True))
        return halves and not any(self.further)

    def framed(self, x: Tensor, value: Any) -> Tensor:
        """Images with a border of one value."""
        pairs = [(a, b + more) for (a, b), more in zip(self.around, self.further, strict=True)]
        return padded(x, [(0, 0), (0, 0), *pairs]) if value == 0 else padded(x, [(0, 0), (0, 0), *pairs], value)

    def parts(self, framed: Tensor) -> list[Tensor]:
        """For each element of a window, its positions in all windows."""
        parts = []
        if math.prod(self.kernel) > MAX_PARTS:
            raise OnnxError(f"expected windows of at most {MAX_PARTS} elements, got {list(self.kernel)}")
        for offsets in itertools.product(*map(range, self.kernel)):
            rows = zip(offsets, framed.sizes()[2:], self.kernel, self.strides, self.dilations, strict=True)
            cuts = [slice(o * d, n - (k - 1 - o) * d, s) for o, n, k, s, d in rows]
            parts.append(F.getitem(framed, (slice(None), slice(None), *cuts)))
        return parts


@builder("MaxPool")
def _max_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    storage_order: int = 0,
    strides: list[int] | None = None,
    node: Any,
) -> Any:
    windows = Windows.of(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    pool, spatial = _MAX[len(kernel_shape)], len(kernel_shape)
    padding, images = [0] * spatial, x
    if windows.is_plain:
        padding = [before for before, _ in windows.around]
    else:
        images = windows.framed(x, _least(x))
    options = {"stride": windows.strides, "padding": padding, "dilation": windows.dilations}
    if not node.asks_for(1):
        return pool(images, windows.kernel, **options)
    values, positions = pool(images, windows.kernel, return_indices=True, **options)
    return values, _counted(positions, x, images, windows, storage_order)


def _least(x: Tensor) -> Any:
    return float("-inf") if x.dtype.is_float else limits(x.dtype)[0]


def _counted(positions: Tensor, x: Tensor, images: Tensor, windows: Windows, storage_order: int) -> Tensor:
    """Positions in framed images as positions in whole tensors; `storage_order` 1 counts columns first."""
    sizes, inside = x.sizes()[2:], images.sizes()[2:]
    coordinates: list[Tensor] = []
    rest = positions
    for size in reversed(inside):
        coordinates.insert(0, F.remainder(rest, size))
        rest = F.floor_divide(rest, size)
    if images is not x:
        coordinates = [F.sub(p, before) for p, (before, _) in zip(coordinates, windows.around, strict=True)]
    order = range(len(sizes)) if not storage_order else reversed(range(len(sizes)))
    flat: Any = 0
    for i in order:
        flat = F.add(F.mul(flat, sizes[i]), coordinates[i]) if not isinstance(flat, int) else coordinates[i]
    plane = functools.reduce(lambda a, b: a * b, sizes, 1)
    image = F.reshape(F.arange(x.size(0) * x.size(1)), (x.size(0), x.size(1), *[1] * len(sizes)))
    return F.add(flat, F.mul(image, plane))


@builder("AveragePool")
def _average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    windows = Windows.of(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    if windows.is_plain and set(windows.dilations) == {1}:
        padding = [before for before, _ in windows.around]
        return _AVERAGE[len(kernel_shape)](
            x, windows.kernel, windows.strides, padding, count_include_pad=bool(count_include_pad)
        )
    total = functools.reduce(F.add, windows.parts(windows.framed(x, 0)))
    ones = F.ones(1, 1, *x.sizes()[2:], dtype=x.dtype)
    if count_include_pad:
        ones = padded(ones, [(0, 0), (0, 0), *windows.around], 1)
        bare = Windows(windows.kernel, windows.strides, windows.dilations, [(0, 0)] * (x.rank - 2), windows.further)
        return F.div(total, functools.reduce(F.add, bare.parts(bare.framed(ones, 0))))
    return F.div(total, functools.reduce(F.add, windows.parts(windows.framed(ones, 0))))


@builder("LpPool")
def _lp_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    p: float = 2,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    windows = Windows.of(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    powers = F.pow(F.abs(windows.framed(x, 0)), float(p))
    return F.pow(functools.reduce(F.add, windows.parts(powers)), 1 / p)


def _inside(x: Tensor) -> list[int]:
    return list(range(2, x.rank))


@builder("GlobalAveragePool")
def _global_average_pool(x: Tensor) -> Tensor:
    return F.mean(x, _inside(x), True)


@builder("GlobalMaxPool")
def _global_max_pool(x: Tensor) -> Tensor:
    return F.amax(x, _inside(x), True)


@builder("GlobalLpPool")
def _global_lp_pool(x: Tensor, *, p: float = 2) -> Tensor:
    return F.norm(x, float(p), _inside(x), True)


@builder("Col2Im", known="image_shape block_shape")
def _col2im(
    x: Tensor,
    image_shape: np.ndarray,
    block_shape: np.ndarray,
    *,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Sums of blocks at their positions: each column of `x` is a block."""
    image, block = [int(n) for n in image_shape], [int(n) for n in block_shape]
    count = len(image)
    stride, dilation, border = strides or [1] * count, dilations or [1] * count, pads or [0] * (2 * count)
    wide = [n + a + b for n, a, b in zip(image, border[:count], border[count:], strict=True)]
    numbers = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(wide, block, stride, dilation, strict=True)]
    expect_small(math.prod([*block, *numbers]), "elements of blocks")
    grid = np.zeros((*block, *numbers), np.int64)
    for axis in range(count):
        element = np.arange(block[axis]) * dilation[axis]
        first = np.arange(numbers[axis]) * stride[axis]
        positions_of_axis = np.add.outer(element, first)
        shape = [1] * (2 * count)
        shape[axis], shape[count + axis] = positions_of_axis.shape
        grid = grid * wide[axis] + positions_of_axis.reshape(shape)
    n, rows = (int(d or 0) for d in x.shape[:2])
    channels = rows // int(np.prod(block))
    flat = F.permute(F.reshape(x, (n * channels, grid.size)), 1, 0)
    total = dispatch(
        "unsorted_segment_sum", flat, as_tensor(grid.reshape(-1)), axis=0, num_segments=int(np.prod(wide))
    )
    folded = F.reshape(F.permute(total, 1, 0), (n, channels, *wide))
    cuts = [(-a, -b) for a, b in zip(border[:count], border[count:], strict=True)]
    return padded(folded, [(0, 0), (0, 0), *cuts])
