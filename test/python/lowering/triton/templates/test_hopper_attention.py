"""Warp-specialized attention for Hopper: which calls use the kernel, values, compilation without spills."""

import dataclasses
import json
import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from assembler_reports import compile_with_report, spilled

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.targets.selection import gpu_target, using_gpu
from oneflow.lowering.triton.launch.program import read_program
from oneflow.lowering.triton.source import GLUON, Source
from oneflow.lowering.triton.templates import hopper_attention_gradients
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.cuda import kernel_cache
from oneflow.runtime.cuda.compiler import CompileError, compile_source
from oneflow.testing.triton_interpreter import interpret_program

NAME = "oneflow_attention_0"
GRADIENTS = ("oneflow_attention_grad_1", "oneflow_attention_grad_2")
#: The registers of an SM, and the threads of a warp.
REGISTERS, THREADS = 65536, 32
#: Tolerated bytes of spills per thread, since assemblers and their options differ: a few registers, none in the main
#: loop.
FEW = 208


def lower(batch, heads, groups, length, size, width, out, is_causal, mask=False, scale=None, dtype=flow.bfloat16):
    def function(q, k, v, mask=None):
        return flow.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, scale=scale)

    shapes: list[tuple[int, ...]] = [
        (batch, heads, length, width), (batch, groups, size, width), (batch, groups, size, out)
    ]  # fmt: skip
    shapes += [(length, size)] if mask else []
    return program_of(function, shapes, dtype)


def program_of(function, shapes, dtype):
    """The program of a function for shapes of a dtype, or for specs."""
    specs = [s if isinstance(s, flow.TensorSpec) else flow.TensorSpec(s, dtype) for s in shapes]
    module = flow.trace(function, *specs)
    with module.context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module, REGISTRY)
        return read_program(module)


def lower_gradients(batch, heads, groups, length, size, width, out, is_causal, mask=False, dtype=flow.bfloat16):
    def gradients(dy, q, k, v, mask=None):
        def function(q, k, v):
            y = flow.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal)
            return (y * dy).sum()

        return flow.grad(function, argnums=(0, 1, 2))(q, k, v)

    shapes: list[tuple[int, ...]] = [
        (batch, heads, length, out), (batch, heads, length, width), (batch, groups, size, width)
    ]  # fmt: skip
    shapes += [(batch, groups, size, out)] + ([(length, size)] if mask else [])
    return program_of(gradients, shapes, dtype)


PLAIN = (4, 16, 16, 1024, 1024, 64, 64, True)
CALLS = [
    PLAIN, (2, 8, 8, 4096, 4096, 64, 64, True), (4, 16, 16, 1024, 1024, 64, 64, False),
    (4, 16, 4, 1000, 1000, 128, 128, True), (2, 32, 32, 700, 300, 64, 128, False),
    (4, 16, 16, 1024, 1024, 96, 40, True),
]  # fmt: skip


@pytest.fixture(scope="module")
def program():
    return lower(*PLAIN)


#: Interpreted calls: whole blocks or not, grouped-query attention, more queries or more keys, other widths.
INTERPRETED = [
    (2, 2, 2, 256, 256, 64, 64, True), (1, 2, 1, 300, 300, 64, 64, True), (1, 2, 1, 200, 333, 64, 128, False),
    (1, 2, 2, 300, 150, 128, 96, True), (2, 4, 2, 197, 197, 64, 64, False), (1, 2, 2, 131, 131, 64, 64, True),
    (2, 2, 1, 130, 197, 64, 64, False),
]  # fmt: skip


@pytest.fixture
def few_sms():
    """A GPU of one SM, whose program takes several tiles."""
    with using_gpu(replace(gpu_target(), sms=1)):
        yield


def operands(batch, heads, groups, length, size, width, out, is_causal):
    """The gradient of the result, queries, keys and values."""
    rows = ((heads, length, out), (heads, length, width), (groups, size, width), (groups, size, out))
    rng = np.random.default_rng(width)
    return [rng.standard_normal((batch, *s)).astype(np.float16) for s in rows]


def expected(dy, q, k, v, is_causal):
    """The result and the gradients of queries, keys and values."""
    share, scale = q.shape[1] // k.shape[1], q.shape[3] ** -0.5
    dy, q, k, v = (x.astype(np.float64) for x in (dy, q, np.repeat(k, share, 1), np.repeat(v, share, 1)))
    scores = q @ k.swapaxes(2, 3) * scale
    scores = np.where(np.tri(*scores.shape[2:], dtype=np.bool_), scores, -np.inf) if is_causal else scores
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    direct = dy @ v.swapaxes(2, 3)
    slope = weights * (direct - (weights * direct).sum(-1, keepdims=True)) * scale
    by_keys = (slope.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ dy)
    dk, dv = (x.reshape(len(x), -1, share, *x.shape[2:]).sum(2) for x in by_keys)
    return weights @ v, slope @ k, dk, dv


@pytest.mark.parametrize("call", INTERPRETED, ids=str)
def test_values_of_hopper_attention(call, few_sms):
    given = operands(*call)
    options: dict[str, Any] = {"dtype": flow.float16}
    program = lower(*call, **options).on("sm_90")
    assert "gl.warp_specialize" in program.sources[NAME].text
    (got,) = interpret_program(program, *given[1:])
    np.testing.assert_allclose(got, expected(*[*given, call[-1]])[0], 1e-2, 1e-3)


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_hopper_attention_compiles_without_serialized_products(call):
    check_compiled(lower(*call).on("sm_90").sources[NAME], 4)


def check_compiled(source, maps, own=0):
    """Checks the assembler's report on a Gluon kernel with `maps` descriptors of the host and `own` of the kernel."""
    assert "gl.warp_specialize" in source.text and 0 < source.grid.static <= 132
    binary, report = compile_with_report(source)
    assert binary.cubin[:4] == b"\x7fELF" and binary.shared <= 232448
    assert len(binary.maps) == maps and binary.scratch == 128 * own
    assert binary.warps * THREADS * source.registers <= REGISTERS
    assert "serialized" not in report
    return report


@pytest.mark.parametrize(
    "call",
    [
        lambda: lower(1, 12, 12, 512, 512, 64, 64, True),
        lambda: lower(16, 16, 16, 1, 512, 64, 64, False),
        lambda: lower(4, 16, 16, 1024, 1024, 32, 32, True),
        lambda: lower(4, 16, 16, 1024, 1024, 256, 256, True),
        lambda: lower(*PLAIN[:-1], False, mask=True),
        lambda: lower(None, 16, 16, None, None, 64, 64, True),
        lambda: lower(*PLAIN, scale=-1.0),
    ],
    ids=["few queries", "one query", "narrow", "wide", "mask", "sizes of the run", "negative scale"],
)
def test_unsupported_attention_uses_the_generic_kernel(call):
    program = call()
    assert not program.sources[NAME].specializations and program.on("sm_90").sources == program.sources


@pytest.mark.parametrize(
    ("call", "special"),
    [
        ((2, 12, 12, 1024, 1024, 64, 64, True), False),
        ((4, 12, 12, 1024, 1024, 64, 64, True), True),
        ((1, 12, 12, 1024, 1024, 128, 128, True), False),
        ((1, 16, 16, 1024, 1024, 128, 128, True), True),
    ],
    ids=str,
)
def test_the_form_needs_tiles_for_all_sms(call, special):
    assert bool(lower(*call).sources[NAME].specializations) == special


@pytest.mark.parametrize(("length", "is_causal", "groups"), [(1024, True, 2), (4096, True, 3), (1024, False, 3)])
def test_short_causal_sequences_have_smaller_tiles(length, is_causal, groups):
    source = lower(4, 16, 16, length, length, 64, 64, is_causal).on("sm_90").sources[NAME]
    assert source.text.count("(consumer, ") == groups


def test_the_next_queries_are_prefetched(program):
    """A consumer warp group has two buffers for blocks of queries, and waits for one buffer alone."""
    buffers = 2 * gpu_target().kernels.attention.causal_short.consumer_groups
    text = program.on("sm_90").sources[NAME].text
    assert f"query = gl.allocate_shared_memory(gl.bfloat16, [{buffers}, " in text
    assert "queries_full, queries_empty = barriers(2, 1), barriers(2, 2)" in text


def test_only_hopper_uses_warp_specialized_attention(program):
    plain, special = program.on("sm_80").sources[NAME], program.on("sm_90").sources[NAME]
    assert "import triton.language as tl" in plain.text and "gluon" in special.text
    assert plain.parameters == special.parameters and plain.name == special.name


@pytest.fixture
def other_gluon(monkeypatch):
    """A Triton version whose Gluon lacks a function that the kernels call."""
    monkeypatch.delattr("triton.experimental.gluon.language.NVMMADistributedLayout")
    monkeypatch.setattr(kernel_cache, "_version", lambda: "9.8.7")


def test_generic_kernel_runs_where_triton_refuses_gluon(program, other_gluon):
    line = rf"^Triton 9\.8\.7 does not compile {NAME} in the form for sm_90, [^\n]*NVMMADistributedLayout[^\n]*$"
    with pytest.warns(RuntimeWarning, match=line) as told:
        compiled, binaries = kernel_cache.compile_for_arch(program, "sm_90", cached=False)
    assert len(told) == 1 and compiled.sources == program.sources and set(binaries) == set(program.sources)


def test_other_kernels_keep_their_forms_where_triton_refuses_one(monkeypatch):
    def compiled(source, arch):
        if source.name == GRADIENTS[0] and source.language == GLUON:
            raise CompileError("not this one")
        return compile_source(source, arch)

    monkeypatch.setattr(kernel_cache, "compile_source", compiled)
    program = lower_gradients(*PLAIN)
    with pytest.warns(RuntimeWarning, match=rf"compile {GRADIENTS[0]} in the form for sm_90, .*: not this one"):
        taken, binaries = kernel_cache.compile_for_arch(program, "sm_90", cached=False)
    assert [taken.sources[name].language for name in GRADIENTS] == ["triton", GLUON]
    assert set(binaries) == set(program.sources)


def test_an_error_where_triton_refuses_both_forms(program, monkeypatch):
    def refuse(source, arch):
        raise CompileError(f"no {source.language}")

    monkeypatch.setattr(kernel_cache, "warm_up", lambda arch: None)
    monkeypatch.setattr(kernel_cache, "compile_source", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CompileError, match="no triton"):
            kernel_cache.compile_for_arch(program, "sm_90", cached=False)


def test_the_installed_triton_takes_the_forms_in_gluon(program):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled, binaries = kernel_cache.compile_for_arch(program, "sm_90", cached=False)
    assert compiled.sources[NAME].language == GLUON and len(binaries[NAME].maps) == 4


def test_hopper_attention_is_cached_on_disk(program):
    source = program.sources[NAME]
    assert Source.from_dict(json.loads(json.dumps(source.to_dict()))) == source
    assert "specializations" not in dataclasses.replace(source, specializations={}).to_dict()


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize(("width", "programs"), [(64, 3), (128, 2)])
def test_resident_programs_of_plain_gradients(width, programs, is_causal):
    """`programs` programs of each kernel fit in the registers of an SM; products are not serialized."""

    sources = lower_gradients(2, 8, 8, 1024, 1024, width, width, is_causal).sources
    for name in GRADIENTS:
        _, report = compile_with_report(sources[name])
        (registers,) = map(int, re.findall(r"Used (\d+) registers", report))
        assert "serialized" not in report and spilled(report) == 0
        assert programs * registers * THREADS * sources[name].warps <= REGISTERS


#: Calls whose key and query gradients both have the form.
BOTH = [
    PLAIN, (4, 16, 16, 1024, 1024, 64, 64, False), (4, 16, 16, 2048, 2048, 128, 128, True),
    (4, 16, 16, 2048, 2048, 128, 128, False), (8, 16, 8, 1000, 777, 64, 128, True),
    (4, 32, 32, 700, 300, 128, 96, False), (64, 12, 12, 257, 257, 64, 64, True),
]  # fmt: skip


@pytest.mark.parametrize("call", [*INTERPRETED, (1, 1, 1, 384, 384, 128, 128, True)], ids=str)
def test_values_of_gradients(call, few_sms):
    given = operands(*call)
    options: dict[str, Any] = {"dtype": flow.float16}
    program = lower_gradients(*call, **options).on("sm_90")
    assert all("gl.warp_specialize" in program.sources[name].text for name in GRADIENTS)
    for got, want in zip(interpret_program(program, *given), expected(*[*given, call[-1]])[1:], strict=True):
        np.testing.assert_allclose(got, want, 1e-2, 4e-3)


@pytest.mark.parametrize("call", BOTH, ids=str)
def test_gradients_compile_without_serialized_products(call):
    """Wide heads spill a few registers. TMA copies aligned statistics."""
    sources = lower_gradients(*call).on("sm_90").sources
    copied = 0 if call[3] % hopper_attention_gradients.ALIGNMENT else 2
    for name, (maps, own) in zip(GRADIENTS, ((6, copied), (5, 0)), strict=True):
        assert spilled(check_compiled(sources[name], maps, own)) <= FEW


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_masked_blocks_have_loops_of_their_own(name):
    """No step of the loop tests whether the step is masked."""
    text = lower_gradients(*PLAIN).on("sm_90").sources[name].text
    assert "HAS_MASK = gl.constexpr(True)" in text and "< masked" not in text
    loops = re.findall(r"for step in range\((.*)\):", text)[-2:]
    assert ["masked" in bounds.split(", ")[-1] for bounds in loops] == [True, False] and "masked" in loops[1]


@pytest.mark.parametrize(
    ("call", "by_key", "by_query"),
    [
        ((4, 16, 2, 1024, 1024, 64, 64, True), False, True),
        ((8, 16, 16, 512, 1024, 64, 64, True), False, True),
        ((8, 16, 16, 512, 1024, 64, 64, False), True, True),
        ((1, 12, 12, 512, 512, 64, 64, True), False, False),
        ((4, 16, 16, 1024, 1024, 32, 32, True), False, False),
        ((4, 16, 16, 1024, 1024, 256, 256, True), False, False),
        ((None, 16, 16, None, None, 64, 64, True), False, False),
        ((4, 16, 16, 1024, 1024, 64, 64, False, True), False, False),
        ((16, 12, 12, 577, 577, 128, 128, True), False, True),
    ],
    ids=[
        "few keys",
        "keys unseen",
        "more keys",
        "few",
        "narrow",
        "wide",
        "sizes of the run",
        "mask",
        "wide and unaligned",
    ],
)
def test_unsupported_gradients_use_the_generic_kernel(call, by_key, by_query):
    """The query kernel has the form also where there are few blocks of keys, or keys without a query."""
    sources = lower_gradients(*call).sources
    found = {len(s.parameters): bool(s.specializations) for n, s in sources.items() if n in GRADIENTS}
    plain = {len(s.parameters) for n, s in sources.items() if n in GRADIENTS}
    assert found == {max(plain): by_key, min(plain): by_query}


def test_partial_sums_of_gradients(few_sms):
    """The kernels give the gradients of projections' biases, as the plain kernels do."""
    shapes = [(2, 2, 200, 64), *[(2, 200, 128)] * 3, *[(128,)] * 3]
    rng = np.random.default_rng(7)
    given = [rng.standard_normal(s).astype(np.float16) for s in shapes]

    def gradients(dy, *given):
        def function(*biases):
            q, k, v = ((x + b).reshape(2, 200, 2, 64).transpose(1, 2) for x, b in zip(given[:3], biases, strict=True))
            y = flow.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return (y * dy).to(flow.float32).sum()

        return flow.grad(function, argnums=(0, 1, 2))(*given[3:])

    plain = program_of(gradients, shapes, flow.float16)
    special = plain.on("sm_90")
    text = "".join(special.sources[n].text for n in GRADIENTS)
    assert sorted(re.findall(r"(\w+)_SUMS = gl.constexpr\(64\)", text)) == ["LEFT", "LEFT", "RIGHT"]
    for got, want in zip(*(interpret_program(p, *given) for p in (special, plain)), strict=True):
        np.testing.assert_allclose(got, want, 1e-2, 2e-2)
