"""Transposed convolution by polyphase decomposition: one convolution for each phase of the output.

With a stride of s, every s-th element of an image is read by the same window elements: these elements are a phase.
The convolution of one phase has none of the zeros between windows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from oneflow.dialect import compute as c
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.ops.spatial import Layout, Windows
from oneflow.dialect.scalar import Expr


@dataclass(frozen=True)
class Phase:
    """Every `stride`-th element of images, from `begin` on, and the `offsets` of the window elements that read them.

    Element q of the phase is the m-th of these in window `shift` + q - `advance` * m.
    """

    begin: tuple[int, ...]
    stride: tuple[int, ...]
    offsets: tuple[range, ...]
    shift: tuple[int, ...]
    advance: tuple[int, ...]

    @property
    def kernel(self) -> tuple[int, ...]:
        """The number of window elements."""
        return tuple(map(len, self.offsets))

    @property
    def before(self) -> tuple[int, ...]:
        """The number of windows before the first that would read the first elements."""
        rows = zip(self.kernel, self.advance, self.shift, strict=True)
        return tuple(max((kernel - 1) * advance - shift, 0) for kernel, advance, shift in rows)

    def counts(self, sizes: Sequence[Size]) -> tuple[Size, ...]:
        """The number of its elements along each dimension of images of these sizes."""
        rows = zip(sizes, self.begin, self.stride, strict=True)
        return tuple((size + (stride - 1 - begin)) // stride for size, begin, stride in rows)

    def windows(self, positions: Sequence[Expr], elements: Sequence[Expr]) -> tuple[Expr, ...]:
        """The windows whose `elements` of the phase's kernel read elements of the phase."""
        rows = zip(positions, self.shift, elements, self.advance, strict=True)
        return tuple(q + shift - m * advance for q, shift, m, advance in rows)

    def filters(self, weight: Stage, layout: Layout) -> Stage:
        """The part of filters that is multiplied with the phase."""
        leading = len(weight.shape) - 1 - layout.spatial
        lead, channels, kernel = layout.split(weight.shape, leading)
        if self.kernel == kernel:
            return weight

        def element(*position: Expr) -> Expr:
            filters, channel, elements = layout.split(position, leading)
            pairs = zip(elements, self.offsets, strict=True)
            return weight[layout.arrange(filters, channel, [m * o.step + o.start for m, o in pairs])]

        return c.element_wise(layout.arrange(lead, channels, self.kernel), element, weight.dtype)


def phases_of(windows: Windows) -> list[Phase]:
    """The phases of images under windows, without phases that no window reads."""
    dimensions = range(len(windows.stride))
    axes = [[_phase(windows, axis, first) for first in _residues(windows, axis)] for axis in dimensions]
    return [Phase(*zip(*parts, strict=True)) for parts in itertools.product(*axes)]


def _residues(windows: Windows, axis: int) -> list[int]:
    """The phases along one dimension that a window reads."""
    stride, dilation = windows.stride[axis], windows.dilation[axis]
    count = min(windows.kernel[axis], stride // math.gcd(stride, dilation))
    return sorted(k * dilation % stride for k in range(count))


def _phase(windows: Windows, axis: int, residue: int) -> tuple[int, int, range, int, int]:
    """A phase along one dimension: positions of the padded image that are `residue` by the stride."""
    stride, dilation, padding = windows.stride[axis], windows.dilation[axis], windows.padding[axis]
    kernel, common = windows.kernel[axis], math.gcd(stride, dilation)
    first = next(k for k in range(kernel) if (residue - k * dilation) % stride == 0)
    offsets = range(first, kernel, stride // common)
    skipped = max(-((residue - padding) // stride), 0)
    shift = skipped + (residue - first * dilation) // stride
    return stride * skipped + residue - padding, stride, offsets, shift, dilation // common


def transposed(
    dy: Stage, weight: Stage, shape: Sequence[Size], layout: Layout, windows: Windows, dtype: DType
) -> Stage:
    """The sum of filters by the values `dy` of windows, at their positions in images of a shape, as `dtype`.

    Channels may be two dimensions, groups and channels of a group; `weight` has the groups first.
    """
    phases, (lead, channels, sizes) = phases_of(windows), layout.split(shape)
    before = tuple(map(max, zip(*(phase.before for phase in phases), strict=True)))
    wide = _around(dy, layout, windows, sizes, before)
    shapes = [layout.arrange(lead, channels, p.counts(sizes)) for p in phases]
    parts = [c.convert(_part(wide, weight, n, layout, p, before), dtype) for p, n in zip(phases, shapes, strict=True)]
    if set(windows.stride) == {1}:
        return parts[0]
    zeros, ones = [0] * len(channels), [1] * len(channels)
    strides = layout.arrange([1], ones, windows.stride)
    placed = [(part, layout.arrange([0], zeros, p.begin), strides) for part, p in zip(parts, phases, strict=True)]
    return c.place(shape, 0, placed, dtype)


def _around(dy: Stage, layout: Layout, windows: Windows, sizes: Sequence[Size], before: Sequence[int]) -> Stage:
    """Values of windows with zeros for `before` windows in front, and for all windows after that would see images."""
    lead, channels, counts = layout.split(dy.shape)
    rows = zip(sizes, windows.padding, windows.extent, windows.stride, before, strict=True)
    wide = [(n - 1 + p + max(p - reach, 0)) // stride + 1 + b for n, p, reach, stride, b in rows]
    if all(isinstance(n, int) for n in wide) and wide == list(counts):
        return dy
    offsets = layout.arrange([0], [0] * len(channels), before)
    return c.place(layout.arrange(lead, channels, wide), 0, [(dy, offsets)], dy.dtype)


def _part(
    dy: Stage, weight: Stage, shape: Sequence[Size], layout: Layout, phase: Phase, before: Sequence[int]
) -> Stage:
    """A phase of the images; dy has `before` windows more in front."""
    filters = phase.filters(weight, layout)
    (*_, count), _, _ = layout.split(weight.shape, len(weight.shape) - 1 - layout.spatial)

    def term(*position: Expr) -> Expr:
        at, (o, *elements) = position[: len(shape)], position[len(shape) :]
        n, (*group, channel), image = layout.split(at)
        windows = [w + b for w, b in zip(phase.windows(image, elements), before, strict=True)]
        cotangent = dy[layout.arrange(n, (*group, o), windows)]
        return cotangent * filters[layout.arrange((*group, o), (channel,), elements)]

    return c.sum_(shape, (count, *phase.kernel), term)
