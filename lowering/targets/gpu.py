"""GPU targets: the facts of a GPU, the parameters that follow from the facts, and the table of targets.

A row of `GPU_TARGETS` adds an architecture, with the facts of one card; `GpuTarget.on_card` takes the facts of
another card. `gpu_derivation` computes the parameters of kernels and of the cost model from the facts;
`benchmarks/gpu_autotune.py` measures how far the choices of the model are from the fastest candidates.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace

from oneflow.lowering.targets.card import CardFacts, GpuRates
from oneflow.lowering.targets.fitted import Fitted, with_fitted
from oneflow.lowering.targets.gpu_derivation import derive_kernels, derive_model
from oneflow.lowering.targets.gpu_parameters import KernelParameters
from oneflow.lowering.targets.hopper import HOPPER_RATES, HOPPER_SMS
from oneflow.lowering.targets.instructions import MMA, MMA_TURING, TCGEN05, WARP, WGMMA, TensorCoreShape
from oneflow.lowering.targets.matmul_model import MatmulModel, MatmulTile


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
        rates: peak rates of arithmetic and of DRAM.
        tensor_core_shapes: the instructions of tensor cores, the largest first.
        sm_warps: the most warps that are resident on an SM.
        reserved_shared_bytes: the part of a program's shared memory that the compiler and the driver reserve.
        sm_registers: number of 32-bit registers of an SM.
        sm_schedulers: number of warps of an SM that issue an instruction in the same cycle.
        sm_shared_bytes_per_cycle: bytes that an SM reads from its shared memory in one cycle.
        cache_line_bytes: size of a line of the L2 cache.
        parameter_bytes: the most bytes of the parameters of a kernel on every driver.
        fitted: measured parameters, which replace the parameters that follow from the facts above.
        overrides: configurations that replace choices of the cost model.
    """

    arch: str
    sms: int
    sm_shared_bytes: int
    block_shared_bytes: int
    has_tma: bool
    l2_cache_bytes: int
    rates: GpuRates
    tensor_core_shapes: tuple[TensorCoreShape, ...]
    sm_warps: int
    reserved_shared_bytes: int = 1024
    sm_registers: int = 65536
    sm_schedulers: int = 4
    sm_shared_bytes_per_cycle: int = 128
    cache_line_bytes: int = 128
    parameter_bytes: int = 4096
    fitted: Fitted = field(default_factory=dict, hash=False)
    overrides: MatmulOverrides = field(default_factory=MatmulOverrides, hash=False)

    @property
    def capability(self) -> int:
        """The compute capability: 90 for `sm_90`."""
        return int(self.arch.removeprefix("sm_"))

    @property
    def has_float8(self) -> bool:
        """Whether tensor cores multiply floats of 8 bits: from Ada (sm_89) on."""
        return self.capability >= 89

    @property
    def has_warp_groups(self) -> bool:
        """Whether there is the instruction of the warp-specialized kernels, `wgmma`."""
        return WGMMA in self.tensor_core_shapes

    @property
    def usable_shared_bytes(self) -> int:
        """The shared memory that the code of a program can use."""
        return self.block_shared_bytes - self.reserved_shared_bytes

    @property
    def tensor_fma_per_second(self) -> float:
        """The peak rate of multiply-adds of 16-bit operands."""
        return 1e6 * self.sms * self.rates.tensor_fma_per_cycle * self.rates.clock_mhz

    def on_card(self, facts: CardFacts) -> GpuTarget:
        """The target for a card of the architecture. Facts that the driver does not report do not change."""
        rates = self.rates
        return replace(
            self,
            sms=facts.sms or self.sms,
            sm_shared_bytes=facts.sm_shared_bytes or self.sm_shared_bytes,
            block_shared_bytes=facts.block_shared_bytes or self.block_shared_bytes,
            l2_cache_bytes=facts.l2_cache_bytes or self.l2_cache_bytes,
            sm_warps=facts.sm_threads // WARP or self.sm_warps,
            sm_registers=facts.sm_registers or self.sm_registers,
            rates=replace(
                rates,
                clock_mhz=facts.clock_khz / 1000 or rates.clock_mhz,
                memory_clock_mhz=facts.memory_clock_khz / 1000 or rates.memory_clock_mhz,
                memory_bus_bits=facts.memory_bus_bits or rates.memory_bus_bits,
            ),
        )

    @functools.cached_property
    def kernels(self) -> KernelParameters:
        """The sizes of kernels other than matrix products."""
        return with_fitted(derive_kernels(self), {n: v for n, v in self.fitted.items() if n != MODEL})

    @functools.cached_property
    def model(self) -> MatmulModel:
        """The parameters of the cost model of matrix products."""
        return replace(derive_model(self), **self.fitted.get(MODEL, {}))


#: The name of the cost model in a fitted table.
MODEL = "model"
_KIB, _MIB = 1 << 10, 1 << 20
#: The targets by architecture, for programs that are compiled without a card: T4, A100, A40, Orin, L40S, H200, B200,
#: B300, RTX 5090, GB10. Sizes of shared memory and numbers of warps are from the CUDA programming guide; SMs, clocks,
#: buses and sizes of L2 caches are from drivers, or from NVIDIA's data sheets.
GPU_TARGETS = {
    target.arch: target
    for target in (
        GpuTarget(
            "sm_75", 40, 64 * _KIB, 64 * _KIB, False, 4 * _MIB, GpuRates(1590, 512, 64, 5001, 256),
            (MMA_TURING,), sm_warps=32,
        ),
        GpuTarget(
            "sm_80", 108, 164 * _KIB, 163 * _KIB, False, 40 * _MIB, GpuRates(1410, 1024, 64, 1593, 5120),
            (MMA,), sm_warps=64,
        ),
        GpuTarget(
            "sm_86", 84, 100 * _KIB, 99 * _KIB, False, 6 * _MIB, GpuRates(1740, 512, 128, 7251, 384),
            (MMA,), sm_warps=48,
        ),
        GpuTarget(
            "sm_87", 16, 164 * _KIB, 163 * _KIB, False, 4 * _MIB, GpuRates(1300, 1024, 128, 3200, 256),
            (MMA,), sm_warps=48,
        ),
        GpuTarget(
            "sm_89", 142, 100 * _KIB, 99 * _KIB, False, 96 * _MIB, GpuRates(2520, 512, 128, 9001, 384),
            (MMA,), sm_warps=48,
        ),
        GpuTarget(
            "sm_90", HOPPER_SMS, 228 * _KIB, 227 * _KIB, True, 60 * _MIB, HOPPER_RATES,
            (WGMMA, MMA), sm_warps=64,
        ),
        GpuTarget(
            "sm_100", 148, 228 * _KIB, 227 * _KIB, True, 126 * _MIB, GpuRates(1965, 4096, 128, 3996, 8192),
            (TCGEN05, MMA), sm_warps=64,
        ),
        GpuTarget(
            "sm_103", 148, 228 * _KIB, 227 * _KIB, True, 126 * _MIB, GpuRates(1965, 4096, 128, 3996, 8192),
            (TCGEN05, MMA), sm_warps=64,
        ),
        GpuTarget(
            "sm_120", 170, 100 * _KIB, 99 * _KIB, True, 96 * _MIB, GpuRates(2410, 256, 128, 14001, 512),
            (MMA,), sm_warps=48,
        ),
        GpuTarget(
            "sm_121", 48, 100 * _KIB, 99 * _KIB, True, 24 * _MIB, GpuRates(2420, 512, 128, 4266, 256),
            (MMA,), sm_warps=48,
        ),
    )
}  # fmt: skip
