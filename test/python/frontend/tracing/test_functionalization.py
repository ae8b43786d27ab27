"""Functionalization: updates in place of tensors that a compiled function makes, as in eager mode and in PyTorch."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.core.errors import OneFlowError

torch = pytest.importorskip("torch")

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def views_see_updates(lib, x, w):
    y = x * w
    row, turned, flat = y[1], y.T, y.view(-1)
    y[:, 0] = 7
    flat[5:7] = -row[2:]
    turned[3] += 1
    return y, row * 1, turned + 0, flat[::2]


def views_of_views(lib, x, w):
    y = x + w
    y[1:][0][2:] = 5
    y.unsqueeze(1)[2, 0, 1] = w.sum()
    y.narrow(1, -2, 2).mul_(w[:2])
    y.select(0, 0).squeeze().clamp_(2, 3)
    y.transpose(0, 1).view(4, 3)[0] = 1
    return y * y


def copies_are_independent(lib, x, w):
    y = x * w
    copied, flat, same = y.clone(), y.T.reshape(-1), y.contiguous()
    copied[0] = 0
    flat[:4] = 9
    same.add_(1)
    return y, copied, flat, same


def copies_from_before(lib, x, w):
    y = x * w
    flat, wide = y.T.reshape(-1), lib.cat([y, y])
    y.fill_(3)
    return flat.view(3, 4) * w, wide, y


def detached(lib, x, w):
    y = x * w
    y.detach()[0] = 1
    with lib.no_grad():
        y[1] = 2
        y.mul_(2)
    return y * w


def arithmetic(lib, x, w):
    y = x * 1
    other = y
    y += w
    y -= 1
    y *= w
    y /= 4
    y.sub_(w).abs_()
    return other, y


def running(lib, x, w):
    state, seen = lib.zeros(4), []
    for i in range(3):
        state.mul_(0.5).add_(x[i] * w)
        seen.append(state.clone())
    return lib.stack(seen), state


def filled(lib, x, w):
    y = lib.zeros(2, 3, 4)
    for i in range(2):
        y[i] = x * (i + 1)
        y[i, :, i] = w[1:]
    y[1, 2].zero_()
    y[0, 0].copy_(w.sum())
    y[y < 0] = w.sum() * 2
    return y


def of_another_type(lib, x, w):
    n = lib.zeros(3, 4).to(lib.int64)
    n[0] = x[2] + 0.75
    n[1] = 2.9
    n[n == 0] = True
    return n.to(lib.float32) * w


def moved_along(lib, x, w):
    y = x * w
    y[1:] = y[:-1] * 1
    y[:, :2] = y[:, 2:] + y[0, 0]
    return y


def of_positions(lib, x, w):
    y, at = x * w, lib.tensor(np.array([2, 0]))
    y[at] = y[[0, 1]] * 2
    y[at, [1, 1]] = w[:2]
    y[-1, at + 1] = 4
    return y


FUNCTIONS = [
    views_see_updates, views_of_views, copies_are_independent, copies_from_before, detached, arithmetic, running,
    filled, of_another_type, moved_along, of_positions,
]  # fmt: skip


def results_of(function, lib, wrapped=lambda f: f):
    """The results, and the gradients of a weighted sum of the results."""
    w = lib.nn.Parameter(lib.tensor(np.array([2.0, -1.0, 3.0, 0.5], np.float32)))

    @wrapped
    def run(x):
        found = function(lib, x, w)
        found = found if isinstance(found, tuple) else (found,)
        total = sum((r * r * (i + 1)).sum() for i, r in enumerate(found))
        total.backward()
        return found

    found = run(lib.tensor(X))
    return [*(r.detach().numpy() for r in found), w.grad.numpy()]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_view_updates_equal_pytorch(function, compiled):
    wrapped = flow.compile if compiled else lambda f: f
    for got, want in zip(results_of(function, flow, wrapped), results_of(function, torch), strict=True):
        np.testing.assert_allclose(got, want, 1e-4, 1e-4)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("recomputed", [False, True], ids=["", "recomputed"])
def test_gradients_of_functions(function, recomputed):
    """By `flow.grad`, and in a part that is computed again."""

    def loss(w, x):
        found = function(flow, x, w)
        found = found if isinstance(found, tuple) else (found,)
        return sum((r * r * (i + 1)).sum() for i, r in enumerate(found))

    taken = flow.checkpoint(loss) if recomputed else loss
    w = np.array([2.0, -1.0, 3.0, 0.5], np.float32)
    got = flow.compile(flow.grad(taken))(w, X)
    np.testing.assert_allclose(got, results_of(function, torch)[-1], 1e-4, 1e-4)


def test_dynamic_sizes():
    def f(x):
        y = x * 1
        y[1] = -1
        y[:, 0] += 5
        y[x > 6] = 0
        y.view(-1)[2:4] = 9
        y[-1, [0, 2]] = 8
        return y

    spec = flow.TensorSpec((None, None), flow.float32)
    np.testing.assert_array_equal(flow.compile(f, spec)(X), f(torch.tensor(X)).numpy())


REFUSED = {
    "out of range": (lambda y: y.__setitem__(3, 0), r"expected an index in \[-3, 3\) for dimension 0"),
    "a list out of range": (lambda y: y.__setitem__([0, -4], 0), r"expected an index in \[-3, 3\).*got -4"),
    "too many": (lambda y: y.__setitem__((0, 0, 0), 0), "expected at most 2 indices"),
    "another size": (lambda y: y.__setitem__(0, flow.ones(3)), r"broadcasts to sizes \[4\] .*got tensor<3xf32>"),
    "a mask of another size": (lambda y: y.__setitem__(y[:2] > 0, 0), "expected a mask of the sizes of"),
    "as many as a mask takes": (lambda y: y.__setitem__(y > 5, flow.ones(6)), r"write flow.where\(mask, values, x\)"),
    "a float": (lambda y: y.__setitem__(1.5, 0), "expected an integer, slice, None, Ellipsis or tensor"),
    "floats": (lambda y: y.__setitem__(y, 0), "expected integers as an index"),
    "nothing of floats": (lambda y: y.__setitem__(np.array([]), 0), "expected integers as an index"),
    "another type": (lambda y: y.copy_(y).__iadd__(flow.ones(2, 3, 4)), "does not fit into"),
    "expanded": (lambda y: y[:, :1].expand(3, 4).add_(1), r"would update an expanded tensor.*write x.clone\(\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_view_updates(name):
    update, text = REFUSED[name]
    with pytest.raises(flow.TraceError, match=text) as info:
        flow.compile(lambda x: update(x * 1))(X)
    assert info.value.location and "test_functionalization.py" in info.value.location.file


def test_refused_eager_view_updates_name_the_line():
    w, x = flow.ones(3, 4).requires_grad_(), flow.ones(3, 4)
    with pytest.raises(RuntimeError, match="__setitem__ would update a leaf that requires grad"):
        w[0] = 1
    with pytest.raises(IndexError, match=r"test_functionalization.py:\d+: .*out of bounds"):
        x[3] = 1
    with pytest.raises(ValueError, match=r"test_functionalization.py:\d+: .*broadcast"):
        x[0] = flow.ones(3)
    y = w * 1
    for key, value in ((3, 1.0), (0, flow.ones(3))):
        with pytest.raises(OneFlowError, match=r"test_functionalization.py:\d+: expected"):
            y[key] = value
    with pytest.raises(flow.TraceError, match=r"gradient to a view that was made by detach\(\)"):
        flow.compile(lambda v: (w * v).detach().mul_(w))(X)


def test_a_traced_position_out_of_range_is_an_error_of_the_run():
    def put(x, i):
        y = x * 1
        y[i] = 0
        return y

    run = flow.compile(put)
    assert run(X, np.array([-1]))[2].tolist() == [0, 0, 0, 0]
    for at in (3, -4):
        with pytest.raises(IndexError, match=r"expected an index in \[0, 3\)"):
            run(X, np.array([at]))


def test_a_captured_buffer_is_updated_at_a_traced_position():
    """A buffer is written in place at a position that is an argument."""
    cache: Any = flow.zeros(4, 3)
    memory = cache.numpy()
    put = flow.compile(lambda at, row: cache.__setitem__(at, row) or cache.sum())
    for i in (2, 0):
        put(flow.tensor(i), flow.ones(3) * (i + 1))
    assert cache.tolist() == [[1, 1, 1], [0, 0, 0], [3, 3, 3], [0, 0, 0]]
    assert memory.tolist() == cache.tolist() and put.memory.workspace < 1024
