"""Sizes of CPU kernels from the facts of a processor.

Formulas count elements of f32. Sizes follow from few quantities:

- an *operation rate*: the element operations that a core begins in one cycle, lanes of a vector times ports;
- a *grain*: work that takes much longer than the start of a step or of a thread, in cycles times the operation rate;
- *pages*, since neither hardware prefetch nor one entry of the TLB goes beyond a page;
- *caches*: a block that is used again fits in half of a cache, next to the data that streams through;
- *registers*: a tile of accumulators that covers the latency of multiply-adds and leaves registers for operands.

Parameters without such a quantity are ratios that the algorithm fixes, equal for all processors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from oneflow.lowering.targets.cpu_parameters import (
    ContractionParameters,
    CpuKernelParameters,
    LoopParameters,
    SplitParameters,
)

if TYPE_CHECKING:
    from oneflow.lowering.targets.cpu import CpuTarget

F32_BYTES = 4
#: Cycles of one parallel step of a loop nest, and of one part of a split reduction: the start of a step and the
#: addition of a part take a small share of these.
STEP_CYCLES, PART_CYCLES = 256, 1024
#: The most parts of a split reduction. It does not depend on the number of cores, since the number of parts changes
#: the rounding.
MAX_PARTS = 16
#: The depth of a block of a product: as many products are summed before the sum is added to a total. It is the same
#: on all processors, since the depth changes the rounding.
BLOCK_DEPTH = 512
#: Rows of a matrix that are read concurrently: the hardware prefetches this many streams, and a single stream does
#: not reach the bandwidth of memory.
STREAMS = 8
#: Rows and vectors of the part of a product's result that is worth a parallel step.
STEP_ROWS, STEP_VECTORS = 64, 4


def derive_kernels(cpu: CpuTarget) -> CpuKernelParameters:
    """The sizes of the kernels of a processor."""
    return CpuKernelParameters(_loops(cpu), _contractions(cpu), _splits(cpu))


def _lanes(cpu: CpuTarget) -> int:
    """The f32 elements of a vector."""
    return cpu.vector_bytes // F32_BYTES


def _rate(cpu: CpuTarget) -> int:
    """The operation rate."""
    return _lanes(cpu) * cpu.fma_ports


def _short(cpu: CpuTarget) -> int:
    """The f32 elements of half a vector: fewer leave more than half of the lanes idle."""
    return max(_lanes(cpu) // 2, 1)


def _row_block_bytes(cpu: CpuTarget) -> int:
    """The bytes of a block of a row, where the next row is in another page.

    A quarter of a page amortizes the access to the page. Accumulators for a block stay in the L1 cache with the data
    that streams through.
    """
    return min(cpu.page_bytes // 4, cpu.l1_bytes // 32)


def _loops(cpu: CpuTarget) -> LoopParameters:
    rate = _rate(cpu)
    return LoopParameters(
        parallel_operations=cpu.wake_cycles * rate,
        chunk_steps=STEP_CYCLES * rate,
        scalar_chunk_steps=STEP_CYCLES * cpu.issue_width,
        min_parallel_steps=cpu.cores,
        l2_bytes_per_element=16,
        column_block_bytes=_row_block_bytes(cpu),
        min_long_sum=64,
        max_idle_lanes=8,
        short_row=_short(cpu),
        # Sixteen pages, unless the source and the result of the step exceed half of the L2 cache.
        copy_chunk=min(16 * cpu.page_bytes, cpu.l2_bytes // 4) // F32_BYTES,
        short_run=_row_block_bytes(cpu) // F32_BYTES,
        # Each row of a transposed tile is in another page, and the pages of a tile fit in the TLB.
        tile_rows=cpu.tlb_entries,
        tile_columns=cpu.page_bytes // F32_BYTES,
        max_transposed_elements=cpu.l2_bytes // 4 // F32_BYTES,
        min_transposed_uses=64,
        # A tile has a register for each row: every processor has at least sixteen.
        max_transposed_lanes=16,
        min_lanes=4,
        pointwise_registers=cpu.vector_registers // 16,
        # Accumulators for half of all registers hide the latency of operations.
        column_registers=cpu.vector_registers // 2,
        arg_reduction_registers=cpu.vector_registers // 4,
        row_registers=4,
        math_operations=12,
        call_operations=4,
        dynamic_steps=64,
        min_row_steps=MAX_PARTS,
    )


def _contractions(cpu: CpuTarget) -> ContractionParameters:
    # Twice the multiply-adds in flight; two registers stay for the operands.
    max_tile_rows = min(cpu.vector_registers - 2, 2 * cpu.fma_latency * cpu.fma_ports)
    # A tile of as many rows and columns of dot products fills half of the registers.
    square = math.isqrt(cpu.vector_registers // 2)
    return ContractionParameters(
        max_tile_rows=max_tile_rows,
        # The left operand of a step, for a block of the depth, fits in half of the L2 cache.
        step_rows=max(cpu.l2_bytes // 2 // (BLOCK_DEPTH * F32_BYTES), max_tile_rows),
        steps_per_core=4,
        # Packing reads a short block of each row of the right operand, all in different pages.
        max_skinny_rows=32,
        # Every processor has at least eight ways.
        max_unpacked_rows=8,
        skinny_slice_depth=STREAMS,
        max_row_groups=4,
        min_block_bytes=_row_block_bytes(cpu),
        max_dot_rows=2 * square,
        max_dot_columns=STREAMS,
        dot_step_columns=8 * square,
        max_epilogue_cost=64,
        # A store and a load of each sum take a small share of such an epilogue.
        max_unrolled_epilogue=12,
        fma_per_operation=8,
        dynamic_depth=BLOCK_DEPTH // 2,
        # Segments of a row are packed in loops, which take as long as a few elements.
        min_flat_row=4,
        flat_lanes=16,
    )


def _splits(cpu: CpuTarget) -> SplitParameters:
    columns = MAX_PARTS * _row_block_bytes(cpu) // F32_BYTES
    return SplitParameters(
        max_parts=MAX_PARTS,
        min_part_operations=PART_CYCLES * _rate(cpu),
        min_product_depth=BLOCK_DEPTH,
        min_split_depth=4 * BLOCK_DEPTH,
        min_unsplit_columns=columns,
        min_unsplit_products=MAX_PARTS * STEP_ROWS * STEP_VECTORS * _lanes(cpu),
        min_unsplit_narrow_products=columns,
        max_narrow_side=_short(cpu),
        min_lanes=_short(cpu),
        min_reordered_depth=64,
    )
