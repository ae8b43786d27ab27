"""Kernels for all sizes of eager calls on a device: when the kernels are compiled, and equal results."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.core.compilation import compile_for
from oneflow.frontend.eager import kernels
from oneflow.testing.host_cuda import host_cuda


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """The calls that are compiled on a device: the operator, and whether its sizes are dynamic."""
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    made = []
    real = compile_for

    def noted(device, module, entry):
        if device.type != "cpu":
            made.append("?" in str(module))
        return real(device, module, entry)

    monkeypatch.setattr(kernels, "compile_for", noted)
    with host_cuda():
        yield made


def floats(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_the_second_set_of_sizes_compiles_a_dynamic_kernel(compiled):
    """The first sizes have a static kernel; all later sizes share a dynamic kernel."""
    for n in (3, 5, 7, 4, 9):
        x, y = floats(n, 4), floats(n, 4)
        result = flow.tensor(x, device="cuda") + flow.tensor(y, device="cuda")
        np.testing.assert_allclose(result.numpy(), x + y, 1e-6)
        assert result.shape == (n, 4)
    assert compiled == [False, True]


def test_sizes_of_one_have_another_kernel(compiled):
    """A dimension of size 1 broadcasts, so that size 1 needs a separate kernel."""
    y = floats(1, 4)
    for n in (3, 5, 7):
        x = floats(n, 4)
        result = flow.tensor(x, device="cuda") * flow.tensor(y, device="cuda")
        np.testing.assert_allclose(result.numpy(), x * y, 1e-6)
    x = floats(1, 4)
    np.testing.assert_allclose((flow.tensor(x, device="cuda") * flow.tensor(y, device="cuda")).numpy(), x * y, 1e-6)
    assert compiled == [False, True, False]


def test_repeated_sizes_get_a_static_kernel(compiled):
    """After some calls with the same sizes."""
    for n in (3, 5):
        flow.exp(flow.tensor(floats(n), device="cuda"))
    x = floats(5)
    for _ in range(2 * kernels.CALLS_BEFORE_OWN_KERNEL):
        np.testing.assert_allclose(flow.exp(flow.tensor(x, device="cuda")).numpy(), np.exp(x), 1e-5)
    assert compiled == [False, True, False]


def test_gradients_and_updates(compiled):
    """Gradients and updates for changing lengths equal the gradients and updates of eager mode on the host."""
    weight = floats(4, 2)

    def run(x, device):
        w = flow.tensor(weight, device=device, requires_grad=True)
        x = flow.tensor(x, device=device)
        y = flow.softmax(flow.relu(x @ w), -1)
        (y * y).sum().backward()
        x.add_(1.0)
        return w.grad.numpy(), x.numpy()

    counts = []
    for n in (3, 5, 6, 9):
        for got, want in zip(run(floats(n, 4), "cuda"), run(floats(n, 4), "cpu"), strict=True):
            np.testing.assert_allclose(got, want, 1e-4, 1e-6)
        counts.append(len(compiled))
    assert counts[1] == counts[3]


def test_operators_that_need_their_sizes(compiled):
    """Operators that need static sizes have a kernel for each set of sizes; the need is determined once."""
    for n in (3, 5, 7):
        x = floats(n, n) + 2 * np.eye(n, dtype=np.float32)
        np.testing.assert_allclose(
            flow.linalg.inv(flow.tensor(x, device="cuda")).numpy(), np.linalg.inv(x), 1e-3, 1e-4
        )
    assert compiled.count(True) <= 1
