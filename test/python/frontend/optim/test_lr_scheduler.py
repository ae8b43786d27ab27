"""Schedules: the rates of the first steps."""

import math

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn, optim
from oneflow.optim import lr_scheduler as s


def rates(make, count=7):
    optimizer = optim.SGD([nn.Parameter(np.zeros(1, np.float32))], lr=1.0)
    schedule = make(optimizer)
    found = []
    for _ in range(count):
        found += schedule.get_last_lr()
        schedule.step()
    return found


SCHEDULES = [
    (lambda o: s.StepLR(o, 2, 0.5), [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125]),
    (lambda o: s.MultiStepLR(o, [1, 4], 0.5), [1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]),
    (lambda o: s.ExponentialLR(o, 0.5), [0.5**i for i in range(7)]),
    (lambda o: s.LambdaLR(o, lambda i: 1 / (1 + i)), [1 / (1 + i) for i in range(7)]),
    (lambda o: s.CosineAnnealingLR(o, 4, 0.2), [0.2 + 0.4 * (1 + math.cos(math.pi * i / 4)) for i in range(7)]),
    (lambda o: s.LinearLR(o, 0.2, 1.0, 4), [0.2, 0.4, 0.6, 0.8, 1, 1, 1]),
    (lambda o: s.WarmupLR(o, 0.5, 2), [0.5, 0.75, 1, 1, 1, 1, 1]),
    (lambda o: s.WarmupLR(o, 0.5, 2, "constant"), [0.5, 0.5, 1, 1, 1, 1, 1]),
    (lambda o: s.WarmupLR(s.StepLR(o, 3, 0.1), 0.5, 2), [0.5, 0.75, 1, 0.1, 0.1, 0.1, 0.01]),
]


@pytest.mark.parametrize("make,want", SCHEDULES)
def test_rates(make, want):
    np.testing.assert_allclose(rates(make), want, 1e-12)


def test_groups_have_rates_of_their_own():
    params = [{"params": nn.Parameter(np.zeros(1, np.float32)), "lr": rate} for rate in (1.0, 0.1)]
    optimizer = optim.SGD(params)
    s.LambdaLR(optimizer, [lambda _: 2.0, lambda _: 3.0])
    np.testing.assert_allclose([g["lr"] for g in optimizer.param_groups], [2.0, 0.3])
    with pytest.raises(ValueError, match=r"one function per group \(2\)"):
        s.LambdaLR(optimizer, [lambda _: 1.0])


def test_going_on():
    optimizer = optim.SGD([flow.tensor([0.0], requires_grad=True)], lr=1.0)
    with pytest.raises(ValueError, match="initial_lr"):
        s.StepLR(optimizer, 1, 0.5, last_epoch=3)
    schedule = s.StepLR(optimizer, 1, 0.5)
    schedule.step()
    again = s.StepLR(optimizer, 1, 0.5, last_epoch=schedule.last_epoch)
    assert again.get_last_lr() == [0.5]
    again.load_state_dict({"last_epoch": 3, "base_lrs": [1.0]})
    assert optimizer.param_groups[0]["lr"] == 0.125


def test_a_step_within_a_compiled_function_is_refused():
    optimizer = optim.SGD([nn.Parameter(np.zeros(1, np.float32))], lr=1.0)
    schedule = s.StepLR(optimizer, 1, 0.5)

    def step(x):
        schedule.step()
        return x

    with pytest.raises(flow.TraceError, match=r"StepLR.step\(\) within a compiled function would act once.*nn.Graph"):
        flow.compile(step)(np.zeros(1))
    assert optimizer.param_groups[0]["lr"] == 1.0


def test_momentum_that_there_is_not():
    optimizer = optim.Adagrad([nn.Parameter(np.zeros(1, np.float32))])
    with pytest.raises(ValueError, match="with momentum or betas, got Adagrad; pass cycle_momentum=False"):
        s.CyclicLR(optimizer, 0.1, 0.5)
    assert s.CyclicLR(optimizer, 0.1, 0.5, cycle_momentum=False).get_last_lr() == [0.1]


def test_more_steps_than_a_cycle_has_are_an_error():
    schedule = s.OneCycleLR(
        optim.SGD([nn.Parameter(np.zeros(1, np.float32))], lr=1.0, momentum=0.9), 0.5, total_steps=4
    )
    for _ in range(4):
        schedule.step()
    with pytest.raises(ValueError, match="expected at most 4 steps of OneCycleLR, got one more"):
        schedule.step()


NO_STEPS = {
    "step_size": lambda o: s.StepLR(o, 0),
    "T_max": lambda o: s.CosineAnnealingLR(o, 0),
    "T_0": lambda o: s.CosineAnnealingWarmRestarts(o, 0),
    "T_mult": lambda o: s.CosineAnnealingWarmRestarts(o, 2, 0),
    "total_iters": lambda o: s.LinearLR(o, total_iters=0),
    "total_steps": lambda o: s.OneCycleLR(o, 0.1, 0),
}


@pytest.mark.parametrize("name", NO_STEPS)
def test_numbers_of_steps_are_checked(name):
    optimizer = optim.SGD([nn.Parameter(np.zeros(1, np.float32))], lr=1.0)
    with pytest.raises(ValueError, match=f"expected {name} to be a number of steps of at least 1, got 0"):
        NO_STEPS[name](optimizer)
    with pytest.raises(ValueError, match=r"expected two betas in \[0, 1\), got \(0\.9,\)"):
        optim.Adam([nn.Parameter(np.zeros(1, np.float32))], betas=(0.9,))
