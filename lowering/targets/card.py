"""The facts of a card: peak rates, and what the CUDA driver reports.

Cards of one architecture differ in these facts: an H100 and an H200 have the same SMs and different DRAM.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuRates:
    """Peak rates of a GPU.

    Attributes:
        clock_mhz: the highest clock of an SM.
        tensor_fma_per_cycle: multiply-adds of 16-bit operands with f32 accumulators of one SM, on tensor cores.
        f32_fma_per_cycle: multiply-adds of f32 of one SM, without tensor cores.
        memory_clock_mhz: the highest clock of DRAM.
        memory_bus_bits: bits between DRAM and the GPU in one transfer.
    """

    clock_mhz: float
    tensor_fma_per_cycle: int
    f32_fma_per_cycle: int
    memory_clock_mhz: float
    memory_bus_bits: int

    @property
    def dram_bytes_per_second(self) -> float:
        """The peak rate of DRAM to all SMs together: two transfers in a cycle of the memory clock."""
        return 2e6 * self.memory_clock_mhz * self.memory_bus_bits / 8


@dataclass(frozen=True)
class CardFacts:
    """What the CUDA driver reports of a card, in the units of the driver; 0 where it reports nothing.

    Attributes:
        sms: number of SMs.
        clock_khz, memory_clock_khz: the highest clocks of an SM and of DRAM.
        memory_bus_bits: bits between DRAM and the GPU in one transfer.
        l2_cache_bytes: size of the L2 cache.
        sm_shared_bytes: shared memory of an SM.
        block_shared_bytes: the most shared memory of one program (a thread block of CUDA).
        sm_registers: number of 32-bit registers of an SM.
        sm_threads: the most threads that are resident on an SM.
    """

    sms: int
    clock_khz: int = 0
    memory_clock_khz: int = 0
    memory_bus_bits: int = 0
    l2_cache_bytes: int = 0
    sm_shared_bytes: int = 0
    block_shared_bytes: int = 0
    sm_registers: int = 0
    sm_threads: int = 0
