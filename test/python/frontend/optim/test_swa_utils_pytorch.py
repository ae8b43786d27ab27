"""`flow.optim.swa_utils`: PyTorch's averages of parameters, statistics of batch norms and rates."""

import copy
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.optim import swa_utils

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

DRAWS = np.random.default_rng(3).normal(size=(4, 8, 3)).astype(np.float32)
AVERAGES = {"equal": None, "exponential": lambda average, newest, count: 0.75 * average + 0.25 * newest}


def _twins():
    """A model with a batch norm here and in PyTorch, of the same parameters."""
    models = [f.nn.Sequential(f.nn.Linear(3, 2), f.nn.BatchNorm1d(2)) for f in (flow, torch)]
    models[1].load_state_dict({name: torch.tensor(x.numpy()) for name, x in models[0].state_dict().items()})
    return zip(models, (flow, torch), (swa_utils, torch.optim.swa_utils), strict=True)


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("name", AVERAGES)
def test_averaged_model(name, use_buffers):
    found = []
    for model, f, utils in _twins():
        averaged = utils.AveragedModel(model, avg_fn=AVERAGES[name], use_buffers=use_buffers)
        for draw in DRAWS:
            model(f.tensor(draw))
            with f.no_grad():
                model[0].weight.add_(f.tensor(draw[:2]))
            averaged.update_parameters(model)
        assert averaged.n_averaged.item() == len(DRAWS)
        again = utils.AveragedModel(model)
        again.load_state_dict(averaged.state_dict())
        found.append({k: v.numpy() for k, v in again.state_dict().items()})
        found[-1]["result"] = averaged.eval()(f.tensor(DRAWS[0])).detach().numpy()
    assert found[0].keys() == found[1].keys()
    for key, value in found[0].items():
        np.testing.assert_allclose(value, found[1][key], 1e-5, 1e-6, err_msg=key)


@pytest.mark.parametrize("pairs", [False, True])
def test_update_bn(pairs):
    found = []
    for model, f, utils in _twins():
        model(f.tensor(DRAWS[0] * 9))
        batches = [f.tensor(draw) for draw in DRAWS]
        model.eval()
        utils.update_bn([(x, None) for x in batches] if pairs else batches, model, device="cpu")
        assert not model.training and model[1].momentum == 0.1
        found.append([x.numpy() for x in model.buffers()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)


def test_update_bn_without_batch_norms_reads_no_batch():
    swa_utils.update_bn(iter(lambda: 1 / 0, None), flow.nn.Linear(2, 2))


def _rates(f, utils, **options):
    parameters = [f.nn.Linear(1, 1).weight for _ in range(2)]
    groups = [{"params": [parameters[0]]}, {"params": [parameters[1]], "lr": 0.5}]
    optimizer = f.optim.SGD(groups, lr=0.125)
    before = f.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.9)
    schedule = utils.SWALR(optimizer, **options)
    rates = []
    for step in range(9):
        optimizer.step()
        (before if step < 3 else schedule).step()
        rates.append([group["lr"] for group in optimizer.param_groups])
    return rates, schedule


@pytest.mark.parametrize(
    "options",
    [
        {"swa_lr": 0.05, "anneal_epochs": 4},
        {"swa_lr": [0.05, 0.1], "anneal_epochs": 4, "anneal_strategy": "linear"},
        {"swa_lr": 0.05, "anneal_epochs": 1},
        {"swa_lr": 0.05},
    ],
)
def test_rates_after_another_schedule(options):
    np.testing.assert_allclose(
        _rates(flow, swa_utils, **copy.deepcopy(options))[0], _rates(torch, torch.optim.swa_utils, **options)[0], 1e-6
    )


def test_a_restored_schedule_continues():
    rates, schedule = _rates(flow, swa_utils, swa_lr=0.05, anneal_epochs=8)
    _, other = _rates(flow, swa_utils, swa_lr=[1.0, 2.0], anneal_strategy="linear")
    other.load_state_dict(schedule.state_dict())
    assert other.get_last_lr() == schedule.get_last_lr() == rates[-1]
    schedule.step()
    other.step()
    assert other.get_last_lr() == schedule.get_last_lr() != rates[-1]


WRONG: dict[str, dict[str, Any]] = {
    "expected anneal_strategy to be 'cos' or 'linear', got 'exp'": {"swa_lr": 1.0, "anneal_strategy": "exp"},
    "expected anneal_epochs to be a number of steps of at least 0, got -1": {"swa_lr": 1.0, "anneal_epochs": -1},
    "expected anneal_epochs to be a number of steps of at least 0, got 1.5": {"swa_lr": 1.0, "anneal_epochs": 1.5},
    "expected one swa_lr for each of 2 groups, got 3": {"swa_lr": [1.0, 0.1, 0.01]},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments(message):
    with pytest.raises(ValueError, match=message):
        _rates(flow, swa_utils, **WRONG[message])
