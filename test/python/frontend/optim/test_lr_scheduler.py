"""Schedules: the rates of the first steps."""

import math
from collections.abc import Callable
from typing import Any

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


#: The shares that are left along half a cosine of 4 steps: of everything, and of 0.9 above 0.1.
COSINE0 = [(1 + math.cos(math.pi * i / 4)) / 2 for i in range(5)]
COSINE = [0.1 + 0.9 * c for c in COSINE0]

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
    (
        lambda o: s.WarmupLR(s.ExponentialLR(o, 0.9), 0.5, 5),
        [0.5, 0.518098, 0.536196, 0.554294, 0.572392, 0.59049, 0.531441],
    ),
    (lambda o: s.WarmUpLR(s.ExponentialLR(o, 0.9), 0.5, 2, "constant"), [0.5, 0.5, *(0.9**i for i in range(2, 7))]),
    (
        lambda o: s.WarmupLR(s.ExponentialLR(o, 0.9), 0.5, 2, warmup_prefix=True),
        [0.5, 0.75, *(0.9**i for i in range(5))],
    ),
    (
        lambda o: s.WarmupLR(s.CosineDecayLR(o, 4, 0.1), 0.5, 2, "constant"),
        [0.5, 0.5, 0.55, COSINE[3], 0.1, 0.1, 0.1],
    ),
    (lambda o: s.WarmupLR(s.CosineAnnealingLR(o, 4), 0.1, 2), [0.1, 0.3, 0.5, *(COSINE0[i] for i in (3, 4, 3, 2))]),
    (lambda o: s.CosineDecayLR(o, 4, 0.1), [*COSINE, 0.1, 0.1]),
    (lambda o: s.CosineAnnealingWarmRestarts(o, 2, decay_rate=0.5, restart_limit=2), [1, 0.5, 0.5, 0.25, 0, 0, 0]),
    (lambda o: s.CosineAnnealingWarmRestarts(o, 1, 2, 0.2), [1, 1, 0.6, 1, *(0.2 + 0.8 * c for c in COSINE0[1:4])]),
    (lambda o: s.PolynomialLR(o, 4), [1, 0.75, 0.5, 0.25, 0, 0, 0]),
    (lambda o: s.PolynomialLR(o, decay_batch=2, power=2), [1, 0.250075, *[1e-4] * 5]),
    (lambda o: s.PolynomialLR(o, 2, end_learning_rate=0.2, cycle=True), [1, 0.6, 0.2, 0.4, 0.2, 1 / 3, 0.2]),
    (
        lambda o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 9), s.ExponentialLR(o, 0.9)], [2]),
        [0.1, 0.1, *(0.9**i for i in range(5))],
    ),
    (
        lambda o: s.SequentialLR(
            o, [s.ConstantLR(o, 0.1, 9), s.ExponentialLR(o, 0.9)], [2], interval_rescaling=False
        ),
        [0.1, 0.1, *(0.9**i for i in range(2, 7))],
    ),
]


@pytest.mark.parametrize("make,want", SCHEDULES)
def test_learning_rates_of_schedules(make, want):
    np.testing.assert_allclose(rates(make), want, 1e-12, 1e-15)


def of_two_rates(rates=(1.0, 0.1)):
    return optim.SGD([{"params": nn.Parameter(np.zeros(1, np.float32)), "lr": rate} for rate in rates])


def test_groups_have_rates_of_their_own():
    optimizer = of_two_rates()
    s.LambdaLR(optimizer, [lambda _: 2.0, lambda _: 3.0])
    np.testing.assert_allclose([g["lr"] for g in optimizer.param_groups], [2.0, 0.3])
    with pytest.raises(ValueError, match=r"one function per group \(2\)"):
        s.LambdaLR(optimizer, [lambda _: 1.0])


def test_a_linear_warmup_to_a_schedule_is_for_one_rate():
    schedule = s.ExponentialLR(of_two_rates(), 0.9)
    with pytest.raises(ValueError, match=r"groups of one first rate .* got the rates \[1.0, 0.1\]; use an optimizer"):
        s.WarmupLR(schedule, 0.5, 2)
    assert schedule.get_last_lr() == [1.0, 0.1]
    s.WarmupLR(s.ExponentialLR(of_two_rates(), 0.9), 0.5, 2, "constant")
    s.WarmupLR(s.ExponentialLR(of_two_rates(), 0.9), 0.5, 2, warmup_prefix=True)
    s.WarmupLR(s.ExponentialLR(of_two_rates(), 0.9), 0.5, 0)
    s.WarmupLR(s.ExponentialLR(of_two_rates((0.1, 0.1 + 1e-9)), 0.9), 0.5, 2)
    warmup = s.WarmupLR(of_two_rates(), 0.5, 2)
    np.testing.assert_allclose(warmup.get_last_lr(), [0.5, 0.05])


REFUSED: dict[str, Callable[[Any], Any]] = {
    "expected warmup_iters above 0 without a schedule, got 0": lambda o: s.WarmupLR(o, warmup_iters=0),
    "expected warmup_iters above 0 without a schedule, got -1": lambda o: s.WarmupLR(o, warmup_iters=-1),
    "expected a schedule or an optimizer, got ReduceLROnPlateau": lambda o: s.WarmupLR(
        s.ReduceLROnPlateau(o)  # type: ignore[arg-type]
    ),
    "expected warmup_factor to be from 0 to 1, got 2": lambda o: s.WarmupLR(o, 2),
    "expected factor to be from 0 to 1, got -1": lambda o: s.ConstantLR(o, -1),
    "expected start_factor to be from 0 to 1, got 2": lambda o: s.LinearLR(o, 2),
    "expected end_factor to be from 0 to 1, got 1.5": lambda o: s.LinearLR(o, 0.5, 1.5),
}


@pytest.mark.parametrize("text", REFUSED)
def test_arguments_that_oneflow_refuses(text):
    optimizer = optim.SGD([nn.Parameter(np.zeros(1, np.float32))], lr=1.0)
    with pytest.raises(ValueError, match=text):
        REFUSED[text](optimizer)
    assert optimizer.param_groups[0]["lr"] == 1.0


def test_a_plateau_has_a_floor_for_each_group():
    optimizer = of_two_rates((1.0, 1.0))
    schedule = s.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.5, 0.01])
    for _ in range(3):
        schedule.step(1.0)
    np.testing.assert_allclose([g["lr"] for g in optimizer.param_groups], [0.5, 0.01])
    with pytest.raises(ValueError, match="expected one min_lr for each of 2 groups, got 1"):
        s.ReduceLROnPlateau(optimizer, min_lr=[0.5])


def test_rescaling_is_for_each_milestone():
    optimizer = optim.SGD([nn.Parameter(np.zeros(1, np.float32))], lr=1.0)
    with pytest.raises(ValueError, match="expected interval_rescaling for 1 milestones, got"):
        s.SequentialLR(optimizer, [s.StepLR(optimizer, 1)] * 2, [2], interval_rescaling=[True, False])


def test_schedules_resume_from_state():
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

    with pytest.raises(
        flow.TraceError, match=r"StepLR.step\(\) within a compiled function would be taken once only.*nn.Graph"
    ):
        flow.compile(step)(np.zeros(1))
    assert optimizer.param_groups[0]["lr"] == 1.0


def test_schedules_of_momentum_refuse_optimizers_without_momentum():
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
        optim.Adam([nn.Parameter(np.zeros(1, np.float32))], betas=(0.9,))  # type: ignore[arg-type]
