"""The cost of a warm eager call in function calls, which is equal on all machines and under any load."""

import numpy as np
import pytest
from call_counts import calls_of

import oneflow as flow

X = flow.tensor(np.ones((2, 3), np.float32))
W = flow.tensor(np.ones((3, 3), np.float32))
LEAF = flow.tensor(np.ones((2, 3), np.float32), requires_grad=True)
UPDATED = flow.zeros(2, 3)


def train():
    """The gradient of 11 operators."""
    y = LEAF
    for _ in range(5):
        y = flow.relu(y) * X
    y.sum().backward()
    LEAF.grad = None


#: Calls, with the largest allowed numbers of Python and C functions called.
CALLS = {
    "sum of tensors": (lambda: X + X, 34),
    "product with a number": (lambda: X * 2.0, 60),
    "comparison": (lambda: X > X, 35),
    "unary": (lambda: flow.relu(X), 30),
    "matrix product": (lambda: X @ W, 60),
    "reduction": (lambda: X.sum(), 48),
    "part": (lambda: X[1:], 34),
    "view": (lambda: X.view(6), 64),
    "update in place": (lambda: UPDATED.add_(X), 72),
    "recorded sum": (lambda: LEAF + X, 46),
    "backward": (train, 2800),
}


@pytest.mark.parametrize("kind", CALLS)
def test_warm_eager_calls_call_few_functions(kind):
    call, limit = CALLS[kind]
    for _ in range(3):
        call()
    assert calls_of(call) <= limit


def test_names_of_the_package_are_cached():
    """The first use of a name loads the name's module; later uses read an attribute of the module."""
    flow.relu  # noqa: B018
    assert calls_of(lambda: flow.relu) <= 2  # the lambda, and the call that ends the count
