"""The replay cache: the data of the last run that an executable on a device keeps.

Most arguments of a training step (parameters, optimizer states) are the same arrays in every run. If the same
objects are passed again, their addresses are known and checks are skipped. Other arguments are checked, and results
get memory.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from oneflow.runtime.cuda.array import CudaArray
from oneflow.runtime.cuda.steps import ARGUMENTS, WORKSPACE, Steps
from oneflow.runtime.cuda.stream import Stream
from oneflow.runtime.spans import Spans, overlapping_pairs

#: Turns arguments, with their indices, into arrays on a stream.
Transfer = Callable[[Iterable[tuple[int, Any]], Stream], list[CudaArray]]
#: Arguments by index, referenced weakly: a tensor that the user drops releases its memory.
CachedArguments = dict[int, weakref.ref[Any]]


def cacheable_arguments(arrays: Sequence[Any], arguments: Sequence[CudaArray], stream: Stream) -> CachedArguments:
    """The arguments that need no check in later calls: arrays that are already on the device and stream,
    and numbers, as long as their values are equal.
    """
    pairs = enumerate(zip(arrays, arguments, strict=True))
    return {n: weakref.ref(v) for n, (v, a) in pairs if (v is a and a.stream is stream) or is_number(v)}


def is_number(value: Any) -> bool:
    """Whether `value` is a NumPy array of rank 0."""
    return type(value) is np.ndarray and not value.ndim


class IdentityCheck:
    """Checks whether the `cached` ones among `count` arguments are the same objects again."""

    def __init__(self, cached: CachedArguments, count: int) -> None:
        self._is_cached, self._same = [n in cached for n in range(count)], list(cached.values())

    def holds(self, arrays: Sequence[Any]) -> bool:
        """Whether all cached arguments are the same objects."""
        return all(map(operator.is_, itertools.compress(arrays, self._is_cached), map(operator.call, self._same)))


class CachedSubset(NamedTuple):
    """Cached arguments `same`, compared by the caller; `rest` compares the other cached arguments."""

    cache: ReplayCache
    same: Sequence[weakref.ref[Any]]
    rest: IdentityCheck

    def holds(self, arrays: Sequence[Any]) -> bool:
        """Whether `arrays` are the arguments that the caller compares."""
        return all(map(operator.is_, arrays, map(operator.call, self.same)))


class ReplayCache:
    """The last run of `steps`: its `addresses` hold as long as the `cached` arguments are the same objects."""

    def __init__(
        self, steps: Steps, addresses: Sequence[int], cached: CachedArguments, arrays: Sequence[Any], stream: Stream
    ) -> None:
        self.steps, self._stream, self._addresses = steps, stream, list(addresses)
        self.cached = cached
        self._all = IdentityCheck(cached, steps.counts[0])
        self._scalars = [(n, arrays[n].tobytes()) for n in cached if is_number(arrays[n])]
        self._new = [n for n in range(steps.counts[0]) if n not in cached]
        spans = [(addresses[ARGUMENTS + n], arrays[n].nbytes) for n in cached]
        self._spans = Spans((0, address, address + size) for address, size in spans)

    def subset(self, indices: Sequence[int]) -> CachedSubset | None:
        """The cached arguments at given indices, for the caller to compare; None if one is not cached."""
        if not all(n in self.cached for n in indices):
            return None
        chosen = set(indices)
        rest = {n: same for n, same in self.cached.items() if n not in chosen}
        return CachedSubset(self, [self.cached[n] for n in indices], IdentityCheck(rest, self.steps.counts[0]))

    def arguments(
        self, inputs_of_run: Sequence[Any], stream: Stream, transfer: Transfer, compared: CachedSubset | None = None
    ) -> Sequence[CudaArray] | None:
        """The arguments of a run as arrays on the device.

        None if a cached argument is another object now, or if a new argument overlaps another one. Arguments that the
        caller has compared (`compared`) are not compared again.
        """
        check = self._all if compared is None else compared.rest
        if stream is not self._stream or not check.holds(inputs_of_run):
            return None
        for index, data in self._scalars:
            if inputs_of_run[index].tobytes() != data:
                return None
        if not self._new:
            return inputs_of_run
        arrays = transfer(zip(self._new, map(inputs_of_run.__getitem__, self._new), strict=True), stream)
        spans = [(0, a.address, a.address + a.nbytes) for a in arrays]
        if spans and (any(map(self._spans.overlaps, spans)) or any(overlapping_pairs(spans))):
            return None
        arguments = list(inputs_of_run)
        for index, array in zip(self._new, arrays, strict=True):
            arguments[index] = array
        return arguments

    def addresses(self, arguments: Sequence[CudaArray], results: Sequence[CudaArray]) -> list[int]:
        """The address of every argument, result and buffer of a run."""
        addresses = self._addresses.copy()
        addresses[WORKSPACE] = self._stream.workspace(self.steps.script.workspace)
        for index in self._new:
            addresses[ARGUMENTS + index] = arguments[index].address
        for index, *_ in self.steps.own_results:
            addresses[ARGUMENTS + len(arguments) + index] = results[index].address
        return addresses
