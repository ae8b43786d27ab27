"""The `ccl_*` operators on arrays: pieces of tensors are packed, moved by a transport and put in their places.

Sums of f16 and bf16 are computed in f32 where the transport does not add them: MPI has no such types, and a sum in
16 bits would lose more with every rank. Imports `transport`, `move` and NumPy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.runtime.collectives.move import Lying, Move
from oneflow.runtime.collectives.transport import Array, Transport

Attrs = dict[str, Any]


def carry_out(name: str, transport: Transport, attrs: Attrs, source: Array, target: Array) -> None:
    """Carries out one rank's part in collective `name`, from its operand to its result."""
    OPERATIONS[name](transport, attrs, source, target)


def _wide(array: Array) -> Array:
    """The array as it is summed: 16-bit floats in f32."""
    is_short = array.dtype.itemsize == 2
    return array.astype(np.float32) if is_short else array


def _terms(transport: Transport, array: Array) -> Array:
    return array if transport.adds_short else _wide(array)


def _sum_into(transport: Transport, target: Array, reduce: Callable[[Array], None]) -> None:
    """Has `reduce` write a sum into the flat elements of `target`."""
    flat = target.reshape(-1)
    is_short = target.dtype.itemsize == 2 and not transport.adds_short
    total = np.empty(flat.shape, np.float32) if is_short else flat
    reduce(total)
    if total is not flat:
        flat[:] = total


def ordered(array: Array) -> Array:
    """Integers in the order of floats, NaN the largest; applied to such integers, the bits of the floats.

    Libraries order NaN in ways of their own. The bits of negative numbers count downwards, so all but the sign are
    turned.
    """
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array).view(f"i{array.dtype.itemsize}")
    turned: Array = array ^ ((array >> (8 * array.dtype.itemsize - 1)) & np.iinfo(array.dtype).max)
    return turned


def _all_reduce(transport: Transport, attrs: Attrs, source: Array, target: Array) -> None:
    flat, into = source.reshape(-1), target.reshape(-1)
    if attrs["reduce_type"] == "sum":
        terms = _terms(transport, flat)
        _sum_into(transport, target, lambda total: transport.all_reduce(terms, total))
    elif flat.dtype.kind in "iub":
        transport.all_reduce(flat, into, "max")
    else:
        _largest_float(transport, flat, into)


def _largest_float(transport: Transport, source: Array, target: Array) -> None:
    """The largest of floats, NaN above all, as the largest of integers on the host."""
    terms = _wide(transport.fetch(source))
    found = ordered(terms)
    transport.host.all_reduce(found.copy(), found, "max")
    transport.store(target, ordered(found).view(terms.dtype).astype(target.dtype))


def _reduce(transport: Transport, attrs: Attrs, source: Array, target: Array) -> None:
    """To the root, whose piece is the whole; a maximum goes to everybody."""
    is_root = attrs["index"] == attrs["root"]
    if attrs["reduce_type"] == "max":
        _all_reduce(transport, attrs, source, target)
    else:
        counts = [source.size * (member == attrs["root"]) for member in range(attrs["members"])]
        terms, into = _terms(transport, source.reshape(-1)), target if is_root else target.reshape(-1)[:0]
        _sum_into(transport, into, lambda total: transport.reduce_scatter(terms, total, counts))
    if not is_root:
        transport.clear(target)


def _broadcast(transport: Transport, attrs: Attrs, source: Array, target: Array) -> None:
    if attrs["index"] == attrs["root"]:
        transport.copy(target, source)
    transport.broadcast(target.reshape(-1), attrs["root"])


def _reduce_scatter(transport: Transport, attrs: Attrs, source: Array, target: Array) -> None:
    pieces = cut_along(source, attrs["axis"], attrs["sizes"])
    terms = _terms(transport, packed(transport, source, pieces))
    counts = [p.size for p in pieces]
    _sum_into(transport, target, lambda total: transport.reduce_scatter(terms, total, counts))


def _all_gather(transport: Transport, attrs: Attrs, source: Array, target: Array) -> None:
    pieces = cut_along(target, attrs["axis"], attrs["sizes"])
    _receive(transport, pieces, target, lambda flat, counts: transport.all_gather(source.reshape(-1), flat, counts))


def _all_to_all(transport: Transport, attrs: Attrs, source: Array, target: Array) -> None:
    sent = cut_along(source, attrs["out_axis"], attrs["out_sizes"])
    counts = [p.size for p in sent]
    received = cut_along(target, attrs["in_axis"], attrs["in_sizes"])
    given = packed(transport, source, sent)
    _receive(transport, received, target, lambda flat, sizes: transport.all_to_all(given, flat, counts, sizes))


def _send_recv(transport: Transport, attrs: Attrs, source: Array, target: Array) -> None:
    before = Lying(tuple(attrs["mesh"]), attrs["src_nd_sbp"], tuple(attrs["src_members"]))
    after = Lying(tuple(attrs["dst_mesh"] or attrs["mesh"]), attrs["dst_nd_sbp"], tuple(attrs["dst_members"]))
    Move(tuple(attrs["shape"]), before, after).carry_out(transport, attrs["index"], source, target)


OPERATIONS: dict[str, Callable[[Transport, Attrs, Array, Array], None]] = {
    "ccl_all_reduce": _all_reduce,
    "ccl_reduce": _reduce,
    "ccl_broadcast": _broadcast,
    "ccl_reduce_scatter": _reduce_scatter,
    "ccl_all_gather": _all_gather,
    "ccl_all_to_all": _all_to_all,
    "ccl_send_recv": _send_recv,
}


def cut_along(array: Array, axis: int, sizes: Sequence[int]) -> list[Array]:
    """Views of the pieces of an array along an axis."""
    ends = list(itertools.accumulate(sizes))
    return [array[(slice(None),) * axis + (slice(e - n, e),)] for n, e in zip(sizes, ends, strict=True)]


def packed(transport: Transport, source: Array, pieces: Sequence[Array]) -> Array:
    """The elements of the pieces of `source` one behind the other; no copy where they lie so."""
    if source.flags.c_contiguous and _are_blocks(pieces):
        return source.reshape(-1)
    counts = [p.size for p in pieces]
    flat = transport.empty((sum(counts),), source.dtype)
    for piece, part in zip(pieces, cut_along(flat, 0, counts), strict=True):
        transport.copy(part.reshape(piece.shape), piece)
    return flat


def _are_blocks(pieces: Sequence[Array]) -> bool:
    return all(p.flags.c_contiguous for p in pieces)


def _receive(
    transport: Transport, pieces: Sequence[Array], target: Array, move: Callable[[Array, list[int]], None]
) -> None:
    """Has `move` fill the pieces of `target`, through a buffer where they are no blocks of it."""
    counts = [p.size for p in pieces]
    if _are_blocks(pieces):
        move(target.reshape(-1), counts)
        return
    flat = transport.empty((target.size,), target.dtype)
    move(flat, counts)
    for piece, part in zip(pieces, cut_along(flat, 0, counts), strict=True):
        transport.copy(piece, part.reshape(piece.shape))
