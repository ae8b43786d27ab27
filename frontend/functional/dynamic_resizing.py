"""Resizing images to sizes that are known at run time only.

Each dimension is resized by itself: a result is the weighted sum of elements at computed positions. The operators of
resizing have static sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional import sizes as sz
from oneflow.frontend.functional.gathering import index_select
from oneflow.frontend.functional.reduction import sum as sum_of
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.functional.source import arange, full

#: The coefficient of cubic interpolation, as in PyTorch.
_CUBIC = -0.75


class Dimension(NamedTuple):
    """How a dimension is resized.

    `wanted` is the size of the result, `factor` a factor of the positions (0: by the sizes), `align_corners` whether
    the outermost elements of image and result have the same centres, `real` the type of positions.
    """

    size: Any
    wanted: Any
    factor: float
    align_corners: bool
    real: DType

    @property
    def indices(self) -> Tensor:
        """The indices of the results along the dimension."""
        return cast(arange(self.wanted), self.real)

    @property
    def step(self) -> Tensor:
        """The distance of two results in elements."""
        if self.align_corners:
            return e.div(self._number(self.size - 1), self._number(sz.maximum(self.wanted - 1, 1)))
        if self.factor:
            return full((), 1 / self.factor, dtype=self.real)
        return e.div(self._number(self.size), self._number(self.wanted))

    def centres(self) -> Tensor:
        """The positions of the results between the elements."""
        if self.align_corners:
            return e.mul(self.indices, self.step)
        return e.sub(e.mul(e.add(self.indices, 0.5), self.step), 0.5)

    def element(self, position: Tensor) -> Tensor:
        """The nearest element inside of the image, of a whole position."""
        return e.maximum(e.minimum(cast(position, dtypes.int64), self.size - 1), 0)

    def _number(self, size: Any) -> Tensor:
        return cast(size, self.real) if isinstance(size, Size) else full((), size, dtype=self.real)


#: Positions of elements, and their weights; without weights the elements are the results.
Tap = tuple[Tensor, Tensor | None]


def _nearest(dim: Dimension) -> list[Tap]:
    return [(dim.element(e.floor(e.mul(dim.indices, dim.step))), None)]


def _nearest_exact(dim: Dimension) -> list[Tap]:
    return [(dim.element(e.floor(e.mul(e.add(dim.indices, 0.5), dim.step))), None)]


def _linear(dim: Dimension) -> list[Tap]:
    centre = e.maximum(dim.centres(), 0.0)
    first = e.floor(centre)
    weight = e.sub(centre, first)
    return [(dim.element(first), e.sub(1.0, weight)), (dim.element(e.add(first, 1.0)), weight)]


def _cubic(dim: Dimension) -> list[Tap]:
    centre = dim.centres()
    first = e.floor(centre)
    rest = e.sub(centre, first)

    def near(x: Tensor) -> Tensor:
        return ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + 1.0

    def far(x: Tensor) -> Tensor:
        return ((x - 5.0) * x + 8.0) * x * _CUBIC - 4.0 * _CUBIC

    weights = far(rest + 1.0), near(rest), near(1.0 - rest), far(2.0 - rest)
    return [(dim.element(e.add(first, n - 1.0)), weight) for n, weight in enumerate(weights)]


_MODES: dict[str, Callable[[Dimension], list[Tap]]] = {
    "nearest": _nearest, "nearest-exact": _nearest_exact, "linear": _linear, "bilinear": _linear,
    "trilinear": _linear, "bicubic": _cubic,
}  # fmt: skip


def _column(vector: Tensor, rank: int, at: int) -> Tensor:
    """A vector along dimension `at` of tensors of a rank."""
    return sh.reshape(vector, [-1 if d == at else 1 for d in range(rank)])


def resized(x: Tensor, sizes: Sequence[Any], factors: Sequence[float], mode: str, align_corners: bool) -> Tensor:
    """Images (batch, channels, spatial dimensions..) in the spatial sizes `sizes`."""
    real = dtypes.float64 if x.dtype == dtypes.float64 else dtypes.float32
    result = x if mode.startswith("nearest") else cast(x, real)
    for at, (wanted, factor) in enumerate(zip(sizes, factors, strict=True), 2):
        taps = _MODES[mode](Dimension(x.size(at), wanted, factor, align_corners, real))
        parts = [(index_select(result, at, positions), weights) for positions, weights in taps]
        weighted = [part if w is None else e.mul(part, _column(w, x.rank, at)) for part, w in parts]
        result = weighted[0]
        for part in weighted[1:]:
            result = e.add(result, part)
    return cast(result, x.dtype)


def averaged(x: Tensor, sizes: Sequence[Any]) -> Tensor:
    """The means of windows that cut each spatial dimension into parts of nearly one size."""
    result = cast(x, dtypes.float64 if x.dtype == dtypes.float64 else dtypes.float32)
    for at, wanted in enumerate(sizes, 2):
        result = _averaged_along(result, at, x.size(at), wanted)
    return cast(result, x.dtype)


def _averaged_along(x: Tensor, at: int, size: Any, wanted: Any) -> Tensor:
    """The means of windows along one dimension: the elements of all windows side by side, zeros after their ends."""
    number, longest = arange(wanted), size // wanted + 2
    begin = e.floor_divide(e.mul(number, size), wanted)
    end = e.neg(e.floor_divide(e.neg(e.mul(e.add(number, 1), size)), wanted))
    positions = e.add(sh.unsqueeze(begin, 1), arange(longest))
    inside = e.lt(positions, sh.unsqueeze(end, 1))
    before, after = x.sizes()[:at], x.sizes()[at + 1 :]
    elements = index_select(x, at, sh.reshape(e.minimum(positions, size - 1), (wanted * longest,)))
    windows = sh.reshape(elements, (*before, wanted, longest, *after))
    mask = sh.reshape(inside, (*[1] * at, wanted, longest, *[1] * len(after)))
    total = sum_of(e.where(mask, windows, 0.0), at + 1)
    return e.div(total, _column(cast(e.sub(end, begin), x.dtype), x.rank, at))
