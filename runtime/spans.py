"""Spans of memory and their overlaps."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

#: A span of bytes: the memory, the first byte, and the end.
Span = tuple[Hashable, int, int]
_begin, _end = operator.itemgetter(1), operator.itemgetter(2)


class Spans:
    """A set of spans, with a query whether another span overlaps a span of the set."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._merged: dict[Hashable, tuple[list[int], list[int]]] = {}
        for memory, begin, end in sorted(spans, key=_begin):
            begins, ends = self._merged.setdefault(memory, ([], []))
            if begins and begin < ends[-1]:
                ends[-1] = max(end, ends[-1])
            elif begin < end:
                begins.append(begin)
                ends.append(end)

    def overlaps(self, span: Span) -> bool:
        """Whether a span overlaps one of the set."""
        memory, begin, end = span
        begins, ends = self._merged.get(memory, ((), ()))
        last = bisect_right(begins, end - 1) - 1
        return last >= 0 and begin < min(ends[last], end)


class SpanMap(Generic[T]):
    """Values by span, found by overlap (an interval map)."""

    def __init__(self) -> None:
        self._values: dict[Hashable, list[tuple[int, int, T]]] = {}
        self._max_length = 0

    def add(self, span: Span, value: T) -> None:
        """Adds a value for a span."""
        memory, begin, end = span
        insort(self._values.setdefault(memory, []), (begin, end, value), key=operator.itemgetter(0))
        self._max_length = max(self._max_length, end - begin)

    def find(self, span: Span) -> list[T]:
        """The values whose spans overlap a span."""
        memory, begin, end = span
        values = self._values.get(memory, [])
        first = bisect_right(values, begin - self._max_length, key=operator.itemgetter(0))
        last = bisect_left(values, end, key=operator.itemgetter(0))
        return [value for at, to, value in values[first:last] if max(at, begin) < min(to, end)]


def overlap(one: Span, other: Span) -> bool:
    """Whether two spans overlap."""
    return one[0] == other[0] and max(one[1], other[1]) < min(one[2], other[2])


def overlapping_pairs(spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """The pairs of overlapping spans, by their indices."""
    ordered = sorted(spans, key=_begin)
    if all(map(operator.le, map(_end, ordered), map(_begin, ordered[1:]))):
        return
    open_spans: list[int] = []
    for index in sorted(range(len(spans)), key=lambda n: (hash(spans[n][0]), spans[n][1])):
        open_spans = [n for n in open_spans if spans[n][2] > spans[index][1] and spans[n][0] == spans[index][0]]
        yield from ((min(n, index), max(n, index)) for n in open_spans if overlap(spans[n], spans[index]))
        open_spans.append(index)
