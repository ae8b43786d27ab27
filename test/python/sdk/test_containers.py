"""Functors with OneFlow's numbers (`Scalar`), containers (`VectorAt`, `MapAt`) and classes to derive from."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.core.errors import OneFlowError
from oneflow.frontend.functional_c import Functions
from oneflow.runtime.user_ops.library import load_library

API = """
- {name: pick, signature: "Tensor (TensorTuple xs, Int32 index, String name) => Pick", bind_python: true}
- {name: ratio, signature: "Tensor (Tensor x, Scalar a, Scalar b, Scalar c) => Ratio", bind_python: true}
- {name: kinds, signature: "Tensor (Tensor x) => Kinds", bind_python: true}
- {name: relu, signature: "Tensor (Tensor x) => TRelu", bind_python: true}
- {name: apart, signature: "Tensor (Tensor x, Tensor y) => Apart", bind_python: true}
- {name: chain, signature: "Tensor (Tensor x, Tensor y, Bool flip) => Chain", bind_python: true}
"""
X, Y = (np.random.default_rng(seed).normal(size=(3, 4)).astype(np.float32) for seed in (0, 1))


@pytest.fixture(scope="module")
def api(build, tmp_path_factory):
    load_library(build("containers"))
    path = tmp_path_factory.mktemp("api") / "api.yaml"
    path.write_text(API)
    functions = Functions()
    functions.load(path)
    return functions


def test_elements_are_read_and_replaced(api):
    np.testing.assert_array_equal(api.pick([flow.tensor(X), flow.tensor(Y)], 1, "half").numpy(), Y * -0.5)
    np.testing.assert_array_equal(api.pick([flow.tensor(X), flow.tensor(Y)], 0, "two").numpy(), X * -2)


def test_elements_that_are_missing(api):
    with pytest.raises(OneFlowError, match=r"index < vector.size\(\) \(2 vs 1\)(?s:.*)containers.cpp:\d+: VectorAt"):
        api.pick([flow.tensor(X)], 2, "two")
    with pytest.raises(OneFlowError, match=r"expected a key of the map, got three(?s:.*)containers.cpp:\d+: MapAt"):
        api.pick([flow.tensor(X)], 0, "three")


@pytest.mark.parametrize("a, b, c, factor", [(3, 4, 2, 3), (3, 4, 2.0, 3.5), (-3, -4, 2, -3), (0.5, 1, 3, 0.5)])
def test_arithmetic_of_numbers(api, a, b, c, factor):
    np.testing.assert_array_equal(api.ratio(flow.tensor(X), a, b, c).numpy(), X * np.float32(factor))


def test_an_integer_is_not_divided_by_zero(api):
    with pytest.raises(OneFlowError, match="expected a divisor other than 0"):
        api.ratio(flow.tensor(X), 1, 2, 0)
    assert np.isinf(api.ratio(flow.tensor(np.ones(1, np.float32)), 1, 2, 0.0).numpy()).all()


def test_kinds_of_numbers(api):
    wanted = "bool, signed, unsigned, unsigned, floating, complex, 1 1.84467e+19 0.5, -3 -3, -2 1, recorded, 0"
    with pytest.raises(OneFlowError, match=wanted.replace("+", r"\+")):
        api.kinds(flow.tensor(X))


def test_functors_that_are_derived_and_chained(api):
    x, y = flow.tensor(X, requires_grad=True), flow.tensor(Y)
    np.testing.assert_array_equal(api.relu(x).detach().numpy(), np.maximum(X, 0))
    np.testing.assert_array_equal(api.apart(x, y).detach().numpy(), X - Y)
    np.testing.assert_array_equal(api.chain(x, y, False).detach().numpy(), np.maximum(X - Y, 0))
    api.chain(x, y, True).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.where(X > Y, -1.0, 0.0))
