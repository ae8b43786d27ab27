"""Sizes of kernels that depend on a processor: records by the kind of kernel.

`cpu_derivation` computes the values of a target from the facts of the target.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LoopParameters:
    """Loop nests and copies. Steps are iterations of a loop; blocks and shares are in bytes.

    Attributes:
        parallel_operations: kernels of fewer element operations run on the calling thread: waking threads would take
            longer.
        chunk_steps: steps of the vectorized outer loop in one step of the parallel range, in kernels without inner
            loops.
        scalar_chunk_steps: the same for a loop without vector lanes.
        min_parallel_steps: fewest parallel steps of a column reduction; its vectors are narrowed for them.
        l2_bytes_per_element: bytes of the L2 cache for each element of scratch memory of a column reduction.
        column_block_bytes: bytes of a row that a column reduction reads at once, if the reduction only combines
            elements of at least `min_long_sum` rows: the next row is in another page of memory. Accumulators beyond
            the registers stay in the L1 cache.
        min_long_sum: see `column_block_bytes`.
        max_idle_lanes: vectors are halved while more than one in `max_idle_lanes` lanes of the loop would be idle.
        short_row: rows of fewer elements get vector lanes along columns where possible.
        copy_chunk: elements of one parallel step of a fill or a contiguous copy.
        short_run: runs of fewer elements share parallel steps of a copy.
        tile_rows, tile_columns: rows and columns of one parallel step of a transpose.
        max_transposed_elements, min_transposed_uses: a tensor is copied in transposed order if it has at most this
            many elements, each of which is used in at least this many steps.
        max_transposed_lanes: most rows and columns of a tile that is transposed in registers.
        min_lanes: fewest lanes of a vector that is halved for a short loop.
        pointwise_registers, row_registers, arg_reduction_registers, column_registers: registers of the lanes of a
            step, in a kernel without reductions, a reduction along rows, an arg-reduction along rows, and a reduction
            along columns.
        math_operations, call_operations: element operations that take as long as one of the dialect `math`, and as a
            call; others take one.
        dynamic_steps: assumed steps of a loop of dynamic size.
        min_row_steps: fewest rows whose reductions and consumers are one kernel, so that several threads have rows.
    """

    parallel_operations: int
    chunk_steps: int
    scalar_chunk_steps: int
    min_parallel_steps: int
    l2_bytes_per_element: int
    column_block_bytes: int
    min_long_sum: int
    max_idle_lanes: int
    short_row: int
    copy_chunk: int
    short_run: int
    tile_rows: int
    tile_columns: int
    max_transposed_elements: int
    min_transposed_uses: int
    max_transposed_lanes: int
    min_lanes: int
    pointwise_registers: int
    row_registers: int
    arg_reduction_registers: int
    column_registers: int
    math_operations: int
    call_operations: int
    dynamic_steps: int
    min_row_steps: int


@dataclass(frozen=True)
class ContractionParameters:
    """Contractions.

    Attributes:
        max_tile_rows: most rows of a register tile.
        step_rows: rows of one parallel step; more rows where these leave `steps_per_core` steps for each core.
        steps_per_core: see `step_rows`.
        max_skinny_rows: most rows of a product whose right operand is streamed from memory; with more rows, packing
            the operand is profitable.
        max_unpacked_rows: most rows of such a product whose left operand is read in place: with more rows, a packed
            slice avoids that rows at a distance of a power of two share a set of the L1 cache.
        skinny_slice_depth: steps of a slice of the depth of such a product: each partial sum is loaded and stored
            once per slice.
        max_row_groups: most groups of rows whose code is unrolled; a loop reloads the right operand for each group.
        min_block_bytes: fewest bytes of a block of a row of the right operand. Blocks are long, since each begins in
            another page of memory; there is one for each core, and its partial sums fit in the L1 cache.
        max_dot_rows, max_dot_columns: most rows and columns of a tile of dot products, whose sums also fit in half of
            the registers.
        dot_step_columns: columns of one parallel step of dot products.
        max_epilogue_cost: largest cost of an epilogue in the kernel of a product, see `epilogue_fusion`.
        max_unrolled_epilogue: most element operations of an epilogue whose code is written for each row of a register
            tile; a longer one is a loop over the rows.
        fma_per_operation: multiply-adds of a register tile that take as long as an element operation of a loop nest,
            which loads its operands.
        dynamic_depth: assumed depth of a product of dynamic depth.
        min_flat_row, flat_lanes: the columns of an image are one loop (`flat_columns`) if rows of the image have at
            least `min_flat_row` elements, and if that saves at least one lane in `flat_lanes`.
    """

    max_tile_rows: int
    step_rows: int
    steps_per_core: int
    max_skinny_rows: int
    max_unpacked_rows: int
    skinny_slice_depth: int
    max_row_groups: int
    min_block_bytes: int
    max_dot_rows: int
    max_dot_columns: int
    dot_step_columns: int
    max_epilogue_cost: int
    max_unrolled_epilogue: int
    fma_per_operation: int
    dynamic_depth: int
    min_flat_row: int
    flat_lanes: int


@dataclass(frozen=True)
class SplitParameters:
    """Reductions that are split for threads.

    Attributes:
        max_parts: most parts.
        min_part_operations: fewest element operations of a part.
        min_product_depth, min_split_depth: least depth of one part of a product; least depth that is split.
        min_unsplit_columns, min_unsplit_products: fewest results of a column reduction and of a product that has
            enough parallel steps without a split.
        min_unsplit_narrow_products: the same for a product with at most `max_narrow_side` rows or columns, whose
            tiles are long and narrow.
        max_narrow_side: see `min_unsplit_narrow_products`.
        min_lanes: partial results are reordered where their last dimension has fewer elements.
        min_reordered_depth: fewest steps of the depth of such a product.
    """

    max_parts: int
    min_part_operations: int
    min_product_depth: int
    min_split_depth: int
    min_unsplit_columns: int
    min_unsplit_products: int
    min_unsplit_narrow_products: int
    max_narrow_side: int
    min_lanes: int
    min_reordered_depth: int


@dataclass(frozen=True)
class CpuKernelParameters:
    """The parameters of a processor by the kind of kernel."""

    loops: LoopParameters
    contractions: ContractionParameters
    splits: SplitParameters
