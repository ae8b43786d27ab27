"""The memory that plans assign to temporaries, and the absence of empty launches."""

import itertools
import re

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.pipeline import Pipeline
from oneflow.testing.triton_interpreter import interpret_program


def program_of(function, *specs):
    module = flow.trace(function, *specs)
    with module.context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module, REGISTRY)
        return read_program(module)


def temporaries(program):
    """Offset and bytes of each."""
    return [(int(a), int(b)) for a, b in re.findall(r"run\.at\((\d+), (\d+)\)", program.plan)]


def turned(x):
    for axis in (0, 1, 0, 1, 0):
        x = flow.softmax(x, axis)
    return x


def test_small_temporaries_share_no_memory():
    """Independent kernels run concurrently, whichever temporaries used the memory of the kernels before."""
    program = program_of(turned, flow.TensorSpec((64, 64)))
    ranges = sorted(temporaries(program))
    assert len(ranges) > 3 and all(a + n <= b for (a, n), (b, _) in itertools.pairwise(ranges))
    x = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    np.testing.assert_allclose(interpret_program(program, x)[0], flow.compile(turned)(x), 1e-5)


def test_large_temporaries_share_memory():
    def scanned(x):
        for axis in (0, 1, 0, 1, 0):
            x = flow.cumsum(x, axis)
        return x

    program = program_of(scanned, flow.TensorSpec((2048, 1024)))
    assert program.workspace < sum(n for _, n in temporaries(program))


@pytest.mark.parametrize("ignored", [False, True])
def test_every_launch_writes(ignored):
    """The loss checks labels where the loss reads by label, so that no separate check remains."""

    def loss(x, y):
        return flow.nn.functional.cross_entropy(x * 2.0, y)

    program = program_of(loss, flow.TensorSpec((6, 10)), flow.TensorSpec((6,), flow.int64))
    launches = re.findall(r"run\.launch\((.*)\)", program.plan)
    assert launches and all("writes=" in launch for launch in launches)
    x = np.random.default_rng(2).standard_normal((6, 10)).astype(np.float32)
    y = np.array([1, 9, -100 if ignored else 3, 0, 4, 4])
    logits = 2.0 * x - np.log(np.exp(2.0 * x).sum(1, keepdims=True))
    want = -np.mean([row[label] for row, label in zip(logits, y, strict=True) if label >= 0])
    np.testing.assert_allclose(interpret_program(program, x, y)[0], want, 1e-5)
    with pytest.raises(Exception, match="10"):
        interpret_program(program, x, np.array([1, 10, 3, 0, 4, 4]))
