"""Updates of parts of an expanded tensor without repeated elements, which PyTorch allows."""

import numpy as np
import pytest

import oneflow as flow


def test_one_index_of_an_expanded_tensor_is_updated():
    x = flow.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    x.expand(4, 2, 3)[1].add_(10)
    np.testing.assert_array_equal(x.numpy(), np.arange(10, 16).reshape(2, 3))


def test_updates_of_an_expanded_tensor_are_refused():
    x = flow.tensor(np.zeros(3, np.float32))
    with pytest.raises(RuntimeError, match="several elements are one in memory"):
        x.expand(2, 3).add_(1)
    x.expand(2, 3).numpy()[...] = 1
    np.testing.assert_array_equal(x.numpy(), np.zeros(3))


def test_data_is_updated_and_read_in_a_compiled_function():
    w = flow.tensor(np.ones(3, np.float32), requires_grad=True)

    @flow.compile
    def step(x):
        w.data.mul_(2)
        return (w * x.data).sum()

    assert step(flow.tensor(np.full(3, 5, np.float32))).item() == 30
    np.testing.assert_array_equal(w.detach().numpy(), np.full(3, 2))
