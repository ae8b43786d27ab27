"""Parameters of GPU kernels (blocks, occupancy, stages) and of the cost model, from the facts of a GPU.

- A *block* gives each thread of a warp per scheduler one vector of 16-bit elements; larger blocks are multiples.
- *Rows in registers* take a share of the registers of an SM; longer rows would spill.
- *Programs per SM* (occupancy) keep as many bytes in flight as DRAM delivers to an SM in the time of one access,
  which is about equal on all GPUs (Little's law): they are proportional to the bandwidth of an SM.
- *Blocks in shared memory* have as many pipeline stages as shared memory holds.
- *Rates of the cost model* are those fitted on Hopper, in proportion to the peak rates of the GPU: kernels attain the
  same share of a peak on every GPU. Times are equal.
- *Recomputed operations* take less time than DRAM takes to write and read an element of 16 bits.
- *Sequential steps* of a scatter take the latency of a load each; parallel steps take two more launches and their
  traffic.
- *Tiles* of matrix products are those fitted on Hopper where tensor cores read shared memory (`wgmma`, `tcgen05`).
  Other tensor cores read registers: a tile reaches the share of the peak that reading its operands from shared memory
  leaves.

Parameters without such a quantity are ratios that the algorithm fixes, equal for all GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from oneflow.lowering.targets.gpu_parameters import (
    AttentionBlocks,
    AttentionParameters,
    BlockParameters,
    GroupedCallLimits,
    GroupwiseParameters,
    KernelParameters,
    LaunchParameters,
    NormGradientParameters,
    ReductionParameters,
    ScatterParameters,
    SharedRowParameters,
    SplitLimits,
)
from oneflow.lowering.targets.hopper import (
    CAUSAL_SHORT,
    FORWARD,
    HOPPER_MODEL,
    HOPPER_RATES,
    HOPPER_SMS,
    HOPPER_TILES,
    KEY_GRADIENTS,
    QUERY_GRADIENTS,
)
from oneflow.lowering.targets.instructions import MIN_DOT_SIDE, VECTOR_BYTES, WARP, WGMMA
from oneflow.lowering.targets.matmul_model import MatmulModel, MatmulTile, MatmulTiles

if TYPE_CHECKING:
    from oneflow.lowering.targets.gpu import GpuTarget

HALF_BYTES = 2
#: The bytes of an index of the last write to an element.
INDEX_BYTES = 4
#: The warps that an SM can hold, as a multiple of its warps in a kernel with much state in registers.
WARP_SHARE = 4
#: The pipeline stages of the tiles of products, if shared memory has space for them.
TILE_STAGES = 3


def derive_kernels(gpu: GpuTarget) -> KernelParameters:
    """The sizes of the kernels of a GPU other than matrix products."""
    blocks = _blocks(gpu)
    return KernelParameters(
        blocks, _reductions(gpu, blocks), _scatters(gpu), _shared_rows(gpu, blocks), _attention(gpu),
        _norm_gradients(gpu, blocks), _groupwise(gpu), _launches(gpu),
    )  # fmt: skip


def derive_model(gpu: GpuTarget) -> MatmulModel:
    """The parameters of the cost model of matrix products."""
    rates, reference = gpu.rates, HOPPER_RATES
    clock = rates.clock_mhz / reference.clock_mhz
    scaled = HOPPER_MODEL.scaled(
        tensor=rates.tensor_fma_per_cycle / reference.tensor_fma_per_cycle * clock,
        f32=rates.f32_fma_per_cycle / reference.f32_fma_per_cycle * clock,
        clock=clock,
        dram=rates.dram_bytes_per_second / reference.dram_bytes_per_second,
        sms=gpu.sms / HOPPER_SMS,
    )
    # Tensor cores that read registers read tf32 in any order.
    strided = scaled.strided_tf32_slowdown if gpu.tensor_core_shapes[0].reads_shared else 1
    return replace(scaled, strided_tf32_slowdown=strided, tiles=_tiles(gpu))


def _floor_power(value: float) -> int:
    """The largest power of two up to a value, at least 1."""
    return 1 << int(math.log2(max(value, 1)))


def _programs_per_sm(gpu: GpuTarget, on_hopper: int) -> int:
    """Programs that keep DRAM busy, in proportion to the bandwidth of an SM."""
    bandwidth = gpu.rates.dram_bytes_per_second / gpu.sms
    return max(round(on_hopper * bandwidth / (HOPPER_RATES.dram_bytes_per_second / HOPPER_SMS)), 1)


def _blocks(gpu: GpuTarget) -> BlockParameters:
    per_thread, line = VECTOR_BYTES // HALF_BYTES, gpu.cache_line_bytes // HALF_BYTES
    block = gpu.sm_schedulers * WARP * per_thread
    return BlockParameters(
        max_row=gpu.sm_registers // 2,
        max_reduced_row=gpu.sm_registers // 8,
        pointwise=block,
        chunk=4 * block,
        chunk_warps=2 * gpu.sm_schedulers,
        sequential=gpu.sm_schedulers * WARP,
        sequential_per_thread=2 * per_thread,
        division_block=gpu.sm_registers // 4,
        max_warps=4 * gpu.sm_schedulers,
        scatter=2 * gpu.sm_schedulers * WARP,
        scatter_per_thread=2,
        elements_per_thread=per_thread,
        row_bytes_per_thread=4 * VECTOR_BYTES,
        strided=2 * block,
        strided_columns=line,
        min_strided_columns=line // 4,
        strided_warps=gpu.sm_schedulers,
        strided_programs_per_sm=_programs_per_sm(gpu, 4),
        max_unrolled=16,
        min_unrolled=128,
        max_window=128,
        max_window_stride=4,
        window_bytes=4,
        min_plane=block // 4,
        planes=(block, block // 2, block // 4),
        transpose=line**2,
        max_transpose_side=line,
        streamed_l2_caches=16 / 15,
        # Tiles of neighbouring programs form a square.
        group_rows=_floor_power(math.sqrt(gpu.sms)),
        dynamic_steps=1024,
    )


def _reductions(gpu: GpuTarget, blocks: BlockParameters) -> ReductionParameters:
    # What one SM reads in the time of a launch.
    small = round((1 << 17) * gpu.rates.clock_mhz / HOPPER_RATES.clock_mhz)
    return ReductionParameters(
        rows=SplitLimits(programs_per_sm=1, min_depth=4 * blocks.chunk, min_part=blocks.chunk),
        columns=SplitLimits(programs_per_sm=2, min_depth=1024, min_part=64),
        max_programs_per_sm=_programs_per_sm(gpu, 8),
        columns_per_program=blocks.strided_columns,
        min_split_elements=small,
        max_fused_row=blocks.max_row // 2,
        min_fused_columns_per_sm=blocks.strided_columns,
        max_small_elements=small // 2,
        min_fused_rows=_floor_power(gpu.sms / 8),
        max_recomputed_operations=_floor_power(2 * HALF_BYTES * _operations_per_byte(gpu)),
    )


def _operations_per_byte(gpu: GpuTarget) -> float:
    """The operations on f32 in the time in which DRAM delivers a byte, at peak rates."""
    return 1e6 * gpu.rates.clock_mhz * gpu.sms * gpu.rates.f32_fma_per_cycle / gpu.rates.dram_bytes_per_second


def _scatters(gpu: GpuTarget) -> ScatterParameters:
    model = derive_model(gpu)
    # The indices of the last writes are filled, updated and read.
    traffic = 3 * INDEX_BYTES
    return ScatterParameters(
        max_ordered_steps=int(2 * model.dependent_launch / model.load_latency),
        max_positions_per_step=_floor_power(model.load_latency * model.dram_bytes / traffic),
    )


def _shared_rows(gpu: GpuTarget, blocks: BlockParameters) -> SharedRowParameters:
    warps, programs = 2 * gpu.sm_schedulers, 2
    return SharedRowParameters(
        min_row=blocks.max_row // 2 + 1,
        block=gpu.sm_registers // 8,
        warps=warps,
        min_programs_per_sm=programs,
        max_registers=gpu.sm_registers // (programs * warps * WARP),
        max_unrolled=4,
    )


def _attention(gpu: GpuTarget) -> AttentionParameters:
    # The accumulators of two gradients of a block of 64 rows take half of the registers.
    width = gpu.sm_registers // 2 // 2 // 64
    is_fitted = gpu.has_warp_groups
    return AttentionParameters(
        max_width=width,
        max_narrow_width=width // 2,
        narrow=_in_shared_memory(gpu, AttentionBlocks(64, 64, 4, 3), width // 2),
        wide=_in_shared_memory(gpu, AttentionBlocks(64, 32, 4, 2), width),
        wide_tall=AttentionBlocks(128, 64, 8, 2),
        narrow_gradients=_gradient_stages(gpu, AttentionBlocks(64, 64, 4, 2), width // 2),
        wide_gradients=_gradient_stages(gpu, AttentionBlocks(64, 64, 8, 2), width),
        forward=FORWARD if is_fitted else {},
        causal_short=CAUSAL_SHORT,
        max_causal_short=2048,
        query_buffers=2,
        key_gradients=KEY_GRADIENTS if is_fitted else {},
        query_gradients=QUERY_GRADIENTS if is_fitted else {},
        gradient_groups=2,
        gradient_registers=240,
        gradient_average_registers=168,
        min_gradient_tiles_per_sm=2,
        min_paired_tiles_per_sm=2,
    )


def _in_shared_memory(gpu: GpuTarget, blocks: AttentionBlocks, width: int) -> AttentionBlocks:
    """The blocks of a forward kernel with as many stages, then as many keys, as shared memory holds."""
    while blocks.shared_bytes(width) > gpu.usable_shared_bytes and blocks.keys > MIN_DOT_SIDE:
        is_plain = blocks.stages == 1
        blocks = replace(blocks, keys=blocks.keys // 2) if is_plain else replace(blocks, stages=blocks.stages - 1)
    return blocks


def _gradient_stages(gpu: GpuTarget, blocks: AttentionBlocks, width: int) -> AttentionBlocks:
    """The blocks of a backward kernel with as many stages as shared memory holds: two tensors each are stationary and
    streamed.
    """
    tensor = HALF_BYTES * width * blocks.keys
    stages = (gpu.usable_shared_bytes // tensor - 2) // 2
    return replace(blocks, stages=max(min(blocks.stages, stages), 1))


def _norm_gradients(gpu: GpuTarget, blocks: BlockParameters) -> NormGradientParameters:
    per_thread = 2 * blocks.elements_per_thread
    return NormGradientParameters(
        max_row=gpu.sm_registers // 8,
        min_rows=256,
        elements_per_thread=per_thread,
        warps_per_sm=gpu.sm_warps // WARP_SHARE,
        elements_per_warp=WARP * blocks.elements_per_thread,
        stages=3,
        sole_program_stages=4,
    )


def _groupwise(gpu: GpuTarget) -> GroupwiseParameters:
    model = derive_model(gpu)
    return GroupwiseParameters(
        max_rows=WGMMA.rows,
        columns=(WGMMA.rows, WGMMA.rows // 2, MIN_DOT_SIDE),
        row_bytes=gpu.cache_line_bytes,
        warps=gpu.sm_schedulers,
        # What DRAM delivers to an SM in the time of a load.
        bytes_in_flight=round(model.load_latency * model.dram_bytes / gpu.sms),
        max_stages=8,
    )


def _launches(gpu: GpuTarget) -> LaunchParameters:
    # Pointers, without 32 that are reserved for the parameters that the launch adds.
    parameters = gpu.parameter_bytes // 8 - 32
    return LaunchParameters(
        max_parameters=parameters,
        grouped={
            "pointwise": (
                GroupedCallLimits(2, parameters),
                GroupedCallLimits(8, parameters // 6),
                GroupedCallLimits(18, parameters // 12),
            ),
            "row": (GroupedCallLimits(2, parameters),),
        },
        max_fused_entry_calls=64,
        max_fused_programs_per_sm=2,
        max_total_programs_per_sm=4,
        max_fused_l2_share=1 / 15,
        max_fused_warps=gpu.sm_schedulers,
        no_reuse_l2_share=2 / 15,
        scratch_distance=8,
        min_graph_commands=4,
        max_staged_bytes=1 << 16,
    )


def _tiles(gpu: GpuTarget) -> MatmulTiles:
    """The tiles among which the cost model chooses."""
    if gpu.has_warp_groups:
        return HOPPER_TILES
    plain = replace(HOPPER_TILES, warp_specialized=(), warp_specialized_f32=())
    if gpu.tensor_core_shapes[0].reads_shared:
        return replace(plain, tma=_filled(gpu, plain.tma), pointer=_filled(gpu, plain.pointer))
    pointer = _through_registers(gpu, plain.pointer)
    tma = tuple(replace(tile, tma=True) for tile in pointer) if gpu.has_tma else ()
    return replace(plain, tma=tma, pointer=pointer)


def _filled(gpu: GpuTarget, tiles: Iterable[MatmulTile]) -> tuple[MatmulTile, ...]:
    """Tiles for an instruction of more rows than `wgmma`, a part of which is idle in tiles of fewer rows."""
    rows = gpu.tensor_core_shapes[0].rows
    fractions = ((t, min(t.rows / rows, 1) if t.rows >= WGMMA.rows else 1) for t in tiles)
    return tuple(replace(t, efficiency=t.efficiency * fraction) for t, fraction in fractions)


def _through_registers(gpu: GpuTarget, tiles: Sequence[MatmulTile]) -> tuple[MatmulTile, ...]:
    """Tiles whose operands pass through registers: as deep as shared memory holds stages, at the best efficiency
    times the share of the peak that reading operands leaves.
    """
    best = max(tile.efficiency for tile in tiles)
    return tuple(replace(t, depth=_depth(gpu, t), efficiency=best * _read_share(gpu, t)) for t in tiles)


def _depth(gpu: GpuTarget, tile: MatmulTile) -> int:
    """The depth of a step, halved until shared memory holds `TILE_STAGES` stages."""
    stages = TILE_STAGES * HALF_BYTES * (tile.rows + tile.columns)
    depth = tile.depth
    while stages * depth > gpu.usable_shared_bytes and depth > MIN_DOT_SIDE:
        depth //= 2
    return depth


def _read_share(gpu: GpuTarget, tile: MatmulTile) -> float:
    """The share of the peak that an SM reaches while each of its warps reads the operands of its part of a tile from
    shared memory, for one step along the depth.
    """
    rows = gpu.tensor_core_shapes[0].rows
    splits = [n for n in (1, 2, 4, 8) if tile.warps % n == 0 and (n == 1 or tile.rows // n >= rows)]
    elements = min(tile.rows * (tile.warps // n) + tile.columns * n for n in splits)
    reads = elements * HALF_BYTES / gpu.sm_shared_bytes_per_cycle
    multiplies = tile.rows * tile.columns / gpu.rates.tensor_fma_per_cycle
    return min(multiplies / reads, 1.0)
