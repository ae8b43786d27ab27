"""`nn.Graph`: arguments and results; training is tested with the compiled functions that graphs are."""

import numpy as np

import oneflow as flow
from oneflow import nn


def test_graphs_without_arguments_give_tensors():
    class Constants(nn.Graph):
        def build(self, *arrays):
            return flow.arange(3), {"ones": flow.ones(2)}

    numbers, ones = Constants()()
    assert isinstance(numbers, flow.Tensor) and ones["ones"].tolist() == [1.0, 1.0]
    assert isinstance(Constants()(np.ones(2))[0], np.ndarray)
