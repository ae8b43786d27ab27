"""How large blocks are, and in which way inner loops run.

Imports `kernel`, `sizes`, `tile`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oneflow.lowering.kernels.nodes import Structure
from oneflow.lowering.triton.kernel import Kernel
from oneflow.lowering.triton.sizes import Size, power_of_two, product
from oneflow.lowering.triton.tile import Form

#: The largest row that is kept in registers, and the sizes of blocks.
ROW = 32768
POINTWISE = 1024
CHUNK = 4096
#: Columns and rows of a block where reduced elements lie apart.
COLUMNS, DEPTH = 64, 32


@dataclass(frozen=True)
class Blocks:
    """Sizes of a block, the mode of the inner loops (see `nest`), and warps."""

    outer: int
    inner: int
    mode: str
    warps: int


def choose_blocks(
    kernel: Kernel, structure: Structure, sizes: Mapping[int, Size], forms: Sequence[Form], regroups: bool
) -> Blocks:
    """The blocks of a nest; `regroups` says that every reduction is associative."""
    outer = product(sizes[n] for n in structure.outer).static
    inner = product(sizes[n] for n in structure.inner).static
    wide = power_of_two(outer) if outer is not None else POINTWISE
    if inner == 1:
        block = min(POINTWISE, wide)
        return Blocks(block, 1, "once", warps_of(block))
    if not regroups:
        block = min(128, wide)
        return Blocks(block, 1, "step", warps_of(block))
    row = power_of_two(inner) if inner is not None else CHUNK
    if _strided(structure, forms):
        columns = min(COLUMNS, wide)
        depth = min(row, max(DEPTH, POINTWISE // columns))
        return Blocks(columns, depth, "whole" if inner is not None and row <= depth else "chunk", 4)
    if inner is not None and row <= ROW:
        block = max(1, min(wide, POINTWISE // row))
        return Blocks(block, row, "whole", warps_of(block * row))
    return Blocks(1, CHUNK, "chunk", 8)


def _strided(structure: Structure, forms: Sequence[Form]) -> bool:
    """Whether elements along the inner loops lie apart in the tensor that is swept, those along outer ones not."""
    last = structure.inner[-1]
    swept = [f.loops for f in forms if last in f.loops]
    one = Size.of(1)
    return (
        bool(swept)
        and all(f[last] != one for f in swept)
        and any(f.get(n) == one for f in swept for n in structure.outer)
    )


def warps_of(elements: int) -> int:
    """The warps of a program by the elements of its block."""
    return max(1, min(16, power_of_two(elements // 512 or 1)))
