"""GPU targets: programs compile for each target, configurations depend on the target's sizes, unknown names are
refused.
"""

from dataclasses import replace

import pytest
from lowered import lower
from test_hopper_attention import program_of

import oneflow as flow
from oneflow.lowering.targets.card import CardFacts
from oneflow.lowering.targets.gpu import GPU_TARGETS
from oneflow.lowering.targets.matmul_model import MatmulTile
from oneflow.lowering.targets.selection import gpu_target, gpu_target_named, using_gpu
from oneflow.lowering.triton.cost.matmul_configurations import (
    Product,
    candidate_configs,
    choose_split_k,
    configs_of,
    most_reduction_parts,
    ranked_configs,
)
from oneflow.runtime.cuda.compiler import compile_source

F = flow.nn.functional
#: Functions, and the shapes of the operands.
PROGRAMS = {
    "matmul": (lambda a, b, c: flow.relu(a @ b + c), [(4096, 1024), (1024, 4096), (4096,)]),
    "softmax": (lambda x: flow.softmax(x, -1), [(512, 1000)]),
    "attention": (F.scaled_dot_product_attention, [(2, 4, 256, 64)] * 3),
    "conv2d": (lambda x, w: flow.relu(F.conv2d(x, w, padding=1)), [(8, 16, 14, 14), (32, 16, 3, 3)]),
}


#: Programs large enough for specialized kernels.
LARGE = {
    "softmax": (lambda x: flow.softmax(x, -1), [(2048, 32768)]),
    "attention": (F.scaled_dot_product_attention, [(2, 16, 2048, 64)] * 3),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90", "sm_100"])
def test_programs_compile_for_each_target(arch, name):
    function, shapes = PROGRAMS[name]
    target = gpu_target_named(arch)
    with using_gpu(target):
        program = program_of(function, shapes, flow.bfloat16).on(arch)
        for source in program.sources.values():
            binary = compile_source(source, arch)
            assert binary.cubin[:4] == b"\x7fELF" and binary.shared <= target.block_shared_bytes
            assert name != "matmul" or ("make_tensor_descriptor" in source.text) == target.has_tma


@pytest.mark.parametrize("arch", GPU_TARGETS)
@pytest.mark.parametrize("width", [2, 4])
def test_configurations_fit_the_shared_memory_of_a_target(arch, width):
    target = gpu_target_named(arch)
    found = ranked_configs(Product(1, 4096, 4096, 4096, width, target.has_tma, target=target))
    assert found and all(c.stages >= 2 for c in found)
    product = Product(1, 4096, 4096, 4096, width, target.has_tma, target=target)
    assert all(c.stages * c.stage_bytes(product) <= target.usable_shared_bytes for c in found)


@pytest.mark.parametrize("name", ["matmul", "attention", "softmax"])
def test_specialized_kernels_are_those_of_the_target(name):
    """Kernels of warp groups and long rows in shared memory are written for Hopper alone."""
    function, shapes = {**PROGRAMS, **LARGE}[name]
    for arch, forms in (("sm_80", set()), ("sm_90", {"sm_90"}), ("sm_100", set())):
        with using_gpu(gpu_target_named(arch)):
            sources = program_of(function, shapes, flow.bfloat16).sources.values()
        assert {form for source in sources for form in source.specializations} == forms


def test_products_have_the_tiles_of_the_target():
    target = gpu_target_named("sm_90")
    tiles = replace(target.model.tiles, tma=(MatmulTile(64, 64, 64, 4, 2, 0.5, True),), pointer=())
    small = replace(target, fitted={"model": {"tiles": tiles}})
    for each in (target, small, target):
        with using_gpu(each):
            chosen = {(c.rows, c.columns) for c in ranked_configs(Product(1, 4096, 4096, 4096, 2, True))}
            assert chosen == {(64, 64)} if each is small else len(chosen) > 3


def test_a_reduction_is_split_for_the_sms_of_the_target():
    """A sum of 2^20 elements is split in 8 parts for each SM, whose share of the bandwidth is as on an H200."""
    parts = {}
    for sms in (4, 16):
        target = gpu_target()
        bus = target.rates.memory_bus_bits * sms // target.sms
        with using_gpu(target.on_card(CardFacts(sms=sms, memory_bus_bits=bus))):
            parts[sms] = most_reduction_parts(1 << 20, 1, False)
    assert parts == {4: 32, 16: 128}


TEMPORARY = """func.func @main(%x: tensor<40x256xf32>, %y: tensor<40x256xf32>) -> tensor<40xf32> {
  %0 = "oneflow.softmax"(%x) : (tensor<40x256xf32>) -> tensor<40x256xf32>
  %1 = "oneflow.softmax"(%y) : (tensor<40x256xf32>) -> tensor<40x256xf32>
  %2 = "oneflow.matmul"(%0, %1) {transpose_b = true}
      : (tensor<40x256xf32>, tensor<40x256xf32>) -> tensor<40x40xf32>
  %3 = "oneflow.softmax"(%2) : (tensor<40x40xf32>) -> tensor<40x40xf32>
  %4 = "oneflow.matmul"(%3, %0) : (tensor<40x40xf32>, tensor<40x256xf32>) -> tensor<40x256xf32>
  %5 = "oneflow.reduce_max"(%4) {axis = [1 : si32]} : (tensor<40x256xf32>) -> tensor<40xf32>
  return %5 : tensor<40xf32>
}"""


def test_temporaries_share_memory_where_the_cache_of_the_target_does_not_hold_them():
    sizes = {}
    for cache in (1 << 20, 1 << 16):
        with using_gpu(replace(gpu_target(), l2_cache_bytes=cache)):
            sizes[cache] = lower(TEMPORARY).workspace
    assert sizes[1 << 16] < sizes[1 << 20]


@pytest.mark.parametrize("name", ["sm_91", "ampere", ""])
def test_an_unknown_architecture_is_refused(name):
    with pytest.raises(ValueError, match=rf"expected one of the architectures sm_75, .*, got '{name}'"):
        gpu_target_named(name)


ADDITION = """func.func @main(%x: tensor<4096xf32>) -> tensor<4096xf32> {
  %0 = "oneflow.exp"(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  return %0 : tensor<4096xf32>
}"""


def test_blocks_of_loop_nests_follow_the_target(change_gpu):
    """4096 elements are 4 blocks of 1024 elements, or 16 blocks of 256."""
    change_gpu(blocks={"pointwise": 256})
    (source,) = lower(ADDITION).sources.values()
    assert source.grid.static == 16 and source.warps == 1


def test_overrides_replace_the_choice_of_the_model(change_gpu):
    tile = MatmulTile(32, 32, 64, 4, 2, 0.5)
    change_gpu(overrides={"tiles": (tile,)})
    product = Product(1, 4096, 4096, 4096, 2, True)
    assert candidate_configs(product) == configs_of([tile]) != ranked_configs(product)
    change_gpu(overrides={"split_k": (0, 3)})
    assert choose_split_k(Product(1, 64, 64, 96, 2, True), (96,)) == (0, 3)
