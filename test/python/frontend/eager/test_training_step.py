"""`flow.compile` of functions that update tensors from outside: whole training steps."""

import numpy as np
import pytest

import oneflow as flow
import oneflow.nn.functional as F  # noqa: N812

X = np.random.default_rng(3).uniform(-1, 1, (4, 3)).astype(np.float32)


def leaf(seed=0, shape=(3, 2)):
    return flow.tensor(np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32), requires_grad=True)


def step(x, w, count):
    loss = F.relu(x @ w).square().mean()
    loss.backward()
    with flow.no_grad():
        w -= 0.1 * w.grad
        count.add_(1)
    w.grad = None
    return loss


def test_a_step_is_one_program():
    w, same, count = leaf(), leaf(), flow.tensor(0)
    compiled = flow.compile(lambda x: step(x, w, count))
    for _ in range(3):
        np.testing.assert_allclose(float(compiled(X)), float(step(flow.tensor(X), same, flow.tensor(0))), 1e-6)
    np.testing.assert_allclose(w.detach().numpy(), same.detach().numpy(), 1e-6)
    assert count.item() == 3 and w.grad is None
    text = compiled.ir()
    assert text.count("oneflow.donated = 1 : i64") == 1 and text.count("oneflow.donated = 2 : i64") == 1


def test_parameters_are_updated_in_their_memory_and_stale_values_refused():
    w, count = leaf(), flow.tensor(0)
    shared = w.detach()
    flow.compile(lambda x: step(x, w, count))(X)
    np.testing.assert_array_equal(shared.numpy(), w.detach().numpy())
    with pytest.raises(RuntimeError, match="has updated it in place"):
        kept = (w * w).sum()
        flow.compile(lambda x: step(x, w, count))(X)
        kept.backward()


def test_gradients_of_a_step_are_new_tensors():
    w = leaf()

    @flow.compile
    def gradient(x):
        loss = (x @ w).sum()
        loss.backward()
        return loss

    gradient(X)
    first = w.grad
    np.testing.assert_allclose(first.numpy(), np.repeat(X.sum(0)[:, None], 2, 1), 1e-6)
    gradient(X)
    gradient(X)
    assert w.grad is first
    np.testing.assert_allclose(first.numpy(), 3 * np.repeat(X.sum(0)[:, None], 2, 1), 1e-6)


def test_captured_values_are_read_at_each_run():
    w = leaf()
    compiled = flow.compile(lambda x: x @ w)
    before = compiled(X).detach().numpy()
    with flow.no_grad():
        w *= 2
    np.testing.assert_allclose(compiled(X).detach().numpy(), 2 * before, 1e-6)


def test_results_are_tensors_where_tensors_are_given():
    plain = flow.compile(lambda x: x * 2)
    assert isinstance(plain(X), np.ndarray) and isinstance(plain(flow.tensor(X)), flow.Tensor)


def test_refused_training_steps():
    w = leaf()

    def forgets_no_grad(x):
        w.mul_(2)
        return x

    def reads(x):
        return x * float(w.sum())

    def computed(x):
        return x * y

    def part(x):
        return x * view.sum()

    def updates_a_part(x):
        view.mul_(2)
        return x

    y = w.sum()
    root = flow.ones(4)
    view = root[:2]
    root.requires_grad_()  # gradients of the view flow to the root from now on
    for function, text in (
        (part, r"was computed and has a gradient: write x\.detach\(\)"),
        (updates_a_part, r"was computed and has a gradient: write x\.detach\(\)"),
        (forgets_no_grad, r"mul_ would update a leaf that requires grad"),
        (reads, r"float\(\) of a tensor needs its value"),
        (computed, r"was computed and has a gradient: write x\.detach\(\)"),
    ):
        with pytest.raises(flow.TraceError, match=text):
            flow.compile(function)(X)
    with pytest.raises(flow.TraceError, match=r"only flow\.compile updates tensors"):
        flow.trace(forgets_no_grad, flow.TensorSpec(X.shape, np.float32))
    assert w.requires_grad and flow.is_grad_enabled()
