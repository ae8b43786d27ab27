"""Gradients whose squares are beyond the range of the parameter's type: steps are PyTorch's in f64."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.optim.optimizer import CYCLED

torch = pytest.importorskip("torch")

#: Optimizers, settings, and the factor of the gradients where squares are summed up unscaled.
OPTIMIZERS = {
    "SGD": ("SGD", {"momentum": 0.9}, 1e-3),
    "Adam": ("Adam", {}, 1),
    "Adam, amsgrad": ("Adam", {"amsgrad": True, "weight_decay": 0.1}, 1),
    "AdamW": ("AdamW", {}, 1),
    "Adagrad": ("Adagrad", {}, 0.1),
    "Adadelta": ("Adadelta", {}, 0.1),
    "RMSprop": ("RMSprop", {"momentum": 0.9}, 1),
    "RMSprop, centered": ("RMSprop", {"centered": True}, 1),
    "Adamax": ("Adamax", {}, 1),
    "NAdam": ("NAdam", {}, 1),
    "RAdam": ("RAdam", {}, 1),
    "Rprop": ("Rprop", {}, 1),
}
GRADIENTS = {
    "float32": [1e20, -3e19, 2e-25, -1e-12], "bfloat16": [1e20, -3e19, 2e-25, -1e-12],
    "float16": [6e4, -1e3, 2e-6, -2e-5],
}  # fmt: skip
#: How many steps states of the type last for, and the tolerance.
STEPS = {"float32": (3, 1e-5), "bfloat16": (3, 2e-2), "float16": (1, 2e-3)}


def history(lib, name, gradients, dtype, steps, cycled=False):
    kind, settings, scale = OPTIMIZERS[name]
    p = lib.nn.Parameter(lib.tensor(np.array([1.0, -2.0, 3.0, 0.5])).to(dtype))
    optimizer, found = getattr(lib.optim, kind)([p], lr=0.01, **settings), []
    if cycled:
        optimizer.param_groups[0][CYCLED] = True
    for step in range(steps):
        p.grad = lib.tensor(np.array(gradients) * scale * (1 - step / 4)).to(dtype)
        optimizer.step()
        found.append(p.detach().to(lib.float64).tolist())
    return found


@pytest.mark.parametrize("dtype", GRADIENTS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name, dtype):
    compare(name, dtype, False)


@pytest.mark.parametrize("dtype", GRADIENTS)
@pytest.mark.parametrize("name", ["SGD", "Adam", "Adam, amsgrad", "AdamW"])
def test_steps_whose_momentum_a_schedule_changes(name, dtype):
    compare(name, dtype, True)


@pytest.mark.parametrize("dtype", GRADIENTS)
@pytest.mark.parametrize("name", ["Adagrad", "Adadelta"])
def test_steps_whose_squares_a_state_does_not_hold(name, dtype):
    """The first step is exact; later steps continue with the largest number that the state can represent."""
    kind, settings, _ = OPTIMIZERS[name]
    p = flow.nn.Parameter(flow.tensor(np.ones(4)).to(getattr(flow, dtype)))
    q = torch.nn.Parameter(torch.ones(4, dtype=torch.float64))
    found = []
    for lib, own in ((flow, p), (torch, q)):
        optimizer, steps = getattr(lib.optim, kind)([own], lr=1.0, **settings), []
        for _ in range(3):
            own.grad = lib.tensor(np.array(GRADIENTS[dtype])).to(own.dtype)
            optimizer.step()
            steps.append(own.detach().to(lib.float64).numpy().copy())
        found.append(steps)
    np.testing.assert_allclose(found[0][0], found[1][0], STEPS[dtype][1], STEPS[dtype][1])
    assert (np.diff([s[0] for s in found[0]]) < 0).all(), found[0]


def compare(name, dtype, cycled):
    steps, tolerance = STEPS[dtype]
    got = history(flow, name, GRADIENTS[dtype], getattr(flow, dtype), steps, cycled)
    want = history(torch, name, GRADIENTS[dtype], torch.float64, steps)
    np.testing.assert_allclose(got, want, tolerance, tolerance)
