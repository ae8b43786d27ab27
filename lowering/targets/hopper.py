"""Fitted parameters of Hopper GPUs.

`gpu_derivation` scales the rates to other GPUs. `benchmarks/gpu_autotune.py` measures how far the choices of the
model are from the fastest candidates.
"""

from __future__ import annotations

from oneflow.lowering.targets.card import GpuRates
from oneflow.lowering.targets.gpu_parameters import WarpSpecializedAttention, WarpSpecializedAttentionGradient
from oneflow.lowering.targets.matmul_model import MatmulModel, MatmulTile, MatmulTiles

#: The SMs and the peak rates of the H200, to which the rates of the model were fitted.
HOPPER_SMS, HOPPER_RATES = 132, GpuRates(1980, 2048, 128, 3201, 6144)
# fmt: off
#: The tiles and their fitted efficiencies.
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
    epilogue_columns=64,
    max_accumulator_columns=128,
)
# fmt: on
#: The parameters fitted on an H100 and an H200.
HOPPER_MODEL = MatmulModel(
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
    max_epilogue_cost=2,
    max_grouped_products=12,
    tiles=HOPPER_TILES,
)  # fmt: skip
#: Warp-specialized kernels of attention, by the width of a block of heads.
FORWARD = {
    64: WarpSpecializedAttention(3, 128, 2, 160, 128, True, 1.0),
    128: WarpSpecializedAttention(2, 128, 2, 240, 168, False, 0.96),
}
CAUSAL_SHORT = WarpSpecializedAttention(2, 128, 2, 240, 168, True, 2.0)
KEY_GRADIENTS = {
    64: WarpSpecializedAttentionGradient(64, 3, 2, True),
    128: WarpSpecializedAttentionGradient(64, 3, 1, False),
}
QUERY_GRADIENTS = {
    64: WarpSpecializedAttentionGradient(128, 3, 2, False),
    128: WarpSpecializedAttentionGradient(64, 3, 2, False),
}
