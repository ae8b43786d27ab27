"""Functions that order elements, against PyTorch: values, positions and gradients, eager and compiled."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

RNG = np.random.default_rng(3)
X = RNG.normal(size=(3, 21, 2)).astype(np.float32)
TIES = RNG.integers(0, 4, (4, 25))
ODD = np.array([[1, np.nan, 3, 2], [np.inf, 0, -np.inf, 2]], np.float32)
SORTED = np.array([[1, 2, 2, 5], [0, 0, 7, 9]], np.float32)
#: A function of a framework and tensors, and the values of the tensors.
CASES: dict[str, Any] = {
    "sort": (lambda f, x: f.sort(x, dim=1), X),
    "sort, NaN": (lambda f, x: f.sort(x, descending=True), ODD),
    "sort of a scalar": (lambda f, x: f.sort(x), np.float32(3)),
    "argsort": (lambda _, x: x.argsort(dim=0, descending=True), X),
    "topk": (lambda f, x: f.topk(x, 2, dim=1), X),
    "topk, smallest": (lambda f, x: f.topk(x, 5, largest=False), X[:, 0].T.copy()[:, :1].repeat(9, 1) + X[0, :9, 0]),
    "kthvalue": (lambda f, x: f.kthvalue(x, 4, 1, keepdim=True), X),
    "median": (lambda f, x: f.median(x), X),
    "median, NaN": (lambda f, x: f.median(x), ODD),
    "median along": (lambda f, x: f.median(x, 1, keepdim=True), X),
    "median along, NaN": (lambda f, x: f.median(x, 1), ODD),
    "mode": (lambda f, x: f.mode(x)[0], TIES),
    "searchsorted": (
        lambda f, x, v: f.searchsorted(x, v, right=True),
        SORTED,
        np.array([[2, 3], [0, 8]], np.float32),
    ),
    "searchsorted of a number": (lambda f, x: f.searchsorted(x, 2.0), SORTED[0]),
    "searchsorted, int32": (lambda f, x, v: f.searchsorted(x, v, out_int32=True), SORTED[1], SORTED),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_ordering_functions(name, mode):
    function, *values = CASES[name]
    want = function(torch, *map(torch.tensor, values))
    if mode == "eager":
        got = function(flow, *map(flow.tensor, values))
    else:
        got = flow.compile(lambda *tensors: function(flow, *tensors))(*values)
    several = isinstance(want, tuple)
    for ours, theirs in zip(*((v if several else [v]) for v in (got, want)), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), theirs.numpy())


@pytest.mark.parametrize("name", ["sort", "topk", "kthvalue", "median", "median along"])
def test_gradients_of_ordering(name):
    function, values = CASES[name]
    gradients = []
    for f in (torch, flow):
        x = f.tensor(values, requires_grad=True)
        found = function(f, x)
        (found[0] if isinstance(found, tuple) else found).square().sum().backward()
        gradients.append(np.asarray(x.grad.numpy()))
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-6)


def test_bincount():
    x, weights = np.array([0, 3, 3, 1], np.int64), np.array([1, 2, 3, 4], np.float32)
    for arguments in ((), (weights,), (None, 7)):
        given = [[f.tensor(a) if isinstance(a, np.ndarray) else a for a in arguments] for f in (torch, flow)]
        want = torch.bincount(torch.tensor(x), *given[0][:1], minlength=(*arguments, 0, 0)[1])
        np.testing.assert_array_equal(flow.tensor(x).bincount(*given[1]).numpy(), want.numpy())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.topk(5, 1), "expected k from 0 to the 2 elements along dimension 1"),
        (lambda x: x.kthvalue(0, 1), "expected k from 1 to the 2 elements"),
        (lambda x: x.sort(2), r"expected a dimension in \[-2, 2\)"),
        (lambda x: x.bincount(), "expected a vector of integers for bincount"),
        (
            lambda x: flow.tensor(np.array([-1], np.int64)).bincount(),
            "expected no negative numbers for bincount, got -1",
        ),
    ],
)
def test_refused_ordering_arguments(call, message):
    with pytest.raises(flow.OneFlowError, match=message):
        call(flow.tensor(np.ones((3, 2), np.float32)))
