"""Tensors computed inside of larger tensors, at other positions than in the producers and the consumers."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.triton.fusion.collapse_loops import collapse_reduction_loops
from oneflow.nn import functional
from oneflow.passes.pipeline import Pipeline
from oneflow.testing.host_cuda import host_cuda


@pytest.fixture(scope="module", autouse=True)
def cuda(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        with host_cuda() as made:
            yield made


def floats(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def assert_equal_on_both(function, *arrays):
    """A compiled function gives the same on the device, by a program that verifies, and on the CPU."""
    results = (flow.compile(function, device=device)(*arrays) for device in ("cuda", "cpu"))
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-4)
    module = flow.trace(function, *(flow.TensorSpec(a.shape, flow.float32) for a in arrays))
    with module.context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "gpu-kernels"), module.context).run(module, REGISTRY)


def rotated(x, cosine, sine):
    half = x.shape[-1] // 2
    turned = flow.cat([-x[..., half:], x[..., :half]], -1)
    return x * cosine + turned * sine


COSINE, SINE, WEIGHT = floats(6, 8, seed=1), floats(6, 8, seed=2), floats(3, 2, 3, 3, seed=3)
#: Functions of a tensor of 4 x 3 x 6 x 8.
PROGRAMS = {
    "from an offset on": lambda x: x[..., 3:],
    "before an offset": lambda x: x[..., :-3],
    "along two axes": lambda x: x[:, :, 2:5, 1:-1],
    "in steps": lambda x: x[..., 1::3],
    "narrow, then exp": lambda x: flow.exp(x.narrow(-1, 2, 4)),
    "split": lambda x: flow.split(x, [3, 5], -1)[1],
    "moved on": lambda x: functional.pad(x[..., 1:], (1, 0)),
    "moved back": lambda x: functional.pad(x[..., 1:], (0, 1)),
    "moved along two axes": lambda x: functional.pad(flow.exp(x[:, :, 2:, :-2]), (2, 0, 0, 2)),
    "cut at the left": lambda x: functional.pad(x, (-1, 2)),
    "cut at the right": lambda x: functional.pad(x, (2, -1)),
    "cut and wider along all": lambda x: functional.pad(x, (-1, 2, 3, -2, 1, 1)),
    "convolved": lambda x: functional.conv2d(flow.relu(x[:, 1:]), flow.tensor(WEIGHT), padding=1),
    "pooled": lambda x: functional.max_pool2d(functional.pad(flow.relu(x[:, :, 2:]), (1, 1, 1, 1)), 2),
    "shifted sums": lambda x: x[..., 2:] * x[..., :-2] + flow.exp(x)[..., 1:-1],
    "rotated": lambda x: rotated(x, flow.tensor(COSINE), flow.tensor(SINE)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_producers_at_shifted_positions_are_fused(name):
    """Values and gradients of both kinds, whose elements all differ."""

    def values(x):
        y, back = flow.vjp(PROGRAMS[name], x)
        return y, *back(y * y)

    assert_equal_on_both(values, floats(4, 3, 6, 8))


#: Borders of two axes: at one side, at another, at all.
BORDERS = [
    (0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 2), (0, 0, 2, 0), (0, 1, 0, 2), (1, 0, 2, 0), (0, 2, 1, 0), (1, 2, 2, 1)
]  # fmt: skip


@pytest.mark.parametrize("border", BORDERS, ids=str)
@pytest.mark.parametrize("shape", [(4, 5), (5, 1), (1, 4)], ids=str)
def test_users_away_from_a_border_read_the_unpadded_tensor(shape, border):
    """A loop is never as long as the larger tensor, which would write past the end of a result."""

    def values(x):
        y = flow.exp(x)
        return functional.pad(y, border), y * 2 + x

    assert_equal_on_both(values, floats(*shape))


SHIFTED = """
func.func @main(%x: tensor<5x8xf32>, %y: tensor<4x6xf32>, %z: tensor<f32>) -> tensor<f32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i + 1, j + 2)>, affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> ()>], iterator_types = ["reduction", "reduction"]}
      ins(%x, %y : tensor<5x8xf32>, tensor<4x6xf32>) outs(%z : tensor<f32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %p = arith.maximumf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}"""


def test_loops_that_read_neighbours_are_not_fused():
    module = ir.Module.parse(SHIFTED, create_context())
    with module.context, ir.Location.unknown():
        collapse_reduction_loops(module, lambda *_: True)
    assert "collapse_shape" not in str(module) and "d0 + 1" in str(module)


SIZE, HEADS, LENGTH = 16, 2, 6


def heads_of(x, weight):
    return (x @ weight).reshape(2, LENGTH, HEADS, SIZE // HEADS).transpose(1, 2)


def block(x, weights, cosine, sine):
    """A layer of a Llama: RMS norm, attention with rotary embeddings, and a gated product."""
    first, q, k, v, out, second, gate, up, down = weights
    normal = x * flow.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * first
    q, k = (rotated(heads_of(normal, w), cosine, sine) for w in (q, k))
    mixed = functional.scaled_dot_product_attention(q, k, heads_of(normal, v), is_causal=True)
    x = x + mixed.transpose(1, 2).reshape(2, LENGTH, SIZE) @ out
    normal = x * flow.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * second
    return x + (functional.silu(normal @ gate) * (normal @ up)) @ down


def test_gradients_of_every_weight_of_a_rotary_model():
    shapes = [(SIZE,), *[(SIZE, SIZE)] * 4, (SIZE,), (SIZE, 32), (SIZE, 32), (32, SIZE)]
    weights = [floats(*shape, seed=i) / shape[0] ** 0.5 for i, shape in enumerate(shapes * 2)]
    angles = np.outer(np.arange(LENGTH), 0.5 ** np.arange(SIZE // HEADS // 2))
    cosine, sine = (f(np.concatenate([angles, angles], -1)).astype(np.float32) for f in (np.cos, np.sin))

    def loss(x, *weights):
        for layer in range(2):
            x = block(x, weights[layer * len(shapes) :][: len(shapes)], flow.tensor(cosine), flow.tensor(sine))
        return (x * x).mean()

    def gradients(x, *weights):
        return flow.grad(loss, argnums=tuple(range(1 + len(weights))))(x, *weights)

    assert_equal_on_both(gradients, floats(2, LENGTH, SIZE), *weights)
