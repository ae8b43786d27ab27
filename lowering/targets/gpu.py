"""The record of a GPU target: its sizes and the fitted parameters of the cost model; and the table by architecture.

A row of `GPU_TARGETS` adds a GPU.

A GPU that no parameters were fitted on has those of the H100, scaled by its own clocks and bandwidths.
`benchmarks/gpu_autotune.py` measures how far the choices of the model are from the fastest candidates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from oneflow.lowering.targets.gpu_parameters import HOPPER_KERNELS, KernelParameters


@dataclass(frozen=True)
class MatmulTile:
    """A tile of a matrix product and how a kernel computes it.

    Attributes:
        rows, columns, depth: the block of a step; rows x columns is the tile.
        warps: of a program; of its consumer warp groups where these are specialized.
        stages: the depth of the software pipeline.
        efficiency: the share of an SM's peak arithmetic that the block reaches.
        tma: whether blocks are read by TMA descriptors.
        epilogue_slices: how many slices of columns the epilogue takes one after the other.
        persistent: whether there is one program per SM, which takes tile after tile. The loads of the next tile
            overlap the epilogue, so that both need shared memory at the same time.
        per_lane_accumulators: whether the kernel accumulates without `tl.dot`, with a partial sum for each position
            of a step's depth, which are added at the end.
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
    """

    tma: tuple[MatmulTile, ...]
    pointer: tuple[MatmulTile, ...]
    warp_specialized: tuple[MatmulTile, ...]
    f32: tuple[MatmulTile, ...]
    warp_specialized_f32: tuple[MatmulTile, ...]
    per_lane: tuple[MatmulTile, ...]
    registers: Mapping[int, tuple[int, int]]


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
        other_registers: registers of a thread besides those of its accumulators.
        heavy_epilogue: operations on one element from which on wide epilogue slices are worth the pipeline stage that
            the buffers of these slices take.
        max_split_k, min_split_depth: most parts of a split-K, and least depth of one part.
        split_margin: part of the time of the fastest unsplit kernel that a split must stay below.
        max_grouped_products: most products of one grouped launch: their operands stay allocated until the last of
            these products can begin.
        tiles: the tiles, with the efficiency that each reaches; no part of the hash, which every look-up computes.
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
    max_grouped_products: int
    tiles: MatmulTiles = field(hash=False)

    def fma(self, width: int, on_tensor_cores: bool) -> float:
        """The rate of multiply-adds in one SM on operands of `width` bytes; that of tensor cores is by bytes."""
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


@dataclass(frozen=True)
class MatmulOverrides:
    """Configurations that replace the choices of the cost model, for tests and measurements.

    Attributes:
        tiles: the tiles of plain kernels, the preferred tile first; empty for the choice of the model.
        warp_specialized: the tile of warp-specialized kernels; None for the choice of the model.
        split_k: the loop of the depth that is split, and the number of parts; None for the choice of the model.
        transposes_operands: whether tf32 operands are transposed even where a copy takes longer.
        groups_all_calls: whether all calls of a product are one grouped launch.
    """

    tiles: tuple[MatmulTile, ...] = ()
    warp_specialized: MatmulTile | None = None
    split_k: tuple[int, int] | None = None
    transposes_operands: bool = False
    groups_all_calls: bool = False


@dataclass(frozen=True)
class GpuTarget:
    """A GPU for code generation and the cost model.

    Attributes:
        arch: the architecture, such as `sm_90`; the name in `--gpu-arch`.
        sms: number of streaming multiprocessors (SMs).
        sm_shared_bytes: shared memory of an SM.
        block_shared_bytes: the most shared memory of one program.
        has_tma: whether the tensor memory accelerator (TMA) copies blocks by descriptors.
        l2_cache_bytes: size of the L2 cache.
        model: parameters of the cost model.
        reserved_shared_bytes: the part of a program's shared memory that the compiler and the driver take.
        sm_registers: number of 32-bit registers of an SM.
        cache_line_bytes: size of a line of the L2 cache.
        kernels: sizes of kernels other than matrix products.
        overrides: configurations that replace choices of the cost model.
    """

    arch: str
    sms: int
    sm_shared_bytes: int
    block_shared_bytes: int
    has_tma: bool
    l2_cache_bytes: int
    model: MatmulModel
    reserved_shared_bytes: int = 1024
    sm_registers: int = 65536
    cache_line_bytes: int = 128
    kernels: KernelParameters = field(default=HOPPER_KERNELS, hash=False)
    overrides: MatmulOverrides = field(default_factory=MatmulOverrides, hash=False)

    @property
    def has_float8(self) -> bool:
        """Whether tensor cores multiply floats of 8 bits: from Ada (sm_89) on."""
        return int(self.arch.removeprefix("sm_")) >= 89


# fmt: off
#: The tiles and their efficiencies, measured on an H100 and an H200.
HOPPER_TILES = MatmulTiles(
    tma=(
        MatmulTile(128, 256, 64, 8, 4, 0.745, True, epilogue_slices=2, persistent=True),
        MatmulTile(128, 128, 64, 8, 5, 0.81, True, persistent=True),
        MatmulTile(128, 256, 64, 8, 4, 0.755, True),
        MatmulTile(128, 128, 64, 4, 6, 0.82, True),
        MatmulTile(128, 128, 64, 8, 3, 0.83, True),
        MatmulTile(64, 128, 64, 4, 3, 0.73, True),
        MatmulTile(64, 128, 64, 4, 4, 0.73, True),
        MatmulTile(64, 128, 128, 4, 4, 0.73, True),
        MatmulTile(128, 64, 128, 4, 4, 0.57, True),
        MatmulTile(64, 32, 128, 4, 8, 0.40, True),
        MatmulTile(64, 64, 128, 4, 6, 0.57, True),
    ),
    pointer=(
        MatmulTile(128, 256, 64, 8, 3, 0.73),
        MatmulTile(128, 128, 64, 8, 3, 0.73),
        MatmulTile(64, 128, 64, 4, 4, 0.73),
        MatmulTile(64, 64, 64, 4, 4, 0.57),
        MatmulTile(64, 32, 128, 4, 5, 0.40),
        MatmulTile(32, 64, 128, 4, 4, 0.29),
        MatmulTile(32, 32, 128, 4, 5, 0.20),
        MatmulTile(16, 64, 128, 4, 5, 0.14),
        MatmulTile(16, 32, 256, 4, 4, 0.10),
        MatmulTile(64, 16, 128, 4, 5, 0.25),
        MatmulTile(16, 16, 128, 4, 4, 0.06),
    ),
    warp_specialized=(
        MatmulTile(192, 256, 64, 12, 3, 0.707, True, epilogue_slices=2, persistent=True),
        MatmulTile(192, 192, 64, 12, 3, 0.655, True, persistent=True),
        MatmulTile(192, 128, 64, 12, 4, 0.765, True, persistent=True),
        MatmulTile(192, 96, 64, 12, 5, 0.65, True, persistent=True),
        MatmulTile(128, 192, 64, 8, 4, 0.76, True, persistent=True),
        MatmulTile(128, 160, 64, 8, 5, 0.69, True, persistent=True),
        MatmulTile(128, 144, 64, 8, 5, 0.68, True, persistent=True),
        MatmulTile(64, 128, 64, 4, 8, 0.79, True, persistent=True),
        MatmulTile(64, 96, 64, 4, 8, 0.73, True, persistent=True),
        MatmulTile(128, 128, 64, 8, 6, 0.85, True, persistent=True, ping_pong=True),
        MatmulTile(128, 192, 64, 8, 4, 0.76, True, persistent=True, ping_pong=True),
    ),
    f32=(
        MatmulTile(64, 64, 16, 4, 4, 0.76),
        MatmulTile(128, 64, 16, 4, 4, 0.73),
        MatmulTile(32, 32, 32, 4, 4, 0.53),
        MatmulTile(16, 32, 64, 4, 3, 0.37),
        MatmulTile(16, 16, 64, 4, 3, 0.26),
    ),
    warp_specialized_f32=(
        MatmulTile(128, 128, 16, 4, 6, 0.80, True),
        MatmulTile(64, 128, 16, 4, 6, 0.76, True),
    ),
    per_lane=(
        MatmulTile(8, 32, 32, 2, 3, 0.44, per_lane_accumulators=True),
        MatmulTile(8, 32, 64, 4, 3, 0.38, per_lane_accumulators=True),
        MatmulTile(16, 16, 64, 4, 3, 0.35, per_lane_accumulators=True),
        MatmulTile(8, 16, 64, 4, 3, 0.22, per_lane_accumulators=True),
        MatmulTile(8, 8, 64, 2, 3, 0.21, per_lane_accumulators=True),
    ),
    registers={1: (240, 240), 2: (240, 168), 3: (160, 128)},
)
# fmt: on
#: The parameters fitted on an H100 and an H200.
HOPPER = MatmulModel(
    tensor_fma=5.26e6,
    f32_fma=0.20e6,
    tensor_busy_warps=4,
    f32_busy_warps=6,
    epilogue_ops=1.6e5,
    sm_load_bytes=4.98e5,
    load_bytes=1.855e7,
    store_bytes=4.1e4,
    tma_store_bytes=1.6e5,
    pointer_store_bytes=1.2e5,
    dram_bytes=5.0e6,
    l2_bytes=5.2e6,
    prologue=0.98,
    load_latency=0.72,
    launch=4.0,
    dependent_launch=3.0,
    gather_slowdown=8,
    unaligned_slowdown=18,
    split_line_slowdown=2.8,
    strided_tf32_slowdown=3.7,
    smooth_max_exponent=3.1,
    exposed_share=0.68,
    overlap_share=0.60,
    warp_group_delay=0.09,
    shared_tile_slowdown=2,
    grouping_slowdown=1.05,
    grouped_product_slowdown=0.002,
    other_registers=64,
    heavy_epilogue=12,
    max_split_k=64,
    min_split_depth=256,
    split_margin=0.95,
    max_grouped_products=12,
    tiles=HOPPER_TILES,
)  # fmt: skip
_KIB, _MIB = 1 << 10, 1 << 20
_AMPERE = HOPPER.scaled(tensor=0.385, f32=0.385, clock=0.77, dram=0.61, sms=108 / 132)
_ADA = HOPPER.scaled(tensor=0.34, f32=1.38, clock=1.38, dram=0.26, sms=142 / 132)
_BLACKWELL = HOPPER.scaled(tensor=2.0, f32=1.0, clock=1.0, dram=2.4, sms=148 / 132)
#: The targets by architecture, with the number of SMs of the largest card: T4, A100, A10, Orin, L40S, H100 and H200,
#: B200, B300, RTX 5090, GB10. Sizes of shared memory are those of the CUDA programming guide, sizes of L2 caches
#: those of NVIDIA's descriptions of the architectures.
GPU_TARGETS = {
    target.arch: target
    for target in (
        GpuTarget("sm_75", 40, 64 * _KIB, 64 * _KIB, False, 4 * _MIB, _AMPERE),
        GpuTarget("sm_80", 108, 164 * _KIB, 163 * _KIB, False, 40 * _MIB, _AMPERE),
        GpuTarget("sm_86", 84, 100 * _KIB, 99 * _KIB, False, 6 * _MIB, _ADA),
        GpuTarget("sm_87", 16, 164 * _KIB, 163 * _KIB, False, 4 * _MIB, _AMPERE),
        GpuTarget("sm_89", 142, 100 * _KIB, 99 * _KIB, False, 96 * _MIB, _ADA),
        GpuTarget("sm_90", 132, 228 * _KIB, 227 * _KIB, True, 50 * _MIB, HOPPER),
        GpuTarget("sm_100", 148, 228 * _KIB, 227 * _KIB, True, 126 * _MIB, _BLACKWELL),
        GpuTarget("sm_103", 148, 228 * _KIB, 227 * _KIB, True, 126 * _MIB, _BLACKWELL),
        GpuTarget("sm_120", 170, 100 * _KIB, 99 * _KIB, True, 96 * _MIB, _ADA),
        GpuTarget("sm_121", 48, 100 * _KIB, 99 * _KIB, True, 24 * _MIB, _ADA),
    )
}
