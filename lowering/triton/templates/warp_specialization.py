"""Warp specialization in Gluon for Hopper: imports of kernels, mbarriers, the start of producer and consumer warps.

Gluon is no stable interface. Functions whose names differ between versions of Triton have one name here. If the
installed Triton still refuses a kernel, the plain Triton form runs (`runtime.cuda.kernel_cache`).
"""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.lowering.targets.instructions import WGMMA
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.source import Function, Source

#: The head of a kernel's source. TMA copies have other names since Triton 3.8.
IMPORTS = """from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait
)

load_block = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
store_block = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global
"""

BARRIERS = Function(
    "barriers",
    ("COUNT: gl.constexpr", "ARRIVALS: gl.constexpr"),
    (
        "# COUNT mbarriers, each of which completes a phase after ARRIVALS arrivals.",
        "bars = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())",
        "for i in gl.static_range(COUNT):",
        "    mbarrier.init(bars.index(i), count=ARRIVALS)",
        "return bars",
    ),
)


def target_form(source: Source | None) -> dict[str, Source]:
    """The form of a kernel for the architecture of the target, by the name of the architecture."""
    return {} if source is None else {gpu_target().arch: source}


def warp_specialize(consumers: Sequence[str], producer: str, registers: int) -> list[str]:
    """The lines that start the consumer warp groups and the producer warp.

    The first consumer is the default partition, the others have `registers` for each thread, the producer few.
    """
    others = len(consumers) - 1
    warps, threads = [WGMMA.warps] * others, [registers] * others
    return [
        "gl.warp_specialize([",
        *(f"    {call}," for call in (*consumers, producer)),
        f"], {[*warps, 1]}, {[*threads, WGMMA.min_registers]})",
    ]
