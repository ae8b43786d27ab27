"""Sources of kernels as values: the parts, the printed text, and the serialized form as plain data."""

import json
import re
from dataclasses import replace

import pytest
from lowered import lower

import oneflow as flow
from oneflow.dialect import ops  # noqa: F401
from oneflow.lowering.triton.codegen.prelude import FUNCTIONS, GLUON_FUNCTIONS, HEAD, definitions, preamble
from oneflow.lowering.triton.source import (
    GLUON,
    PROGRAM_PLACEHOLDER,
    TRITON,
    Function,
    Parameter,
    Source,
    TensorDescriptor,
    TileLoop,
)
from oneflow.lowering.triton.symbolic_sizes import Size, TileCount

F = flow.nn.functional
ATTENTION = [(8, 12, 1024, 64)] * 3
#: Programs of bf16, shapes of the operands, and the numbers of descriptors in the forms of the kernel, plain first.
PROGRAMS = {
    "product": (lambda a, b: a @ b, [(8192, 3072), (3072, 768)], [3, 3]),
    "sum of products": (lambda a, b, c, d: a @ b + c @ d, [(8192, 3072), (3072, 768)] * 2, [5]),
    "attention": (F.scaled_dot_product_attention, ATTENTION, [2, 4]),
    "grouped products": (
        lambda *x: tuple(a.transpose(0, 1) @ b for a, b in zip(x[:3], x[3:], strict=True)), [(8192, 768)] * 6, [9]
    ),
}  # fmt: skip
DESCRIPTOR = TensorDescriptor("block1", "p0", 0, (96, 128), (128, 1), (64, 64))
BODY = (f"at = {PROGRAM_PLACEHOLDER} + tile", "if at:", "    pass")
LOOP = TileLoop("tile", TileCount.of(288), 132, BODY, flatten=True)
P0, ONE = Parameter("p0", "*bf16"), TileCount.of(1)


def only_source(function, shapes, dtype=flow.bfloat16):
    text = str(flow.trace(function, *(flow.TensorSpec(shape, dtype) for shape in shapes)))
    (source,) = lower(text).sources.values()
    return source


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_descriptor_of_known_sizes_is_a_statement(name):
    function, shapes, counts = PROGRAMS[name]
    source = only_source(function, shapes)
    forms = [source, *source.specializations.values()]
    assert [len(form.descriptors) for form in forms] == counts
    for form in forms:
        assert form.text.count("make_tensor_descriptor(") == len(form.descriptors)
        assert "make_tensor_descriptor(" not in replace(form, body=form.without_descriptors).text
        assert all(form.text.count(f"    {descriptor}\n") == 1 for descriptor in form.descriptors)


def test_a_persistent_kernel_is_a_loop_over_tiles():
    source = only_source(lambda a, b: a @ b, [(16384, 3072), (3072, 3072)])
    loop = source.tile_loop
    assert loop is not None and (loop.variable, loop.programs, source.body[-1]) == ("tile", source.grid.static, loop)
    header = f"    for tile in tl.range(tl.program_id(0), {loop.end}, {source.grid}, flatten=True):\n"
    assert source.text.endswith(header + "".join(f"        {line}\n" for line in loop.body))
    assert source.has_dot and source.descriptor_only == ("p0", "p1", "p2")


def test_fields_of_a_kernel_source():
    """A kernel names the called functions; parameters that the kernel addresses are not for descriptors alone."""
    source = only_source(lambda x, w: F.layer_norm(flow.sin(x), w.shape, w), [(8, 30), (30,)], flow.float32)
    assert {"add"} <= {f.name for f in source.functions} and source.preamble == preamble({"libdevice"})
    assert not (source.descriptor_only or source.has_dot or source.descriptors or source.tile_loop)
    largest = only_source(lambda x: x.amax(-1), [(8, 30)], flow.float32)
    assert [f.name for f in largest.functions] == ["nan_maximum"] and largest.preamble == (HEAD,)


def test_functions_are_given_with_those_that_they_call():
    assert [f.name for f in definitions({"add", "fast_erf"})] == ["add", "fast_reciprocal", "fast_exp2", "fast_erf"]
    assert definitions({"nan_maximum", "add"}, GLUON) == (GLUON_FUNCTIONS["nan_maximum"], FUNCTIONS["add"])
    names = list(FUNCTIONS)
    for index, (name, function) in enumerate(FUNCTIONS.items()):
        text = str(function.body[0])
        called = [other for other in names if other != name and re.search(rf"(?<![\w.]){other}\(", text)]
        assert set(function.calls) == set(called) and all(names.index(other) < index for other in called)


def test_a_kernel_is_printed_in_order():
    double = Function("double", ("x",), ("return x + x",))
    source = Source(
        "k.1", (P0, Parameter("p1", "*bf16")), TileCount.of(132),
        (DESCRIPTOR, "zero = 0", LOOP, "tl.debug_barrier()"),
        origins=("oneflow.relu",), preamble=("import triton\n",), functions=(double,),
    )  # fmt: skip
    assert (
        source.text
        == """# oneflow.relu
import triton


@triton.jit
def double(x):
    return x + x


@triton.jit
def k_1(p0, p1):
    block1 = tl.make_tensor_descriptor(p0, [96, 128], [128, 1], [64, 64])
    zero = 0
    for tile in tl.range(tl.program_id(0), 288, 132, flatten=True):
        at = tl.program_id(0) + tile
        if at:
            pass
    tl.debug_barrier()
"""
    )
    merged = Function("part", ("number",), (LOOP,), "number").text(TRITON)
    body = "        at = number + tile\n        if at:\n            pass\n"
    assert "in tl.range(number, 288, " in merged and merged.endswith(f":\n{body}")
    assert replace(source, body=()).text.endswith("def k_1(p0, p1):\n    pass\n")
    assert replace(source, language=GLUON).text.count("@gluon.jit\n") == 2


def test_rows_of_a_tile_loop():
    """The variable is the first of the rows of a step; the loads of the steps are pipelined."""
    loop = TileLoop("at", TileCount.of(Size.of("n")), 132, ("pass",), rows=4, stages=3)
    assert (
        Function("k", (), (loop,))
        .text(TRITON)
        .endswith("    for at in tl.range(tl.program_id(0) * 4, n, 528, num_stages=3):\n        pass\n")
    )


def test_numbers_of_tiles():
    """A number of tiles is a product of quotients that are rounded up, known or of dynamic sizes."""
    rows, columns = TileCount.of(Size.of("p0_0") * Size.of(3), 64), TileCount.of(130, 64)
    assert (columns.static, (columns * columns).static, rows.static) == (3, 9, None)
    assert (str(rows * columns), str(columns * columns)) == ("((p0_0 * 3 + 63) // 64) * 3", "9")
    assert [(rows * columns).value({"p0_0": n}) for n in (0, 1, 21, 22)] == [0, 3, 3, 6]
    assert str(TileCount.of(Size.of("n") + Size.of(1))) == "(1 + n)"


def test_a_descriptor_is_a_statement():
    plain = TensorDescriptor("block5", "p0", 64, (8192, 768), (768, 1), (128, 64))
    assert str(plain) == "block5 = tl.make_tensor_descriptor(p0 + 64, [8192, 768], [768, 1], [128, 64])"
    gluon = TensorDescriptor("all_key", "p1", 0, (2, 64), (64, 1), (1, 64), "NVMMASharedLayout(128, 16, 2)", "gl")
    text = "tma.make_tensor_descriptor(p1, [2, 64], [64, 1], [1, 64], gl.NVMMASharedLayout(128, 16, 2))"
    assert gluon.expression == text
    assert str(plain.of_call(3)).startswith("block5_3 = tl.make_tensor_descriptor(p0_3 + 64, ")


def test_plain_data_is_the_whole_source():
    specializations = {"sm_90": Source("k", (P0,), ONE, (DESCRIPTOR,), language=GLUON)}
    source = Source(
        "k", (P0,), TileCount.of(132), ("pass", DESCRIPTOR, LOOP), updates={0: 1}, fills={1: "0.0"}, registers=8,
        origins=("oneflow.relu",), preamble=(HEAD,), functions=(FUNCTIONS["fast_erf"],), descriptor_only=("p0",),
        has_dot=True, specializations=specializations,
    )  # fmt: skip
    assert Source.from_dict(json.loads(json.dumps(source.to_dict()))) == source
    plain = Source("k", (), TileCount.of(Size.of("n"), 64) * TileCount.of(3), ())
    assert Source.from_dict(json.loads(json.dumps(plain.to_dict()))) == plain and "functions" not in plain.to_dict()


def test_sources_of_one_binary_differ_in_names_and_comments_alone():
    source = Source("k", (P0,), ONE, (DESCRIPTOR,))
    assert (
        replace(source, name="other", origins=("oneflow.relu",), specializations={"sm_90": source}).binary_key
        == source.binary_key
    )
    for change in (
        {"warps": 8},
        {"body": ()},
        {"grid": TileCount.of(2)},
        {"preamble": (HEAD,)},
        {"functions": (FUNCTIONS["add"],)},
    ):
        assert replace(source, **change).binary_key != source.binary_key
