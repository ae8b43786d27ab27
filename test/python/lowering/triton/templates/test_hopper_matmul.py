"""Warp-specialized products for Hopper: which products use the kernel, values, compilation without spills."""

import itertools
import re
from dataclasses import replace

import lowered
import ml_dtypes
import numpy as np
import pytest
from assembler_reports import compile_with_report
from epilogues import FOLLOWING, after, operands
from test_hopper_attention import program_of

import oneflow as flow
from oneflow.lowering.targets.hopper import HOPPER_TILES
from oneflow.lowering.targets.selection import gpu_target, using_gpu
from oneflow.lowering.triton.cost.matmul_configurations import (
    Product,
    choose_split_k,
    configs_of,
    tensor_core_config,
)
from oneflow.lowering.triton.launch.emit_triton import MAX_CANDIDATES
from oneflow.testing.triton_interpreter import interpret_program

HOPPER_CONFIGS = configs_of(HOPPER_TILES.warp_specialized)

F = flow.nn.functional


def named(config):
    """The name of a configuration."""
    return f"{config.rows}x{config.columns}{' ping-pong' if config.ping_pong else ''}"


of_every_tile = pytest.mark.parametrize("config", HOPPER_CONFIGS, ids=named)
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

#: A product that has a form for Hopper and other candidates.
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
def test_candidates_are_distinct(arch, count):
    """If the form in Gluon is chosen, the plain form is a candidate."""
    plain = lowered.lower(TUNED)
    program = plain.on(arch)
    ((name, source),) = program.sources.items()
    candidates = [(c.text, c.warps, c.stages) for c in (source, *program.candidates[name])]
    assert len(set(candidates)) == len(candidates) == count
    assert (plain.sources[name].text, plain.sources[name].warps, plain.sources[name].stages) in candidates


def test_sums_of_products_have_none():
    assert lower(CALLS["plain"][0], *CALLS["plain"][1:]).specializations
    assert not lower(lambda a, b, c, d: a @ b + c @ d, *[(8192, 3072), (3072, 768)] * 2).specializations


#: Rows, columns and depth of products that end within tiles, and within a step.
SIZES = [(200, 264, 136), (384, 72, 64)]


@of_every_tile
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("turned", [False, True], ids=["as they are", "turned"])
def test_values_of_hopper_products(sizes, turned, config, change_gpu):
    change_gpu(overrides={"warp_specialized": config})
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
def test_epilogues(name, config, change_gpu):
    """Some results are infinite or NaN. Shared memory does not hold f32 results with the stages of the square tile:
    the plain form computes these.
    """
    change_gpu(overrides={"warp_specialized": config})
    given, want = operands(200, 264, 72), after(name, *operands(200, 264, 72))
    function = FOLLOWING[name][0]
    program = program_of(lambda a, b, c, r: function(a @ b, c, r), [x.shape for x in given], flow.bfloat16)
    special = program.on("sm_90")
    wide = name in ("sine", "cast") and config.rows == config.columns == 192
    assert [source.language for source in special.sources.values()] == ["triton" if wide else "gluon"]
    (got,) = interpret_program(special, *given)
    assert np.isnan(want).any() and np.isfinite(want).any()
    np.testing.assert_allclose(got.astype(np.float32), want, 2e-2, 2e-2)


#: All calls in the first configuration, some in every configuration. The sine, whose source is long, compiles slowly
#: for wide tiles.
COMPILED = [(call, c) for c in HOPPER_CONFIGS for call in CALLS
            if (call == "sine in f32" and (c.rows, c.columns) == (192, 96))
            or (call != "sine in f32" and c == HOPPER_CONFIGS[0])
            or call in ("residual", "two results") or (c.ping_pong and call == "gelu")]  # fmt: skip


@pytest.mark.parametrize(("call", "config"), COMPILED, ids=lambda x: x if isinstance(x, str) else named(x))
def test_every_configuration_compiles_without_serialized_products(call, config, change_gpu):
    change_gpu(overrides={"warp_specialized": config})
    source = lower(*CALLS[call]).specializations["sm_90"]
    assert source.text.count("    (consumer, (") == config.rows // 64
    binary, report = compile_with_report(source)
    assert binary.shared <= 232448 and binary.scratch == 0 and len(binary.maps) == source.text.count("_descriptor(")
    assert "serialized" not in report


@of_every_tile
@pytest.mark.parametrize("call", ["plain", "two results", "gelu"])
def test_consecutive_slices_are_stored_from_different_buffers(call, config, change_gpu):
    change_gpu(overrides={"warp_specialized": config})
    text = lower(*CALLS[call]).specializations["sm_90"].text
    buffers = re.findall(r"^ +store_tile\(.*, (buffer_\w+\.index\([^)]*\)), \w+\)$", text, re.M)
    width = 32 if config.ping_pong and call != "gelu" else 64
    assert len(buffers) == -(-config.columns // width) * (2 if call == "two results" else 1)
    assert all(one != other for one, other in itertools.pairwise(buffers))
    assert re.search(r"store_wait\(0\)\n( +(?!store_tile).*\n)* +store_tile", text.partition("def consumer")[2])


def test_rows_that_end_within_a_tile_are_masked(change_gpu):
    """The last tile of 192 rows has a warp group beyond the 8192 rows."""
    change_gpu(overrides={"warp_specialized": HOPPER_CONFIGS[0]})
    text = lower(*CALLS["residual"]).specializations["sm_90"].text
    assert "192" in text and "in_m" in text and "in_n" not in text


#: The fastest configurations on an H200, or nearly: rows, columns, depth; the tile of the warp-specialized kernel, if
#: any, and whether its warp groups are ping-pong or cooperative.
COOPERATIVE, PING_PONG = False, True
FASTEST = [
    ((8192, 768, 3072), (128, 128, PING_PONG)), ((8192, 2304, 768), (128, 128, PING_PONG)),
    ((8192, 768, 50304), (192, 256, COOPERATIVE)), ((3000, 3000, 3000), (192, 192, COOPERATIVE)),
    ((8192, 768, 768), (128, 128, PING_PONG)), ((1024, 3072, 768), (128, 192, COOPERATIVE)),
    ((768, 3072, 8192), (128, 144, COOPERATIVE)), ((1024, 768, 3072), (64, 96, COOPERATIVE)),
    ((768, 768, 8192), (64, 96, COOPERATIVE)), ((8192, 3072, 768), (128, 128, PING_PONG)),
    ((8192, 1024, 1024), (128, 128, PING_PONG)), ((2048, 8192, 512), (128, 128, PING_PONG)),
    ((1536, 1536, 1536), (128, 144, COOPERATIVE)), ((8192, 4096, 1024), (128, 128, PING_PONG)),
    ((4096, 4096, 64), (128, 128, PING_PONG)), ((4096, 4096, 4096), None), ((8192, 8192, 8192), None),
    ((16384, 512, 2048), None), ((64, 4096, 4096), None),
]  # fmt: skip


@pytest.mark.parametrize(("sizes", "tile"), FASTEST, ids=str)
def test_the_model_chooses_the_fastest_configuration(sizes, tile):
    rows, columns, depth = sizes
    product = Product(1, rows, columns, depth, 2, True)
    best = tensor_core_config(product)
    assert (best and (best.rows, best.columns, best.ping_pong)) == tile
    assert tile is None or choose_split_k(product, (depth,)) == (0, 1)


@pytest.mark.parametrize(
    ("function", "launches"),
    [(lambda a, b: a @ b, 1), (lambda a, b: F.relu(a @ b), 1), (lambda a, b: (a @ b).transpose(0, 1) * 2.0, 2)],
    ids=["plain", "relu", "transposed"],
)
def test_warp_specialized_products_have_no_split_k(function, launches):
    """The warp-specialized kernel is as fast without split-K, but needs row-major results."""
    program = program_of(function, [(768, 12288), (12288, 3072)], flow.bfloat16)
    assert program.plan.count("run.launch") == launches
    assert [bool(source.specializations) for source in program.sources.values()] == (
        [True] if launches == 1 else [False] * 2
    )


def test_ping_pong_for_heavy_epilogues():
    """Cooperative warp groups wait for their epilogue; ping-pong overlaps the epilogue with products."""
    for n in (768, 3072):
        config = tensor_core_config(Product(1, 8192, n, 768, 2, True, epilogue_operations=16))
        assert config and config.ping_pong
    config = tensor_core_config(Product(1, 8192, 8192, 8192, 2, True, epilogue_operations=16))
    assert config and config.columns == 192


def test_very_heavy_epilogues_have_several_programs_per_sm():
    """A persistent kernel has fewer warps for the epilogue than several programs per SM."""
    found = {
        n: tensor_core_config(Product(1, 8192, 3072, 768, 2, True, epilogue_operations=n)) is None
        for n in (0, 16, 40, 100)
    }
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
def test_unsupported_products_use_the_generic_kernel(function, shapes):
    assert not lower(function, *shapes).specializations
