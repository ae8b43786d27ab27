"""Functors that call built-in operators as functions, and arguments that are devices and seeds."""

import re

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.core.errors import OneFlowError
from oneflow.frontend.functional_c import Functions
from oneflow.runtime.user_ops.library import load_library
from oneflow.tools.functional_operators import FUNCTIONS, HEADER, operators_text

API = """
- name: "score"
  signature: "Tensor (Tensor x, Tensor y, Int32List axis) => Score"
  bind_python: True
- name: "gram"
  signature: "Tensor (TensorTuple parts) => Gram"
  bind_python: True
- name: "missing"
  signature: "Tensor (Tensor x) => Missing"
  bind_python: True
- name: "placed"
  signature: "Tensor (Tensor x, *, Device device=None, Generator generator=None) => Placed"
  bind_python: True
- name: "own"
  signature: "Tensor (Tensor x) => Own"
  bind_python: True
"""
X, Y = (np.random.default_rng(seed).normal(size=(3, 4)).astype(np.float32) for seed in (0, 1))


@pytest.fixture(scope="session")
def api(build, tmp_path_factory):
    load_library(build("builtins"))
    path = tmp_path_factory.mktemp("api") / "api.yaml"
    path.write_text(API)
    functions = Functions()
    functions.load(path)
    return functions


def test_the_header_is_that_of_the_operators():
    assert HEADER.read_text() == operators_text(), "run python -m oneflow.tools.functional_operators"
    assert len(FUNCTIONS) >= 80


def test_operators_are_functions(api):
    wanted = (np.maximum(X * Y + X, 0) * 2).sum(1, keepdims=True)
    np.testing.assert_allclose(api.score(flow.tensor(X), flow.tensor(Y), [1]).numpy(), wanted, rtol=1e-6)
    compiled = flow.compile(lambda x, y: api.score(x, y, [1]))
    np.testing.assert_allclose(compiled(X, Y), wanted, rtol=1e-6)


def test_groups_of_tensors_and_defaults(api):
    total = X + Y + Y
    found = api.gram([flow.tensor(X), flow.tensor(Y), flow.tensor(Y)]).numpy()
    np.testing.assert_allclose(found, 0.5 * total @ total.T, rtol=1e-5)


def test_built_in_functions_have_gradients(api):
    x = flow.tensor(X, requires_grad=True)
    api.score(x, flow.tensor(Y), [0, 1]).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * (Y + 1) * (X * Y + X > 0), rtol=1e-6)


def test_a_missing_tensor_is_an_error(api):
    with pytest.raises(OneFlowError, match=r"broadcast_add: (?s:.*)operand"):
        api.missing(flow.tensor(X))


def test_user_functions_replace_built_in_functions(api):
    np.testing.assert_array_equal(api.own(flow.tensor(X)).numpy(), -X)


@pytest.mark.parametrize(
    "given, added",
    [({}, 100), ({"device": "cpu"}, -1), ({"device": flow.device("cuda:3")}, 3), ({"generator": 7}, 107)],
)
def test_devices_and_seeds(api, given, added):
    np.testing.assert_allclose(api.placed(flow.tensor(X), **given).numpy(), X + np.float32(added), rtol=1e-6)


def test_wrong_devices(api):
    with pytest.raises(TypeError, match='device: expected a device such as "cpu" or "cuda:0", got \'tpu\''):
        api.placed(flow.tensor(X), device="tpu")


@pytest.mark.parametrize("kind", ["Placement", "SbpList", "PyObject*", "MemoryFormat"])
def test_types_that_no_operator_takes_are_refused(tmp_path, kind):
    signature = f"Tensor (Tensor x, {kind} p) => F"
    (tmp_path / "api.yaml").write_text(f'- name: "f"\n  signature: "{signature}"\n  bind_python: true')
    functions = Functions()
    functions.load(tmp_path / "api.yaml")
    with pytest.raises(TypeError, match=f"f: p: the type {re.escape(kind)} has no meaning here"):
        functions.f(flow.tensor(X), None)
