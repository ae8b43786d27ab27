"""Recurrent layers and cells against PyTorch's: parameters, states given and not, values and gradients."""

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

RNG = np.random.default_rng(3)
LENGTH, BATCH, INPUTS, HIDDEN = 5, 2, 3, 4
KINDS = ("RNN", "LSTM", "GRU")
OPTIONS = [
    {},
    {"num_layers": 2, "batch_first": True, "bias": False},
    {"num_layers": 2, "bidirectional": True},
]


def drawn(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def both(name, *args, **options):
    """The layer in both frameworks, with the same parameters."""
    ours, theirs = (getattr(lib.nn, name)(*args, **options) for lib in (flow, torch))
    assert {n: tuple(p.shape) for n, p in ours.named_parameters()} == {
        n: tuple(p.shape) for n, p in theirs.named_parameters()
    }
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, (tuple, list)) else [value]


def outcome(lib, layer, arrays, run):
    """Results, and gradients of inputs, states and parameters."""
    x, *states = (lib.tensor(a, requires_grad=True) for a in arrays)
    given = [] if not states else [tuple(states) if len(states) > 1 else states[0]]
    results = flat(run(x, *given))
    sum((r * r).sum() + r.sum() for r in results).backward()
    return [*(r.detach().numpy() for r in results), *(t.grad.numpy() for t in (x, *states, *layer.parameters()))]


def check(ours, theirs, arrays, run=None):
    want = outcome(torch, theirs, arrays, theirs)
    for a, b in zip(outcome(flow, ours, arrays, run or ours), want, strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


def states_of(name, *shape):
    return [drawn(*shape, HIDDEN) for _ in range(2 if name.startswith("LSTM") else 1)]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_recurrent_layers(name, options):
    ours, theirs = both(name, INPUTS, HIDDEN, **options)
    count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    x = drawn(*((BATCH, LENGTH) if "batch_first" in options else (LENGTH, BATCH)), INPUTS)
    check(ours, theirs, [x])
    check(ours, theirs, [x, *states_of(name, count, BATCH)])
    check(ours, theirs, [drawn(LENGTH, INPUTS), *states_of(name, count)])


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_options_of_a_recurrent_layer():
    ours, theirs = both("RNN", INPUTS, HIDDEN, nonlinearity="relu")
    check(ours, theirs, [drawn(LENGTH, BATCH, INPUTS)])
    ours, theirs = both("LSTM", INPUTS, HIDDEN, 2, proj_size=2, bidirectional=True)
    states = [drawn(4, BATCH, 2), drawn(4, BATCH, HIDDEN)]
    check(ours, theirs, [drawn(LENGTH, BATCH, INPUTS), *states])
    check(ours, theirs, [drawn(LENGTH, BATCH, INPUTS)])


@pytest.mark.parametrize("options", [{}, {"bias": False}])
@pytest.mark.parametrize("name", [f"{kind}Cell" for kind in KINDS])
def test_recurrent_cells(name, options):
    ours, theirs = both(name, INPUTS, HIDDEN, **options)
    for shape in ((BATCH,), ()):
        check(ours, theirs, [drawn(*shape, INPUTS), *states_of(name, *shape)])
        check(ours, theirs, [drawn(*shape, INPUTS)])


@pytest.mark.parametrize("name", KINDS)
def test_training_steps_in_a_compiled_function(name):
    ours, theirs = both(name, INPUTS, HIDDEN, 2)
    optimizers = flow.optim.SGD(ours.parameters(), 0.1), torch.optim.SGD(theirs.parameters(), 0.1)

    def step(layer, optimizer, x):
        optimizer.zero_grad()
        loss = (layer(x)[0] ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = flow.compile(lambda x: step(ours, optimizers[0], x))
    x = drawn(LENGTH, BATCH, INPUTS)
    got, want = [], []
    for _ in range(4):
        got.append(float(run(x)))
        want.append(float(step(theirs, optimizers[1], torch.tensor(x))))
    np.testing.assert_allclose(got, want, 1e-5)


def test_dropout_between_layers():
    flow.manual_seed(0)
    layer = flow.nn.GRU(INPUTS, HIDDEN, 2, dropout=0.5)
    x = flow.tensor(drawn(LENGTH, BATCH, INPUTS))
    assert not np.allclose(layer(x)[0].detach().numpy(), layer(x)[0].detach().numpy())
    layer.eval()
    np.testing.assert_array_equal(layer(x)[0].detach().numpy(), layer(x)[0].detach().numpy())


def test_mismatched_shapes_are_refused():
    layer = flow.nn.LSTM(INPUTS, HIDDEN, 2)
    with pytest.raises(ValueError, match=r"2 states of 3 dimensions, the first of 2, got \['tensor<1x2x4xf32>'\]"):
        layer(flow.ones(LENGTH, BATCH, INPUTS), flow.ones(1, BATCH, HIDDEN))
    with pytest.raises(ValueError, match=r"expected input of 2 or 3 dimensions, got tensor<3xf32>"):
        layer(flow.ones(INPUTS))
    with pytest.raises(ValueError, match='expected nonlinearity "tanh" or "relu", got \'gelu\''):
        flow.nn.RNN(INPUTS, HIDDEN, nonlinearity="gelu")
    with pytest.raises(ValueError, match="expected proj_size for an LSTM alone, below 4, got 2"):
        flow.nn.GRU(INPUTS, HIDDEN, proj_size=2)
