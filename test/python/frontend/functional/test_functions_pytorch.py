"""Functions on arguments of all kinds: PyTorch's values, shapes and element types, eager and compiled."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
import oneflow.nn.functional as F  # noqa: N812

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

RNG = np.random.default_rng(7)
FLOATS = np.array([[1.5, -2.0, 3.0], [0.5, 0.0, -1.0]], np.float32)
INTEGERS = np.array([[1, -1, 2], [3, 0, 5]], np.int64)
BOOLS = np.array([[True, False], [False, False], [True, True]])
LINE, IMAGE, VOLUME = (RNG.normal(size=(2, *[6] * n)).astype(np.float32) for n in (1, 2, 3))
#: A name, a function of a framework and tensors, and the values of the tensors.
CASES = {
    "add, alpha": (lambda f, x: f.add(x, x, alpha=2.5), FLOATS),
    "sub, alpha": (lambda f, x: x.sub(f.ones(3), alpha=2), FLOATS),
    "add of a number, alpha": (lambda _, x: x.add(3, alpha=2), INTEGERS),
    "sub of integers, alpha": (lambda f, x: f.sub(x, x, alpha=3), INTEGERS),
    "clip": (lambda f, x: f.clip(x, -1, 2), FLOATS),
    "clip above": (lambda _, x: x.clip(max=1), INTEGERS),
    "pow, base": (lambda _, x: 2 ** x.abs(), INTEGERS),
    "pow, float exponent": (lambda _, x: x**-1.0, np.array([1, 2, -4], np.int64)),
    "lerp, all broadcast": (lambda f, x: f.lerp(x[:, :1], x[:1], f.tensor([0.25])), FLOATS),
    "gather of a vector at a scalar": (lambda f, x: f.gather(x, 0, f.tensor(2)), FLOATS[0]),
    "tensordot, sizes of 1": (lambda f, x: f.tensordot(x[:1], x, dims=([0], [0])), FLOATS),
    "var, correction": (lambda f, x: f.var(x, 1, correction=0), FLOATS),
    "argsort, stable": (lambda f, x: f.argsort(x, stable=True).int(), INTEGERS),
    "softmax, dtype": (lambda f, x: f.nn.functional.softmax(x, 0, dtype=f.float64), INTEGERS),
    "softmin, dtype": (lambda f, x: f.nn.functional.softmin(x, 1, dtype=f.float32), INTEGERS),
    "var, unbiased": (lambda f, x: f.var(x, False), FLOATS),
    "std, unbiased": (lambda f, x: f.std(x, True), FLOATS),
    "lerp by a number, broadcast": (lambda f, x: f.lerp(x, x[0], 0.25), FLOATS),
    "searchsorted, sorter": (
        lambda f, x: f.searchsorted(x, x, side="right", sorter=f.tensor([[1, 0, 2], [1, 0, 2]])),
        INTEGERS,
    ),
    "round, decimals": (lambda f, x: f.round(x / 7, decimals=2), FLOATS),
    "round, decimals below 0": (lambda f, x: x.mul(70).round(decimals=-1), FLOATS),
    "index_select of a scalar": (lambda f, x: f.index_select(x[0, 0], 0, f.tensor([0])), FLOATS),
    "norm, None": (lambda f, x: f.norm(x, None), FLOATS),
    "angle, bfloat16": (lambda f, x: f.angle(x.to(f.bfloat16)).to(f.float32), FLOATS),
    "angle, float16": (lambda f, x: f.angle(x.to(f.float16)), FLOATS),
    "scatter of bools": (lambda f, x: f.scatter(x, 0, f.tensor([[1, 2]]), x[:1]), BOOLS),
    "scatter_add of bools": (lambda f, x: f.scatter_add(x, 0, f.tensor([[1, 1]]), x[:1]), BOOLS),
    "scatter_reduce of bools, amin": (
        lambda f, x: f.scatter_reduce(x, 0, f.tensor([[2, 2], [2, 1]]), x[:2], "amin", include_self=False),
        BOOLS,
    ),
    "index_add of bools": (lambda f, x: f.index_add(x, 0, f.tensor([1, 1]), x[1:]), BOOLS),
    "mode of bools": (lambda f, x: f.mode(x, 0)[0], BOOLS),
    "sign of bools": (lambda f, x: (f.sign(x), f.square(x), f.isfinite(x), f.isnan(x), f.isinf(x)), BOOLS),
    "norm, 0": (lambda f, x: f.norm(x, 0, dim=1), FLOATS),
    "polygamma": (lambda f, x: tuple(f.polygamma(n, x) for n in range(5)), np.abs(FLOATS) + 0.25),
    "vdot of complex numbers": (lambda f, x: f.vdot(x, x[[1, 2, 0]]), np.array([1 + 2j, -1j, 3], np.complex64)),
    "index_add of a scalar": (
        lambda f, x: f.index_add(x[0, 0], 0, f.tensor([0]), x[0, 1], alpha=3),
        FLOATS,
    ),
    "linspace": (lambda f: f.linspace(3, -3, 5)),
    "linspace of one": (lambda f: f.linspace(2, 10, 1)),
    "linspace of none": (lambda f: f.linspace(0, 1, 0)),
    "linspace of integers": (lambda f: f.linspace(0, 10, 4, dtype=f.int64)),
    "linspace, float64": (lambda f: f.linspace(0, 1, 7, dtype=f.float64)),
    "logspace": (lambda f: f.logspace(-2, 2, 5)),
    "logspace, base": (lambda f: f.logspace(0, 3, 4, base=2.0)),
    "max of bools": (lambda f, x: f.max(x), BOOLS),
    "min of bools": (lambda f, x: f.min(x), BOOLS),
    "max of bools along": (lambda f, x: tuple(f.max(x, 1)), BOOLS),
    "min of bools along": (lambda f, x: tuple(f.min(x, 0)), BOOLS),
    "amax of bools": (lambda f, x: f.amax(x, 1, keepdim=True), BOOLS),
    "amin of bools": (lambda f, x: f.amin(x, (0, 1)), BOOLS),
    "logsumexp of integers": (lambda f, x: f.logsumexp(x, 1), INTEGERS),
    "logsumexp of bools": (lambda f, x: f.logsumexp(x, 0, keepdim=True), BOOLS),
    "logsumexp of nothing": (lambda f, x: f.logsumexp(x, 0), np.zeros((0, 3), np.float32)),
    "logsumexp of no rows": (lambda f, x: f.logsumexp(x, 1), np.zeros((0, 3), np.float32)),
    "chunks of nothing": (lambda f, x: f.chunk(x, 3), np.zeros((0, 3), np.float32)),
    "conv1d": (lambda f, x, w: f.nn.functional.conv1d(x, w, padding=1), LINE, RNG.normal(size=(4, 2, 3))),
    "conv1d, same": (lambda f, x, w: f.nn.functional.conv1d(x, w, padding="same"), LINE, RNG.normal(size=(4, 2, 2))),
    "conv2d": (lambda f, x, w: f.nn.functional.conv2d(x, w, stride=2), IMAGE, RNG.normal(size=(4, 2, 3, 3))),
    "conv3d": (lambda f, x, w: f.nn.functional.conv3d(x, w), VOLUME, RNG.normal(size=(1, 2, 2, 2, 2))),
    "max_pool1d": (lambda f, x: f.nn.functional.max_pool1d(x, 2), LINE),
    "max_pool2d": (lambda f, x: f.nn.functional.max_pool2d(x, 2, return_indices=True), IMAGE),
    "max_pool3d": (lambda f, x: f.nn.functional.max_pool3d(x, 3, stride=1), VOLUME),
    "avg_pool1d": (lambda f, x: f.nn.functional.avg_pool1d(x, 3), LINE),
    "avg_pool2d": (lambda f, x: f.nn.functional.avg_pool2d(x, 3, padding=1), IMAGE),
    "avg_pool3d": (lambda f, x: f.nn.functional.avg_pool3d(x, 2), VOLUME),
    "adaptive_avg_pool1d": (lambda f, x: f.nn.functional.adaptive_avg_pool1d(x, 4), LINE),
    "adaptive_avg_pool2d": (lambda f, x: f.nn.functional.adaptive_avg_pool2d(x, (4, 2)), IMAGE),
    "adaptive_avg_pool3d": (lambda f, x: f.nn.functional.adaptive_avg_pool3d(x, 2), VOLUME),
    "adaptive_max_pool1d": (lambda f, x: f.nn.functional.adaptive_max_pool1d(x, 4, True), LINE),
    "adaptive_max_pool2d": (lambda f, x: f.nn.functional.adaptive_max_pool2d(x, (4, None), True), IMAGE),
    "adaptive_max_pool3d": (lambda f, x: f.nn.functional.adaptive_max_pool3d(x, 2), VOLUME),
}


def single(value):
    return np.float32(value) if value.dtype == np.float64 else value


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:Using padding")
@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_values_equal_pytorch(name, mode):
    case: Any = CASES[name]
    function, *values = case if isinstance(case, tuple) else (case,)
    values = [single(v) for v in values]
    want = function(torch, *map(torch.tensor, values))
    if mode == "eager":
        got = function(flow, *map(flow.tensor, values))
    else:
        got = flow.compile(lambda *tensors: function(flow, *tensors))(*values)
    several = isinstance(want, tuple)
    for ours, theirs in zip(*((v if several else [v]) for v in (got, want)), strict=True):
        ours, theirs = np.asarray(ours), theirs.numpy()
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


ONE, TWO = np.int64(1), np.int32(2)
COUNTED = {
    "sum": lambda f, x: x.sum(ONE), "sum of both": lambda f, x: x.sum((np.int64(0), ONE)),
    "max": lambda f, x: f.max(x, ONE)[0], "transpose": lambda f, x: x.transpose(np.int64(0), ONE),
    "squeeze": lambda f, x: x.unsqueeze(0).squeeze(np.int64(0)), "flip": lambda f, x: f.flip(x, (ONE,)),
    "split": lambda f, x: x.split([ONE, TWO], ONE)[1], "ones": lambda f, x: f.ones(TWO, ONE),
    "full": lambda f, x: f.full((TWO,), 3), "view": lambda f, x: x.view(TWO, -1),
    "softmax": lambda f, x: f.softmax(x, -ONE), "a tensor as a size": lambda f, x: f.ones(3, f.tensor(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_integers_of_numpy_are_sizes_and_dimensions(name):
    want = COUNTED[name](torch, torch.from_numpy(FLOATS)).numpy()
    np.testing.assert_allclose(COUNTED[name](flow, flow.tensor(FLOATS)).numpy(), want, rtol=1e-6)


REFUSED = {
    "a float as a dimension": (
        lambda x: x.sum(1.0),
        r"expected a dimension in \[-2, 2\) of tensor<2x3xi64>, got 1.0",
    ),
    "an integer to a negative power": (lambda x: x**-1, "expected an exponent of at least 0 for integers, got -1"),
    "a float alpha of integers": (lambda x: x.add(x, alpha=1.5), "expected an integer as alpha of integers"),
    "alpha as text": (lambda x: x.add(x, alpha="2"), "expected alpha to be a number, got '2'"),
    "steps": (
        lambda _: flow.linspace(0, 1, 2.5),  # type: ignore[arg-type]
        "expected steps of linspace as an integer of at least 0, got 2.5",
    ),
    "a border of no kind": (
        lambda x: F.pad(x, (1, 1), "mirror"),
        'expected mode "constant", "reflect", "replicate" or "circular" for pad, got \'mirror\'',
    ),
    "a border wider than the image": (
        lambda x: F.pad(x, (1, 4), "circular"),
        r"expected circular padding of 0 to 3 along dimension 2, got \(1, 4\)",
    ),
    "images of other dimensions": (
        lambda x: F.interpolate(x, 3),
        "expected images of 1 to 3 spatial dimensions for interpolate, got tensor<2x3xi64>",
    ),
    "a mode of other images": (
        lambda x: F.interpolate(x.reshape(1, 2, 3), 3, mode="bilinear"),
        "expected mode nearest, nearest-exact, area or linear for interpolate of tensor<1x2x3xi64>, got 'bilinear'",
    ),
    "two sizes": (
        lambda x: F.interpolate(x.reshape(1, 2, 3), 3, 2.0),
        "expected size or scale_factor for interpolate, got 3 and 2.0",
    ),
    "an end that is none": (lambda x: flow.logspace(0, x, 3), "expected numbers as start and end of logspace"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_arguments_name_the_line(name):
    """An error at the line of the call, eager and compiled."""
    function, text = REFUSED[name]
    for run in (lambda: function(flow.tensor(INTEGERS)), lambda: flow.compile(function)(INTEGERS)):
        with pytest.raises(ValueError, match=f"test_functions_pytorch.py:[0-9]+: {text}"):
            run()


def test_sizes_of_images_are_tensors():
    image, size = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4), (5, 6)
    tensors: Any = [flow.tensor(n) for n in size]
    found = flow.nn.functional.interpolate(flow.tensor(image), tensors, mode="bilinear")
    want = torch.nn.functional.interpolate(torch.tensor(image), size, mode="bilinear")
    np.testing.assert_allclose(found.numpy(), want.numpy(), rtol=1e-6)
