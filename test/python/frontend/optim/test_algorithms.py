"""Optimizers against PyTorch's formulas in NumPy, eager and compiled; groups, state, schedules in programs."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn, optim

RNG = np.random.default_rng(4)
STEPS = 6


class Reference:
    """An optimizer in f64: `update(number of the step, parameter, gradient, state)` gives the new parameter."""

    def __init__(self, update):
        self.update = update

    def run(self, start, grads):
        p, state = start.astype(np.float64), dict[Any, Any]()
        for number, g in enumerate(grads, 1):
            p = self.update(number, p, g.astype(np.float64), state)
        return p


def sgd(lr, decay=0.0, momentum=0.0, nesterov=False):
    def update(_, p, g, state):
        g = g + decay * p
        if momentum:
            state["m"] = momentum * state.get("m", 0) + g
            g = g + momentum * state["m"] if nesterov else state["m"]
        return p - lr * g

    return Reference(update)


def adam(lr, decay=0.0, decoupled_decay=0.0, amsgrad=False, betas=(0.9, 0.999)):
    def update(number, p, g, state):
        g = g + decay * p
        state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * g
        state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * g**2
        state["most"] = np.maximum(state.get("most", 0), state["v"])
        v = state["most"] if amsgrad else state["v"]
        size = np.sqrt(v / (1 - betas[1] ** number)) + 1e-8
        return p - lr * decoupled_decay * p - lr * state["m"] / (1 - betas[0] ** number) / size

    return Reference(update)


def lamb(lr, decoupled_decay):
    def update(number, p, g, state):
        state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
        state["v"] = 0.999 * state.get("v", 0) + 0.001 * g**2
        change = state["m"] / (1 - 0.9**number) / (np.sqrt(state["v"] / (1 - 0.999**number)) + 1e-8)
        rate = lr * np.linalg.norm(p) / np.linalg.norm(change)
        return p - rate * (change + decoupled_decay * p)

    return Reference(update)


def adagrad(lr, lr_decay=0.0, start=0.0, decay=0.0):
    def update(number, p, g, state):
        g = g + decay * p
        state["sum"] = state.get("sum", start) + g**2
        return p - lr / (1 + (number - 1) * lr_decay) * g / (np.sqrt(state["sum"]) + 1e-10)

    return Reference(update)


def rmsprop(lr, alpha=0.99, centered=False, decay=0.0):
    def update(_, p, g, state):
        g = g + decay * p
        state["v"] = alpha * state.get("v", 0) + (1 - alpha) * g**2
        state["m"] = alpha * state.get("m", 0) + (1 - alpha) * g
        size = np.sqrt(state["v"] - state["m"] ** 2 if centered else state["v"]) + 1e-8
        return p - lr * g / size

    return Reference(update)


CASES = [
    (lambda p: optim.SGD(p, lr=0.1), sgd(0.1)),
    (lambda p: optim.SGD(p, lr=0.1, weight_decay=0.2), sgd(0.1, 0.2)),
    (lambda p: optim.SGD(p, lr=0.1, maximize=True), sgd(-0.1)),
    (lambda p: optim.SGD(p, lr=0.1, momentum=0.9), sgd(0.1, 0, 0.9)),
    (lambda p: optim.SGD(p, lr=0.1, momentum=0.8, weight_decay=0.1, nesterov=True), sgd(0.1, 0.1, 0.8, True)),
    (lambda p: optim.Adam(p, lr=0.1), adam(0.1)),
    (lambda p: optim.Adam(p, 0.1, (0.5, 0.9), weight_decay=0.1), adam(0.1, 0.1, betas=(0.5, 0.9))),
    (lambda p: optim.Adam(p, lr=0.1, amsgrad=True), adam(0.1, amsgrad=True)),
    (lambda p: optim.AdamW(p, lr=0.1), adam(0.1, decoupled_decay=0.01)),
    (lambda p: optim.LAMB(p, lr=0.1, weight_decay=0.1), lamb(0.1, 0.1)),
    (lambda p: optim.Adagrad(p, lr=0.1), adagrad(0.1)),
    (
        lambda p: optim.Adagrad(p, 0.1, lr_decay=0.1, initial_accumulator_value=0.5, weight_decay=0.1),
        adagrad(0.1, 0.1, 0.5, 0.1),
    ),
    (lambda p: optim.RMSprop(p, lr=0.1), rmsprop(0.1)),
    (lambda p: optim.RMSprop(p, 0.1, 0.9, weight_decay=0.1, centered=True), rmsprop(0.1, 0.9, True, 0.1)),
]


@pytest.mark.parametrize("make,reference", CASES)
def test_optimizer_steps_equal_formulas(make, reference):
    start = RNG.uniform(0.5, 1, (3, 4)).astype(np.float32)
    grads = RNG.uniform(0.1, 1, (STEPS, 3, 4)).astype(np.float32) * np.sign(RNG.uniform(-1, 1, (STEPS, 1, 1)))
    p = nn.Parameter(start.copy())
    optimizer = make([p])
    for g in grads[: STEPS // 2]:
        p.grad = flow.tensor(g, dtype=flow.float32)
        optimizer.step()

    @flow.compile
    def step(g):
        p.grad = g
        optimizer.step()
        optimizer.zero_grad()
        return g.sum()

    for g in grads[STEPS // 2 :]:
        step(g.astype(np.float32))
    assert p.grad is None and [len(v) for v in step._specializations.values()] == [1]
    np.testing.assert_allclose(p.detach().numpy(), reference.run(start, grads), 2e-5, 1e-6)


def quadratic():
    p = nn.Parameter(np.array([1.0, -2.0], np.float32))
    return p, lambda: (p * p).sum()


def test_a_step_is_one_operator_per_parameter():
    p, loss = quadratic()
    optimizer = optim.AdamW([p])

    @flow.compile
    def step():
        value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        return value

    step()
    text = step.ir()
    assert text.count('"oneflow.adam_update"') == 1 and text.count("oneflow.donated") == 4


def test_the_learning_rate_is_that_of_the_run():
    p, loss = quadratic()
    optimizer = optim.SGD([p], lr=0.1)
    schedule = optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    @flow.compile
    def step():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value

    want = np.array([1, -2], np.float64)
    for rate in (0.1, 0.05, 0.025):
        step()
        schedule.step()
        want *= 1 - 2 * rate
        np.testing.assert_allclose(p.detach().numpy(), want, 1e-6)
    assert [len(v) for v in step._specializations.values()] == [1]
    optimizer.param_groups[0]["weight_decay"] = 1.0
    step()
    assert [len(v) for v in step._specializations.values()] == [2]


def test_parameter_groups():
    a, b = (nn.Parameter(np.ones(2, np.float32)) for _ in range(2))
    optimizer = optim.SGD([{"params": [a], "lr": 1.0}, {"params": b}], lr=0.5)
    (a.sum() + b.sum()).backward()
    optimizer.step()
    assert a.tolist() == [0, 0] and b.tolist() == [0.5, 0.5]
    for params, text in (
        ([], "at least one parameter"),
        ([flow.tensor([1])], "expected leaf tensors of floats"),
        ([a, a], "expected each parameter once"),
        ([{"params": a, "beta": 1}], "SGD has no beta"),
    ):
        with pytest.raises(ValueError, match=text):
            optim.SGD(params)
    for wrong in ({"lr": -1}, {"momentum": -1}, {"nesterov": True}):
        with pytest.raises(ValueError, match="expected"):
            optim.SGD([a], **wrong)
    with pytest.raises(ValueError, match="betas"):
        optim.Adam([a], betas=(1.0, 0.5))


@pytest.mark.parametrize("wrap", [lambda f: f, flow.compile])
def test_groups_scale_the_learning_rate(wrap):
    """The factor is read at every run, as the rate is."""
    slow, fast = flow.ones(1).requires_grad_(), flow.ones(1).requires_grad_()
    optimizer = flow.optim.SGD([{"params": [slow], "lr_scale": 0.25}, {"params": [fast]}], lr=0.5)
    for p in (slow, fast):
        p.grad = flow.ones(1)
    step = wrap(lambda: optimizer.step() or flow.zeros(1))
    step()
    optimizer.param_groups[1]["lr_scale"] = 0.5
    step()
    assert (slow.item(), fast.item()) == (1 - 2 * 0.125, 1 - 0.5 - 0.25)


def test_groups_scale_the_first_steps_of_rprop():
    p = flow.ones(1).requires_grad_()
    p.grad = flow.ones(1)
    flow.optim.Rprop([{"params": [p], "lr_scale": 0.25}], lr=0.5).step()
    assert p.item() == 1 - 0.125


def test_parameters_without_gradients_are_unchanged():
    a, b = (nn.Parameter(np.ones(2, np.float32)) for _ in range(2))
    optimizer = optim.Adam([a, b])
    a.sum().backward()
    optimizer.step()
    assert b.tolist() == [1, 1] and list(optimizer.state) == [0]


def test_closure():
    p, loss = quadratic()
    optimizer = optim.SGD([p], lr=0.1)

    @flow.no_grad()
    def outer():
        def closure():
            optimizer.zero_grad()
            value = loss()
            value.backward()
            return value

        return optimizer.step(closure)

    assert outer().item() == 5
    np.testing.assert_allclose(p.detach().numpy(), [0.8, -1.6], 1e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_restored_run_goes_on_bit_for_bit(tmp_path, compiled):
    def build():
        flow.manual_seed(7)
        net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 1))
        optimizer = optim.Adam(net.parameters(), lr=0.05)
        schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

        def step(x):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = flow.compile(step) if compiled else step

        def advance():
            loss = float(run(flow.tensor(x)))
            schedule.step()
            return loss

        return net, optimizer, schedule, advance

    x = RNG.uniform(-1, 1, (4, 3)).astype(np.float32)
    net, optimizer, schedule, step = build()
    for _ in range(3):
        step()
    saved = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
    flow.save({**saved, "random": flow.get_rng_state()}, tmp_path / "state")
    want = [step() for _ in range(3)]
    net, optimizer, schedule, step = build()
    state = flow.load(tmp_path / "state")
    for part, key in ((net, "net"), (optimizer, "optimizer"), (schedule, "schedule")):
        part.load_state_dict(state[key])
    flow.set_rng_state(state["random"])
    assert [step() for _ in range(3)] == want


def test_a_graph_is_a_training_step():
    net = nn.Linear(3, 1)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    x, y = RNG.uniform(-1, 1, (8, 3)).astype(np.float32), RNG.uniform(-1, 1, (8, 1)).astype(np.float32)

    class Step(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = net
            self.add_optimizer(optimizer, optim.lr_scheduler.ExponentialLR(optimizer, 0.5))

        def build(self, x, y):
            loss = nn.functional.mse_loss(self.net(x), y)
            loss.backward()
            return loss

    w, b = (p.detach().numpy().astype(np.float64) for p in (net.weight, net.bias))
    step = Step()
    for rate in (0.1, 0.05):
        error = x @ w.T + b - y
        np.testing.assert_allclose(float(step(x, y)), (error**2).mean(), 1e-5)
        w, b = w - rate * 2 / 8 * error.T @ x, b - rate * 2 * error.mean(0)
    np.testing.assert_allclose(net.weight.detach().numpy(), w, 1e-5)
    assert net.weight.grad is None and "oneflow.sgd_update" in step.ir()


def test_invalid_training_graphs_are_refused():
    net, x = nn.Linear(3, 1), np.ones((5, 3), np.float32)
    optimizer = optim.SGD(net.parameters(), lr=0.1)

    class Forgotten(nn.Graph):
        def __init__(self):
            self.net = net

    class Loss(nn.Graph):
        def build(self, x):
            return net(x).square().sum()

    with pytest.raises(AttributeError, match=r"expected Forgotten\.__init__ to call super\(\)\.__init__\(\) first"):
        Forgotten()(x)
    with pytest.raises(TypeError, match=r"expected an optimizer of flow\.optim, got Linear"):
        Loss().add_optimizer(net)
    with pytest.raises(TypeError, match=r"expected a schedule whose step has no argument, .* after the graph"):
        Loss().add_optimizer(optimizer, optim.lr_scheduler.ReduceLROnPlateau(optimizer))
    graph = Loss()
    graph.add_optimizer(optimizer)
    with pytest.raises(flow.OneFlowError, match=r"expected build of Loss to call backward .* has a gradient"):
        graph(x)


def replaced_by_loading(optimizer, saved):
    optimizer.load_state_dict(saved)


def replaced_by_clearing(optimizer, saved):
    optimizer.state.clear()


def replaced_one_by_one(optimizer, saved):
    for number, kept in saved["state"].items():
        optimizer.state[number] |= {name: flow.tensor(array) for name, array in kept.items()}


class TrainedGraph(nn.Graph):
    """A compiled step as a graph."""

    def __init__(self, w, optimizer):
        super().__init__()
        self.w = w
        self.add_optimizer(optimizer)

    def build(self, x):
        loss = ((self.w - x) ** 2).sum()
        loss.backward()
        return loss


def trained(w, optimizer):
    def step(x):
        optimizer.zero_grad()
        loss = ((w - x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return step


FORMS = {
    "compiled": lambda *given: flow.compile(trained(*given)),
    "graph": TrainedGraph,
    "eager": trained,
}


@pytest.mark.parametrize("replace", [replaced_by_loading, replaced_by_clearing, replaced_one_by_one])
@pytest.mark.parametrize("make", [optim.Adam, lambda p, lr: optim.SGD(p, lr=lr, momentum=0.9)])
def test_a_compiled_step_updates_replaced_states(make, replace):
    def history(form):
        w = flow.tensor(np.ones(3, np.float32), requires_grad=True)
        optimizer = make([w], lr=0.1)
        step = FORMS[form](w, optimizer)
        rows = np.random.default_rng(1).uniform(-1, 1, (9, 3)).astype(np.float32)
        xs = [flow.tensor(x) for x in rows]
        losses = [float(step(x)) for x in xs[:3]]
        state = optimizer.state_dict()
        held = {n: {k: t.numpy().copy() for k, t in kept.items()} for n, kept in state["state"].items()}
        losses += [float(step(x)) for x in xs[3:6]]
        replace(optimizer, {**state, "state": held})
        return losses + [float(step(x)) for x in xs[6:]], {k: t.numpy() for k, t in optimizer.state[0].items()}

    expected, kept = history("eager")
    for form in ("compiled", "graph"):
        losses, state = history(form)
        np.testing.assert_allclose(losses, expected, 1e-5)
        for name, value in kept.items():
            np.testing.assert_allclose(state[name], value, 1e-5)
