"""Inputs of another element type than the parameters of a module: the message has all types and the conversion."""

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn

MODULES = {
    "linear": (nn.Linear(3, 2), (2, 3)),
    "linear of a vector": (nn.Linear(3, 2), (3,)),
    "conv2d": (nn.Conv2d(3, 2, 1), (1, 3, 2, 2)),
    "layer_norm": (nn.LayerNorm(3), (2, 3)),
}


@pytest.mark.parametrize("name", MODULES)
def test_mismatched_parameter_types_are_named(name):
    module, shape = MODULES[name]
    match = (
        f"expected tensors of one element type for {name.split()[0]}, got input of float64, weight of float32,"
        r" bias of float32; convert the input, as in input.to\(flow.float32\), or the module, as in"
        r" module.to\(flow.float64\)"
    )
    with pytest.raises(flow.OneFlowError, match=match):
        module(flow.ones(*shape, dtype=flow.float64))
    with pytest.raises(flow.OneFlowError, match=match):
        flow.compile(module)(np.ones(shape))


def test_autocast_converts_parameters():
    with flow.autocast("cpu", dtype=flow.bfloat16):
        assert MODULES["linear"][0](flow.ones(2, 3)).dtype == flow.bfloat16
