"""Warp-specialized f32 products for Hopper: which products use the kernel, values, loads of operands."""

import re

import numpy as np
import pytest
from assembler_reports import compile_with_report, spilled
from epilogues import FOLLOWING, operands
from lowered import lower
from test_hopper_attention import FEW, program_of

import oneflow as flow
from oneflow.lowering.targets.hopper import HOPPER_TILES
from oneflow.lowering.triton.cost.matmul_configurations import Product, configs_of, f32_config
from oneflow.testing.triton_interpreter import interpret_program

HOPPER_F32_CONFIGS = configs_of(HOPPER_TILES.warp_specialized_f32)

of_every_tile = pytest.mark.parametrize("config", HOPPER_F32_CONFIGS, ids=lambda c: f"{c.rows}x{c.columns}")
of_every_form = pytest.mark.parametrize("form", ["nn", "nt", "tn", "tt"])


def product(form):
    """The product of operands, each transposed or not."""
    one, other = form
    return lambda a, b: (a.transpose(0, 1) if one == "t" else a) @ (b.transpose(0, 1) if other == "t" else b)


def special(function, shapes, config, change_gpu, dtype=flow.float32):
    """The program with the form in Gluon, in a configuration."""
    change_gpu(overrides={"warp_specialized": config}, sms=1)
    program = program_of(function, shapes, dtype).on("sm_90")
    assert [source.language for source in program.sources.values()] == ["gluon"]
    return program


@of_every_tile
@of_every_form
def test_values_of_hopper_f32_products(form, config, change_gpu):
    """Rows, columns and depth end within tiles and steps; a program has several tiles."""
    rng = np.random.default_rng(7)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in [(200, 140), (140, 520), (520,)])
    multiply = product(form)
    given = [np.ascontiguousarray(x.T) if how == "t" else x for x, how in zip((a, b), form, strict=True)] + [c]

    def function(a, b, c):
        y = multiply(a, b)
        return y, flow.nn.functional.relu(y + c)

    program = special(function, [x.shape for x in given], config, change_gpu)
    one, two = interpret_program(program, *given)
    want = a @ b
    np.testing.assert_allclose(one, want, 1e-4, 1e-4)
    np.testing.assert_allclose(two, np.maximum(want + c, 0), 1e-4, 1e-4)


@pytest.mark.parametrize("name", FOLLOWING)
def test_epilogues(name, change_gpu):
    """Some results are infinite or NaN."""
    given = [x.astype(np.float32) for x in operands(200, 264, 72)]
    (function, reference), shapes = FOLLOWING[name], [x.shape for x in given]
    program = special(lambda a, b, c, r: function(a @ b, c, r), shapes, HOPPER_F32_CONFIGS[0], change_gpu)
    (got,) = interpret_program(program, *given)
    with np.errstate(all="ignore"):
        want = reference(given[0] @ given[1], *given[2:])
    assert np.isnan(want).any() and np.isfinite(want).any()
    np.testing.assert_allclose(got, want, 2e-4, 2e-4)


@of_every_tile
@of_every_form
def test_every_configuration_compiles_and_loads_16_bytes(form, config, change_gpu):
    """Accumulators stay in registers, but for a few spills of newer assemblers; an SM holds as many programs as the
    grid has for it.
    """
    program = special(product(form), [(2048, 2048), (2048, 2048)], config, change_gpu)
    (source,) = program.sources.values()
    binary, report = compile_with_report(source)
    assert len(binary.maps) == 2 and spilled(report) <= FEW
    loads = re.findall(r"ld\.shared\S*", binary.ptx)
    assert len(loads) >= 16 and {x for x in loads if "v4" not in x} <= {"ld.shared.b8"}
    given_back = re.findall(r"fence\.proxy|bar\.sync|mbarrier\.arrive", binary.ptx.rpartition("ld.shared.v4")[2])
    assert given_back[:3] == ["fence.proxy", "bar.sync", "mbarrier.arrive"]
    programs = source.grid.static
    assert programs * binary.shared <= 233472 and programs * source.registers * 32 * 2 * source.warps <= 65536


#: Rows, columns, depth, whether the depth is contiguous in both operands; the tile where the form was the fastest on
#: an H200.
FASTEST = [
    ((4096, 4096, 4096, False), (128, 128)), ((4096, 4096, 4096, True), (128, 128)),
    ((8192, 3072, 768, True), (128, 128)), ((2048, 8192, 512, False), (128, 128)),
    ((8192, 768, 3072, False), (64, 128)), ((1024, 1024, 1024, False), None),
]  # fmt: skip


@pytest.mark.parametrize(("sizes", "tile"), FASTEST, ids=str)
def test_the_model_chooses_the_fastest_configuration(sizes, tile):
    rows, columns, depth, along = sizes
    product = Product(
        1, rows, columns, depth, 4, False, contiguous_depth=along, epilogue_bytes=4, widest_epilogue_bytes=4
    )
    best = f32_config(product)
    assert (best and (best.rows, best.columns)) == tile


def test_unsupported_f32_products_use_the_generic_kernel():
    """Odd rows, batches, and products whose f32 operands are split into tf32."""
    for shapes in [((4096, 4095), (4095, 4096)), ((3, 4096, 4096), (3, 4096, 4096))]:
        (source,) = program_of(lambda a, b: a @ b, shapes, flow.float32).sources.values()
        assert not source.specializations
    kinds = "tensor<4096x4096xf32>"
    text = f"""module attributes {{oneflow.precision = "PRECISION"}} {{
      func.func @main(%a: {kinds}, %b: {kinds}) -> {kinds} {{
        %0 = "oneflow.matmul"(%a, %b) : ({kinds}, {kinds}) -> {kinds}
        return %0 : {kinds}
      }}
    }}"""
    found = [lower(text.replace("PRECISION", p)).sources["main_kernel_0"].specializations for p in ("ieee", "tf32x3")]
    assert [bool(forms) for forms in found] == [True, False]
