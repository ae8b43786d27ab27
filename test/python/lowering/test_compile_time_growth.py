"""The time of passes per operator does not grow with the program, for programs of several shapes."""

import itertools
import random
import time

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.lowering.buffer_assignment import ALIGNMENT, Buffer, assign_offsets
from oneflow.lowering.kernels.form_kernels import MAX_BODY_OPERATIONS
from oneflow.lowering.pipelines import pipeline_between
from oneflow.passes.pipeline import Pipeline
from oneflow.passes.walk import gather, gather_named

TENSOR = "tensor<16x16xf32>"


def chain(count):
    """A chain of element-wise operators."""
    for n in range(count):
        yield "tanh", [n - 1] if n % 2 else [n - 1, "b"]


def fan(count):
    """Products of one tensor, and the sum of the products."""
    for n in range(0, count, 2):
        yield "matmul", ["x", "b" if n % 4 else "w"]
        yield "add", [n - 1 if n else "x", n]


NAMES = {("tanh", 1): "tanh", ("tanh", 2): "broadcast_sub", ("matmul", 2): "matmul", ("add", 2): "broadcast_add"}


def program(shape, count):
    lines = []
    for n, (name, operands) in enumerate(shape(count)):
        values = ", ".join("%x" if o == -1 else f"%{o}" for o in operands)
        types = ", ".join(TENSOR for _ in operands)
        lines.append(f'%{n} = "oneflow.{NAMES[name, len(operands)]}"({values}) : ({types}) -> {TENSOR}')
    head = f"func.func @main(%x: {TENSOR}, %w: {TENSOR}, %b: {TENSOR}) -> {TENSOR} {{"
    return read_module("\n".join([head, *lines, f"return %{count - 1} : {TENSOR}", "}"]), create_context())


def lower(shape, count, stage):
    """The program at a stage, and the CPU seconds per operator."""
    module = program(shape, count)
    pipeline = Pipeline.parse(pipeline_between(None, stage), module.context)
    begin = time.process_time()
    pipeline.run(module)
    return module, (time.process_time() - begin) / count


@pytest.mark.parametrize("stage", ["kernels", "triton"])
@pytest.mark.parametrize("shape", [chain, fan])
def test_time_per_operator_is_constant(shape, stage):
    lower(shape, 100, stage)
    small, large = (lower(shape, count, stage)[1] for count in (600, 4000))
    assert large < 2.5 * small


def test_code_per_part_of_a_concatenation_is_constant():
    """Parts of equal sizes share one function, so that concatenations of concatenations stay small."""

    def operations(count):
        x = "tensor<2x8x16xf32>"
        values, types = ", ".join(f"%a{n}" for n in range(count)), ", ".join([x] * count)
        names, result = ", ".join(f"%a{n}: {x}" for n in range(count)), f"tensor<2x{8 * count}x16xf32>"
        cat = (
            f'"oneflow.cat"({values}) {{axis = 1 : si64, max_dim_size = {8 * count} : si64}} : ({types}) -> {result}'
        )
        text = f"func.func @main({names}) -> {result} {{ %0 = {cat} return %0 : {result} }}"
        module = read_module(text, create_context())
        Pipeline.parse(pipeline_between(None, "llvm"), module.context).run(module)
        return len(gather(module.operation, lambda op: not op.name.endswith(("value", "poison", "constant"))))

    few, some, many = map(operations, (8, 16, 24))
    assert many - some <= some - few


def test_fused_bodies_are_bounded():
    module, _ = lower(chain, 1000, "kernels")
    bodies = [len(o.regions[0].blocks[0].operations) for o in gather_named(module.operation, {"linalg.generic"})]
    assert sum(bodies) > 1000 and max(bodies) <= MAX_BODY_OPERATIONS
    kernels = [o for o in module.body.operations if "oneflow.kernel" in o.attributes]
    assert len(kernels) == 1 and ir.StringAttr(kernels[0].attributes["oneflow.kernel"]).value == "pointwise"


def test_values_of_a_long_chain():
    x, b = (np.random.default_rng(seed).normal(size=(16, 16)) for seed in (0, 1))

    @flow.compile
    def compiled(x, b):
        for _ in range(200):
            x = flow.tanh(x - b)
        return x

    wanted = x
    for _ in range(200):
        wanted = np.tanh(wanted - b)
    np.testing.assert_allclose(compiled(x, b), wanted, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_live_buffers_do_not_overlap(seed):
    source = random.Random(seed)
    spans = [sorted(source.sample(range(600), 2)) for _ in range(300)]
    buffers = [Buffer(n, "temporary", source.randrange(1, 900), a, b) for n, (a, b) in enumerate(spans)]
    size = assign_offsets(buffers)
    ranges = {b.number: (b.offset, b.offset + (b.bytes or 0)) for b in buffers if b.offset is not None}
    for one, other in itertools.combinations(buffers, 2):
        if one.first <= other.last and other.first <= one.last:
            low, high = sorted((ranges[one.number], ranges[other.number]))
            assert low[1] <= high[0]
    assert len(ranges) == len(buffers)
    assert all(begin % ALIGNMENT == 0 and end <= size for begin, end in ranges.values())
    assert size < sum(b.bytes or 0 for b in buffers)
