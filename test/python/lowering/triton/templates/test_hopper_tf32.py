"""tf32 products: tensor cores read both operands along the depth; others are copied first, where faster."""

import re
from dataclasses import replace

import numpy as np
import pytest
from assembler_reports import compile_with_report, spilled
from lowered import lower

from oneflow.lowering.targets.hopper import HOPPER_TILES
from oneflow.lowering.targets.selection import gpu_target, using_gpu
from oneflow.lowering.triton.cost import matmul_configurations
from oneflow.lowering.triton.cost.matmul_configurations import (
    Product,
    configs_of,
    is_transposition_worthwhile,
    ranked_configs,
    tensor_core_config,
)
from oneflow.testing.triton_interpreter import interpret_program

HOPPER_CONFIGS = configs_of(HOPPER_TILES.warp_specialized)

#: A cooperative tile with several accumulators, and a ping-pong tile, with the depth of 4-byte operands.
TILES = [replace(HOPPER_CONFIGS[4], depth=32), replace(HOPPER_CONFIGS[9], depth=32)]


def product_text(sizes, form, then="", batch=""):
    """A product of operands that are stored transposed (t) or not (n), with a bias and an activation."""
    rows, columns, depth = sizes
    left, right = (f"{b}x{a}" if how == "t" else f"{a}x{b}" for a, b, how in
                   ((rows, depth, form[0]), (depth, columns, form[1])))  # fmt: skip
    left, right, result = (f"tensor<{batch}{kind}xf32>" for kind in (left, right, f"{rows}x{columns}"))
    flags = ", ".join(f"transpose_{n} = {str(how == 't').lower()}" for n, how in zip("ab", form, strict=True))
    name = "batch_matmul" if batch else "matmul"
    return f"""module attributes {{oneflow.precision = "tf32"}} {{
      func.func @main(%a: {left}, %b: {right}, %c: tensor<{columns}xf32>) -> {result} {{
        %0 = "oneflow.{name}"(%a, %b) {{{flags}}} : ({left}, {right}) -> {result}
        {then} return %{1 if then else 0} : {result}
      }}
    }}"""


def given(sizes, form, batch=()):
    """The operands in the stored layout, a bias, and the exact product of f32."""
    rng, (rows, columns, depth) = np.random.default_rng(3), sizes
    a, b = rng.standard_normal((*batch, rows, depth)), rng.standard_normal((*batch, depth, columns))
    stored = [np.ascontiguousarray(x.swapaxes(-1, -2) if how == "t" else x).astype(np.float32)
              for x, how in zip((a, b), form, strict=True)]  # fmt: skip
    return [*stored, rng.standard_normal(columns).astype(np.float32)], a @ b


@pytest.fixture
def always_transposed(change_gpu):
    """Operands are transposed even where a copy takes longer."""
    change_gpu(overrides={"transposes_operands": True})


@pytest.mark.usefixtures("always_transposed")
@pytest.mark.parametrize(("form", "launches"), [("nt", 1), ("nn", 2), ("tt", 2), ("tn", 3)])
@pytest.mark.parametrize("config", TILES, ids=lambda c: f"{c.rows}x{c.columns}")
def test_values_of_tf32_products(form, launches, config, change_gpu):
    """Rows, columns and depth end within tiles and steps; the operands that are not along the depth are copied."""
    change_gpu(overrides={"warp_specialized": config})
    sizes, bias = (200, 264, 136), "tensor<200x264xf32>, tensor<264xf32>"
    then = f'%1 = "oneflow.bias_add"(%0, %c) {{axis = 1 : i32}} : ({bias}) -> tensor<200x264xf32>'
    with using_gpu(replace(gpu_target(), sms=2)):
        program = lower(product_text(sizes, form, then)).on("sm_90")
    assert program.plan.count("run.launch") == launches
    *_, last = program.sources.values()
    assert last.language == "gluon" and "warpgroup_mma" in last.text
    arrays, want = given(sizes, form)
    (got,) = interpret_program(program, *arrays)
    np.testing.assert_allclose(got, want + arrays[2], 1e-4, 1e-4)


@pytest.mark.usefixtures("always_transposed")
def test_batched_operands():
    """The matrices of a batch are transposed each; blocks are read by descriptors."""
    program = lower(product_text((256, 128, 512), "tn", batch="3x"))
    assert program.plan.count("run.launch") == 3 and program.text.count("make_tensor_descriptor") >= 2
    arrays, want = given((256, 128, 512), "tn", (3,))
    np.testing.assert_allclose(interpret_program(program, *arrays)[0], want, 1e-4, 1e-4)


@pytest.mark.usefixtures("always_transposed")
def test_one_copy_for_several_products():
    """Two products read the same transposed operand."""
    kind = "tensor<256x256xf32>"
    program = lower(f"""module attributes {{oneflow.precision = "tf32"}} {{
      func.func @main(%a: {kind}, %b: {kind}, %w: {kind}) -> ({kind}, {kind}) {{
        %0 = "oneflow.matmul"(%a, %w) : ({kind}, {kind}) -> {kind}
        %1 = "oneflow.matmul"(%b, %w) : ({kind}, {kind}) -> {kind}
        return %0, %1 : {kind}, {kind}
      }}
    }}""")
    a, b, w = np.random.default_rng(0).standard_normal((3, 256, 256)).astype(np.float32)
    assert program.plan.count("run.launch") <= 3
    for got, want in zip(interpret_program(program, a, b, w), (a @ w, b @ w), strict=True):
        np.testing.assert_allclose(got, want, 1e-4, 1e-4)


@pytest.mark.parametrize("config", TILES, ids=lambda c: f"{c.rows}x{c.columns}")
def test_tensor_cores_multiply(config, change_gpu):
    """By `wgmma` of tf32 from shared memory, in registers alone."""
    change_gpu(overrides={"warp_specialized": config})
    (source,) = lower(product_text((4096, 4096, 4096), "nt")).sources.values()
    binary, report = compile_with_report(source.specializations["sm_90"])
    assert binary.shared <= gpu_target().block_shared_bytes and "serialized" not in report and not spilled(report)
    assert re.search(r"wgmma\.mma_async\S*\.f32\.tf32\.tf32", binary.ptx) and "mma.sync" not in binary.ptx


def test_strided_operands_have_no_descriptors():
    """If a copy costs more time than the copy saves, blocks are read by pointers."""
    program = lower(product_text((64, 512, 784), "nn"))
    assert program.plan.count("run.launch") == 1 and "descriptor" not in program.text
    arrays, want = given((64, 512, 784), "nn")
    np.testing.assert_allclose(interpret_program(program, *arrays)[0], want, 1e-4, 1e-4)


def problem(rows, columns, depth, along):
    product = Product(1, rows, columns, depth, 4, along, epilogue_bytes=4, widest_epilogue_bytes=4)
    return replace(product, contiguous_depth=along, precision="tf32")


@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (8192, 768, 3072), (1024, 1024, 1024)], ids=str)
def test_the_model_expects_half_the_rate_of_16_bits(sizes):
    """Large operands are transposed. The blocks of a stage have as many bytes as those of 16-bit products."""
    along = problem(*[*sizes, True])
    half = Product(1, sizes[0], sizes[1], sizes[2], 2, True, epilogue_bytes=4, widest_epilogue_bytes=4)
    times = [matmul_configurations._fastest_microseconds(p, True) for p in (along, half)]
    assert 1.2 < times[0] / times[1] < 2.2
    assert {c.stage_bytes(along) for c in ranked_configs(along)} <= {
        c.stage_bytes(half) for c in ranked_configs(half)
    }
    assert is_transposition_worthwhile(problem(*[*sizes, False]), [sizes[1] * sizes[2]])


def test_products_without_reuse_are_not_transposed():
    assert not is_transposition_worthwhile(problem(64, 512, 784, along=False), [512 * 784])
    assert not is_transposition_worthwhile(problem(16, 4096, 4096, along=False), [4096 * 4096])
    assert tensor_core_config(problem(4096, 768, 3072, along=False)) is None
