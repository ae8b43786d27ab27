"""Graphs that PyTorch makes for GPUs, whose operators have results that those for CPUs do not have; run on the CPU."""

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.fx.experimental.symbolic_shapes import (  # noqa: E402
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)

from oneflow.frontend.importers.torch.graph import Graph  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(3)


def compiled(function, arrays, dynamic_axis=None):
    """The graph of a function of CUDA tensors of these shapes, compiled for the CPU."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    tensors = []
    for array in map(torch.tensor, arrays):
        kinds = [DimDynamic.DYNAMIC if axis == dynamic_axis else DimDynamic.STATIC for axis in range(array.ndim)]
        tensors.append(mode.from_tensor(array, symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds)))
    with mode:
        graph = Graph(make_fx(function)(*(torch.empty(x.shape, dtype=x.dtype, device="cuda") for x in tensors)))
    return flow.compile(specs=graph.specs)(lambda *tensors: graph.run(tensors))


@pytest.mark.parametrize("axis", [None, 2], ids=["static", "dynamic"])
def test_logarithms_of_attention_are_padded_to_multiples_of_32(axis):
    def function(q, k, v):
        return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True)[:2]

    q, k, v = RNG.standard_normal((3, 1, 2, 5, 8)).astype(np.float32)
    result, logarithms = compiled(function, (q, k, v), axis)(q, k, v)
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) / np.sqrt(8)
    exponentials = np.exp(scores)
    weights = exponentials / exponentials.sum(-1, keepdims=True)
    np.testing.assert_allclose(result, weights @ v, rtol=1e-5, atol=1e-6)
    assert np.shape(logarithms) == (1, 2, 32)
    np.testing.assert_allclose(np.asarray(logarithms)[..., :5], np.log(exponentials.sum(-1)), rtol=1e-5)


def test_batch_norm_in_evaluation_returns_the_running_statistics():
    def function(x, weight, bias, mean, var):
        return torch.ops.aten._native_batch_norm_legit_no_training(x, weight, bias, mean, var, 0.1, 1e-3)

    x = RNG.standard_normal((4, 3, 5)).astype(np.float32)
    weight, bias, mean, var = RNG.uniform(0.5, 2, (4, 3)).astype(np.float32)
    y, saved_mean, saved_deviation = compiled(function, (x, weight, bias, mean, var))(x, weight, bias, mean, var)
    wide = (x.swapaxes(1, 2) - mean) / np.sqrt(var + 1e-3) * weight + bias
    np.testing.assert_allclose(y, wide.swapaxes(1, 2), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(saved_mean, mean)
    np.testing.assert_allclose(saved_deviation, 1 / np.sqrt(var + 1e-3), rtol=1e-6)
