"""Packed 16-bit integers in PTX, which an assembler gets wrong."""

from oneflow.lowering.triton.codegen.prelude import preamble
from oneflow.lowering.triton.source import Parameter, Source
from oneflow.lowering.triton.symbolic_sizes import TileCount
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.runtime.cuda.ptx import split_packed_halves

#: Positions in two dimensions, clamped and compared with the unclamped positions: LLVM packs both.
CLAMPED = """\
x = tl.program_id(0) * 1024 + tl.arange(0, 1024)
a = ((x // 64) % 114).to(tl.int64) - 1
b = ((x // 7296) % 114).to(tl.int64) - 1
c = tl.minimum(tl.maximum(a, 0), 111)
d = tl.minimum(tl.maximum(b, 0), 111)
v = tl.load(p0 + (x // 831744).to(tl.int64) * 802816 + d * 7168 + c * 64 + x % 64)
tl.store(p1 + x, tl.where((a == c) & (b == d), v, 0.0))
"""


def test_packed_16_bit_instructions_are_split():
    text = "\tadd.s16x2 \t%r3, %r1, %r2;\n\tadd.f16x2 \t%r4, %r1, %r2;\n  max.u16x2 %r5, %r3, -1;\n"
    assert split_packed_halves(text).split("\n") == [
        "\t{",
        "\t.reg .b16 %low<2>, %high<2>;",
        "\tmov.b32 {%low0, %high0}, %r1;",
        "\tmov.b32 {%low1, %high1}, %r2;",
        "\tadd.s16 %low0, %low0, %low1;",
        "\tadd.s16 %high0, %high0, %high1;",
        "\tmov.b32 %r3, {%low0, %high0};",
        "\t}",
        "\tadd.f16x2 \t%r4, %r1, %r2;",
        "  {",
        "  .reg .b16 %low<2>, %high<2>;",
        "  mov.b32 {%low0, %high0}, %r3;",
        "  mov.b32 {%low1, %high1}, -1;",
        "  max.u16 %low0, %low0, %low1;",
        "  max.u16 %high0, %high0, %high1;",
        "  mov.b32 %r5, {%low0, %high0};",
        "  }",
        "",
    ]


def test_kernels_have_no_packed_integers():
    parameters, body = (Parameter("p0", "*bf16"), Parameter("p1", "*bf16")), tuple(CLAMPED.splitlines())
    source = Source("clamped", parameters, TileCount.of(1), body, preamble=preamble(()))
    binary = compile_source(source)
    assert "16x2" not in binary.ptx.replace("bf16x2", "").replace("f16x2", "")
    assert binary.cubin
