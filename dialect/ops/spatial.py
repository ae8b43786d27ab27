"""Batches of images: positions of channels and spatial dimensions, and windows that move over the latter.

Convolution and pooling share this. Positions are affine: window element k of window i is at stride * i +
dilation * k of the padded image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.record import Call
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_rank
from oneflow.dialect.tensor_desc import Dim, TensorDesc

FORMATS = ("channels_first", "channels_last")


@dataclass(frozen=True)
class Layout:
    """The order of dimensions: batch, then channels and `spatial` dimensions, channels `first` or last."""

    spatial: int
    first: bool

    def arrange(self, lead: Sequence[Any], channels: Sequence[Any], spatial: Sequence[Any]) -> tuple[Any, ...]:
        """Sizes, positions or names in this order."""
        return (*lead, *channels, *spatial) if self.first else (*lead, *spatial, *channels)

    def split(self, items: Sequence[Any], lead: int = 1) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        """The inverse of `arrange`: the first `lead` items, the channels, the spatial items."""
        head, rest = tuple(items[:lead]), tuple(items[lead:])
        channels = len(rest) - self.spatial
        return (
            (head, rest[:channels], rest[channels:])
            if self.first
            else (head, rest[self.spatial :], rest[: self.spatial])
        )

    @property
    def channel(self) -> int:
        """The dimension of the channels."""
        return 1 if self.first else self.spatial + 1


def layout_of(op: Call, spatial: int) -> Layout:
    """The layout that `data_format` says.

    Raises:
        OperatorError: the format is unknown.
    """
    if op.data_format not in FORMATS:
        raise op.error(f"expected data_format channels_first or channels_last, got {op.data_format!r}")
    return Layout(spatial, op.data_format == "channels_first")


def expect_images(op: Call, name: str, desc: TensorDesc, spatial: int) -> None:
    """Checks the rank of a batch of images.

    Raises:
        OperatorError: the dimensions are not a batch, channels and `spatial` dimensions.
    """
    expect_rank(op, name, desc, spatial + 2)


@dataclass(frozen=True)
class Windows:
    """Windows of `kernel` elements, at the distance `dilation`, that move by `stride` over images padded by
    `padding`.

    With `ceil` a last window may extend beyond the end, if it begins inside the image or before it.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    ceil: bool = False

    @property
    def extent(self) -> tuple[int, ...]:
        """The offset of a window's last element from its first, in each dimension."""
        return tuple(d * (k - 1) for d, k in zip(self.dilation, self.kernel, strict=True))

    def counts(self, sizes: Sequence[Any]) -> tuple[Any, ...]:
        """The number of windows along each dimension of images of these sizes; None for None."""
        return tuple(None if size is None else self._count(axis, size) for axis, size in enumerate(sizes))

    def least(self, axis: int) -> int:
        """The least size of an image along a dimension in which one window fits."""
        smallest = self.extent[axis] + 1 - 2 * self.padding[axis]
        if not self.ceil:
            return max(smallest, 0)
        return max(smallest - self.stride[axis] + 1, 1 - self.padding[axis], 0)

    def tile(self, sizes: Sequence[Any]) -> bool:
        """Whether images of these sizes are known to be divided into adjacent windows."""
        packed = self.stride == self.kernel and not any(self.padding) and set(self.dilation) <= {1}
        return packed and all(isinstance(n, int) and n % k == 0 for n, k in zip(sizes, self.kernel, strict=True))

    def _count(self, axis: int, size: Size) -> Size:
        stride, padding = self.stride[axis], self.padding[axis]
        if isinstance(size, Expr):
            size = s.at_least(
                size, self.least(axis), f"spatial dimension {axis} of the image, which is smaller than a window"
            )
        last_begin = size + (2 * padding - self.extent[axis] - 1)
        if not self.ceil:
            return last_begin // stride + 1
        return c.min_size((last_begin + (stride - 1)) // stride + 1, (size + (padding - 1)) // stride + 1)

    def inside(self, windows: Sequence[Any], offsets: Sequence[Any]) -> tuple[Any, ...]:
        """Positions in the padded image of elements `offsets` of `windows`."""
        pairs = zip(windows, self.stride, offsets, self.dilation, strict=True)
        return tuple(i * stride + k * dilation for i, stride, k, dilation in pairs)

    @property
    def max_overlap(self) -> tuple[int, ...]:
        """How many windows an element of an image can be in, in each dimension."""
        return tuple(reach // stride + 1 for reach, stride in zip(self.extent, self.stride, strict=True))

    def covering(self, positions: Sequence[Any], numbers: Sequence[Any]) -> tuple[Any, ...]:
        """Indices into the result of `bordered`: the windows that read positions of the image, the last first."""
        pairs = zip(positions, self.padding, self.stride, self.max_overlap, numbers, strict=True)
        return tuple((i + padding) // stride + (most - 1) - k for i, padding, stride, most, k in pairs)

    def bordered(self, y: Stage, layout: Layout, sizes: Sequence[Size], fill: float) -> Stage:
        """Values of windows with `fill` before and after them, for windows outside of the result of `covering`."""
        lead, channels, _ = layout.split(y.shape)
        rows = zip(sizes, self.padding, self.stride, self.max_overlap, strict=True)
        wide = [(n - 1 + padding) // stride + most for n, padding, stride, most in rows]
        offsets = layout.arrange([0], [0] * len(channels), [most - 1 for most in self.max_overlap])
        return c.place(layout.arrange(lead, channels, wide), fill, [(y, offsets)], y.dtype)

    @property
    def has_partial_overlap(self) -> bool:
        """Whether some of the windows of `covering` end before the position."""
        return any((reach + 1) % stride for reach, stride in zip(self.extent, self.stride, strict=True))

    def covers(self, positions: Sequence[Any], numbers: Sequence[Any]) -> Expr:
        """Whether the windows of `covering` end at positions of the image or after."""
        inside = s.const(True, dtypes.bool_)
        rows = zip(positions, self.padding, self.stride, self.extent, numbers, strict=True)
        for i, padding, stride, reach, k in rows:
            inside = inside & ((i + padding) % stride + k * stride <= reach)
        return inside

    def padded(self, x: Stage, layout: Layout, fill: float) -> Stage:
        """Images with `fill` around them, as far as windows reach."""
        hang = [stride - 1 if self.ceil else 0 for stride in self.stride]
        if not any(self.padding) and not any(hang):
            return x
        lead, channels, sizes = layout.split(x.shape)
        wide = [n + (2 * p + more) for n, p, more in zip(sizes, self.padding, hang, strict=True)]
        offsets = layout.arrange([0], [0] * len(channels), self.padding)
        return c.place(layout.arrange(lead, channels, wide), fill, [(x, offsets)], x.dtype)


def expect_windows(op: Call, spatial: int, least: dict[str, int]) -> None:
    """Checks lists of numbers, one for each spatial dimension; `least` gives names and smallest values.

    Raises:
        OperatorError: a list is of another length, or a number too small.
    """
    for name, smallest in least.items():
        values = list(op[name])
        if len(values) != spatial:
            raise op.error(f"expected {spatial} numbers in {name}, got {values}")
        if any(v < smallest for v in values):
            raise op.error(f"expected numbers of at least {smallest} in {name}, got {values}")


def expect_window_fits(op: Call, windows: Windows, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The number of windows along each dimension.

    Raises:
        OperatorError: an image is smaller than one window.
    """
    for axis, size in enumerate(sizes):
        if size is not None and size < windows.least(axis):
            raise op.error(f"expected spatial sizes of at least {windows.least(axis)}, got {size}")
    return windows.counts(sizes)


def channels_first(x: Any, data_format: str) -> Any:
    """A NumPy array with its channels moved to dimension 1."""
    return x if data_format == "channels_first" else np.moveaxis(x, -1, 1)


def channels_back(x: Any, data_format: str) -> Any:
    """The opposite of `channels_first`."""
    return x if data_format == "channels_first" else np.moveaxis(x, 1, -1)


def numpy_groups(x: Any, groups: int, axis: int) -> Any:
    """A dimension as groups and channels of a group."""
    return x.reshape(*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :])


def numpy_windows(
    counts: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """For each element of a window, the slices of padded images with this element of all windows."""
    for k in np.ndindex(*kernel):
        boxes = zip(k, counts, stride, dilation, strict=True)
        yield k, (..., *(slice(i * d, i * d + n * s, s) for i, n, s, d in boxes))
