"""Graphs that PyTorch makes for GPUs, run on the CPU: the operators have more results than the operators of CPUs."""

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

from oneflow.frontend.importers.torch.fx_interpreter import FxInterpreter  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(3)


def compiled(function, arrays, dynamic_axis=None):
    """The graph of a function on CUDA tensors of these shapes, compiled for the CPU."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    tensors = []
    for array in map(torch.tensor, arrays):
        kinds = [DimDynamic.DYNAMIC if axis == dynamic_axis else DimDynamic.STATIC for axis in range(array.ndim)]
        tensors.append(mode.from_tensor(array, symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds)))
    with mode:
        graph = FxInterpreter(
            make_fx(function)(*(torch.empty(x.shape, dtype=x.dtype, device="cuda") for x in tensors))
        )
    return flow.compile(specs=graph.specs)(lambda *tensors: graph.run(tensors))


def flash(q, k, v):
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v)


def flash_gradients(dy, q, k, v, y, logarithms, rest):
    arguments = (*rest[:4], 0.0, False, *rest[4:6])
    return torch.ops.aten._scaled_dot_product_flash_attention_backward(dy, q, k, v, y, logarithms, *arguments)


def cudnn(q, k, v):
    return torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True)


def cudnn_gradients(dy, q, k, v, y, logarithms, rest):
    arguments = (*rest[4:6], None, *rest[:4], 0.0, False)
    return torch.ops.aten._scaled_dot_product_cudnn_attention_backward(dy, q, k, v, y, logarithms, *arguments)


def efficient(q, k, v):
    return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True)


def efficient_gradients(dy, q, k, v, y, logarithms, rest):
    arguments = (None, y, logarithms, *rest[:2], 0.0, [True, True, True, False])
    return torch.ops.aten._scaled_dot_product_efficient_attention_backward(dy, q, k, v, *arguments)[:3]


ATTENTION = {
    "flash": (flash, flash_gradients, (1, 2, 5)),
    "cudnn": (cudnn, cudnn_gradients, (1, 2, 5, 1)),
    "efficient": (efficient, efficient_gradients, (1, 2, 32)),
}


def of_numpy(q, k, v, dy):
    """Attention, the logarithms of the sums of exponentials, and the gradients by q, k and v, in f64."""
    q, k, v, dy = (x.astype(np.float64) for x in (q, k, v, dy))
    exponentials = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    sums = exponentials.sum(-1, keepdims=True)
    weights = exponentials / sums
    slope = dy @ v.swapaxes(-1, -2)
    slope = weights * (slope - (slope * weights).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    gradients = slope @ k, slope.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ dy
    return weights @ v, np.log(sums[..., 0]), *gradients


@pytest.mark.parametrize("axis", [None, 2], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_and_its_gradients(name, axis):
    forward, backward, shape = ATTENTION[name]

    def function(q, k, v, dy):
        y, logarithms, *rest = forward(q, k, v)
        return y, logarithms, *backward(dy, q, k, v, y, logarithms, rest)

    arrays = RNG.standard_normal((4, 1, 2, 5, 8)).astype(np.float32)
    y, logarithms, *gradients = map(np.asarray, compiled(function, arrays, axis)(*arrays))
    want, want_logarithms, *want_gradients = of_numpy(*arrays)
    assert logarithms.shape == shape
    np.testing.assert_allclose(logarithms.reshape(1, 2, -1)[..., :5], want_logarithms, rtol=1e-5, atol=1e-6)
    for got, wanted in zip((y, *gradients), (want, *want_gradients), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


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
