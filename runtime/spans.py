"""Which parts of memory share bytes with others."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

#: Bytes of one memory: which, where they begin, and where they end.
Span = tuple[Hashable, int, int]
_begin, _end = operator.itemgetter(1), operator.itemgetter(2)


class Spans:
    """Parts of memory, to be asked whether others share bytes with one of them."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._joined: dict[Hashable, tuple[list[int], list[int]]] = {}
        for place, begin, end in sorted(spans, key=_begin):
            begins, ends = self._joined.setdefault(place, ([], []))
            if begins and begin < ends[-1]:
                ends[-1] = max(end, ends[-1])
            elif begin < end:
                begins.append(begin)
                ends.append(end)

    def meet(self, span: Span) -> bool:
        """Whether a part of memory shares bytes with one of these."""
        place, begin, end = span
        begins, ends = self._joined.get(place, ((), ()))
        last = bisect_right(begins, end - 1) - 1
        return last >= 0 and begin < min(ends[last], end)


class Placed(Generic[T]):
    """Things by the part of memory that each is in, of which there may be many."""

    def __init__(self) -> None:
        self._things: dict[Hashable, list[tuple[int, int, T]]] = {}
        self._longest = 0

    def add(self, span: Span, thing: T) -> None:
        """Adds a thing in a part of memory."""
        place, begin, end = span
        insort(self._things.setdefault(place, []), (begin, end, thing), key=operator.itemgetter(0))
        self._longest = max(self._longest, end - begin)

    def find(self, span: Span) -> list[T]:
        """The things that share bytes with a part of memory."""
        place, begin, end = span
        things = self._things.get(place, [])
        first = bisect_right(things, begin - self._longest, key=operator.itemgetter(0))
        last = bisect_left(things, end, key=operator.itemgetter(0))
        return [thing for at, to, thing in things[first:last] if max(at, begin) < min(to, end)]


def share(one: Span, other: Span) -> bool:
    """Whether two parts of memory share bytes."""
    return one[0] == other[0] and max(one[1], other[1]) < min(one[2], other[2])


def meeting(spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """The pairs of parts that share bytes, by their numbers."""
    ordered = sorted(spans, key=_begin)
    if all(map(operator.le, map(_end, ordered), map(_begin, ordered[1:]))):
        return
    near: list[int] = []
    for number in sorted(range(len(spans)), key=lambda n: (hash(spans[n][0]), spans[n][1])):
        near = [n for n in near if spans[n][2] > spans[number][1] and spans[n][0] == spans[number][0]]
        yield from ((min(n, number), max(n, number)) for n in near if share(spans[n], spans[number]))
        near.append(number)
