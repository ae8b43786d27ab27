"""Written models: ONNX's checker accepts the models, and ONNX Runtime and the importer compute equal values."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import oneflow as flow
from oneflow import nn
from oneflow.frontend.functional import sizes

RNG = np.random.default_rng(0)


class Residual(nn.Module):
    """A small residual network."""

    def __init__(self):
        super().__init__()
        self.stem, self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm, self.fc = nn.BatchNorm2d(4), nn.Linear(4, 5)

    def forward(self, x):
        x = flow.max_pool2d(flow.relu(self.stem(x)), 3, 2, 1)
        x = flow.relu(self.norm(self.conv(x)) + x)
        return self.fc(flow.flatten(flow.adaptive_avg_pool2d(x, 1), 1))


class Encoder(nn.Module):
    """A transformer layer over an embedding."""

    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(11, 8), nn.Linear(8, 11)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, tokens):
        return flow.log_softmax(self.out(self.layer(self.table(tokens))), -1)


MODELS: dict[str, Any] = {
    "residual": (Residual, RNG.normal(size=(2, 3, 16, 16)).astype(np.float32), (None, 3, 16, 16)),
    "encoder": (Encoder, RNG.integers(0, 11, (2, 5)), (None, 5)),
    "perceptron": (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.GELU(), nn.LayerNorm(4), nn.SiLU(), nn.Softmax(-1)),
        RNG.normal(size=(3, 6)).astype(np.float32),
        (None, 6),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_are_equal_in_onnx_runtime(name):
    make, x, shape = MODELS[name]
    net = make().eval()
    written = flow.to_onnx(net, flow.TensorSpec(shape, x.dtype))
    assert {i.name for i in written.graph.initializer} >= {n for n, _ in net.named_parameters()}
    session = onnxruntime.InferenceSession(written.SerializeToString())
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    wanted = flow.compile(net)(x).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(flow.from_onnx(written)(x), wanted, rtol=1e-4, atol=1e-5)


def test_functions_of_many_operators(tmp_path):
    """Rows of the table that models do not use, all in one function."""

    def function(x, i):
        y = flow.where(x > 0.5, x.clamp(-1, 1), -x) + flow.masked_fill(x, x < 0, 2.0) ** 2
        y = flow.cat([y, y.narrow(1, 1, 2), flow.stack([x.sum(1), x.amax(1)], 1)], 1)
        z = (
            flow.pad(y[:, ::2], [1, 0]).transpose(0, 1).reshape(-1, 2)
            + flow.arange(2)
            - flow.rsqrt(x.abs() + 1)[0, 0]
        )
        one = flow.one_hot(i, 4).float() @ flow.tril(flow.ones(4, 4))
        return z, one.cumsum(1), x.argmax(1), flow.gather(x, 1, i[:, None]), (x != 0).any(1), flow.remainder(i, 3)

    x, i = RNG.normal(size=(2, 4)).astype(np.float32), np.array([3, 1])
    path = tmp_path / "model.onnx"
    flow.to_onnx(function, x, i, path=path)
    found = onnxruntime.InferenceSession(path).run(None, {"x": x, "i": i})
    for a, b in zip(found, flow.compile(function)(x, i), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_functions_of_images_and_norms(tmp_path):
    def function(x):
        y = flow.pad(flow.pad(x, [1, 2, 0, 1], "reflect"), [2, 0, 1, 1], "replicate")
        large = flow.nn.functional.interpolate(x, scale_factor=2.0) + flow.nn.functional.interpolate(
            x, (8, 10), mode="bilinear"
        )
        z = flow.rms_norm(x, (5,), flow.ones(5), 1e-3) + flow.flip(x, [2, 3]) + flow.selu(x) + flow.logsigmoid(x)
        return y, large, z, flow.add_n([x, flow.quick_gelu(x), flow.log2(x.abs() + 1)]), flow.isfinite(x), flow.eye(2)

    x, path = RNG.normal(size=(1, 2, 4, 5)).astype(np.float32), tmp_path / "model.onnx"
    flow.to_onnx(function, x, path=path)
    found = onnxruntime.InferenceSession(path).run(None, {"x": x})
    for a, b in zip(found, flow.compile(function)(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_imported_models_are_written_again():
    net = nn.Linear(3, 2)
    program = flow.from_onnx(flow.to_onnx(net, flow.TensorSpec((None, 3))))
    again = flow.to_onnx(program)
    assert again.graph.input[0].type.tensor_type.shape.dim[1].dim_value == 3
    onnx.checker.check_model(again)


def test_operators_without_a_counterpart_are_named():
    with pytest.raises(flow.OneFlowError, match=r"oneflow\.normal has no counterpart in ONNX"):
        flow.to_onnx(lambda x: x + flow.ops.normal(dtype=flow.float32, shape=(2,), seed=1), np.ones(2, np.float32))


VALUES = np.array([-7.5, -2.25, -0.5, 0.5, 3.0, 30.0], np.float32)
IMAGE = RNG.normal(size=(1, 1, 5, 5)).astype(np.float32)
#: Functions whose attributes are written as further nodes, and their operands.
FUNCTIONS = {
    "softplus": (lambda x: flow.softplus(x, 2.0, 5.0), VALUES),
    "truncdiv": (lambda x: flow.ops.truncdiv(x, x * 0 + 2), VALUES),
    "scalar_truncdiv": (lambda x: flow.div(x, 2.0, rounding_mode="trunc"), VALUES),
    "float8_e4m3fn": (lambda x: (x * 100).to(flow.float8_e4m3fn).float(), VALUES),
    "float8_e5m2": (lambda x: (x * 1e4).to(flow.float8_e5m2).float(), VALUES),
    "heads with common keys": (
        lambda x: flow.ops.attention(
            flow.cat([x, x * 2, x - 1, x * x], 1), flow.cat([x, -x], 1), flow.cat([x * x, x * x + 1], 1)
        )[0],
        IMAGE,
    ),
    "last window behind the image": (lambda x: flow.max_pool2d(x, 2, 2, 1, ceil_mode=True), IMAGE),
    "last window over the end": (lambda x: flow.max_pool2d(x, 2, 2, 0, ceil_mode=True), IMAGE),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_of_functions(name):
    function, x = FUNCTIONS[name]
    session = onnxruntime.InferenceSession(flow.to_onnx(function, x).SerializeToString())
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(found, flow.compile(function)(x), rtol=1e-6)


def halves(x):
    count, length = x.shape[0], x.shape[1]
    rows = x.reshape(count * length, 2)[: count * length // 2]
    return (
        rows,
        x.transpose(0, 1).reshape(length // 2, 2 * count, x.shape[2]),
        flow.zeros(sizes.maximum(count, 3)) + 1,
    )


def causal(x):
    """Causal attention of as many queries as keys."""
    count, length = x.shape[0], x.shape[1]
    heads, keys = x.reshape(count, 2, length, 2), (x * x).reshape(count, 2, length, 2)
    return flow.ops.attention(heads, keys, keys * 2, causal=True, scale=0.7)[0]


@pytest.mark.parametrize("function", [halves, causal])
def test_functions_of_dynamic_sizes(function):
    size = 4 if function is causal else 2
    model = flow.to_onnx(function, flow.TensorSpec((None, None, size), np.float32))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = flow.compile(function, flow.TensorSpec((None, None, size), np.float32))
    for count, length in ((2, 6), (5, 2)):
        x = RNG.normal(size=(count, length, size)).astype(np.float32)
        results, wanted = session.run(None, {session.get_inputs()[0].name: x}), compiled(x)
        for result, want in zip(results, wanted if isinstance(wanted, tuple) else [wanted], strict=True):
            np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-6)


def test_windows_of_dynamic_sizes_are_refused_where_counts_may_differ():
    def function(x):
        return flow.max_pool2d(x, 2, 2, 1, ceil_mode=True)

    with pytest.raises(
        flow.OneFlowError, match=r"expected .* windows by some ceil_mode of ONNX.*test_onnx_writer\.py"
    ):
        flow.to_onnx(function, flow.TensorSpec((1, 1, None, 5), np.float32))


class Loops(nn.Module):
    """A recurrent layer in both directions, a loop, a scan without sequences, and a branch."""

    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(3, 2, bidirectional=True)

    def forward(self, x):
        y, _ = self.layer(x)
        grown = flow.while_loop(lambda v: v.sum() < 50, lambda v: v * 2, flow.exp(y))
        _, counted = flow.scan(lambda n, _: (n + 1, n), y.sum(), length=3)
        return flow.cond(x.sum() > 0, lambda: grown, lambda: grown * 0 - y), counted


def test_loops_and_branches_are_nodes_with_graphs():
    flow.manual_seed(0)
    module = Loops()
    x = RNG.normal(size=(4, 2, 3)).astype(np.float32)
    model = flow.to_onnx(module, x)
    kinds = [n.op_type for n in model.graph.node]
    assert [kinds.count(kind) for kind in ("Scan", "Loop", "If")] == [3, 1, 1]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for given in (x, -x, np.abs(x)):
        wanted = [y.detach().numpy() for y in module(flow.tensor(given))]
        for found in (session.run(None, {model.graph.input[0].name: given}), flow.from_onnx(model)(given)):
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(np.asarray(one), other, rtol=1e-5, atol=1e-6)


def bodies(x, y, i, j):
    """Operators without a row, each operation of whose scalar body is a node."""
    p = x.abs()
    return [
        flow.expm1(x), flow.log1p(p), flow.exp2(x), flow.log10(p + 1), flow.trunc(x * 3), flow.frac(x * 3),
        flow.lerp(x, y, 0.3), flow.floor_divide(x, y), flow.fmod(x, y), flow.floor_divide(i, j),
        flow.fmod(i, j * j + 1), flow.ops.xlogy(p, p + 1), nn.functional.hardshrink(x),
        nn.functional.threshold(x, 0.1, 2.0),
    ]  # fmt: skip


def ordered(x, y, i, j):
    """Operators that order elements or write slices."""
    updated = x.clone()
    updated[1:3, ::2] = y[:3]
    return [*flow.topk(x, 2), flow.argsort(i, descending=True), flow.sort(x)[0], updated]


@pytest.mark.parametrize("function", [bodies, ordered])
def test_scalar_bodies_and_orders(function):
    near_zero = [0, 1e-6, -1e-6, 5, 20, 0.9]
    x = np.concatenate([RNG.normal(size=(3, 6)), [near_zero]]).astype(np.float32)
    y = RNG.normal(size=6).astype(np.float32)
    i, j = np.array([[7, -7, 5], [0, 3, -4]]), np.array([2, -3, 0])
    session = onnxruntime.InferenceSession(flow.to_onnx(function, x, y, i, j).SerializeToString())
    found = session.run(None, {"x": x, "y": y, "i": i, "j": j})
    for a, b in zip(found, flow.compile(function)(x, y, i, j), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-12)
