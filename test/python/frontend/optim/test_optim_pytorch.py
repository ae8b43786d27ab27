"""State, schedules and clipping of gradients against PyTorch: the same numbers, loaded both ways."""

from types import SimpleNamespace

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

RNG = np.random.default_rng(5)
SHAPES = [(3, 4), (5,), ()]
OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    ("AdamW", {"betas": (0.5, 0.9)}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.5, "maximize": True}),
    ("RMSprop", {"momentum": 0.5, "centered": True, "maximize": True}),
    ("RMSprop", {}),
    ("Adadelta", {"weight_decay": 0.1, "maximize": True, "rho": 0.7}),
    ("Adadelta", {"lr": 0.1}),
    ("Adamax", {"weight_decay": 0.1, "maximize": True}),
    ("NAdam", {"weight_decay": 0.1, "momentum_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {"betas": (0.5, 0.9), "weight_decay": 0.1}),
    ("RAdam", {"betas": (0.5, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("Rprop", {"etas": (0.4, 1.5), "step_sizes": (1e-3, 0.02)}),
]


def drawn():
    return [RNG.uniform(0.5, 1, shape).astype(np.float32) for shape in SHAPES]


def pair(name, options, arrays):
    """The same parameters under the optimizer of both frameworks."""
    ours = [flow.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    return (ours, getattr(flow.optim, name)(ours, **options)), (theirs, getattr(torch.optim, name)(theirs, **options))


def advance(sides, count=3):
    for _ in range(count):
        grads = drawn()
        for make, (params, optimizer) in zip((flow.tensor, torch.tensor), sides, strict=True):
            for p, g in zip(params, grads, strict=True):
                p.grad = make(g)
            optimizer.step()


def check(sides):
    for a, b in zip(sides[0][0], sides[1][0], strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-5, 1e-6)


def as_torch(value):
    """A state with tensors of PyTorch."""
    if isinstance(value, dict):
        return {k: as_torch(v) for k, v in value.items()}
    if isinstance(value, list):
        return [as_torch(v) for v in value]
    return torch.tensor(value.numpy()) if isinstance(value, flow.Tensor) else value


@pytest.mark.parametrize("name,options", OPTIMIZERS)
def test_states_are_exchanged_in_both_directions(name, options):
    first = pair(name, options, drawn())
    advance(first)
    check(first)
    second = pair(name, {"lr": 1.0}, [p.detach().numpy().copy() for p in first[0][0]])
    second[0][1].load_state_dict(first[1][1].state_dict())
    second[1][1].load_state_dict(as_torch(first[0][1].state_dict()))
    assert set(second[0][1].state_dict()["state"]) == set(first[1][1].state_dict()["state"])
    advance(second)
    check(second)


def test_states_that_do_not_fit():
    ours, theirs = pair("Adam", {}, drawn())
    advance((ours, theirs), 1)
    state = theirs[1].state_dict()
    state["state"][0]["exp_avg"] = torch.zeros(7)
    with pytest.raises(ValueError, match=r"expected exp_avg of parameter 0 of shape \(3, 4\), got \(7,\)"):
        ours[1].load_state_dict(state)
    with pytest.raises(ValueError, match="SGD has no amsgrad, betas, eps, which the state sets"):
        flow.optim.SGD(ours[0]).load_state_dict(pair("Adam", {"amsgrad": True}, drawn())[1][1].state_dict())
    with pytest.raises(ValueError, match=r"expected groups of \[1\] parameters, got \[3\]"):
        flow.optim.Adam(ours[0][:1]).load_state_dict(ours[1].state_dict())


SCHEDULES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda n: 1 / (1 + n)),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda n: 0.9 + 0.01 * n),
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5], 0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.5, 3),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.8, 4),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.7),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 6, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, 0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=20),
    "OneCycleLR, linear": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=20, pct_start=0.25, anneal_strategy="linear"),
    "OneCycleLR, epochs": lambda s, o: s.OneCycleLR(o, 0.5, epochs=4, steps_per_epoch=5, three_phase=True),
    "OneCycleLR, no momentum": lambda s, o: s.OneCycleLR(o, [0.5], 20, cycle_momentum=False),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.1, 0.5, 3, 4),
    "CyclicLR, halves": lambda s, o: s.CyclicLR(o, [0.1], [0.5], 2, mode="triangular2", base_momentum=0.5),
    "CyclicLR, exp": lambda s, o: s.CyclicLR(o, 0.1, 0.5, 3, mode="exp_range", gamma=0.9, cycle_momentum=False),
    "CyclicLR, own": lambda s, o: s.CyclicLR(o, 0.1, 0.5, 3, scale_fn=lambda i: 1 / i),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.9)]),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 4), s.CosineAnnealingLR(o, 8), s.ConstantLR(o, 0.5, 2)], [4, 9]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name):
    found = []
    for side, lib in zip(pair("SGD", {"lr": 0.2}, drawn()), (flow, torch), strict=True):
        schedule, rates = SCHEDULES[name](lib.optim.lr_scheduler, side[1]), []
        for _ in range(16):
            rates += [side[1].param_groups[0]["lr"], side[1].param_groups[0]["momentum"], *schedule.get_last_lr()]
            side[1].step()
            schedule.step()
        found.append(rates)
    np.testing.assert_allclose(found[0], found[1], 1e-9, 1e-15)


def test_schedules_side_by_side_multiply():
    found = []
    for side, lib in zip(pair("SGD", {"lr": 0.2}, drawn()), (flow, torch), strict=True):
        s, rates = lib.optim.lr_scheduler, []
        both = [s.ConstantLR(side[1], 0.1, 3), s.ExponentialLR(side[1], 0.9), s.StepLR(side[1], 2, 0.5)]
        for _ in range(8):
            rates.append(side[1].param_groups[0]["lr"])
            side[1].step()
            for schedule in both:
                schedule.step()
        found.append(rates)
    np.testing.assert_allclose(found[0], found[1], 1e-9)


MOMENTA = [
    ("SGD", {"momentum": 0.5, "weight_decay": 0.01}),
    ("SGD", {"momentum": 0.5, "nesterov": True, "maximize": True}),
    ("SGD", {"momentum": 0.5, "dampening": 0.2}),
    ("Adam", {"weight_decay": 0.1, "amsgrad": True}),
    ("AdamW", {"weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {"momentum": 0.5}),
]


@pytest.mark.parametrize("name,options", MOMENTA)
def test_momentum_that_a_schedule_changes(name, options):
    """Steps equal PyTorch's; steps of SGD and Adam in a compiled function are one program."""
    weights, grads = drawn(), [drawn() for _ in range(8)]
    sides = [*pair(name, {"lr": 0.1, **options}, weights), pair(name, {"lr": 0.1, **options}, weights)[0]]
    kept = [p.requires_grad_() for p in sides[2][0]]
    traces = []

    def step(*given):
        traces.append(1)
        for p, g in zip(kept, given, strict=True):
            p.grad = g
        sides[2][1].step()
        return given[0]

    compiled = flow.compile(step)
    schedules = [lib.optim.lr_scheduler.OneCycleLR(side[1], 0.2, 10) for side, lib in zip(sides, LIBS, strict=True)]
    for found in grads:
        for side, lib in list(zip(sides, LIBS, strict=True))[:2]:
            for p, g in zip(side[0], found, strict=True):
                p.grad = lib.tensor(g)
            side[1].step()
        compiled(*map(flow.tensor, found))
        for schedule in schedules:
            schedule.step()
    for a, b, c in zip(*(side[0] for side in sides), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-5, 1e-6)
        np.testing.assert_allclose(c.detach().numpy(), a.detach().numpy(), 1e-5, 1e-6)
    assert name == "RMSprop" or len(traces) <= 3
    again = getattr(flow.optim, name)(sides[0][0], lr=0.1, **options)
    again.load_state_dict(sides[0][1].state_dict())
    assert again.param_groups[0]["lr"] == sides[0][1].param_groups[0]["lr"]


LIBS = (flow, torch, flow)


@pytest.mark.parametrize("options", [{}, {"mode": "max", "threshold_mode": "abs", "cooldown": 1, "min_lr": 0.02}])
def test_reduction_on_a_plateau(options):
    values = [3.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    found = []
    for side, lib in zip(pair("SGD", {"lr": 0.2}, drawn()), (flow, torch), strict=True):
        schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(side[1], patience=2, factor=0.5, **options)
        rates = []
        for value in values:
            schedule.step(value)
            rates.append(side[1].param_groups[0]["lr"])
        found.append(rates)
    np.testing.assert_allclose(found[0], found[1], 1e-12)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clipping_by_norm(norm_type, max_norm):
    grads, totals = [drawn(), drawn()], []
    params = [params for params, _ in pair("SGD", {}, drawn())]
    sides = [SimpleNamespace(lib=lib, params=p) for lib, p in zip((flow, torch), params, strict=True)]
    for side in sides:
        for p, g in zip(side.params, grads[0], strict=True):
            p.grad = side.lib.tensor(-g)
        totals.append(float(side.lib.nn.utils.clip_grad_norm_(side.params, max_norm, norm_type)))
    np.testing.assert_allclose(totals[0], totals[1], 1e-6)
    for a, b in zip(sides[0].params, sides[1].params, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), 1e-6)
