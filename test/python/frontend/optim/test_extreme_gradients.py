"""Gradients whose squares are beyond the range of the parameter's type: steps are PyTorch's in f64."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.optim.optimizer import CYCLED

torch = pytest.importorskip("torch")

#: Optimizers, settings, and the factor of the gradients where squares are summed up unscaled.
OPTIMIZERS: dict[str, Any] = {
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
def test_steps_with_extreme_gradients(name, dtype):
    compare(name, dtype, False)


@pytest.mark.parametrize("dtype", GRADIENTS)
@pytest.mark.parametrize("name", ["SGD", "Adam", "Adam, amsgrad", "AdamW"])
def test_steps_whose_momentum_a_schedule_changes(name, dtype):
    compare(name, dtype, True)


#: Gradients of three steps of each element of a parameter, and the numbers that a state of f32 does not hold.
SEQUENCES = np.array([
    [1e20, 1e20, 1e20], [1e20, 1.0, 1.0], [1.0, 1e20, 1.0], [3e38, 3e38, 3e38], [1e-30, 1e-30, -1e-30],
    [1e-20, -1e-20, -1e-20], [1.0, np.nan, 1.0], [1.0, np.inf, 1.0], [-np.inf, 1.0, 1.0],
])  # fmt: skip
SETTINGS = [
    *(("SGD", s) for s in ({}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {"maximize": True})),
    *(("Adam", s) for s in ({}, {"amsgrad": True}, {"weight_decay": 0.1})), ("AdamW", {}),
    *(("RMSprop", s) for s in ({}, {"centered": True}, {"momentum": 0.9})),
    *(("Adagrad", s) for s in ({}, {"lr_decay": 0.1}, {"initial_accumulator_value": 1.0})),
    *(("Adadelta", s) for s in ({}, {"weight_decay": 0.1}, {"maximize": True})),
    ("Adamax", {}), ("NAdam", {}), ("RAdam", {}), ("Rprop", {}),
]  # fmt: skip


def path(lib, name, settings, start, **options):
    p = lib.nn.Parameter(lib.tensor(start))
    optimizer, found = getattr(lib.optim, name)([p], lr=0.1, **settings, **options), []
    for gradient in SEQUENCES.T:
        p.grad = lib.tensor(gradient.astype(start.dtype))
        optimizer.step()
        found.append(p.detach().double().tolist())
    return found


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_steps_at_the_ends_of_the_range_are_those_of_pytorch(name, settings):
    """A state that overflows ends the steps where PyTorch's state overflows. PyTorch has two ways of `NAdam`."""
    start = np.linspace(-2, 2, len(SEQUENCES)).astype(np.float32)
    want = path(torch, name, settings, start, **({"foreach": True} if name == "NAdam" else {}))
    np.testing.assert_allclose(path(flow, name, settings, start), want, 2e-5, 2e-5)


def compare(name, dtype, cycled):
    steps, tolerance = STEPS[dtype]
    got = history(flow, name, GRADIENTS[dtype], getattr(flow, dtype), steps, cycled)
    want = history(torch, name, GRADIENTS[dtype], torch.float64, steps)
    np.testing.assert_allclose(got, want, tolerance, tolerance)
