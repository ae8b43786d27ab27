"""Products for Hopper: which have the form in Gluon, what it computes, that kernels compile and do not wait."""

import itertools
import re
from dataclasses import replace

import lowered
import ml_dtypes
import numpy as np
import pytest
from epilogues import FOLLOWING, after, operands
from test_hopper_attention import assembled, program_of

import oneflow as flow
from oneflow.lowering.targets.choice import gpu_target, using_gpu
from oneflow.lowering.triton.cost.matmul_configurations import HOPPER, Product, hopper, split_depth
from oneflow.lowering.triton.launch.emit_triton import MAX_CANDIDATES
from oneflow.lowering.triton.templates import hopper_forms
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.testing.triton_interpreter import interpret_program

F = flow.nn.functional


def named(config):
    """The name of a tile in tests."""
    return f"{config.rows}x{config.columns}{' in turns' if config.turns else ''}"


of_every_tile = pytest.mark.parametrize("config", HOPPER, ids=named)
CALLS = {
    "plain": (lambda a, b: a @ b.transpose(0, 1), (8192, 3072), (768, 3072)),
    "rows first": (lambda a, b: a.transpose(0, 1) @ b, (8192, 768), (8192, 3072)),
    "gelu": (lambda a, b, c: F.gelu(F.linear(a, b, c), approximate="tanh"), (8192, 768), (3072, 768), (3072,)),
    "erf": (lambda a, b, c: F.gelu(F.linear(a, b, c)), (8192, 768), (2304, 768), (2304,)),
    "relu": (lambda a, b, c: F.relu(F.linear(a, b, c)), (8192, 768), (2304, 768), (2304,)),
    "residual": (lambda a, b, c, r: F.linear(a, b, c) + r, (8192, 3072), (768, 3072), (768,), (8192, 768)),
    "maximum": (lambda a, b, c: flow.maximum(a @ b, c), (8192, 768), (768, 2304), (8192, 2304)),
    "sine in f32": (lambda a, b: flow.sin((a @ b).to(flow.float32)), (8192, 768), (768, 2304)),
    "two results": (lambda a, b: ((y := a @ b), flow.tanh(y)), (8192, 768), (768, 2304)),
}

#: A product that has a form for Hopper, and other ways besides.
TUNED = """module attributes {oneflow.autotune = "true"} {
  func.func @main(%a: tensor<8192x3072xbf16>, %b: tensor<3072x768xbf16>) -> tensor<8192x768xbf16> {
    %0 = "oneflow.matmul"(%a, %b) : (tensor<8192x3072xbf16>, tensor<3072x768xbf16>) -> tensor<8192x768xbf16>
    return %0 : tensor<8192x768xbf16>
  }
}"""


def lower(function, *shapes):
    (source,) = program_of(function, shapes, flow.bfloat16).sources.values()
    return source


@pytest.mark.parametrize(("arch", "count"), [("sm_80", MAX_CANDIDATES), ("sm_90", MAX_CANDIDATES + 1)])
def test_no_way_to_compute_a_product_is_there_twice(arch, count):
    """Where the form in Gluon is taken, the plain one is among the others."""
    plain = lowered.lower(TUNED)
    program = plain.on(arch)
    ((name, source),) = program.sources.items()
    ways = [(way.text, way.warps, way.stages) for way in (source, *program.choices[name])]
    assert len(set(ways)) == len(ways) == count
    assert (plain.sources[name].text, plain.sources[name].warps, plain.sources[name].stages) in ways


def test_sums_of_products_have_none():
    assert lower(CALLS["plain"][0], *CALLS["plain"][1:]).special
    assert not lower(lambda a, b, c, d: a @ b + c @ d, *[(8192, 3072), (3072, 768)] * 2).special


#: Rows, columns and depth of products that end within tiles, and within a step.
SIZES = [(200, 264, 136), (384, 72, 64)]


@of_every_tile
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("turned", [False, True], ids=["as they are", "turned"])
def test_what_the_form_in_gluon_computes(sizes, turned, config, monkeypatch):
    monkeypatch.setattr(hopper_forms, "hopper", lambda product: config.fitted(product))
    (rows, columns, depth), rng = sizes, np.random.default_rng(5)
    shapes = [(rows, depth), (depth, columns), (columns,)]
    a, b, c = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in shapes)

    def function(a, b, c):
        product = a.transpose(0, 1) @ b.transpose(0, 1) if turned else a @ b
        return product, F.relu(product + c)

    given = [*((np.ascontiguousarray(x.T) if turned else x) for x in (a, b)), c]
    with using_gpu(replace(gpu_target(), sms=2)):
        special = program_of(function, [x.shape for x in given], flow.bfloat16).on("sm_90")
    assert [source.language for source in special.sources.values()] == ["gluon"]
    one, two = (got.astype(np.float32) for got in interpret_program(special, *given))
    want, bias = a.astype(np.float32) @ b.astype(np.float32), c.astype(np.float32)
    np.testing.assert_allclose(one, want, 8e-3, 1e-2)
    np.testing.assert_allclose(two, np.maximum(one + bias, 0), 8e-3, 1e-2)


@of_every_tile
@pytest.mark.parametrize("name", FOLLOWING)
def test_what_follows_a_product(name, config, monkeypatch):
    """Some of what is computed is infinite or no number. Beside the blocks of the square tile there is no room for
    results of f32, which are computed by the plain form.
    """
    monkeypatch.setattr(hopper_forms, "hopper", lambda product: config.fitted(product))
    given, want = operands(200, 264, 72), after(name, *operands(200, 264, 72))
    function = FOLLOWING[name][0]
    program = program_of(lambda a, b, c, r: function(a @ b, c, r), [x.shape for x in given], flow.bfloat16)
    special = program.on("sm_90")
    wide = name in ("sine", "cast") and config.rows == config.columns == 192
    assert [source.language for source in special.sources.values()] == ["triton" if wide else "gluon"]
    (got,) = interpret_program(special, *given)
    assert np.isnan(want).any() and np.isfinite(want).any()
    np.testing.assert_allclose(got.astype(np.float32), want, 2e-2, 2e-2)


#: Calls in tiles of three groups, and some in every tile; the sine, whose text is long, in columns of which there are
#: few: of 256 it takes 40 s.
COMPILED = [(call, c) for c in HOPPER for call in CALLS
            if (call == "sine in f32" and (c.rows, c.columns) == (192, 96))
            or (call != "sine in f32" and c == HOPPER[0])
            or call in ("residual", "two results") or (c.turns and call == "gelu")]  # fmt: skip


@pytest.mark.parametrize(("call", "config"), COMPILED, ids=lambda x: x if isinstance(x, str) else named(x))
def test_every_tile_compiles_and_products_do_not_wait(call, config, monkeypatch):
    monkeypatch.setattr(hopper_forms, "hopper", lambda product: config.fitted(product))
    source = lower(*CALLS[call]).special["sm_90"]
    assert source.text.count("    (sums, (") == config.rows // 64
    binary = compile_source(source)
    assert binary.shared <= 232448 and binary.scratch == 0 and len(binary.maps) == source.text.count("_descriptor(")
    told = assembled(binary.ptx)
    assert "serialized" not in told


@of_every_tile
@pytest.mark.parametrize("call", ["plain", "two results", "gelu"])
def test_no_block_is_written_from_the_room_of_the_one_before(call, config, monkeypatch):
    monkeypatch.setattr(hopper_forms, "hopper", lambda product: config.fitted(product))
    text = lower(*CALLS[call]).special["sm_90"].text
    rooms = re.findall(r"^ +put\(.*, (room_\w+\.index\([^)]*\)), \w+\)$", text, re.M)
    width = 32 if config.turns and call != "gelu" else 64
    assert len(rooms) == -(-config.columns // width) * (2 if call == "two results" else 1)
    assert all(one != other for one, other in itertools.pairwise(rooms))
    assert re.search(r"store_wait\(0\)\n( +(?!put).*\n)* +put", text.partition("def sums")[2])


def test_rows_that_end_within_a_tile_are_masked(monkeypatch):
    """The last tile of 192 rows has a group that is beyond 8192 of them."""
    monkeypatch.setattr(hopper_forms, "hopper", lambda product: HOPPER[0].fitted(product))
    text = lower(*CALLS["residual"]).special["sm_90"].text
    assert "192" in text and "in_m" in text and "in_n" not in text


#: What was fastest on an H200, or nearly so: rows, columns, depth, and the tile of groups of warps, if any, with
#: whether they take turns.
TOGETHER, IN_TURNS = False, True
FASTEST = [
    ((8192, 768, 3072), (128, 128, IN_TURNS)), ((8192, 2304, 768), (128, 128, IN_TURNS)),
    ((8192, 768, 50304), (192, 256, TOGETHER)), ((3000, 3000, 3000), (192, 192, TOGETHER)),
    ((8192, 768, 768), (128, 128, IN_TURNS)), ((1024, 3072, 768), (128, 192, TOGETHER)),
    ((768, 3072, 8192), (128, 144, TOGETHER)), ((1024, 768, 3072), (64, 96, TOGETHER)),
    ((768, 768, 8192), (64, 96, TOGETHER)), ((8192, 3072, 768), (128, 128, IN_TURNS)),
    ((8192, 1024, 1024), (128, 128, IN_TURNS)), ((2048, 8192, 512), (128, 128, IN_TURNS)),
    ((1536, 1536, 1536), (128, 144, TOGETHER)), ((8192, 4096, 1024), (128, 128, IN_TURNS)),
    ((4096, 4096, 64), (128, 128, IN_TURNS)), ((4096, 4096, 4096), None), ((8192, 8192, 8192), None),
    ((16384, 512, 2048), None), ((64, 4096, 4096), None),
]  # fmt: skip


@pytest.mark.parametrize(("sizes", "tile"), FASTEST, ids=str)
def test_the_choice_was_the_fastest(sizes, tile):
    best = hopper(Product(1, *sizes, 2, True))
    assert (best and (best.rows, best.columns, best.turns)) == tile
    assert tile is None or split_depth(Product(1, *sizes, 2, True), (sizes[2],)) == (0, 1)


@pytest.mark.parametrize(
    ("function", "launches"),
    [(lambda a, b: a @ b, 1), (lambda a, b: F.relu(a @ b), 1), (lambda a, b: (a @ b).transpose(0, 1) * 2.0, 2)],
    ids=["plain", "relu", "transposed"],
)
def test_a_depth_is_cut_unless_the_whole_has_the_form(function, launches):
    """Groups of warps are as fast for all of it at once, but write row by row."""
    program = program_of(function, [(768, 12288), (12288, 3072)], flow.bfloat16)
    assert program.plan.count("run.launch") == launches
    assert [bool(source.special) for source in program.sources.values()] == ([True] if launches == 1 else [False] * 2)


def test_what_follows_a_product_is_computed_beside_the_next_one():
    """Groups that have a tile together wait for what follows; of those that take turns one multiplies meanwhile."""
    assert all(hopper(Product(1, 8192, n, 768, 2, True, operations=16)).turns for n in (768, 3072))
    assert hopper(Product(1, 8192, 8192, 8192, 2, True, operations=16)).columns == 192


def test_much_that_follows_a_short_product_is_for_many_programs():
    """Groups that stay have fewer warps to compute it with than programs that a processor has several of."""
    found = {n: hopper(Product(1, 8192, 3072, 768, 2, True, operations=n)) is None for n in (0, 16, 40, 100)}
    assert found == {0: False, 16: False, 40: False, 100: True}


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda a, b: (a @ b).transpose(0, 1) * 2.0, ((8192, 3072), (3072, 768))),
        (lambda a, b: a @ b, ((12, 1024, 1024), (12, 1024, 1024))),
        (lambda a, b: a @ b, ((1000, 1001), (1001, 777))),
    ],
    ids=["transposed", "batched", "odd"],
)
def test_others_have_the_plain_form_alone(function, shapes):
    assert not lower(function, *shapes).special
