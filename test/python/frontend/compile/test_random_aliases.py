"""Random functions that update and read tensors which share memory, compiled and in eager mode.

`ONEFLOW_ALIASES=200 pytest test/python/frontend/compile/test_random_aliases.py` runs 200 functions of each kind.
"""

import os
import random
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.testing.host_cuda import host_cuda

COUNT = int(os.environ.get("ONEFLOW_ALIASES", "12"))
CALLS = 3


def part(draw, tensor, inside=False):
    """A view of a tensor, through up to two other views; views that a function makes have positive steps."""
    for _ in range(draw.randrange(3)):
        if not tensor.ndim:
            break
        axis = draw.randrange(tensor.ndim)
        first = draw.randrange(tensor.shape[axis])
        last, step = draw.randint(first + 1, tensor.shape[axis]), draw.choice([1, 1, 2])
        key, row = (slice(None),) * axis + (slice(first, last, step),), draw.randrange(tensor.shape[0])
        bounds: list[Any] = [
            lambda t, key=key: t[key], lambda t, row=row: t[row], lambda t: t.T,
            lambda t: t[:] if inside else t[::-1],
            lambda t: t.reshape(-1), lambda t: t.unsqueeze(0), lambda t: t.detach(),
        ]  # fmt: skip
        tensor = draw.choice(bounds)(tensor)
    return tensor


def tensors(draw, device, arrays):
    """Tensors that share memory: within an array of the user if `arrays`, as views, or through exported arrays."""
    array = np.arange(40, dtype=np.float32) / 5
    if arrays and draw.random() < 0.3:
        roots = [flow.from_numpy(array[:24].reshape(4, 6)), flow.from_numpy(array[10:34].reshape(4, 6))]
    else:
        roots = [flow.tensor(array[:24].reshape(4, 6)).to(device) for _ in range(draw.choice([1, 1, 2]))]
    if arrays and draw.random() < 0.2:
        roots[0].numpy()
    return roots + [part(draw, draw.choice(roots)) for _ in range(draw.randrange(1, 4))]


def step(kind, a, b, number, x, given):
    """An update, or a result."""
    if kind == "add":
        a.add_(x)
    elif kind == "mul":
        a.mul_(x.sum())
    elif kind == "of the other":
        a.add_(b.sum() * 0.01)
    elif kind == "copy":
        a.copy_(x * number)
    elif kind == "unrecorded":
        with flow.no_grad():
            a.sub_(number)
    else:
        given.append((a * 2 + b.sum()).sum() + x)


KINDS = ["add", "mul", "of the other", "copy", "unrecorded", "read", "read"]


def made(seed, device, arrays):
    draw = random.Random(seed)
    shared = tensors(draw, device, arrays)
    count = len(shared)
    plan = [
        (draw.choice(KINDS), draw.randrange(count), draw.randrange(count + 2), draw.random())
        for _ in range(draw.randrange(2, 7))
    ]

    def function(x):
        given, again = list[Any](), random.Random(seed)
        views_made_inside = [part(again, again.choice(shared), inside=True) for _ in range(2)]
        for kind, a, b, number in plan:
            step(kind, shared[a], [*shared, *views_made_inside][b], number, x, given)
        return (*given, shared[0] + x, *(t.sum() + x for t in views_made_inside))

    return function, shared


def history(seed, device, compiled):
    function, shared = made(seed, device, device == "cpu")
    function = flow.compile(function) if compiled else function
    found = []
    for call in range(CALLS):
        given = function(flow.tensor(np.float32(0.5 + call)).to(device))
        found += [np.array(t.tolist()) for t in (*given, *shared)]
    return found


def gradients(seed, compiled):
    """The gradients of one call by the argument; None where eager mode refuses an update.

    In eager mode, views of tensors that require a gradient do not see writes into arrays of the user.
    """
    function, shared = made(seed, "cpu", False)

    def loss(x):
        return sum(t.sum() for t in function(x * 1.5))

    inside = flow.value_and_grad(loss)
    inside = flow.compile(inside) if compiled else inside
    try:
        value, grad = inside(flow.tensor(np.float32(0.5)))
    except RuntimeError:
        assert not compiled
        return None
    return [value.item(), grad.item(), *(np.array(t.tolist()) for t in shared)]


def equal(got, wanted):
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, 2e-4, 1e-4)


@pytest.mark.parametrize("seed", range(COUNT))
def test_values_of_random_alias_programs(seed):
    equal(history(seed, "cpu", True), history(seed, "cpu", False))


@pytest.mark.parametrize("seed", range(COUNT))
def test_values_of_random_alias_programs_on_a_device(seed, tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    with host_cuda():
        equal(history(seed, "cuda", True), history(seed, "cuda", False))


@pytest.mark.parametrize("seed", range(COUNT))
def test_gradients_of_random_alias_programs(seed):
    wanted = gradients(seed, False)
    if wanted is not None:
        equal(gradients(seed, True), wanted)
