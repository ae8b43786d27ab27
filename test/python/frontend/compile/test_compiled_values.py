"""Small programs compiled and run, against NumPy and SciPy."""

import numpy as np
import pytest
from scipy import special
from test_functional import convolved, normal, windows

import oneflow as flow
import oneflow.nn.functional as F  # noqa: N812

RNG = np.random.default_rng(11)


def arrays(*shapes):
    return [RNG.normal(size=s).astype(np.float32) for s in shapes]


def softmax_of_columns(x):
    return flow.softmax(x * 2, dim=0)


def mlp(x, w1, b1, w2):
    return F.softmax(flow.relu(x @ w1 + b1) @ w2, dim=1)


def mlp_numpy(x, w1, b1, w2):
    return special.softmax(np.maximum(x @ w1 + b1, 0) @ w2, 1)


def attention(q, k, v):
    scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
    mask = flow.ones(5, 5, dtype=flow.bool).tril()
    return flow.where(mask, scores, float("-inf")).softmax(-1) @ v


def attention_numpy(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1]))
    return special.softmax(np.where(np.tri(5, dtype=bool), scores, -np.inf), -1) @ v


def cnn(x, w):
    return flow.max_pool2d(flow.relu(flow.conv2d(x, w, padding=1)), 2).flatten(1)


def cnn_numpy(x, w):
    maps = np.maximum(convolved(x, w, padding=(1, 1)), 0)
    return windows(maps, (2, 2), (2, 2)).max((4, 5)).reshape(len(x), -1)


def block(x, g, b):
    return x + F.gelu(F.layer_norm(x, 8, g, b))


def block_numpy(x, g, b):
    y = normal(x, (-1,)) * g + b
    return x + y * special.ndtr(y)


def standardized(x):
    return (x - x.mean(0)) / x.std(0, unbiased=False)


def picked(x, i):
    return x[:, i].sum(-1), x[1:, ::2] - x[:-1, ::2], x.argmax(1)


PROGRAMS = [
    (softmax_of_columns, lambda x: special.softmax(x * 2, 0), arrays((4, 3))),
    (mlp, mlp_numpy, arrays((7, 5), (5, 8), (8,), (8, 3))),
    (attention, attention_numpy, arrays((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4))),
    (cnn, cnn_numpy, arrays((2, 3, 8, 8), (4, 3, 3, 3))),
    (block, block_numpy, arrays((2, 5, 8), (8,), (8,))),
    (standardized, lambda x: (x - x.mean(0)) / x.std(0), arrays((6, 4))),
    (
        picked,
        lambda x, i: (x[:, i].sum(-1), x[1:, ::2] - x[:-1, ::2], x.argmax(1)),
        [*arrays((3, 5)), np.array([4, 0, 4])],
    ),
]


@pytest.mark.parametrize("function,numpy,inputs", PROGRAMS, ids=[p[0].__name__ for p in PROGRAMS])
def test_values_of_static_programs(function, numpy, inputs):
    check(flow.compile(function), numpy, inputs)


@pytest.mark.parametrize("function,numpy,inputs", PROGRAMS, ids=[p[0].__name__ for p in PROGRAMS])
def test_values_of_programs_with_a_dynamic_batch(function, numpy, inputs):
    first = flow.TensorSpec((None, *inputs[0].shape[1:]), inputs[0].dtype)
    rest = [flow.TensorSpec(x.shape, x.dtype) for x in inputs[1:]]
    same = function is attention
    check(flow.compile(function, specs=[first] * len(inputs) if same else [first, *rest]), numpy, inputs)


def check(compiled, numpy, inputs):
    got, want = compiled(*inputs), numpy(*inputs)
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for result, expected in pairs:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
