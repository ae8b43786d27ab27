"""Numbers and sizes that come as tensors: read in eager mode, refused where a function is traced."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.nn import functional as F  # noqa: N812

CALLS: dict[str, Any] = {
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


def test_a_gradient_flows_to_the_number_that_fills():
    x, value = flow.ones(2, 2, requires_grad=True), flow.tensor(3.0, requires_grad=True)
    flow.masked_fill(x, flow.tensor([True, False]), value).sum().backward()
    assert value.grad.item() == 2 and x.grad.tolist() == [[0, 1], [0, 1]]
    with pytest.raises(flow.OneFlowError, match="without dimensions to fill with"):
        flow.masked_fill(x, flow.tensor([True, False]), flow.ones(2))
    with pytest.raises(flow.OneFlowError, match="a mask that broadcasts to"):
        flow.masked_fill(flow.ones(2), flow.ones(3, 2, dtype=flow.bool), value)
