"""Gradients of eager operators on global tensors: chunks of different sizes, fills and reshapes."""

import numpy as np
import pytest

import oneflow as flow

TWO = flow.placement("cpu", [0, 1])


def leaf(*shape):
    return flow.tensor(np.arange(np.prod(shape), dtype=np.float32).reshape(shape), requires_grad=True)


@pytest.mark.parametrize("sbp", [flow.sbp.split(0), flow.sbp.partial_sum])
def test_chunks_of_different_sizes_are_joined_again(sbp):
    x = leaf(5, 2)
    weight = np.arange(10, dtype=np.float32).reshape(5, 2)
    chunks = flow.chunk(x.to_global(TWO, sbp), 2, 0)
    assert [p.shape for p in chunks] == [(3, 2), (2, 2)]
    (flow.cat(chunks[::-1], 0) * flow.tensor(weight).to_global(TWO, flow.sbp.broadcast)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.concatenate([weight[2:], weight[:2]]))


def test_a_tensor_that_fills_gets_a_gradient():
    x, number = leaf(4), flow.tensor(2.0, requires_grad=True)
    y = x.to_global(TWO, flow.sbp.split(0)) * 3
    y.fill_(number.to_global(TWO, flow.sbp.broadcast))
    assert y.numpy().tolist() == [2, 2, 2, 2]
    y.sum().backward()
    assert float(number.grad) == 4
    assert x.grad.numpy().tolist() == [0, 0, 0, 0]


def test_flatten_of_one_dimension_is_the_tensor_itself():
    x = leaf(4)
    assert flow.flatten(x) is x
    assert flow.flatten(leaf(2, 3), 1, 1).shape == (2, 3)
