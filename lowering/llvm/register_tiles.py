"""Register blocking, the register tiles of matrix products: rows and vectors of accumulators in registers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from oneflow.lowering.llvm.writer import Index
from oneflow.lowering.targets.cpu import CpuTarget


def register_tiles(target: CpuTarget, reloads_sums: bool = False) -> dict[int, int]:
    """The register tiles of a target: rows by the number of vectors in a row, widest first.

    Accumulators fill at most three quarters of the registers. The others hold the right operand's vectors and, unless
    an instruction broadcasts from memory, an element of the left operand; a single row reads both operands from
    memory. A tile that reloads its sums for every few steps has a row less on targets without fused instructions,
    whose products need registers before they are added.
    """
    registers, tiles = target.vector_registers, {}
    for vectors in (16, 8, 4, 2, 1):
        rows = min(registers * 3 // 4, registers - vectors - (not target.has_masks)) // vectors
        rows -= reloads_sums and not target.has_fma
        if rows > 1 or vectors <= registers // 2:
            tiles[vectors] = min(max(rows, 1), target.kernels.contractions.max_tile_rows)
    return tiles


def best_tile(tiles: Mapping[int, int]) -> int:
    """The vectors per row of the tile with the most multiplications per element read."""
    return min(tiles, key=lambda vectors: 1 / vectors + 1 / tiles[vectors])


@dataclass(frozen=True)
class TileShape:
    """A register tile: its rows, and the vectors in a row."""

    rows: int
    vectors: int


def tile_shape(tiles: Mapping[int, int], rows: Index, columns: Index, width: int) -> TileShape:
    """The tile of `tiles` for a product of `rows` and `columns`, in vectors of `width` lanes.

    A tile has no more vectors than the columns fill; it is wide where all rows fit in one tile. All tiles have nearly
    as many rows as each other: a small last tile would be bound by the latency of its sums.
    """
    single_tile = [v for v in tiles if v > 1 and isinstance(rows, int) and rows <= tiles[v]] or [best_tile(tiles)]
    fits = [v for v in (1, 2, 4) if isinstance(columns, int) and columns <= v * width] or [max(tiles)]
    vectors = min(single_tile[0], fits[0])
    if not isinstance(rows, int):
        return TileShape(tiles[vectors], vectors)
    return TileShape(max(math.ceil(rows / max(math.ceil(rows / tiles[vectors]), 1)), 1), vectors)
