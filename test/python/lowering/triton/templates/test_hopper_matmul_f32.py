"""Products of f32 for Hopper: which have the form in Gluon, what it computes, how operands are read."""

import re
from dataclasses import replace

import numpy as np
import pytest
from epilogues import FOLLOWING, operands
from lowered import lower
from test_hopper_attention import FEW, assembled, program_of, spilled

import oneflow as flow
from oneflow.lowering.targets.choice import gpu_target, using_gpu
from oneflow.lowering.triton.cost.matmul_configurations import SINGLES, Product
from oneflow.lowering.triton.cost.matmul_configurations import hopper_single as single_form
from oneflow.lowering.triton.templates import hopper_forms
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.testing.triton_interpreter import interpret_program

of_every_tile = pytest.mark.parametrize("config", SINGLES, ids=lambda c: f"{c.rows}x{c.columns}")
of_every_form = pytest.mark.parametrize("form", ["nn", "nt", "tn", "tt"])


def product(form):
    """The product of operands, each as it is or turned."""
    one, other = form
    return lambda a, b: (a.transpose(0, 1) if one == "t" else a) @ (b.transpose(0, 1) if other == "t" else b)


def special(function, shapes, config, monkeypatch, dtype=flow.float32):
    """The program with the form in Gluon, in a tile."""
    monkeypatch.setattr(hopper_forms, "hopper_single", lambda product: config)
    with using_gpu(replace(gpu_target(), sms=1)):
        program = program_of(function, shapes, dtype).on("sm_90")
    assert [source.language for source in program.sources.values()] == ["gluon"]
    return program


@of_every_tile
@of_every_form
def test_what_the_form_in_gluon_computes(form, config, monkeypatch):
    """Rows, columns and depth end within tiles and within a step, and programs have several tiles."""
    rng = np.random.default_rng(7)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in [(200, 140), (140, 520), (520,)])
    multiply = product(form)
    given = [np.ascontiguousarray(x.T) if how == "t" else x for x, how in zip((a, b), form, strict=True)] + [c]

    def function(a, b, c):
        y = multiply(a, b)
        return y, flow.nn.functional.relu(y + c)

    program = special(function, [x.shape for x in given], config, monkeypatch)
    one, two = interpret_program(program, *given)
    want = a @ b
    np.testing.assert_allclose(one, want, 1e-4, 1e-4)
    np.testing.assert_allclose(two, np.maximum(want + c, 0), 1e-4, 1e-4)


@pytest.mark.parametrize("name", FOLLOWING)
def test_what_follows_a_product(name, monkeypatch):
    """Some of what is computed is infinite or no number."""
    given = [x.astype(np.float32) for x in operands(200, 264, 72)]
    (function, reference), shapes = FOLLOWING[name], [x.shape for x in given]
    program = special(lambda a, b, c, r: function(a @ b, c, r), shapes, SINGLES[0], monkeypatch)
    (got,) = interpret_program(program, *given)
    with np.errstate(all="ignore"):
        want = reference(given[0] @ given[1], *given[2:])
    assert np.isnan(want).any() and np.isfinite(want).any()
    np.testing.assert_allclose(got, want, 2e-4, 2e-4)


@of_every_tile
@of_every_form
def test_every_tile_compiles_and_finds_operands_by_16_bytes(form, config, monkeypatch):
    """Sums stay in registers, of which newer assemblers keep a few in memory, and a processor has room for as many
    programs as are started for it.
    """
    program = special(product(form), [(2048, 2048), (2048, 2048)], config, monkeypatch)
    (source,) = program.sources.values()
    binary = compile_source(source)
    assert len(binary.maps) == 2 and spilled(assembled(binary.ptx)) <= FEW
    loads = re.findall(r"ld\.shared\S*", binary.ptx)
    assert len(loads) >= 16 and {x for x in loads if "v4" not in x} <= {"ld.shared.b8"}
    given_back = re.findall(r"fence\.proxy|bar\.sync|mbarrier\.arrive", binary.ptx.rpartition("ld.shared.v4")[2])
    assert given_back[:3] == ["fence.proxy", "bar.sync", "mbarrier.arrive"]
    programs = int(source.grid)
    assert programs * binary.shared <= 233472 and programs * source.registers * 32 * 2 * source.warps <= 65536


#: Rows, columns, depth, whether both operands lie along the depth, and the tile where one was the fastest on an H200.
FASTEST = [
    ((4096, 4096, 4096, False), (128, 128)), ((4096, 4096, 4096, True), (128, 128)),
    ((8192, 3072, 768, True), (128, 128)), ((2048, 8192, 512, False), (128, 128)),
    ((8192, 768, 3072, False), (64, 128)), ((1024, 1024, 1024, False), None),
]  # fmt: skip


@pytest.mark.parametrize(("sizes", "tile"), FASTEST, ids=str)
def test_the_choice_was_the_fastest(sizes, tile):
    *sizes, along = sizes
    best = single_form(Product(1, *sizes, 4, False, along=along, finished=4, widest=4))
    assert (best and (best.rows, best.columns)) == tile


def test_others_have_the_plain_form_alone():
    """Odd rows, several products, those of tensor cores."""
    for shapes in [((4096, 4095), (4095, 4096)), ((3, 4096, 4096), (3, 4096, 4096))]:
        (source,) = program_of(lambda a, b: a @ b, shapes, flow.float32).sources.values()
        assert not source.special
    kinds = "tensor<4096x4096xf32>"
    text = f"""module attributes {{oneflow.precision = "PRECISION"}} {{
      func.func @main(%a: {kinds}, %b: {kinds}) -> {kinds} {{
        %0 = "oneflow.matmul"(%a, %b) : ({kinds}, {kinds}) -> {kinds}
        return %0 : {kinds}
      }}
    }}"""
    found = [lower(text.replace("PRECISION", p)).sources["main_kernel_0"].special for p in ("ieee", "tf32")]
    assert [bool(forms) for forms in found] == [True, False]
