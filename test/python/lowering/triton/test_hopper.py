"""Attention for Hopper: which calls have the form in Gluon, that kernels compile and leave room for others.

What the form in Gluon computes is in `test_on_a_device`: nothing interprets it.
"""

import dataclasses
import json
import re
import subprocess

import pytest

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.triton.program import read_program
from oneflow.lowering.triton.source import Source
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.cuda import cached, compiler
from oneflow.runtime.cuda.compiler import compile_source, triton

NAME = "oneflow_attention_0"
#: What is compiled, and what the assembler says of it, is that of one version of Triton.
of_known_triton = pytest.mark.skipif(
    not compiler.speaks_gluon(), reason=f"the form in Gluon is for Triton {compiler.KNOWN}x, and so are its registers"
)
#: The most registers of a processor, and threads of a warp.
REGISTERS, THREADS = 65536, 32


def lower(batch, heads, groups, length, size, width, out, is_causal, mask=False, scale=None, dtype=flow.bfloat16):
    def function(q, k, v, *added):
        return flow.nn.functional.scaled_dot_product_attention(q, k, v, *added, is_causal=is_causal, scale=scale)

    shapes = [(batch, heads, length, width), (batch, groups, size, width), (batch, groups, size, out)]
    shapes += [(length, size)] if mask else []
    module = flow.trace(function, *(flow.TensorSpec(s, dtype) for s in shapes))
    with module.context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module, REGISTRY)
        return read_program(module)


PLAIN = (4, 16, 16, 1024, 1024, 64, 64, True)
CALLS = [
    PLAIN, (2, 8, 8, 4096, 4096, 64, 64, True), (4, 16, 16, 1024, 1024, 64, 64, False),
    (4, 16, 4, 1000, 1000, 128, 128, True), (2, 32, 32, 700, 300, 64, 128, False),
    (4, 16, 16, 1024, 1024, 96, 40, True),
]  # fmt: skip


@pytest.fixture(scope="module")
def program():
    return lower(*PLAIN)


@of_known_triton
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_it_compiles_and_products_do_not_wait(call):
    source = lower(*call).on("sm_90").sources[NAME]
    assert "gl.warp_specialize" in source.text and 0 < int(source.grid) <= 132
    binary = compile_source(source)
    assert binary.cubin[:4] == b"\x7fELF" and binary.shared <= 232448
    assert len(binary.maps) == 4 and binary.scratch == 0
    assert binary.warps * THREADS * source.registers <= REGISTERS
    assert "serialized" not in assembled(binary.ptx)


def assembled(ptx):
    """What the assembler says of a kernel."""
    path = triton("knobs").nvidia.ptxas.path
    done = subprocess.run([path, "-arch=sm_90a", "-v", "-o", "/dev/null", "/dev/stdin"], input=ptx, text=True,
                          capture_output=True, check=True)  # fmt: skip
    return done.stderr


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
def test_others_have_the_plain_form_alone(call):
    program = call()
    assert not program.sources[NAME].special and program.on("sm_90").sources == program.sources


@pytest.mark.parametrize(("length", "is_causal", "groups"), [(1024, True, 2), (4096, True, 3), (1024, False, 3)])
def test_short_causal_rows_have_smaller_blocks(length, is_causal, groups):
    source = lower(4, 16, 16, length, length, 64, 64, is_causal).on("sm_90").sources[NAME]
    assert source.text.count("(attend, ") == groups


def test_one_architecture_has_it(program):
    plain, special = program.on("sm_80").sources[NAME], program.on("sm_90").sources[NAME]
    assert "import triton.language as tl" in plain.text and "gluon" in special.text
    assert plain.parameters == special.parameters and plain.name == special.name


@pytest.mark.parametrize(("version", "known"), [("3.6.1", True), ("3.7.0", False)])
def test_other_versions_of_gluon_are_left_alone(program, monkeypatch, version, known):
    monkeypatch.setattr(compiler.importlib.metadata, "version", lambda name: version)
    compiler.speaks_gluon.cache_clear()
    try:
        taken = cached.program_on(program, "sm_90")
    finally:
        monkeypatch.undo()
        compiler.speaks_gluon.cache_clear()
    assert (taken is not program) == known == bool(taken.sources[NAME].registers)


def test_it_is_kept_on_the_disk(program):
    source = program.sources[NAME]
    assert Source.from_dict(json.loads(json.dumps(source.to_dict()))) == source
    assert "special" not in dataclasses.replace(source, special={}).to_dict()


@of_known_triton
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize(("width", "programs"), [(64, 3), (128, 2)])
def test_plain_gradients_leave_room_for_other_programs(width, programs, is_causal):
    """Of each kernel so many fit on a processor, by registers, and its products do not wait for each other."""

    def gradients(q, k, v, dy):
        def function(*x):
            return (flow.nn.functional.scaled_dot_product_attention(*x, is_causal=is_causal) * dy).sum()

        return flow.grad(function, argnums=(0, 1, 2))(q, k, v)

    module = flow.trace(gradients, *[flow.TensorSpec((2, 8, 1024, width), flow.bfloat16)] * 4)
    with module.context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module, REGISTRY)
        sources = read_program(module).sources
    for name in ("oneflow_attention_grad_1", "oneflow_attention_grad_2"):
        told = assembled(compile_source(sources[name]).ptx)
        registers = int(re.search(r"Used (\d+) registers", told)[1])
        assert "serialized" not in told and "0 bytes spill stores" in told
        assert programs * registers * THREADS * sources[name].warps <= REGISTERS
