"""CPU targets: the facts of a processor, among them the vector width, and the table of targets.

A row of `CPU_TARGETS` adds a CPU. `cpu_derivation` computes the parameters of kernels from the row. The order of the
table matters: the target of this machine is the last one whose features the machine has.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from oneflow.lowering.targets.cpu_derivation import derive_kernels
from oneflow.lowering.targets.cpu_parameters import CpuKernelParameters
from oneflow.lowering.targets.dot_product import (
    PMADDWD_128,
    PMADDWD_256,
    PMADDWD_512,
    VPDPBUSD_256,
    VPDPBUSD_512,
    DotProduct,
)
from oneflow.lowering.targets.fitted import Fitted, with_fitted


@dataclass(frozen=True)
class CpuTarget:
    """A processor, or a level of processors (such as `x86-64-v3`).

    Attributes:
        name: the name in `$ONEFLOW_TARGET` and `--target`.
        arch: the architecture, in the form of `platform.machine()`.
        llvm_cpu: LLVM's name of the processor; empty means the processor of the host.
        llvm_features: the features that generated code relies on, by LLVM's names.
        vector_bits: width of the widest vector register that arithmetic uses.
        vector_registers: number of these registers.
        fma_ports: number of fused multiply-adds (multiplications without FMA) that begin in one cycle.
        fma_latency: cycles from the start of such an instruction to its result.
        issue_width: number of scalar instructions that begin in one cycle.
        l1_bytes, l2_bytes, l3_bytes: sizes of the data caches; the L3 cache is shared between cores.
        cores: number of cores that share the L3 cache.
        has_fma: whether there are fused multiply-add instructions.
        has_masks: whether vector instructions take masks, and broadcast operands from memory.
        has_f16: whether there are conversion instructions between f16 and f32.
        cache_line_bytes, page_bytes: sizes of a cache line and of a page of memory.
        tlb_entries: number of pages in the first-level translation look-aside buffer (TLB) of data.
        wake_cycles: cycles until a waiting thread of the pool runs. The default is a microsecond, as Linux wakes the
            waiters of a futex, at 3 GHz.
        dot_product: the instruction for products of short integers; None if there is none.
        fitted: measured parameters, which replace the parameters that follow from the facts above.
    """

    name: str
    arch: str
    llvm_cpu: str
    llvm_features: tuple[str, ...]
    vector_bits: int
    vector_registers: int
    fma_ports: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    cores: int
    has_fma: bool = False
    has_masks: bool = False
    has_f16: bool = False
    fma_latency: int = 4
    issue_width: int = 4
    cache_line_bytes: int = 64
    page_bytes: int = 4096
    tlb_entries: int = 64
    wake_cycles: int = 3000
    dot_product: DotProduct | None = None
    fitted: Fitted = field(default_factory=dict, hash=False)

    @property
    def vector_bytes(self) -> int:
        """The width of a vector register in bytes."""
        return self.vector_bits // 8

    @functools.cached_property
    def kernels(self) -> CpuKernelParameters:
        """The sizes of kernels."""
        return with_fitted(derive_kernels(self), self.fitted)


_V2 = ("cx16", "popcnt", "sse4.2", "ssse3")
_V3 = (*_V2, "avx2", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_L1, _L3, _CORES = 32 << 10, 8 << 20, 4

#: The fitted parameters of processors with AVX-512 (`benchmarks/fit_targets.py`), where they differ from those that
#: follow from the facts of the target.
_V4_FITTED: Fitted = {
    "loops": {"parallel_operations": 100_000, "min_parallel_steps": 4, "max_transposed_elements": 1 << 14},
    "contractions": {"max_tile_rows": 14, "step_rows": 240},
}

#: The targets by name. Sizes of caches are from the first processors of each level.
CPU_TARGETS = {
    target.name: target
    for target in (
        CpuTarget(
            "x86-64-v2", "x86_64", "x86-64-v2", _V2, vector_bits=128, vector_registers=16, fma_ports=1,
            l1_bytes=_L1, l2_bytes=256 << 10, l3_bytes=_L3, cores=_CORES, dot_product=PMADDWD_128,
        ),
        CpuTarget(
            "x86-64-v3", "x86_64", "x86-64-v3", _V3, vector_bits=256, vector_registers=16, fma_ports=2,
            l1_bytes=_L1, l2_bytes=256 << 10, l3_bytes=_L3, cores=_CORES, has_fma=True, has_f16=True, fma_latency=5,
            dot_product=PMADDWD_256,
        ),
        CpuTarget(
            "x86-64-v3-vnni", "x86_64", "x86-64-v3", (*_V3, "avxvnni"), vector_bits=256, vector_registers=16,
            fma_ports=2, l1_bytes=_L1, l2_bytes=256 << 10, l3_bytes=_L3, cores=_CORES, has_fma=True, has_f16=True,
            dot_product=VPDPBUSD_256,
        ),
        CpuTarget(
            "x86-64-v4", "x86_64", "x86-64-v4", _V4, vector_bits=512, vector_registers=32, fma_ports=2,
            l1_bytes=_L1, l2_bytes=2 << 20, l3_bytes=_L3, cores=_CORES, has_fma=True, has_masks=True, has_f16=True,
            dot_product=PMADDWD_512, fitted=_V4_FITTED,
        ),
        CpuTarget(
            "x86-64-v4-vnni", "x86_64", "x86-64-v4", (*_V4, "avx512vnni"), vector_bits=512, vector_registers=32,
            fma_ports=2, l1_bytes=_L1, l2_bytes=2 << 20, l3_bytes=_L3, cores=_CORES, has_fma=True, has_masks=True,
            has_f16=True, dot_product=VPDPBUSD_512, fitted=_V4_FITTED,
        ),
        CpuTarget(
            "aarch64-neon", "aarch64", "generic", ("neon",), vector_bits=128, vector_registers=32, fma_ports=2,
            l1_bytes=_L1, l2_bytes=512 << 10, l3_bytes=_L3, cores=_CORES, has_fma=True, has_f16=True, tlb_entries=48,
        ),
        CpuTarget(
            "aarch64-sve", "aarch64", "generic", ("neon", "sve"), vector_bits=128, vector_registers=32, fma_ports=2,
            l1_bytes=_L1, l2_bytes=1 << 20, l3_bytes=_L3, cores=_CORES, has_fma=True, has_masks=True, has_f16=True,
            tlb_entries=48,
        ),
    )
}  # fmt: skip
