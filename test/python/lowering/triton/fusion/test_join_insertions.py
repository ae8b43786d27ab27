"""The gradients of disjoint slices of one tensor are inserted into one tensor."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.pipeline import Pipeline
from oneflow.testing.triton_interpreter import interpret_program


@pytest.fixture(autouse=True)
def without_horizontal_fusion(change_gpu):
    """Without horizontal fusion, so that kernels can be counted as launches."""
    change_gpu(launches={"max_fused_entry_calls": 0})


SHAPE = (6, 5, 12)
#: Slices of a tensor, and the number of kernels of its gradient: one where the slices are disjoint.
CASES = {
    "in order": ([np.s_[..., :4], np.s_[..., 4:8], np.s_[..., 8:]], 1),
    "in another order": ([np.s_[..., :4], np.s_[..., 8:], np.s_[..., 4:8]], 1),
    "with gaps": ([np.s_[..., 1:3], np.s_[:, 1:2, 7:]], 1),
    "of two axes": ([np.s_[:2, :, :6], np.s_[2:, :, 6:], np.s_[2:, :, :6]], 1),
    "with steps": ([np.s_[..., :6:2], np.s_[..., 7::3]], 1),
    "of one": ([np.s_[0], np.s_[2], np.s_[1]], 1),
    "that touch": ([np.s_[..., :5], np.s_[..., 4:]], 3),
    "that touch in steps": ([np.s_[..., ::2], np.s_[..., 1::2]], 3),
    "and the whole": ([np.s_[..., :4], np.s_[..., 4:], np.s_[...]], 3),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_gradients_of_slices(name, dtype):
    case: Any = CASES[name]
    parts, kernels = case
    rng = np.random.default_rng(1)
    x = rng.standard_normal(SHAPE).astype(dtype)
    cotangents = [rng.standard_normal(x[part].shape).astype(dtype) for part in parts]

    def gradient(x, *cotangents):
        return flow.vjp(lambda x: [x[part] for part in parts], x)[1](list(cotangents))

    kind = flow.float32 if dtype == np.float32 else flow.float16
    module = flow.trace(gradient, *(flow.TensorSpec(a.shape, kind) for a in (x, *cotangents)))
    with module.context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module, REGISTRY)
    program = read_program(module)
    assert program.plan.count("run.launch") == kernels
    want = np.zeros(SHAPE)
    for part, cotangent in zip(parts, cotangents, strict=True):
        want[part] += cotangent.astype(np.float64)
    got = interpret_program(program, x, *cotangents)[0].view(dtype)
    np.testing.assert_allclose(got, want, rtol=2e-3 if dtype == np.float16 else 1e-6, atol=1e-6)


def test_gradient_of_a_nested_slice():
    """Nested insertions into zeros become one insertion."""
    x, dy = (np.random.default_rng(i).standard_normal(s).astype(np.float32) for i, s in enumerate([SHAPE, (2, 2, 4)]))

    def gradient(x, dy):
        return flow.vjp(lambda x: x[1:5, 1:][::2, ::2, 4:][..., ::2], x)[1](dy)

    module = flow.trace(gradient, *(flow.TensorSpec(a.shape, flow.float32) for a in (x, dy)))
    with module.context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module, REGISTRY)
    program = read_program(module)
    assert program.plan.count("run.launch") == 1
    want = np.zeros_like(x)
    want[1:5:2, 1::2, 4::2] = dy
    np.testing.assert_array_equal(interpret_program(program, x, dy)[0], want)
