"""Sorting in the compute algebra: the one mechanism of all operators that order elements.

    argsort(x, axis)                       the index in `x` of each element of the sorted rows
    take_along_axis(x, indices, axis)      the elements at these indices
    partition_point(size, precedes)        a binary search, written out

Runs of `RUN` elements are ordered by counting, then pairs of runs are merged until one run is left. A merge is a
gather: each element of the merged run finds by a binary search how many of its elements come from the left run (Odeh
et al., "Merge Path", 2012). All elements are independent of each other, on every backend. A row of dynamic size is
one run. The order is stable; NaN is larger than every number, as in NumPy and PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.scalar import Expr

#: The elements of a run that is ordered by counting; a power of two.
RUN = 16


def argsort(x: Stage, axis: int, descending: bool = False) -> Stage:
    """The indices along `axis` (i64, of the shape of `x`) that sort each row of `x`."""
    keys = c.convert(x, dtypes.uint8) if x.dtype.kind == "bool" else x
    size = x.shape[axis]
    if size == 0:
        return c.element_wise(x.shape, lambda *at: s.const(0, dtypes.int64))
    width = min(RUN, size) if isinstance(size, int) else size
    rows = _Rows(keys, axis, descending)
    indices = rows.rank_sort(width)
    while isinstance(width, int) and isinstance(size, int) and width < size:
        indices = rows.merge(indices, width)
        width *= 2
    return indices


def take_along_axis(x: Stage, indices: Stage, axis: int) -> Stage:
    """The elements of `x` at `indices` along `axis`, which are known to be within bounds."""
    return c.element_wise(indices.shape, lambda *at: x[along(at, axis, _index(indices[at]))], x.dtype)


def along(at: Sequence[Any], axis: int, index: Any) -> tuple[Any, ...]:
    """The index `at` with another index along `axis`."""
    return (*at[:axis], index, *at[axis + 1 :])


def precedes(a: Expr, b: Expr, descending: bool = False) -> Expr:
    """Whether `a` precedes `b`; false for equal elements."""
    if descending:
        a, b = b, a
    less = a < b
    return less | (s.isnan(b) & ~s.isnan(a)) if a.dtype.is_float else less


def partition_point(size: int, precedes: Callable[[Expr], Expr], limit: Expr | None = None) -> Expr:
    """How many of the first `size` (or `limit`) elements precede a point.

    `precedes(k)` says whether element k, at most `size - 1`, precedes the point; it holds for a prefix of the
    elements.
    """
    position = s.const(0, dtypes.index)
    bit = 1 << max(size, 1).bit_length() - 1
    while bit:
        more = position + bit
        inside = more <= (s.const(size, dtypes.index) if limit is None else limit)
        position = s.where(inside & precedes(s.minimum(more - 1, max(size - 1, 0))), more, position)
        bit //= 2
    return position


def _index(position: Expr) -> Expr:
    return s.cast(position, dtypes.index)


class _Rows:
    """The rows of a stage along an axis, under one order."""

    def __init__(self, x: Stage, axis: int, descending: bool) -> None:
        self.x, self.axis, self.descending = x, axis, descending
        self.size: Size = x.shape[axis]

    def precedes(self, x: Stage, at: Sequence[Any], first: Any, second: Any) -> Expr:
        """Whether the element at `first` of the row through `at` precedes the element at `second`."""
        a, b = (x[along(at, self.axis, self._inside(p))] for p in (first, second))
        return precedes(a, b, self.descending)

    def _inside(self, position: Any) -> Any:
        """An index clamped to the row; the element of an index out of bounds is not used."""
        if not isinstance(self.size, int) or position.kind == "index":
            return position
        return s.maximum(s.minimum(position, self.size - 1), 0)

    def rank_sort(self, width: Size) -> Stage:
        """The indices that sort runs of `width` elements: the rank of an element is the number of elements before the
        element.
        """
        is_complete = width == self.size
        x, axis = self.x, self.axis

        def begin(position: Expr) -> Any:
            return s.const(0, dtypes.index) if is_complete else position // width * width

        def is_before(*at: Expr) -> Expr:
            *position, step = at
            own, other = position[axis], begin(position[axis]) + step
            earlier = self.precedes(x, position, other, own)
            tied = ~self.precedes(x, position, own, other) & (other < own)
            return s.cast((earlier | tied) & (other < self.size), dtypes.int64)

        ranks = c.sum_(x.shape, [width], is_before)

        def index_of_rank(*at: Expr) -> Expr:
            *position, step = at
            other = begin(position[axis]) + step
            rank = _index(ranks[along(position, axis, self._inside(other))])
            is_inside = (other < self.size) & rank.eq(position[axis] - begin(position[axis]))
            return s.where(is_inside, s.cast(other, dtypes.int64), s.const(0, dtypes.int64))

        return c.sum_(x.shape, [width], index_of_rank)

    def merge(self, indices: Stage, width: int) -> Stage:
        """The indices that sort runs of twice `width`, from the indices that sort runs of `width`."""
        assert isinstance(self.size, int)
        values, size, axis = take_along_axis(self.x, indices, self.axis), self.size, self.axis

        def source(*at: Expr) -> Expr:
            begin = at[axis] // (2 * width) * (2 * width)
            step = at[axis] - begin
            left, right = (s.maximum(s.minimum(size - begin - skipped, width), 0) for skipped in (0, width))

            def from_left(k: Expr) -> Expr:
                """Whether element k of the left run is one of the first `step` of the merged run."""
                other = step - 1 - k
                return (other >= right) | ~self.precedes(values, at, begin + width + other, begin + k)

            count = partition_point(width, from_left, s.minimum(step, left))
            rest = step - count
            takes_left = (rest >= right) | ~self.precedes(values, at, begin + width + rest, begin + count)
            chosen = begin + s.where((count < left) & takes_left, count, rest + width)
            return s.cast(chosen, dtypes.int64)

        return take_along_axis(indices, c.element_wise(indices.shape, source), axis)
