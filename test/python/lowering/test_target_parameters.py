"""Parameters of kernels follow from the facts of a target; fitted tables replace them."""

from dataclasses import fields, is_dataclass, replace

import pytest

from oneflow.lowering.targets.cpu import CPU_TARGETS
from oneflow.lowering.targets.gpu import GPU_TARGETS
from oneflow.lowering.targets.gpu_parameters import ScatterParameters
from oneflow.lowering.targets.instructions import MMA, MMA_TURING, TCGEN05, WGMMA
from oneflow.lowering.targets.selection import cpu_target_named
from oneflow.lowering.triton.cost.matmul_configurations import Product, ranked_configs

CPUS, GPUS = list(CPU_TARGETS.values()), list(GPU_TARGETS.values())
of_every_cpu = pytest.mark.parametrize("cpu", CPUS, ids=lambda cpu: cpu.name)
of_every_gpu = pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.arch)


def numbers(record):
    """The numbers of a record and of the records in it."""
    values = [getattr(record, f.name) for f in fields(record)]
    for value in values:
        yield from numbers(value) if is_dataclass(value) else [value] if isinstance(value, int | float) else []


def test_cpus_differ_by_vectors_registers_and_caches():
    narrow, wide, widest = (CPU_TARGETS[f"x86-64-v{n}"].kernels for n in (2, 3, 4))
    assert [k.loops.chunk_steps for k in (narrow, wide, widest)] == [1024, 4096, 8192]
    assert [k.loops.short_row for k in (narrow, wide, widest)] == [2, 4, 8]
    assert [k.contractions.max_dot_rows for k in (narrow, wide, widest)] == [4, 4, 8]
    assert [k.splits.min_part_operations for k in (narrow, wide, widest)] == [4096, 16384, 32768]
    arm = CPU_TARGETS["aarch64-neon"].kernels
    assert (arm.loops.chunk_steps, arm.loops.tile_rows, arm.contractions.step_rows) == (2048, 48, 128)


@of_every_cpu
def test_sizes_of_a_cpu_fit_its_caches_and_registers(cpu):
    kernels = cpu.kernels
    assert all(n >= 1 for n in numbers(kernels))
    assert 2 * 4 * kernels.loops.copy_chunk <= cpu.l2_bytes
    assert 4 * kernels.loops.max_transposed_elements <= cpu.l2_bytes
    assert 4 * 512 * kernels.contractions.step_rows <= cpu.l2_bytes
    assert kernels.contractions.max_tile_rows < cpu.vector_registers
    assert kernels.contractions.max_dot_rows <= cpu.vector_registers // 2


def test_sizes_of_a_cpu_follow_its_facts():
    cpu = replace(cpu_target_named("x86-64-v3"), fitted={})
    large = replace(cpu, l2_bytes=4 * cpu.l2_bytes)
    assert large.kernels.contractions.step_rows == 4 * cpu.kernels.contractions.step_rows
    assert large.kernels.loops.chunk_steps == cpu.kernels.loops.chunk_steps
    tall = replace(cpu, vector_registers=32).kernels.loops
    assert (tall.pointwise_registers, tall.column_registers, tall.arg_reduction_registers) == (2, 16, 8)
    slow = replace(cpu, wake_cycles=2 * cpu.wake_cycles)
    assert slow.kernels.loops.parallel_operations == 2 * cpu.kernels.loops.parallel_operations


def test_fitted_values_replace_derived_ones():
    fitted = {"contractions": {"max_tile_rows": 5}}
    cpu = replace(cpu_target_named("x86-64-v3"), fitted=fitted)
    assert cpu.kernels.contractions.max_tile_rows == 5
    assert cpu.kernels.loops == cpu_target_named("x86-64-v3").kernels.loops
    gpu = replace(GPU_TARGETS["sm_80"], fitted={"model": {"launch": 9.0}, "blocks": {"pointwise": 512}})
    assert (gpu.model.launch, gpu.kernels.blocks.pointwise) == (9.0, 512)
    assert gpu.kernels.attention == GPU_TARGETS["sm_80"].kernels.attention
    with pytest.raises(TypeError, match="unknown"):
        _ = replace(cpu, fitted={"loops": {"unknown": 1}}).kernels


def test_programs_per_sm_follow_the_bandwidth_of_an_sm():
    """A B200 has 1.5 times the bandwidth of an H200 for each SM, an A100 half."""
    programs = {
        a: GPU_TARGETS[a].kernels.blocks.strided_programs_per_sm for a in ("sm_80", "sm_89", "sm_90", "sm_100")
    }
    assert programs == {"sm_80": 2, "sm_89": 1, "sm_90": 4, "sm_100": 6}


def test_limits_of_an_h200_follow_from_its_facts():
    """Two dependent launches take as long as 8 loads; DRAM moves the writers of 2^18 positions in the time of one."""
    gpu = GPU_TARGETS["sm_90"]
    assert gpu.kernels.scatters == ScatterParameters(max_ordered_steps=8, max_positions_per_step=1 << 18)
    assert (gpu.kernels.reductions.min_fused_rows, gpu.kernels.reductions.max_recomputed_operations) == (16, 16)
    slow = replace(gpu, rates=replace(gpu.rates, memory_clock_mhz=gpu.rates.memory_clock_mhz / 4))
    assert slow.kernels.scatters.max_positions_per_step == 1 << 16
    assert slow.kernels.reductions.max_recomputed_operations == 64
    assert [replace(gpu, sms=n).kernels.reductions.min_fused_rows for n in (66, 2)] == [8, 1]


@of_every_gpu
def test_sizes_of_a_gpu_fit_its_shared_memory_and_registers(gpu):
    attention = gpu.kernels.attention
    for blocks, width in ((attention.narrow, attention.max_narrow_width), (attention.wide, attention.max_width)):
        assert blocks.shared_bytes(width) <= gpu.usable_shared_bytes
    assert gpu.kernels.norm_gradients.warps_per_sm <= gpu.sm_warps
    assert all(n > 0 for n in numbers(gpu.kernels.blocks))


@of_every_gpu
def test_kernels_use_the_instructions_of_the_gpu(gpu):
    """Warp-specialized kernels are built of `wgmma`; tensor maps need TMA."""
    attention, tiles = gpu.kernels.attention, gpu.model.tiles
    specialized = [attention.forward, attention.key_gradients, attention.query_gradients, tiles.warp_specialized]
    assert [bool(x) for x in specialized] == [WGMMA in gpu.tensor_core_shapes] * 4
    assert bool(tiles.tma) == gpu.has_tma
    first = {"sm_75": MMA_TURING, "sm_90": WGMMA, "sm_100": TCGEN05, "sm_103": TCGEN05}.get(gpu.arch, MMA)
    assert gpu.tensor_core_shapes[0] == first


@of_every_gpu
def test_predicted_rates_stay_below_the_peak(gpu):
    """The model predicts no large product that is faster than tensor cores, or than DRAM delivers operands."""
    size = 8192
    product = Product(1, size, size, size, 2, gpu.has_tma, target=gpu)
    best = ranked_configs(product)[0]
    peak = gpu.rates.tensor_fma_per_cycle * gpu.rates.clock_mhz
    assert 0.5 * peak < gpu.model.fma(2, True) * best.efficiency < 1.15 * peak
    assert gpu.model.dram_bytes < 1.1 * gpu.rates.dram_bytes_per_second / 1e6
