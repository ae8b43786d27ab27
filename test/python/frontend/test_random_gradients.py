"""Random compositions of 3 to 12 operators, with broadcasting, diamonds and reuse: gradients in eager mode, compiled,
compiled as a training step and recomputed are equal, and match finite differences, all in f64."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import oneflow as flow

STEP = 1e-6
#: Shapes of the arguments: they broadcast to each other.
SHAPES = ((2, 3), (3,), (2, 1), (), (1, 3))
CURVES = ("tanh", "sin", "cos", "sigmoid", "erf", "atan", "softplus", "gelu", "silu", "exp2")
PAIRS = ("add", "sub", "mul", "maximum", "minimum", "atan2")


def curve(pick, x):
    return getattr(flow.nn.functional if (name := pick(CURVES)) in ("gelu", "silu", "softplus") else flow, name)(x)


def reduced(pick, x):
    if not x.rank:
        return x * 0.5 + 0.25
    name, axis, keepdim = (
        pick(("sum", "mean", "amax", "logsumexp", "softmax")),
        pick(range(x.rank)),
        pick((True, False)),
    )
    return x.softmax(axis) if name == "softmax" else getattr(x, name)(axis, keepdim=keepdim)


def moved(pick, x):
    if x.rank != 2:
        return x.reshape(-1)
    return pick((lambda: x.t().reshape(x.shape), lambda: x[:, :1], lambda: x.flip(1), lambda: x.cumsum(1)))()


def pair(pick, x, y):
    return getattr(flow, pick(PAIRS))(x, y)


def ratio(pick, x, y):
    return x / (y.square() + 1)


def power(pick, x, y):
    return (x.sigmoid() + 0.5) ** y.tanh()


def choice(pick, x, y):
    return flow.where(x > y, x.sin(), y * 0.5)


def joined(pick, x, y):
    if x.shape != y.shape or not x.rank:
        return x * y
    return flow.cat([x, y, x], pick(range(x.rank))).narrow(0, 0, x.shape[0])


def product(pick, x, y):
    return x @ y.t() @ y if x.rank == y.rank == 2 and x.shape[1] == y.shape[1] else x - y


ONE, TWO = (curve, reduced, moved), (pair, ratio, power, choice, joined, product)


def fits(x, y):
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return True


def composed(numbers, arguments):
    """The loss of operators that `numbers` choose, each on what is there already."""
    rest = iter(numbers)

    def pick(options):
        return options[next(rest) % len(options)]

    values = list(arguments)
    for _ in range(pick(range(3, 13))):
        x, y = pick(values), pick(values)
        rule = pick((*ONE, *TWO) if fits(x, y) else ONE)
        values.append(rule(pick, x) if rule in ONE else rule(pick, x, y))
    return values[-1].tanh().sum() + values[-2].sin().sum() + sum(x.sin().sum() for x in arguments)


def differences(function, arrays):
    """Central differences of a function of arrays by every element."""
    found = []
    for array in arrays:
        slopes = np.zeros(array.shape)
        for at in np.ndindex(array.shape):
            kept = array[at]
            ends = []
            for step in (STEP, -STEP):
                array[at] = kept + step
                ends.append(function())
            array[at] = kept
            slopes[at] = (ends[0] - ends[1]) / (2 * STEP)
        found.append(slopes)
    return found


def leaves(arrays):
    return [flow.tensor(a, requires_grad=True) for a in arrays]


def backward(loss, arrays):
    xs = leaves(arrays)
    loss(*xs).backward()
    return [x.grad.numpy() for x in xs]


def training_step(loss, arrays):
    xs = leaves(arrays)

    @flow.compile
    def step():
        total = loss(*xs)
        total.backward()
        return total

    step()
    return [x.grad.numpy() for x in xs]


@given(
    shapes=st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3),
    numbers=st.lists(st.integers(0, 2**20), min_size=64, max_size=64),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=4, deadline=None)
def test_all_ways_to_a_gradient(shapes, numbers, seed):
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(rng.uniform(-1.5, 1.5, shape)) for shape in shapes]

    def loss(*xs):
        return composed(numbers, xs)

    want = differences(lambda: loss(*map(flow.tensor, arrays)).item(), arrays)
    gradient = flow.grad(loss, range(len(arrays)))
    ways = {
        "backward": backward(loss, arrays),
        "checkpoint": backward(flow.checkpoint(loss), arrays),
        "grad": gradient(*map(flow.tensor, arrays)),
        "compiled grad": flow.compile(gradient)(*arrays),
        "compiled checkpoint": flow.compile(flow.grad(flow.checkpoint(loss), range(len(arrays))))(*arrays),
        "compiled backward": training_step(loss, arrays),
    }
    for name, grads in ways.items():
        for got, first, expected in zip(grads, ways["backward"], want, strict=True):
            np.testing.assert_allclose(np.asarray(got), expected, 1e-5, 1e-6, err_msg=name)
            np.testing.assert_allclose(np.asarray(got), first, 1e-12, 1e-12, err_msg=name)
