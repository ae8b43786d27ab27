"""Sizes of kernels that depend on a GPU: records by the kind of kernel.

The cost model of matrix products (`matmul_model`) ranks candidates by predicted times. The records here hold the
sizes of all other kernels and the limits of fusion; `gpu_derivation` computes them from the facts of a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class BlockParameters:
    """Blocks of loop nests. Blocks, rows and columns are counted in elements.

    Attributes:
        max_row: longest row kept in registers for a second pass; half as long where elements have 16 bits and two
            passes suffice.
        max_reduced_row: longest row kept in registers for a reduction alone.
        pointwise: block of a kernel without reductions.
        chunk: block of one step of a loop over blocks.
        chunk_warps: warps of a program that loops over chunks.
        sequential, sequential_per_thread: block of a reduction whose elements are combined in order; elements of a
            thread.
        division_block: elements of the smallest block that is divided by one divisor for several elements of a
            thread: in smaller blocks some threads have fewer elements, and its registers leave an SM fewer programs.
        max_warps: most warps of a program whose elements are independent.
        scatter, scatter_per_thread: block of positions of a scatter; positions of a thread.
        elements_per_thread: elements of a thread in kernels without reductions.
        row_bytes_per_thread: bytes of a row for each thread; twice as many in long rows.
        strided: block of a reduction whose elements are strided in memory.
        strided_columns, min_strided_columns: the columns of this block, along which the block is contiguous; the
            fewest columns, where wider blocks would leave half of the SMs idle.
        strided_warps: warps of a program of such a reduction.
        strided_programs_per_sm: programs that keep enough loads of an SM in flight; fewer programs have larger
            blocks.
        max_unrolled: most strided elements that an unrolled loop reduces, so that threads read vectors.
        min_unrolled: smallest block with such a loop.
        max_window: most elements of a window whose elements are reduced sequentially.
        max_window_stride: largest distance in memory between windows that count as neighbours.
        window_bytes: bytes that a thread reads in one step of unaligned windows.
        min_plane: fewest windows of one image for which a program stays in that image.
        planes: candidates for the windows of such a program.
        transpose, max_transpose_side: block that is read along one loop and written along another; its longest side.
        streamed_l2_caches: size of a tensor, as a multiple of the L2 cache, from which on reads are streamed, so that
            reads do not evict written data.
        group_rows: rows of tiles of a matrix product that neighbouring programs share, for reuse in the L2 cache.
        dynamic_steps: assumed steps of a loop of dynamic size.
    """

    max_row: int
    max_reduced_row: int
    pointwise: int
    chunk: int
    chunk_warps: int
    sequential: int
    sequential_per_thread: int
    division_block: int
    max_warps: int
    scatter: int
    scatter_per_thread: int
    elements_per_thread: int
    row_bytes_per_thread: int
    strided: int
    strided_columns: int
    min_strided_columns: int
    strided_warps: int
    strided_programs_per_sm: int
    max_unrolled: int
    min_unrolled: int
    max_window: int
    max_window_stride: int
    window_bytes: int
    min_plane: int
    planes: tuple[int, ...]
    transpose: int
    max_transpose_side: int
    streamed_l2_caches: float
    group_rows: int
    dynamic_steps: int


@dataclass(frozen=True)
class SplitLimits:
    """When a reduction is split, by its elements for one result and the elements of all operands.

    Attributes:
        programs_per_sm: programs per SM that need no split.
        min_depth: fewest elements of a result that are split.
        min_part: fewest elements of a part.
    """

    programs_per_sm: int
    min_depth: int
    min_part: int


@dataclass(frozen=True)
class ReductionParameters:
    """Split reductions, and fusion of reductions with their consumers.

    Attributes:
        rows, columns: when sums along rows and sums along columns are split.
        max_programs_per_sm: most programs per SM of a split reduction.
        columns_per_program: columns of a program of column sums.
        min_split_elements: operands of fewer elements are not split: one SM is enough.
        max_fused_row: longest row whose element-wise consumers, on few rows, stay in one kernel with the row's
            statistics.
        min_fused_columns_per_sm: fewest columns per SM for which column sums and their consumers are one kernel.
        max_small_elements: operands of at most so many elements are one kernel with their consumers in any case.
        min_fused_rows: fewest rows whose reductions and consumers are one kernel.
        max_recomputed_operations: most operations on an element that are computed again rather than read from memory.
    """

    rows: SplitLimits
    columns: SplitLimits
    max_programs_per_sm: int
    columns_per_program: int
    min_split_elements: int
    max_fused_row: int
    min_fused_columns_per_sm: int
    max_small_elements: int
    min_fused_rows: int
    max_recomputed_operations: int


@dataclass(frozen=True)
class ScatterParameters:
    """Scatters with indices that may repeat: the last write wins.

    Attributes:
        max_ordered_steps: most steps of a sequential loop that is as fast as two more kernels for the last writes.
        max_positions_per_step: most positions for each step: for more positions, finding the last writes takes longer
            than the sequential loop.
    """

    max_ordered_steps: int
    max_positions_per_step: int


@dataclass(frozen=True)
class SharedRowParameters:
    """Kernels that keep a long row in shared memory.

    Attributes:
        min_row: elements of the shortest row.
        block, warps: elements and warps of a block.
        min_programs_per_sm: fewest programs whose rows the shared memory of an SM holds.
        max_registers: most registers of a thread.
        max_unrolled: most blocks of a pass over the row that is unrolled.
    """

    min_row: int
    block: int
    warps: int
    min_programs_per_sm: int
    max_registers: int
    max_unrolled: int


@dataclass(frozen=True)
class AttentionBlocks:
    """Queries and keys of a block of a plain kernel, its warps, and its pipeline stages."""

    queries: int
    keys: int
    warps: int
    stages: int

    def shared_bytes(self, width: int) -> int:
        """The shared memory of a forward kernel for 16-bit heads of `width` elements, a power of two."""
        return 2 * width * (self.queries + 2 * self.stages * self.keys)


@dataclass(frozen=True)
class WarpSpecializedAttention:
    """A configuration of the warp-specialized forward kernel.

    Attributes:
        consumer_groups: consumer warp groups of a program.
        key_block: keys of a block.
        stages: shared-memory buffers of keys, and of values.
        consumer_registers, average_registers: registers of a thread of a consumer warp group, and of a program's
            threads on average.
        ping_pong: whether consumer warp groups alternate at the tensor cores.
        min_tiles_per_sm: with fewer tiles the plain kernel, which has smaller tiles, keeps more SMs busy.
    """

    consumer_groups: int
    key_block: int
    stages: int
    consumer_registers: int
    average_registers: int
    ping_pong: bool
    min_tiles_per_sm: float


@dataclass(frozen=True)
class WarpSpecializedAttentionGradient:
    """A configuration of a warp-specialized backward kernel.

    Attributes:
        step: rows of a streamed block.
        stages: shared-memory buffers of streamed blocks.
        stationary_buffers: shared-memory buffers of a warp group's stationary rows.
        in_registers: whether the stationary rows stay in registers.
    """

    step: int
    stages: int
    stationary_buffers: int
    in_registers: bool


@dataclass(frozen=True)
class AttentionParameters:
    """Configurations of the attention kernels. Tables are keyed by the width of a block of heads.

    Attributes:
        max_width: elements of the widest heads.
        max_narrow_width: elements of the widest heads whose kernels are called narrow here.
        narrow: plain forward kernel for heads of at most `max_narrow_width`.
        wide: the same for wider heads, where two programs share an SM.
        wide_tall: the same for wider heads where blocks of more queries fill all SMs, since 64 queries take less time
            to multiply than their keys and values to load.
        narrow_gradients, wide_gradients: plain backward kernels, whose blocks have as many queries as keys.
        forward: warp-specialized forward kernels; empty where there are none.
        causal_short: the same for causal attention of the narrowest heads over at most `max_causal_short` queries:
            smaller tiles mask less.
        max_causal_short: see `causal_short`.
        query_buffers: shared-memory buffers of query blocks.
        key_gradients, query_gradients: warp-specialized backward kernels, by the side whose rows are stationary;
            empty where there are none.
        gradient_groups: consumer warp groups of a program of these.
        gradient_registers, gradient_average_registers: registers of a thread of a consumer warp group of these, and
            of a program's threads on average.
        min_gradient_tiles_per_sm: with fewer tiles the plain backward kernels keep more SMs busy.
        min_paired_tiles_per_sm: fewest tiles of causal attention that programs take in pairs of a heavy and a light
            one.
    """

    max_width: int
    max_narrow_width: int
    narrow: AttentionBlocks
    wide: AttentionBlocks
    wide_tall: AttentionBlocks
    narrow_gradients: AttentionBlocks
    wide_gradients: AttentionBlocks
    forward: Mapping[int, WarpSpecializedAttention]
    causal_short: WarpSpecializedAttention
    max_causal_short: int
    query_buffers: int
    key_gradients: Mapping[int, WarpSpecializedAttentionGradient]
    query_gradients: Mapping[int, WarpSpecializedAttentionGradient]
    gradient_groups: int
    gradient_registers: int
    gradient_average_registers: int
    min_gradient_tiles_per_sm: int
    min_paired_tiles_per_sm: int


@dataclass(frozen=True)
class NormGradientParameters:
    """The fused gradients of a normalization.

    Attributes:
        max_row, min_rows: longest row and fewest rows that the fused kernel takes.
        elements_per_thread: elements of a row of one thread.
        warps_per_sm: warps of all programs of an SM.
        elements_per_warp: elements of a row that a warp loads at once.
        stages: pipeline stages of loads where all warps of a program share a row.
        sole_program_stages: the same where a program has an SM to itself: the program waits for two reductions of a
            row, and no other program loads meanwhile.
    """

    max_row: int
    min_rows: int
    elements_per_thread: int
    warps_per_sm: int
    elements_per_warp: int
    stages: int
    sole_program_stages: int


@dataclass(frozen=True)
class GroupwiseParameters:
    """Products with weights of 4 and 8 bits that are dequantized in registers.

    Attributes:
        max_rows: most rows of a product, which are in one block: more blocks would dequantize the weight again.
        columns: candidates for the columns of a program, most first.
        row_bytes: most bytes of a row of the weight in a step of the depth.
        warps: warps of a program.
        bytes_in_flight: bytes of the weight that an SM loads at the same time.
        max_stages: most pipeline stages.
    """

    max_rows: int
    columns: tuple[int, ...]
    row_bytes: int
    warps: int
    bytes_in_flight: int
    max_stages: int


@dataclass(frozen=True)
class GroupedCallLimits:
    """Limits of a grouped launch: calls have at most `programs_per_sm` programs per SM, since larger calls fill the
    GPU alone; the launch has at most `parameters` parameters.
    """

    programs_per_sm: int
    parameters: int


@dataclass(frozen=True)
class LaunchParameters:
    """Grouped launches, horizontal fusion, reuse of temporary memory, and graphs.

    Attributes:
        max_parameters: most parameters of a kernel.
        grouped: grouped launches by the kind of their kernel, fewer programs first. The more programs a call has, the
            fewer parameters a launch takes: every program selects its call among all calls of the launch, which costs
            time.
        max_fused_entry_calls: most calls of an entry whose kernels are fused horizontally.
        max_fused_programs_per_sm: most programs per SM of a kernel that is fused.
        max_total_programs_per_sm: most programs per SM of a fused launch.
        max_fused_l2_share: largest part of the L2 cache that a fused kernel reads and writes.
        max_fused_warps: most warps of a kernel that is fused: all kernels of a launch run with the warps of the
            largest.
        no_reuse_l2_share: temporaries that take at most this part of the L2 cache share no memory, so that a kernel
            does not wait for the users of an earlier tensor in the same memory.
        scratch_distance: commands for which scratch memory is not reused, so that they can run concurrently.
        min_graph_commands: fewest commands of a graph: the launch of a graph costs as much as a few kernel launches.
        max_staged_bytes: largest result of a captured external kernel that is written to fixed memory and copied.
    """

    max_parameters: int
    grouped: Mapping[str, tuple[GroupedCallLimits, ...]]
    max_fused_entry_calls: int
    max_fused_programs_per_sm: int
    max_total_programs_per_sm: int
    max_fused_l2_share: float
    max_fused_warps: int
    no_reuse_l2_share: float
    scratch_distance: int
    min_graph_commands: int
    max_staged_bytes: int


@dataclass(frozen=True)
class KernelParameters:
    """The parameters of a GPU by the kind of kernel."""

    blocks: BlockParameters
    reductions: ReductionParameters
    scatters: ScatterParameters
    shared_rows: SharedRowParameters
    attention: AttentionParameters
    norm_gradients: NormGradientParameters
    groupwise: GroupwiseParameters
    launches: LaunchParameters
