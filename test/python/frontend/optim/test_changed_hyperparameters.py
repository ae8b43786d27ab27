"""Hyperparameters and optimizer states that change between steps; compared with PyTorch."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch")

CHANGES: dict[str, Any] = {
    "SGD without": ("SGD", {"momentum": 0.9}, {"momentum": 0.0}),
    "SGD with": ("SGD", {}, {"momentum": 0.9, "dampening": 0.5}),
    "Adam": ("Adam", {"amsgrad": True}, {"amsgrad": False}),
    "RMSprop": ("RMSprop", {"centered": True, "momentum": 0.9}, {"centered": False, "momentum": 0.0}),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_numbers_change_between_steps(name, compiled):
    def run(lib):
        kind, first, then = CHANGES[name]
        w = lib.tensor([1.0, -2.0], requires_grad=True)
        optimizer = getattr(lib.optim, kind)([w], lr=0.1, **first)

        def step():
            optimizer.zero_grad()
            loss = (w * w * w).sum()
            loss.backward()
            optimizer.step()
            return loss

        step = flow.compile(step) if compiled and lib is flow else step
        before = optimizer.param_groups[0].copy()
        for numbers in ({}, then, {k: before[k] for k in then}):
            optimizer.param_groups[0].update(numbers)
            for _ in range(2):
                step()
        return w.detach().numpy()

    np.testing.assert_allclose(run(flow), run(torch), rtol=2e-5)


@pytest.mark.parametrize("how", ["cleared", "loaded"])
def test_unused_momentum_is_dropped(how):
    w = flow.tensor([1.0, -2.0], requires_grad=True)
    optimizer = flow.optim.SGD([w], lr=0.1, momentum=0.9, dampening=0.5)

    def step():
        w.grad = flow.ones(2)
        optimizer.step()
        return weakref.ref(optimizer.state[0]["momentum_buffer"])

    before = step()
    if how == "cleared":
        optimizer.state.clear()
    else:
        optimizer.load_state_dict(optimizer.state_dict())
    after = step()
    gc.collect()
    assert before() is None
    np.testing.assert_allclose(after().numpy(), [1, 1] if how == "cleared" else [1.4, 1.4])
