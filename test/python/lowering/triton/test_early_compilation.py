"""Passes announce the kernels of a program before the lowering ends."""

from typing import Any

import pytest

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.triton.early_compilation import announce, listening
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.pipeline import Pipeline, Watch


def attend(x, w):
    """Attention, products that become one launch, and the epilogue of each."""
    heads = (x @ w).reshape(2, 128, 4, 64).transpose(1, 2)
    y = flow.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    return y, flow.softmax(x @ w), flow.relu(x.transpose(1, 2) @ x)


@pytest.fixture(scope="module")
def lowered():
    """The program, the announced kernels with the number of passes done before, and the names of the passes."""
    half = flow.bfloat16
    module = flow.trace(attend, flow.TensorSpec((2, 128, 256), half), flow.TensorSpec((256, 256), half))
    watch, heard = Watch(timing=True), []
    with module.context, ir.Location.unknown():
        pipeline = Pipeline.parse(pipeline_between(None, "triton"), module.context)
        with listening(lambda source: heard.append((len(watch.seconds), source))):
            pipeline.run(module, REGISTRY, watch)
        return read_program(module), heard, [name for name, _ in watch.seconds]


def test_announced_kernels_equal_the_kernels_of_the_program(lowered):
    program, heard, _ = lowered
    assert {s.binary_key for s in program.sources.values()} <= {s.binary_key for _, s in heard}


def test_templates_are_announced_when_outlined(lowered):
    program, heard, passes = lowered
    first = {source.binary_key for done, source in heard if passes[done] == "oneflow-outline-templates"}
    attention = [s for name, s in program.sources.items() if name.startswith("oneflow_attention")]
    assert attention and first == {s.binary_key for s in attention}


def test_no_announcements_after_the_block(lowered):
    heard: list[Any] = []
    with listening(heard.append):
        pass
    announce(next(iter(lowered[0].sources.values())))
    assert not heard
