"""The record of a GPU: its sizes, and the fitted parameters of the cost model; and the table by architecture.

    with using_gpu(gpu_target_named("sm_80")):
        pipeline.run(module)

A GPU that no parameters were fitted on has those of the H100, scaled by its own clocks and bandwidths.
`benchmarks/gpu_autotune.py` measures how far the choices of the model are from the fastest candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from oneflow.dialect.record import suggestion


@dataclass(frozen=True)
class MatmulModel:
    """Parameters of the time of a matrix product. Rates are per microsecond, times microseconds.

    Attributes:
        tensor_fma: multiply-adds of 16-bit operands of one SM.
        f32_fma: multiply-adds of f32 operands of one SM, without tensor cores.
        tensor_busy_warps, f32_busy_warps: the warps that keep an SM's units busy.
        epilogue_ops: operations on single elements of one SM.
        sm_load_bytes, load_bytes: operands loaded by one SM, and by all.
        store_bytes: results stored by an SM that does nothing else.
        tma_store_bytes, pointer_store_bytes: results stored by an SM that loads the next tile meanwhile.
        dram_bytes: bytes between memory and all SMs.
        l2_bytes: bytes between the L2 cache and all SMs.
        prologue: until the first block of operands is there.
        load_latency: of one load.
        launch, dependent_launch: of a launch, and of one that reads the result of the launch before it.
        gather_slowdown: how many times as long a step takes whose operands are read one by one.
        unaligned_slowdown: how many times as long loads take that are not aligned.
        split_line_slowdown: how many times as long loads take whose rows begin within cache lines.
        smooth_max_exponent: of the norm that joins the times of what overlaps.
        exposed_share: the part of a tile's prologue and epilogue that other programs of the SM do not hide.
        overlap_share: the part of the smaller of compute and transfer time that adds to the larger.
        warp_group_delay: by which each consumer warp group ends later.
        shared_tile_slowdown: how many times as long epilogues take where warp groups share a tile.
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
    smooth_max_exponent: float
    exposed_share: float
    overlap_share: float
    warp_group_delay: float
    shared_tile_slowdown: float

    def fma(self, width: int) -> float:
        """Multiply-adds of one SM on operands of `width` bytes."""
        return self.tensor_fma if width == 2 else self.f32_fma

    def busy_warps(self, width: int) -> int:
        """The warps that keep an SM busy with operands of `width` bytes."""
        return self.tensor_busy_warps if width == 2 else self.f32_busy_warps

    def scaled(self, tensor: float, f32: float, clock: float, dram: float, sms: float) -> MatmulModel:
        """The parameters of a GPU whose SM has so many times the tensor-core rate, the f32 rate and the clock, and
        which has so many times the memory bandwidth and SMs.
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
class GpuTarget:
    """A GPU as the code generator sees it.

    Attributes:
        arch: the architecture, such as `sm_90`.
        sms: streaming multiprocessors.
        sm_shared_bytes: shared memory of an SM.
        block_shared_bytes: the largest shared memory of one program.
        reserved_shared_bytes: what the compiler and the driver take of it for each program.
        sm_registers: 32-bit registers of an SM.
        cache_line_bytes: a line of the L2 cache.
        has_tma: whether the tensor memory accelerator copies blocks by descriptors.
        model: the parameters of the cost model.
    """

    arch: str
    sms: int
    sm_shared_bytes: int
    block_shared_bytes: int
    has_tma: bool
    model: MatmulModel
    reserved_shared_bytes: int = 1024
    sm_registers: int = 65536
    cache_line_bytes: int = 128


#: Fitted on an H100 and an H200.
HOPPER = MatmulModel(
    tensor_fma=5.26e6, f32_fma=0.20e6, tensor_busy_warps=4, f32_busy_warps=6, epilogue_ops=1.6e5,
    sm_load_bytes=4.98e5, load_bytes=1.855e7, store_bytes=4.1e4, tma_store_bytes=1.6e5, pointer_store_bytes=1.2e5,
    dram_bytes=5.0e6, l2_bytes=5.2e6, prologue=0.98, load_latency=0.72, launch=4.0, dependent_launch=3.0,
    gather_slowdown=8, unaligned_slowdown=18, split_line_slowdown=2.8, smooth_max_exponent=3.1, exposed_share=0.68,
    overlap_share=0.60, warp_group_delay=0.09, shared_tile_slowdown=2,
)  # fmt: skip
_KIB = 1024
_AMPERE = HOPPER.scaled(tensor=0.385, f32=0.385, clock=0.77, dram=0.61, sms=108 / 132)
_ADA = HOPPER.scaled(tensor=0.34, f32=1.38, clock=1.38, dram=0.26, sms=142 / 132)
_BLACKWELL = HOPPER.scaled(tensor=2.0, f32=1.0, clock=1.0, dram=2.4, sms=148 / 132)
#: Every architecture by its name, with the SMs of its largest card: T4, A100, A10, Orin, L40S, H100 and H200, B200,
#: B300, RTX 5090, GB10. Shared memory is from CUDA's programming guide.
GPU_TARGETS = {
    target.arch: target
    for target in (
        GpuTarget("sm_75", 40, 64 * _KIB, 64 * _KIB, False, _AMPERE),
        GpuTarget("sm_80", 108, 164 * _KIB, 163 * _KIB, False, _AMPERE),
        GpuTarget("sm_86", 84, 100 * _KIB, 99 * _KIB, False, _ADA),
        GpuTarget("sm_87", 16, 164 * _KIB, 163 * _KIB, False, _AMPERE),
        GpuTarget("sm_89", 142, 100 * _KIB, 99 * _KIB, False, _ADA),
        GpuTarget("sm_90", 132, 228 * _KIB, 227 * _KIB, True, HOPPER),
        GpuTarget("sm_100", 148, 228 * _KIB, 227 * _KIB, True, _BLACKWELL),
        GpuTarget("sm_103", 148, 228 * _KIB, 227 * _KIB, True, _BLACKWELL),
        GpuTarget("sm_120", 170, 100 * _KIB, 99 * _KIB, True, _ADA),
        GpuTarget("sm_121", 48, 100 * _KIB, 99 * _KIB, True, _ADA),
    )
}
#: What kernels are compiled for where nothing else is said.
DEFAULT = "sm_90"
_chosen: ContextVar[GpuTarget | None] = ContextVar("gpu_target", default=None)


def gpu_target_named(arch: str, sms: int | None = None) -> GpuTarget:
    """The target of an architecture, `sm_90a` being `sm_90`; a device says its own number of SMs.

    Raises:
        ValueError: the table does not have it.
    """
    name = arch.rstrip("af")
    if name not in GPU_TARGETS:
        known = ", ".join(GPU_TARGETS)
        raise ValueError(f"expected one of the architectures {known}, got {arch!r}{suggestion(arch, GPU_TARGETS)}")
    return GPU_TARGETS[name] if sms is None else replace(GPU_TARGETS[name], sms=sms)


def gpu_target() -> GpuTarget:
    """The target that kernels are compiled for."""
    return _chosen.get() or GPU_TARGETS[DEFAULT]


@contextmanager
def using_gpu(target: GpuTarget) -> Iterator[None]:
    """Has kernels compiled for `target` inside, in this thread."""
    before = _chosen.set(target)
    try:
        yield
    finally:
        _chosen.reset(before)
