"""Warp specialization in Gluon for Hopper: imports of kernels, mbarriers, the start of producer and consumer warps.

Gluon promises no stability. Functions that versions of Triton name differently have one name here. Where the
installed Triton refuses a kernel all the same, the plain Triton form runs (`runtime.cuda.kernel_cache`).
"""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.lowering.triton.source import Function

#: The architecture of warp-specialized kernels.
HOPPER = "sm_90"
#: The rows that one `wgmma` instruction gives a warp group, and the narrowest block of a row.
WARP_GROUP_ROWS = 64

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


def warp_specialize(consumers: Sequence[str], producer: str, registers: int) -> list[str]:
    """The lines that start the consumer warp groups and the producer warp.

    The first consumer is the default partition, the others have `registers` for each thread, the producer few.
    """
    consumer_registers = [str(registers)] * (len(consumers) - 1)
    return [
        "gl.warp_specialize([",
        *(f"    {call}," for call in (*consumers, producer)),
        f"], [{'4, ' * (len(consumers) - 1)}1], [{', '.join([*consumer_registers, '24'])}])",
    ]
