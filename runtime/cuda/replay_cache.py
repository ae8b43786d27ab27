"""What a program on a device knows of its last runs: most arguments are the same arrays again and again.

Parameters and states need not be looked at where the same objects are passed: their addresses are known, and what
remains are arguments that come anew and memory for results.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from oneflow.runtime.cuda.array import DeviceArray
from oneflow.runtime.cuda.steps import ARGUMENTS, WORKSPACE, Steps
from oneflow.runtime.cuda.stream import Stream
from oneflow.runtime.spans import Spans, meeting

#: Gives arguments by number as arrays on a stream.
Look = Callable[[Iterable[tuple[int, Any]], Stream], list[DeviceArray]]
Known = dict[int, weakref.ref[Any]]


def known(given: Sequence[Any], arguments: Sequence[DeviceArray], stream: Stream) -> Known:
    """The arguments that need not be looked at when they are passed again: arrays on the device that are passed as
    they are, and numbers as long as they have the same value.
    """
    pairs = enumerate(zip(given, arguments, strict=True))
    return {n: weakref.ref(v) for n, (v, a) in pairs if (v is a and a.stream is stream) or is_number(v)}


def is_number(value: Any) -> bool:
    """Whether it is an array of NumPy without dimensions."""
    return type(value) is np.ndarray and not value.ndim


class Sight:
    """Whether arguments are the objects that they were; `kept` are those that are looked at, of so many."""

    def __init__(self, kept: Known, count: int) -> None:
        self._is_kept, self._same = [n in kept for n in range(count)], list(kept.values())

    def holds(self, given: Sequence[Any]) -> bool:
        """Whether all of them are."""
        return all(map(operator.is_, itertools.compress(given, self._is_kept), map(operator.call, self._same)))


class Seen(NamedTuple):
    """Arguments that were kept, as they were; the `rest` is for runs that were found to have the same."""

    again: Again
    same: Sequence[weakref.ref[Any]]
    rest: Sight

    def holds(self, arrays: Sequence[Any]) -> bool:
        """Whether they are those arrays."""
        return all(map(operator.is_, arrays, map(operator.call, self.same)))


class Again:
    """Runs of `steps` with `kept` arguments that lie where they did, as all of `addresses` are known to.

    Arrays are known weakly: who gives up a tensor gives up its memory.
    """

    def __init__(
        self, steps: Steps, addresses: Sequence[int], kept: Known, given: Sequence[Any], stream: Stream
    ) -> None:
        self.steps, self._stream, self._addresses = steps, stream, list(addresses)
        self.kept = kept
        self._all = Sight(kept, steps.counts[0])
        self._numbers = [(n, given[n].tobytes()) for n in kept if is_number(given[n])]
        self._fresh = [n for n in range(steps.counts[0]) if n not in kept]
        lying = [(addresses[ARGUMENTS + n], given[n].nbytes) for n in kept]
        self._places = Spans((0, address, address + size) for address, size in lying)

    def seen(self, numbers: Sequence[int]) -> Seen | None:
        """Some of the arguments, to be looked at by themselves; None where not all of them were kept."""
        if not all(n in self.kept for n in numbers):
            return None
        apart = set(numbers)
        rest = {n: same for n, same in self.kept.items() if n not in apart}
        return Seen(self, [self.kept[n] for n in numbers], Sight(rest, self.steps.counts[0]))

    def arguments(
        self, given: Sequence[Any], stream: Stream, look: Look, seen: Seen | None = None
    ) -> Sequence[DeviceArray] | None:
        """The arguments of a run; None where those that were kept are others now, or one that was not shares memory
        with another. Those that were `seen` to be the same are not looked at.
        """
        sight = self._all if seen is None else seen.rest
        if stream is not self._stream or not sight.holds(given):
            return None
        for number, data in self._numbers:
            if given[number].tobytes() != data:
                return None
        if not self._fresh:
            return given
        arrays = look(zip(self._fresh, map(given.__getitem__, self._fresh), strict=True), stream)
        places = [(0, a.address, a.address + a.nbytes) for a in arrays]
        if places and (any(map(self._places.meet, places)) or any(meeting(places))):
            return None
        found = list(given)
        for number, array in zip(self._fresh, arrays, strict=True):
            found[number] = array
        return found

    def addresses(self, arguments: Sequence[DeviceArray], results: Sequence[DeviceArray]) -> list[int]:
        """Where everything lies in a run."""
        found = self._addresses.copy()
        found[WORKSPACE] = self._stream.workspace(self.steps.script.workspace)
        for number in self._fresh:
            found[ARGUMENTS + number] = arguments[number].address
        for number, *_ in self.steps.made_results:
            found[ARGUMENTS + len(arguments) + number] = results[number].address
        return found
