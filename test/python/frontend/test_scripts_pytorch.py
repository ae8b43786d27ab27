"""Training scripts in the style of users: PyTorch's losses in eager mode, with compiled models or a compiled step.

Each script is a function of a framework and of the wrappers of models and steps.
"""

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

STEPS = 8


def same(f):
    return f


#: The wrapper of models, and the wrapper of the step.
WAYS = {"eager": (same, same), "models": (flow.compile, same), "step": (same, flow.compile)}


def drawn(lib, net, seed=5):
    """The module with parameters that are the same in each framework."""
    rng = np.random.default_rng(seed)
    arrays = {k: rng.normal(size=tuple(p.shape)) * 0.4 for k, p in sorted(dict(net.named_parameters()).items())}
    state = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    state |= {k: a.astype(np.float32) for k, a in arrays.items()}
    net.load_state_dict({k: lib.tensor(a) for k, a in state.items()} if lib is torch else state)
    return net


def batches(*shapes):
    rng = np.random.default_rng(0)
    return [[rng.normal(size=shape).astype(np.float32) for shape in shapes] for _ in range(STEPS)]


def gan(lib, model, whole):
    """Two networks, two optimizers, a detached sample."""
    nn = lib.nn
    made = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    judge = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    nets = drawn(lib, made), drawn(lib, judge, 6)
    first, second = (lib.optim.Adam(net.parameters(), lr=1e-2, betas=(0.5, 0.999)) for net in nets)
    made, judge = map(model, nets)
    loss_of = nn.BCEWithLogitsLoss()

    def step(real, z, again):
        good, bad = judge(real), judge(made(z).detach())
        judged = loss_of(good, lib.ones_like(good)) + loss_of(bad, lib.zeros_like(bad))
        second.zero_grad()
        judged.backward()
        second.step()
        fooled = judge(made(again))
        fooled = loss_of(fooled, lib.ones_like(fooled))
        first.zero_grad()
        fooled.backward()
        first.step()
        return judged.detach() + fooled.detach()

    step = whole(step)
    return [float(step(*map(lib.tensor, batch))) for batch in batches((8, 2), (8, 4), (8, 4))]


def accumulation(lib, model, whole):
    """Four parts of a batch, clipping, a schedule."""
    nn = lib.nn
    net = drawn(lib, nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)))
    optimizer = lib.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3)
    schedule, called = lib.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, STEPS + 1), model(net)

    def part(x):
        loss = nn.functional.cross_entropy(called(x), lib.argmax(x[:, :3], 1), label_smoothing=0.1) / 4
        loss.backward()
        return loss.detach()

    part, losses = whole(part), []
    for (batch,) in batches((4, 6, 5)):
        losses += [float(part(lib.tensor(x))) for x in batch]
        losses.append(float(nn.utils.clip_grad_norm_(net.parameters(), 0.5)))
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return losses


def recurrent(lib, model, whole):
    """A loop over time, with a state that is passed from batch to batch."""

    class Cell(lib.nn.Module):  # type: ignore[name-defined]
        def __init__(self):
            super().__init__()
            self.into, self.on = lib.nn.Linear(3, 6), lib.nn.Linear(6, 6, bias=False)
            self.out = lib.nn.Linear(6, 3)

        def forward(self, x, hidden):
            hidden = lib.tanh(self.into(x) + self.on(hidden))
            return self.out(hidden), hidden

    net, state = drawn(lib, Cell()), lib.zeros(4, 6)
    cell, optimizer = model(net), lib.optim.RMSprop(net.parameters(), lr=3e-3, momentum=0.5)

    def step(xs):
        hidden, loss = state * 1, lib.zeros(())
        for i in range(4):
            y, hidden = cell(xs[i], hidden)
            loss = loss + ((y - xs[i + 1]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with lib.no_grad():
            state.copy_(hidden.detach())
        return loss.detach()

    step = whole(step)
    return [float(step(lib.tensor(xs))) for (xs,) in batches((5, 4, 3))]


def contrast(lib, model, whole):
    """Two encoders, unit vectors, a clamped learned temperature in a separate parameter group."""
    nn, functional = lib.nn, lib.nn.functional
    nets = drawn(lib, nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))), drawn(lib, nn.Linear(6, 4), 6)
    heat = nn.Parameter(lib.tensor(np.float32(2.5)))
    groups = [
        {"params": [p for net in nets for p in net.parameters()]},
        {"params": [heat], "weight_decay": 0.0, "lr": 0.5},
    ]
    optimizer = lib.optim.AdamW(groups, lr=3e-3, weight_decay=0.1)
    one, other = map(model, nets)

    def step(x, y):
        scores = functional.normalize(one(x), dim=-1) @ functional.normalize(other(y), dim=-1).t() * heat.exp()
        labels = lib.arange(7)
        loss = (functional.cross_entropy(scores, labels) + functional.cross_entropy(scores.t(), labels)) / 2
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        with lib.no_grad():
            heat.clamp_(0, 3.0)
        return loss.detach()

    step = whole(step)
    return [*(float(step(*map(lib.tensor, batch))) for batch in batches((7, 6), (7, 6))), heat.item()]


def tuning(lib, model, whole):
    """A head that is trained on a frozen body, parts of which are trained and frozen again later."""
    nn = lib.nn
    body = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    net = drawn(lib, nn.Sequential(body, nn.Linear(32, 5)))
    groups = [{"params": net[1].parameters(), "lr": 1e-2}, {"params": body.parameters(), "lr": 1e-3}]
    body.eval().requires_grad_(False)
    optimizer, called = lib.optim.Adam(groups), model(net)

    def step(x):
        loss = nn.functional.cross_entropy(called(x), lib.argmax(x[:, 0, 0, :5], 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step, losses = whole(step), []
    for index, (x,) in enumerate(batches((6, 1, 8, 8))):
        if index == 3:
            body[0].requires_grad_(True)
        if index == 5:
            body.train().requires_grad_(True)
            optimizer.param_groups[0]["lr"] *= 0.5
        if index == 7:
            body.requires_grad_(False)
        losses.append(float(step(lib.tensor(x))))
    return losses + [v.item() for p in net.parameters() for v in p.detach().reshape(-1)[:3]]


SCRIPTS = (gan, accumulation, recurrent, contrast, tuning)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda f: f.__name__)
def test_losses_of_training_scripts_equal_pytorch(script):
    expected = script(torch, same, same)
    for way, (model, whole) in WAYS.items():
        np.testing.assert_allclose(script(flow, model, whole), expected, 1e-4, 1e-6, err_msg=way)
