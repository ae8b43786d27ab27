"""The transpose of a square of vectors in registers."""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.lowering.llvm.lanes import LaneValue
from oneflow.lowering.llvm.writer import Writer


def transpose(writer: Writer, rows: Sequence[LaneValue]) -> list[LaneValue]:
    """Transposes n vectors of n lanes in registers: lane r of vector c becomes lane c of vector r.

    Each round swaps the off-diagonal blocks in squares of twice the size.
    """
    width, element = len(rows), rows[0].element
    kind = f"vector<{width}x{element}>"
    names, half = [row.name for row in rows], 1
    while half < width:
        low = [lane if not lane & half else width + (lane ^ half) for lane in range(width)]
        high = [lane | half if not lane & half else width + lane for lane in range(width)]
        for first in (n for n in range(width) if not n & half):
            pair = f"{names[first]}, {names[first | half]}"
            names[first] = writer.op(f"vector.shuffle {pair} {low} : {kind}, {kind}")
            names[first | half] = writer.op(f"vector.shuffle {pair} {high} : {kind}, {kind}")
        half *= 2
    return [LaneValue(name, element, True) for name in names]
