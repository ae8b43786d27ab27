"""The interleaving of rows of short integers in registers: 32-bit lanes with one element of each row.

    row 0:  a0 a1 a2 ..
    row 1:  b0 b1 b2 ..      ->      a0 b0  a1 b1  a2 b2  ..

Each step interleaves the halves of blocks of 128 bits, which is one instruction. `in_order` restores the order of the
columns, where blocks are shorter than vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oneflow.lowering.llvm.writer import Writer

#: The bits of a block.
BLOCK = 128


def interleave(writer: Writer, rows: Sequence[str], lanes: int) -> list[str]:
    """As many vectors of `lanes` i32 as there are rows, from rows of as many elements as these vectors have lanes."""
    group, bits = len(rows), 32 // len(rows)
    parts = [[row] for row in rows]
    while len(parts) > 1:
        kind = f"vector<{lanes * 32 // bits}xi{bits}>"
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [
            [_halves(writer, a, b, half, bits, lanes) for a, b in zip(*pair, strict=True) for half in range(2)]
            for pair in pairs
        ]
        bits *= 2
        wide = f"vector<{lanes * 32 // bits}xi{bits}>"
        parts = [[writer.op(f"vector.bitcast {v} : {kind} to {wide}") for v in part] for part in parts]
    assert len(parts[0]) == group
    return parts[0]


def _halves(writer: Writer, a: str, b: str, half: int, bits: int, lanes: int) -> str:
    """The elements of one half of each block of two vectors, alternately."""
    count, block = lanes * 32 // bits, BLOCK // bits
    starts = range(half * block // 2, count, block)
    order = [n for start in starts for i in range(start, start + block // 2) for n in (i, count + i)]
    kind = f"vector<{count}xi{bits}>"
    return writer.op(f"vector.shuffle {a}, {b} {order} : {kind}, {kind}")


def in_order(writer: Writer, vectors: Sequence[str], lanes: int) -> list[str]:
    """Vectors of i32 in the order of the columns, from vectors in the order of `interleave`."""
    group, kind = len(vectors), f"vector<{lanes}xi32>"
    columns = {(block * group + q) * 4 + i: (q, 4 * block + i)
               for block in range(lanes // 4) for q in range(group) for i in range(4)}  # fmt: skip
    sources = [[columns[v * lanes + i] for i in range(lanes)] for v in range(group)]
    return [_gather(writer, dict(enumerate(vectors)), source, kind) for source in sources]


def _gather(writer: Writer, vectors: Mapping[int, str], sources: Sequence[tuple[int, int]], kind: str) -> str:
    """A vector whose lane i is lane `sources[i][1]` of the vector `sources[i][0]`, by shuffles of two vectors."""
    needed = sorted({q for q, _ in sources})
    pairs = [needed[n : n + 2] for n in range(0, len(needed), 2)]
    gathered = {}
    for index, (first, *rest) in enumerate(pairs):
        starts = {first: 0} | dict.fromkeys(rest, len(sources))
        order = [starts[q] + lane if q in starts else -1 for q, lane in sources]
        second = rest[0] if rest else first
        gathered[index] = writer.op(f"vector.shuffle {vectors[first]}, {vectors[second]} {order} : {kind}, {kind}")
    if len(pairs) == 1:
        return gathered[0]
    part_of = {q: index for index, pair in enumerate(pairs) for q in pair}
    return _gather(writer, gathered, [(part_of[q], lane) for lane, (q, _) in enumerate(sources)], kind)
