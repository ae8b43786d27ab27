"""Gradients of gradients of operators with results that only their gradients read, compared with PyTorch's."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.nn import functional

torch = pytest.importorskip("torch")

CASES = {
    "layer_norm": (lambda f, x: f.layer_norm(x, (4,)), (3, 4)),
    "group_norm": (lambda f, x: f.group_norm(x, 2), (2, 4, 3)),
    "rms_norm": (lambda f, x: f.rms_norm(x, (4,), eps=1e-5), (3, 4)),
    "scaled_dot_product_attention": (lambda f, x: f.scaled_dot_product_attention(x, x * 0.5, x), (1, 2, 3, 4)),
    "batch_norm": (lambda f, x: f.batch_norm(x, None, None, training=True), (5, 3)),
}


def second(lib, functions, function, x, w, v):
    (first,) = lib.autograd.grad((function(functions, x) * w).sum(), [x], create_graph=True)
    return lib.autograd.grad((first * v).sum(), [x])[0].numpy()


@pytest.mark.parametrize("name", CASES)
def test_second_derivative(name):
    function, shape = CASES[name]
    x, w, v = (np.random.default_rng(i).normal(size=shape) for i in range(3))
    got = second(flow, functional, function, flow.tensor(x).requires_grad_(), flow.tensor(w), flow.tensor(v))
    leaf = torch.tensor(x).requires_grad_()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        want = second(torch, torch.nn.functional, function, leaf, torch.tensor(w), torch.tensor(v))
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
