"""Sorting in the compute algebra: the one mechanism of all operators that order elements.

    argsort(x, axis)                       the index in `x` of each element of the sorted rows
    largest(x, axis, count)                the first indices of the rows in descending order
    take_along_axis(x, indices, axis)      the elements at these indices
    partition_point(size, precedes)        a binary search, written out

Runs of `RUN` elements are ordered by counting, then pairs of runs are merged until one run is left. A merge is a
gather: each element of the merged run finds by a binary search how many of its elements come from the left run (Odeh
et al., "Merge Path", 2012). All elements are independent of each other, on every backend. A row of dynamic size is
one run. The order is stable; NaN is larger than every number, as in NumPy and PyTorch.

A few largest elements are selected one by one: each is the largest of the elements that follow the one before. Where
more are wanted, merged runs end after as many elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.scalar import Expr

#: The elements of a run that is ordered by counting; a power of two.
RUN = 256
#: The most elements that are selected one by one.
MAX_SELECTED = 16


def argsort(x: Stage, axis: int, descending: bool = False) -> Stage:
    """The indices along `axis` (i64, of the shape of `x`) that sort each row of `x`."""
    rows = _Rows(_keys(x), axis, descending)
    return rows.rank_sort(rows.size) if not isinstance(rows.size, int) else _first(rows, rows.size, rows.size)


def largest(x: Stage, axis: int, count: int) -> Stage:
    """The first `count` indices along `axis` (i64) of the descending `argsort`; the axis has a static size."""
    rows = _Rows(_keys(x), axis, descending=True)
    assert isinstance(rows.size, int)
    if rows.size > RUN and 0 < count <= MAX_SELECTED:
        return rows.select(count)
    return _first(rows, rows.size, count)


def _keys(x: Stage) -> Stage:
    """`x` in a type that has an order."""
    return c.convert(x, dtypes.uint8) if x.dtype.kind == "bool" else x


def _first(rows: _Rows, size: int, count: int) -> Stage:
    """The first `count` indices of each sorted row of `size` elements."""
    if count == 0:
        return c.element_wise(rows.with_axis(0), lambda *at: s.const(0, dtypes.int64))
    width = kept = min(RUN, size)
    indices = rows.rank_sort(width)
    while width < size:
        indices = rows.merge(indices, width, kept, min(2 * kept, count))
        width, kept = 2 * width, min(2 * kept, count)
    if indices.shape[rows.axis] == count:
        return indices
    return c.element_wise(rows.with_axis(count), lambda *at: indices[at])


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


def _inside(position: Any, size: Size) -> Any:
    """An index clamped to a row; the element of an index out of bounds is not used."""
    if not isinstance(size, int) or position.kind == "index":
        return position
    return s.maximum(s.minimum(position, size - 1), 0)


def _is_same(a: Expr, b: Expr) -> Expr:
    """Whether neither of two elements precedes the other."""
    return a.eq(b) | (s.isnan(a) & s.isnan(b)) if a.dtype.is_float else a.eq(b)


class _Rows:
    """The rows of a stage along an axis, under one order."""

    def __init__(self, x: Stage, axis: int, descending: bool) -> None:
        self.x, self.axis, self.descending = x, axis, descending
        self.size: Size = x.shape[axis]

    def with_axis(self, size: Size) -> list[Size]:
        """The shape of rows of `size` elements."""
        return [*self.x.shape[: self.axis], size, *self.x.shape[self.axis + 1 :]]

    def precedes(self, x: Stage, at: Sequence[Any], first: Any, second: Any) -> Expr:
        """Whether the element at `first` of the row through `at` precedes the element at `second`."""
        a, b = (x[along(at, self.axis, _inside(p, x.shape[self.axis]))] for p in (first, second))
        return precedes(a, b, self.descending)

    def rank_sort(self, width: Size) -> Stage:
        """The indices that sort runs of `width` elements: the rank of an element is the number of elements before the
        element.
        """
        axis, size = self.axis, self.size
        count = math.ceil(size / width) if isinstance(size, int) and isinstance(width, int) else 1
        shape = [*self.x.shape[:axis], count, width, *self.x.shape[axis + 1 :]]
        is_whole = width == size or count * width == size
        padded = (
            self.x
            if is_whole
            else c.place(self.with_axis(count * width), 0, [(self.x, [0] * self.x.rank)], self.x.dtype)
        )
        runs = c.reshape(padded, shape)

        def is_filled(run: Expr, step: Expr) -> Expr:
            return s.const(True, dtypes.bool_) if is_whole else run * width + step < size

        def is_before(*at: Expr) -> Expr:
            *position, step = at
            own, other = runs[tuple(position)], runs[along(position, axis + 1, step)]
            first = s.where(
                step < position[axis + 1],
                ~precedes(own, other, self.descending),
                precedes(other, own, self.descending),
            )
            return s.cast(first & is_filled(position[axis], step), dtypes.int32)

        ranks = c.sum_(shape, [width], is_before)

        def index_of_rank(*at: Expr) -> Expr:
            *position, step = at
            has_rank = ranks[along(position, axis + 1, step)].eq(s.cast(position[axis + 1], dtypes.int32))
            return s.where(has_rank & is_filled(position[axis], step), s.cast(step, dtypes.int32), 0)

        in_run = c.reshape(c.sum_(shape, [width], index_of_rank), padded.shape)

        def index(*at: Expr) -> Expr:
            begin = s.const(0, dtypes.index) if count == 1 else at[axis] // width * width
            return s.cast(begin + _index(in_run[at]), dtypes.int64)

        return c.element_wise(self.x.shape, index)

    def merge(self, indices: Stage, width: int, kept: int, count: int) -> Stage:
        """The first `count` indices of runs of twice `width`, from the first `kept` indices of runs of `width`."""
        assert isinstance(self.size, int)
        values, size, axis = take_along_axis(self.x, indices, self.axis), self.size, self.axis
        is_whole = count == 2 * width

        def source(*at: Expr) -> Expr:
            run = at[axis] // count
            step, begin = at[axis] - run * count, run * (2 * kept)
            left, right = (
                s.maximum(s.minimum(size - run * (2 * width) - skipped, kept), 0) for skipped in (0, width)
            )

            def from_left(k: Expr) -> Expr:
                """Whether element k of the left run is one of the first `step` of the merged run."""
                other = step - 1 - k
                return (other >= right) | ~self.precedes(values, at, begin + kept + other, begin + k)

            first = partition_point(kept, from_left, s.minimum(step, left))
            rest = step - first
            takes_left = (rest >= right) | ~self.precedes(values, at, begin + kept + rest, begin + first)
            chosen = begin + s.where((first < left) & takes_left, first, rest + kept)
            # Short runs at the end of a row are filled up with elements that are not used.
            return s.cast(chosen if is_whole else _inside(chosen, indices.shape[axis]), dtypes.int64)

        length = size if is_whole else math.ceil(size / (2 * width)) * count
        return take_along_axis(indices, c.element_wise(self.with_axis(length), source), axis)

    def select(self, count: int) -> Stage:
        """The indices of the `count` largest elements, one after the other."""
        assert self.descending
        x, axis, rows = self.x, self.axis, [*self.x.shape[: self.axis], *self.x.shape[self.axis + 1 :]]
        lowest, last = x.dtype.bounds[0], dtypes.int64.bounds[1]
        found: list[tuple[Stage, Stage]] = []

        def element(*at: Expr) -> Expr:
            return x[(*at[:axis], at[-1], *at[axis:-1])]

        def follows(*at: Expr) -> Expr:
            """Whether an element follows the last one that was found."""
            if not found:
                return s.const(True, dtypes.bool_)
            (value, index), own = (stage[at[:-1]] for stage in found[-1]), element(*at)
            return precedes(value, own, True) | (_is_same(value, own) & (s.cast(at[-1], dtypes.int64) > index))

        def following(*at: Expr) -> Expr:
            return s.where(follows(*at), element(*at), lowest)

        for _ in range(count):
            value = c.reduce_(rows, [self.size], lowest, s.maximum, following)

            def position(*at: Expr, value: Stage = value) -> Expr:
                is_found = follows(*at) & _is_same(element(*at), value[at[:-1]])
                return s.where(is_found, s.cast(at[-1], dtypes.int64), last)

            found.append((value, c.reduce_(rows, [self.size], last, s.minimum, position)))
        parts = [
            (c.reshape(index, self.with_axis(1)), [n if d == axis else 0 for d in range(x.rank)])
            for n, (_, index) in enumerate(found)
        ]
        return c.place(self.with_axis(count), None, parts, dtypes.int64)
