"""Collectives on arrays (`ccl_*` operators: all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, ..).

Shards of tensors are packed, moved by a transport and unpacked.

Sums of f16 and bf16 are computed in f32 where the transport does not add them: MPI has no such types, and a sum in 16
bits would lose more with every rank. Collectives of several tensors are one call of the transport for those that are
packed, and otherwise calls that it carries out together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from oneflow.dialect.external import as_array
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.runtime.collectives.resharding import Resharding, Sharding
from oneflow.runtime.collectives.transport import Array, Transport, aligned_bytes

Attrs = dict[str, Any]
#: A batch of a collective in phases: it yields after packing, and after the call of the transport.
Phases = Generator[None, None, None]


def run_collective(
    name: str, transport: Transport, attrs: Attrs, sources: Sequence[Array], targets: Sequence[Array]
) -> None:
    """Runs the part of one rank in collective `name`, from its operands to its results."""
    OPERATIONS[name](transport, attrs, sources, targets)


class _ByteCounter(Transport):
    """A transport that moves nothing and counts the bytes of the packing buffers of another transport."""

    def __init__(self, other: Transport) -> None:
        self.sums_16_bit, self.max_packed_bytes, self.bytes = other.sums_16_bit, other.max_packed_bytes, 0

    def empty(self, shape: Sequence[int], dtype: np.dtype) -> Array:
        """Memory that is counted and not accessed."""
        array = np.empty(shape, dtype)
        self.bytes += aligned_bytes(array.nbytes)
        return array

    def fetch(self, array: Array) -> Array:
        """Raises `_OnHost`: the collective needs the host."""
        raise _OnHost

    def _nothing(self, *_: Any) -> None:
        pass

    copy = clear = store = _nothing  # type: ignore[assignment]
    all_reduce = reduce_scatter = all_gather = all_to_all = exchange = broadcast = _nothing  # type: ignore[assignment]


class _OnHost(Exception):
    """A collective needs elements on the host."""


def packing_bytes(
    name: str, transport: Transport, attrs: Attrs, operands: Sequence[TensorDesc], results: Sequence[TensorDesc]
) -> int | None:
    """The bytes of the packing buffers of a collective on a device; None if the collective needs the host."""
    counter, sides = _ByteCounter(transport), ([as_array(None, d) for d in side] for side in (operands, results))
    try:
        run_collective(name, counter, attrs, *sides)
    except _OnHost:
        return None
    return counter.bytes


def _run_phases(transport: Transport, phases: Sequence[Phases]) -> None:
    """Runs the batches of a collective phase by phase; the transport may execute their calls as one."""
    for batch in phases:
        next(batch)
    with transport.grouped():
        for batch in phases:
            next(batch)
    for batch in phases:
        next(batch, None)


def _batches(transport: Transport, tensors: Sequence[Array]) -> list[list[int]]:
    """The indices of the tensors of each call: small tensors are packed into one call, empty tensors are in none.

    All members compute the same batches, since the sizes of whole tensors are the same on each.
    """
    small = [i for i, a in enumerate(tensors) if 0 < a.nbytes <= transport.max_packed_bytes]
    unpacked = [[i] for i, a in enumerate(tensors) if a.nbytes > transport.max_packed_bytes]
    return [small, *unpacked] if small else unpacked


def _widened(array: Array) -> Array:
    """The array in the type of its sum: 16-bit floats in f32."""
    is_short = array.dtype.itemsize == 2
    return array.astype(np.float32) if is_short else array


def _terms(transport: Transport, array: Array) -> Array:
    return array if transport.sums_16_bit else _widened(array)


def ordered(array: Array) -> Array:
    """Maps floats to integers of the same order, with NaN as the largest; applied to such integers, the inverse.

    Libraries differ in the order of NaN. The bits of negative floats decrease with the value, so all bits but the
    sign are inverted.
    """
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array).view(f"i{array.dtype.itemsize}")
    turned: Array = array ^ ((array >> (8 * array.dtype.itemsize - 1)) & np.iinfo(array.dtype).max)
    return turned


def _all_reduce(transport: Transport, attrs: Attrs, sources: Sequence[Array], targets: Sequence[Array]) -> None:
    how, kind = attrs["reduce_type"], sources[0].dtype.kind
    if how == "max" and kind not in "iub":
        for source, target in zip(sources, targets, strict=True):
            _max_of_floats(transport, source.reshape(-1), target.reshape(-1))
        return
    flats, into = ([a.reshape(-1) for a in side] for side in (sources, targets))
    batches = _batches(transport, flats)
    _run_phases(transport, [_reduced(transport, how, [flats[i] for i in b], [into[i] for i in b]) for b in batches])


def _reduced(transport: Transport, how: str, flats: Sequence[Array], into: Sequence[Array]) -> Phases:
    """An all-reduce (sum or maximum) of flat arrays."""
    terms = _terms(transport, packed(transport, flats, flats[0] if len(flats) == 1 else None))
    total = _total(transport, into, terms.dtype)
    yield
    transport.all_reduce(terms, total, how)
    yield
    _unpack(transport, total, into)


def _total(transport: Transport, into: Sequence[Array], dtype: np.dtype) -> Array:
    """The array into which a sum is written: the target itself if there is one of this type, otherwise a buffer."""
    if len(into) == 1 and into[0].dtype == dtype:
        return into[0]
    return transport.empty((sum(a.size for a in into),), dtype)


def _unpack(transport: Transport, flat: Array, parts: Sequence[Array]) -> None:
    """Copies the parts of a flat array to their targets, unless it is the target itself."""
    if len(parts) == 1 and parts[0] is flat:
        return
    for part, shard in zip(parts, split_along(flat, 0, [p.size for p in parts]), strict=True):
        transport.copy(part, shard.reshape(part.shape))


def _max_of_floats(transport: Transport, source: Array, target: Array) -> None:
    """The maximum of floats, NaN above all numbers, as the maximum of integers on the host."""
    terms = _widened(transport.fetch(source))
    largest = ordered(terms)
    transport.host.all_reduce(largest.copy(), largest, "max")
    transport.store(target, ordered(largest).view(terms.dtype).astype(target.dtype))


def _reduce(transport: Transport, attrs: Attrs, source: Array, target: Array) -> None:
    """Reduces to the root, as a reduce-scatter in which the shard of the root is everything; a maximum is an all-
    reduce.
    """
    is_root = attrs["index"] == attrs["root"]
    if attrs["reduce_type"] == "max":
        _all_reduce(transport, attrs, [source], [target])
    else:
        counts = [source.size * (member == attrs["root"]) for member in range(attrs["members"])]
        terms, into = _terms(transport, source.reshape(-1)), target.reshape(-1)[: counts[attrs["index"]]]
        total = _total(transport, [into], terms.dtype)
        transport.reduce_scatter(terms, total, counts)
        _unpack(transport, total, [into])
    if not is_root:
        transport.clear(target)


def _broadcast(transport: Transport, attrs: Attrs, source: Array, target: Array) -> None:
    if attrs["index"] == attrs["root"]:
        transport.copy(target, source)
    transport.broadcast(target.reshape(-1), attrs["root"])


def _sizes(attrs: Attrs, index: int) -> Sequence[int]:
    """The sizes of the members' shards of tensor `index`."""
    members = attrs["members"]
    sizes: Sequence[int] = attrs["sizes"][members * index : members * (index + 1)]
    return sizes


def _by_members(attrs: Attrs, tensors: Sequence[Array], batch: Sequence[int]) -> list[list[Array]]:
    """For each member its shards of the whole tensors of a batch."""
    by_tensor = [split_along(tensors[i], attrs["axis"], _sizes(attrs, i)) for i in batch]
    return [list(row) for row in zip(*by_tensor, strict=True)]


def _reduce_scatter(transport: Transport, attrs: Attrs, sources: Sequence[Array], targets: Sequence[Array]) -> None:
    def run_batch(batch: Sequence[int]) -> Phases:
        rows, into = _by_members(attrs, sources, batch), [targets[i].reshape(-1) for i in batch]
        source = sources[batch[0]] if len(batch) == 1 else None
        terms = _terms(transport, packed(transport, [p for row in rows for p in row], source))
        total = _total(transport, into, terms.dtype)
        yield
        transport.reduce_scatter(terms, total, [sum(p.size for p in row) for row in rows])
        yield
        _unpack(transport, total, into)

    _run_phases(transport, [run_batch(b) for b in _batches(transport, sources)])


def _all_gather(transport: Transport, attrs: Attrs, sources: Sequence[Array], targets: Sequence[Array]) -> None:
    def run_batch(batch: Sequence[int]) -> Phases:
        rows, flats = _by_members(attrs, targets, batch), [sources[i].reshape(-1) for i in batch]
        shards, counts = [p for row in rows for p in row], [sum(p.size for p in row) for row in rows]
        flat = packed(transport, flats, flats[0] if len(batch) == 1 else None)
        is_whole = len(batch) == 1 and _are_contiguous(shards)
        into = targets[batch[0]].reshape(-1) if is_whole else transport.empty((sum(counts),), flat.dtype)
        yield
        transport.all_gather(flat, into, counts)
        yield
        _unpack(transport, into, [into] if is_whole else shards)

    _run_phases(transport, [run_batch(b) for b in _batches(transport, targets)])


def _all_to_all(transport: Transport, attrs: Attrs, source: Array, target: Array) -> None:
    sent = split_along(source, attrs["out_axis"], attrs["out_sizes"])
    counts = [p.size for p in sent]
    received = split_along(target, attrs["in_axis"], attrs["in_sizes"])
    flat = packed(transport, sent, source)
    is_whole = _are_contiguous(received)
    into = target.reshape(-1) if is_whole else transport.empty((target.size,), target.dtype)
    transport.all_to_all(flat, into, counts, [p.size for p in received])
    _unpack(transport, into, [into] if is_whole else received)


def _send_recv(transport: Transport, attrs: Attrs, source: Array, target: Array) -> None:
    before = Sharding(tuple(attrs["mesh"]), attrs["src_nd_sbp"], tuple(attrs["src_members"]))
    after = Sharding(tuple(attrs["dst_mesh"] or attrs["mesh"]), attrs["dst_nd_sbp"], tuple(attrs["dst_members"]))
    Resharding(tuple(attrs["shape"]), before, after).run(transport, attrs["index"], source, target)


Rule = Callable[[Transport, Attrs, Sequence[Array], Sequence[Array]], None]


def _single_tensor_rule(run_collective: Callable[[Transport, Attrs, Array, Array], None]) -> Rule:
    """The rule of a collective of one tensor."""
    return lambda transport, attrs, sources, targets: run_collective(transport, attrs, sources[0], targets[0])


OPERATIONS: dict[str, Rule] = {
    "ccl_all_reduce": _all_reduce,
    "ccl_reduce": _single_tensor_rule(_reduce),
    "ccl_broadcast": _single_tensor_rule(_broadcast),
    "ccl_reduce_scatter": _reduce_scatter,
    "ccl_all_gather": _all_gather,
    "ccl_all_to_all": _single_tensor_rule(_all_to_all),
    "ccl_send_recv": _single_tensor_rule(_send_recv),
}


def split_along(array: Array, axis: int, sizes: Sequence[int]) -> list[Array]:
    """Views of the shards of an array along an axis."""
    ends = list(itertools.accumulate(sizes))
    return [array[(slice(None),) * axis + (slice(e - n, e),)] for n, e in zip(sizes, ends, strict=True)]


def packed(transport: Transport, shards: Sequence[Array], parent: Array | None = None) -> Array:
    """The concatenated elements of shards; no copy if the shards are the contiguous parts of `parent` in order."""
    if parent is not None and parent.flags.c_contiguous and _are_contiguous(shards):
        return parent.reshape(-1)
    counts = [p.size for p in shards]
    flat = transport.empty((sum(counts),), shards[0].dtype)
    for shard, part in zip(shards, split_along(flat, 0, counts), strict=True):
        transport.copy(part.reshape(shard.shape), shard)
    return flat


def _are_contiguous(shards: Sequence[Array]) -> bool:
    return all(p.flags.c_contiguous for p in shards)
