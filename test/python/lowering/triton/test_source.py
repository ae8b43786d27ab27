"""Sources of kernels as values: what their fields say of the text, and what is left of them as plain data."""

import json

import pytest
from lowered import lower

import oneflow as flow
from oneflow.dialect import ops  # noqa: F401
from oneflow.lowering.triton.source import GLUON, Source, TensorDescriptor, TileLoop

F = flow.nn.functional
ATTENTION = [(8, 12, 1024, 64)] * 3
#: Programs of bf16, shapes of their operands, and the numbers of descriptors in the forms of the kernel, plain first.
PROGRAMS = {
    "product": (lambda a, b: a @ b, [(8192, 3072), (3072, 768)], [3, 3]),
    "sum of products": (lambda a, b, c, d: a @ b + c @ d, [(8192, 3072), (3072, 768)] * 2, [5]),
    "attention": (F.scaled_dot_product_attention, ATTENTION, [2, 4]),
    "grouped products": (
        lambda *x: tuple(a.transpose(0, 1) @ b for a, b in zip(x[:3], x[3:], strict=True)), [(8192, 768)] * 6, [9]
    ),
}  # fmt: skip


def only_source(function, shapes):
    text = str(flow.trace(function, *(flow.TensorSpec(shape, flow.bfloat16) for shape in shapes)))
    (source,) = lower(text).sources.values()
    return source


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_descriptor_of_known_sizes_is_a_field(name):
    function, shapes, counts = PROGRAMS[name]
    source = only_source(function, shapes)
    forms = [source, *source.special.values()]
    assert [len(form.descriptors) for form in forms] == counts
    for form in forms:
        assert form.text.count("make_tensor_descriptor(") == len(form.descriptors)
        assert form.text.startswith(form.prelude + form.signature)
        assert "make_tensor_descriptor(" not in form.body
        assert all(form.text.count(f"    {descriptor}\n") == 1 for descriptor in form.descriptors)


def test_a_persistent_kernel_says_how_many_tiles_it_has():
    source = only_source(lambda a, b: a @ b, [(16384, 3072), (3072, 3072)])
    assert source.tile_loop is not None and source.tile_loop.programs == int(source.grid)
    header = f"    for tile in tl.range(tl.program_id(0), {source.tile_loop.tiles}, {source.grid}, flatten=True):\n"
    assert source.body.startswith(header)
    assert source.tile_body == "".join(line[4:] for line in source.body.splitlines(keepends=True)[1:])


def test_a_descriptor_is_a_statement():
    plain = TensorDescriptor("block5", "p0", 64, (8192, 768), (768, 1), (128, 64))
    assert str(plain) == "block5 = tl.make_tensor_descriptor(p0 + 64, [8192, 768], [768, 1], [128, 64])"
    gluon = TensorDescriptor("all_key", "p1", 0, (2, 64), (64, 1), (1, 64), "gl.NVMMASharedLayout(128, 16, 2)")
    text = "tma.make_tensor_descriptor(p1, [2, 64], [64, 1], [1, 64], gl.NVMMASharedLayout(128, 16, 2))"
    assert gluon.expression == text
    assert str(plain.of_call(3)).startswith("block5_3 = tl.make_tensor_descriptor(p0_3 + 64, ")


def test_plain_data_is_the_whole_source():
    descriptors = (TensorDescriptor("block1", "p0", 0, (96, 128), (128, 1), (64, 64)),)
    special = {"sm_90": Source("k", "", (("p0", "*bf16"),), "1", language=GLUON, descriptors=descriptors)}
    source = Source(
        "k", "", (("p0", "*bf16"),), "132", updates={0: 1}, fills={1: "0.0"}, special=special,
        descriptors=descriptors, tile_loop=TileLoop(288, 132),
    )  # fmt: skip
    assert Source.from_dict(json.loads(json.dumps(source.to_dict()))) == source
    plain = Source("k", "", (), "1")
    assert Source.from_dict(json.loads(json.dumps(plain.to_dict()))) == plain and "tile_loop" not in plain.to_dict()
