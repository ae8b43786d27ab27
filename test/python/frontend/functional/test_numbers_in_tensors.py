"""Numbers and sizes that come as tensors: read in eager mode, refused where a function is traced."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.nn import functional as F  # noqa: N812

CALLS = {
    "full": (lambda x: flow.full((2,), x), [2.5, 2.5]),
    "full_like": (lambda x: flow.full_like(flow.ones(1), x), [2.5]),
    "arange": (lambda x: flow.arange(0, x), [0, 1, 2]),
    "linspace": (lambda x: flow.linspace(0, x, 2), [0, 2.5]),
    "threshold": (lambda x: F.threshold(flow.tensor([2.0, 3.0]), x, 9.0), [9, 3]),
    "one_hot": (lambda x: F.one_hot(x.int()), [0, 0, 1]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_tensor_without_dimensions_is_a_number(name):
    call, wanted = CALLS[name]
    x = flow.tensor(2.5)
    np.testing.assert_allclose(call(x).numpy(), wanted)
    with pytest.raises(flow.TraceError, match=r"expected|is not known while"):
        flow.compile(call)(x)
