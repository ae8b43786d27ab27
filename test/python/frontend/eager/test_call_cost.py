"""The cost of a warm eager call in function calls, which is equal on all machines and under any load."""

import numpy as np
import pytest
from call_counts import calls_of

import oneflow as flow

X = flow.tensor(np.ones((2, 3), np.float32))
W = flow.tensor(np.ones((3, 3), np.float32))
#: Calls, with the largest allowed numbers of Python and C functions called.
CALLS = {
    "sum of tensors": (lambda: X + X, 55),
    "product with a number": (lambda: X * 2.0, 90),
    "comparison": (lambda: X > X, 55),
    "unary": (lambda: flow.relu(X), 45),
    "matrix product": (lambda: X @ W, 80),
    "reduction": (lambda: X.sum(), 60),
}


@pytest.mark.parametrize("kind", CALLS)
def test_warm_eager_calls_call_few_functions(kind):
    call, limit = CALLS[kind]
    for _ in range(3):
        call()
    assert calls_of(call) <= limit


def test_names_of_the_package_are_found_at_once():
    """The first use of a name loads the name's module; later uses read an attribute of the module."""
    flow.relu  # noqa: B018
    assert calls_of(lambda: flow.relu) <= 2  # the lambda, and the call that ends the count
