"""The same training in PyTorch: losses of 100 steps from the same weights, by every optimizer, in f32.

Lamb, which PyTorch lacks, is written here over PyTorch's tensors.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

RNG = np.random.default_rng(10)
STEPS = 100


def mlp(nn):
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def cnn(nn):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip


def gpt(nn):
    """A transformer of two layers over 7 tokens that predicts the next one."""

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(8), nn.LayerNorm(8)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

        def forward(self, x, mask):
            h = self.ln1(x)
            x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
            return x + self.mlp(self.ln2(x))

    class Gpt(nn.Module):  # type: ignore[name-defined]
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(7, 8), nn.Embedding(5, 8)
            self.blocks = nn.ModuleList([Block(), Block()])
            self.ln, self.head = nn.LayerNorm(8), nn.Linear(8, 7, bias=False)
            mask = np.triu(np.ones((5, 5), bool), 1)
            self.register_buffer("mask", make(nn, mask), persistent=False)
            self.register_buffer("indices", make(nn, np.arange(5)), persistent=False)

        def forward(self, x):
            h = self.tokens(x) + self.positions(self.indices)
            for block in self.blocks:
                h = block(h, self.mask)
            return self.head(self.ln(h)).reshape(-1, 7)

    return Gpt()


def make(nn, array):
    return torch.from_numpy(array) if nn is torch.nn else flow.tensor(array)


def tokens():
    text = RNG.integers(0, 7, (16, 6))
    return text[:, :-1].copy(), text[:, 1:].reshape(-1).copy()


#: Labels are random and more than the models can learn by heart: a loss that falls to nothing is all rounding.
MODELS = {
    mlp: lambda: (RNG.normal(size=(96, 6)).astype(np.float32), RNG.integers(0, 3, 96)),
    cnn: lambda: (RNG.normal(size=(64, 1, 8, 8)).astype(np.float32), RNG.integers(0, 3, 64)),
    gpt: tokens,
}
#: Rates are small enough that rounding does not grow: f32 then distinguishes formulas.
OPTIMIZERS = {
    "sgd": lambda o, p: o.SGD(p, lr=0.02),
    "sgd, momentum": lambda o, p: o.SGD(p, lr=0.01, momentum=0.9),
    "sgd, nesterov, decay": lambda o, p: o.SGD(p, lr=2e-3, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": lambda o, p: o.Adam(p, lr=1e-3),
    "adam, decay": lambda o, p: o.Adam(p, lr=1e-3, weight_decay=1e-2, betas=(0.8, 0.99)),
    "adam, amsgrad": lambda o, p: o.Adam(p, lr=1e-3, amsgrad=True),
    "adamw": lambda o, p: o.AdamW(p, lr=1e-3, weight_decay=0.1),
    "lamb": lambda o, p: o.LAMB(p, lr=3e-3, weight_decay=1e-2, eps=1e-6),
    "adagrad": lambda o, p: o.Adagrad(p, lr=5e-3),
    "adagrad, decays": lambda o, p: o.Adagrad(
        p, lr=5e-3, lr_decay=1e-3, weight_decay=1e-2, initial_accumulator_value=0.1
    ),
    "adadelta": lambda o, p: o.Adadelta(p, lr=0.1, weight_decay=1e-3),
    "adamax": lambda o, p: o.Adamax(p, lr=1e-3, eps=1e-6),
    "nadam": lambda o, p: o.NAdam(p, lr=5e-4, eps=1e-6, weight_decay=1e-3),
    "radam": lambda o, p: o.RAdam(p, lr=1e-3, eps=1e-6),
    "rmsprop": lambda o, p: o.RMSprop(p, lr=2e-4, eps=1e-6),
    "rmsprop, momentum": lambda o, p: o.RMSprop(p, lr=2e-4, momentum=0.5, weight_decay=1e-2, eps=1e-6),
    "rmsprop, centered": lambda o, p: o.RMSprop(p, lr=1e-3, centered=True, momentum=0.5, alpha=0.9, eps=1e-1),
}  # fmt: skip


class LAMB(torch.optim.Optimizer):  # type: ignore[name-defined]
    """Lamb as in the paper: Adam's direction, scaled to the norm of the parameter."""

    def __init__(self, params, lr, weight_decay, eps):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["n"] = state.get("n", 0) + 1
                state["m"] = 0.9 * state.get("m", 0) + 0.1 * p.grad
                state["v"] = 0.999 * state.get("v", 0) + 0.001 * p.grad**2
                m, v = state["m"] / (1 - 0.9 ** state["n"]), state["v"] / (1 - 0.999 ** state["n"])
                change = m / (v.sqrt() + group["eps"])
                lengths = p.norm(), change.norm()
                rate = group["lr"] * (lengths[0] / lengths[1] if min(lengths) > 0 else 1.0)
                p.sub_(rate * (change + group["weight_decay"] * p))


THEIRS = SimpleNamespace(**{n: getattr(torch.optim, n, LAMB) for n in flow.optim.__all__})


def steps(framework, model, optimizer):
    """Runs a step of training; returns the loss before the step."""
    nn = framework.nn

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(list(model.parameters()), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def losses(build, name):
    """The losses of all steps, ours and PyTorch's."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    theirs, ours = build(torch.nn), build(flow.nn)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({n: t.numpy() for n, t in theirs.state_dict().items()})
    batch = MODELS[build]()
    step = steps(torch, theirs, OPTIMIZERS[name](THEIRS, theirs.parameters()))
    run = flow.compile(steps(flow, ours, OPTIMIZERS[name](flow.optim, ours.parameters())))
    want = [float(step(*map(torch.from_numpy, batch))) for _ in range(STEPS)]
    assert want[-1] < want[0] - 0.01
    return [float(run(*batch)) for _ in range(STEPS)], want


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("build", MODELS, ids=lambda f: f.__name__)
def test_losses_are_those_of_pytorch(build, name):
    ours, theirs = losses(build, name)
    np.testing.assert_allclose(ours, theirs, 1e-4)


def test_state_is_loaded_by_pytorch(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch", reason="comes with PyTorch")
    net = cnn(flow.nn)
    flow.save(net.state_dict(), tmp_path / "net.safetensors")
    state = safetensors.load_file(tmp_path / "net.safetensors")
    theirs = cnn(torch.nn)
    theirs.load_state_dict(state)
    safetensors.save_file(theirs.state_dict(), tmp_path / "back.safetensors")
    for name, tensor in flow.load(tmp_path / "back.safetensors").items():
        np.testing.assert_array_equal(tensor.numpy(), net.state_dict()[name].numpy())
