"""The cost model of matrix products: records of tiles and of the parameters of predicted times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class MatmulTile:
    """A tile of a matrix product and how a kernel computes it.

    Attributes:
        rows, columns, depth: the block of a step; rows x columns is the tile.
        warps: warps of a program, or of its consumer warp groups in a warp-specialized kernel.
        stages: the depth of the software pipeline.
        efficiency: the share of an SM's peak arithmetic that the block reaches.
        tma: whether blocks are read by TMA descriptors.
        epilogue_slices: number of slices of columns that the epilogue processes sequentially.
        persistent: whether there is one program per SM, which loops over tiles. The loads of the next tile
            overlap the epilogue, so that both need shared memory at the same time.
        per_lane_accumulators: whether the kernel accumulates without `tl.dot`, with a partial sum for each index
            along the depth of a step, which are added at the end.
        ping_pong: whether two consumer warp groups have a tile each: one computes its epilogue while the other
            multiplies.
    """

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    efficiency: float
    tma: bool = False
    epilogue_slices: int = 1
    persistent: bool = False
    per_lane_accumulators: bool = False
    ping_pong: bool = False


@dataclass(frozen=True)
class MatmulTiles:
    """The tiles among which the cost model chooses, by the kind of kernel.

    Attributes:
        tma: 16-bit operands read by TMA descriptors: persistent kernels, which need several tiles per SM, and others.
        pointer: 16-bit operands read by pointers.
        warp_specialized: 16-bit operands in warp-specialized kernels, whose consumer warp groups have 64 rows each.
        f32: f32 operands, without tensor cores.
        warp_specialized_f32: the same where a producer warp loads the blocks.
        per_lane: f32 operands whose last dimension is the depth.
        registers: of warp-specialized kernels, by the number of consumer warp groups: registers of a consumer thread,
            and of a program's threads on average.
        epilogue_columns: columns that a warp group of such a kernel stores at a time, from one of two buffers.
        max_accumulator_columns: most columns of one of its accumulators: more do not fit in its registers.
    """

    tma: tuple[MatmulTile, ...]
    pointer: tuple[MatmulTile, ...]
    warp_specialized: tuple[MatmulTile, ...]
    f32: tuple[MatmulTile, ...]
    warp_specialized_f32: tuple[MatmulTile, ...]
    per_lane: tuple[MatmulTile, ...]
    registers: Mapping[int, tuple[int, int]]
    epilogue_columns: int
    max_accumulator_columns: int


@dataclass(frozen=True)
class MatmulModel:
    """Parameters of the predicted time of a matrix product. Rates are per microsecond, times are in microseconds.

    Attributes:
        tensor_fma: rate of multiply-adds of 16-bit operands in one SM, on tensor cores.
        f32_fma: rate of multiply-adds of f32 operands in one SM, without tensor cores.
        tensor_busy_warps, f32_busy_warps: number of warps that keep the units of an SM busy.
        epilogue_ops: rate of operations on single elements in one SM.
        sm_load_bytes, load_bytes: rate at which one SM, and all SMs together, load operands.
        store_bytes: rate at which an SM that does nothing else stores results.
        tma_store_bytes, pointer_store_bytes: rate at which an SM stores results while it loads the next tile, by TMA
            and by pointers.
        dram_bytes: rate between DRAM and all SMs.
        l2_bytes: rate between the L2 cache and all SMs.
        prologue: time until the first block of operands has arrived.
        load_latency: time of one load.
        launch, dependent_launch: time of a launch, and of a launch that reads the result of the launch before it.
        gather_slowdown: factor on the time of a step whose operands are read element by element.
        unaligned_slowdown: factor on the time of unaligned loads.
        split_line_slowdown: factor on the time of loads of rows that do not begin at a cache line.
        strided_tf32_slowdown: factor on the time of tf32 products whose operands are not contiguous along the depth.
        smooth_max_exponent: exponent of the norm (a smooth maximum) that combines the times of overlapping work.
        exposed_share: share of a tile's prologue and epilogue that other programs of the SM do not hide.
        overlap_share: share of the smaller of compute and transfer time that adds to the larger.
        warp_group_delay: time by which each further consumer warp group ends later.
        shared_tile_slowdown: factor on the time of epilogues where warp groups share a tile.
        grouping_slowdown, grouped_product_slowdown: factor on the time of a grouped launch, and what each of its
            products adds to the factor.
        other_registers: registers of a thread besides the registers of its accumulators.
        heavy_epilogue: fewest operations on one element for which wide epilogue slices are worth the pipeline stage
            that their buffers take.
        max_split_k, min_split_depth: most parts of a split-K, and least depth of one part.
        split_margin: part of the time of the fastest unsplit kernel that a split must stay below.
        max_epilogue_cost: largest cost of an epilogue in the kernel of a product, see `epilogue_fusion`.
        max_grouped_products: most products of one grouped launch: their operands stay allocated until the last of
            these products can begin.
        tiles: the tiles, with the efficiency that each reaches.
    """

    tensor_fma: float
    f32_fma: float
    tensor_busy_warps: int
    f32_busy_warps: int
    epilogue_ops: float
    sm_load_bytes: float
    load_bytes: float
    store_bytes: float
    tma_store_bytes: float
    pointer_store_bytes: float
    dram_bytes: float
    l2_bytes: float
    prologue: float
    load_latency: float
    launch: float
    dependent_launch: float
    gather_slowdown: float
    unaligned_slowdown: float
    split_line_slowdown: float
    strided_tf32_slowdown: float
    smooth_max_exponent: float
    exposed_share: float
    overlap_share: float
    warp_group_delay: float
    shared_tile_slowdown: float
    grouping_slowdown: float
    grouped_product_slowdown: float
    other_registers: int
    heavy_epilogue: int
    max_split_k: int
    min_split_depth: int
    split_margin: float
    max_epilogue_cost: int
    max_grouped_products: int
    tiles: MatmulTiles

    def fma(self, width: int, on_tensor_cores: bool) -> float:
        """The rate of multiply-adds in one SM on operands of `width` bytes; the rate of tensor cores is by bytes."""
        return self.tensor_fma * 2 / width if on_tensor_cores else self.f32_fma

    def busy_warps(self, on_tensor_cores: bool) -> int:
        """The number of warps that keep the units of an SM busy."""
        return self.tensor_busy_warps if on_tensor_cores else self.f32_busy_warps

    def scaled(self, tensor: float, f32: float, clock: float, dram: float, sms: float) -> MatmulModel:
        """The parameters of another GPU, by the ratios between the GPUs.

        Args:
            tensor, f32, clock: ratios of the tensor-core rate, the f32 rate and the clock of one SM.
            dram, sms: ratios of the DRAM bandwidth and of the number of SMs.
        """
        return replace(
            self,
            tensor_fma=self.tensor_fma * tensor,
            f32_fma=self.f32_fma * f32,
            epilogue_ops=self.epilogue_ops * f32,
            sm_load_bytes=self.sm_load_bytes * clock,
            load_bytes=self.load_bytes * clock * sms,
            store_bytes=self.store_bytes * clock,
            tma_store_bytes=self.tma_store_bytes * clock,
            pointer_store_bytes=self.pointer_store_bytes * clock,
            dram_bytes=self.dram_bytes * dram,
            l2_bytes=self.l2_bytes * clock * sms,
        )
