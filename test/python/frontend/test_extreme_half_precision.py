"""Reductions, norms and losses of f16 and bf16 at the ends of the range: PyTorch's f64 values, rounded once.

Rows are of the largest numbers of f16, of numbers whose squares f16 rounds to 0, of both, of numbers whose
distance from 0 is large against the differences, and of zeros; rows of bf16 are beyond the range of f16.
"""

import numpy as np
import pytest

import oneflow as flow
from oneflow.testing.host_cuda import host_cuda

torch = pytest.importorskip("torch")

SHAPE = (6, 40)


def rows(kind):
    draw = np.random.default_rng(0)
    x = draw.uniform(0.5, 1, SHAPE) * draw.choice([-1, 1], SHAPE)
    scale = {"float16 large": 6e4, "float16 tiny": 4e-6, "bfloat16 large": 1e12, "bfloat16 tiny": 1e-16}.get(kind)
    if scale is not None:
        return x * scale
    if kind.endswith("mixed"):
        return x * np.where(np.arange(SHAPE[1]) % 2, 6e4, 1e-6)
    return 3e4 + x * 200 if kind.endswith("apart") else x * 0


KINDS = [
    f"{dtype} {kind}" for dtype in ("float16", "bfloat16") for kind in ("large", "tiny", "mixed", "apart", "zero")
]
#: The relative tolerance, and the absolute tolerance for numbers below the least normal number of f16.
TOLERANCE = {"float16": (2e-3, 1.2e-7), "bfloat16": (1.6e-2, 1e-7)}


def f(lib):
    return lib.nn.functional


FUNCTIONS = {
    "sum": lambda lib, x: x.sum(-1), "sum of columns": lambda lib, x: x.sum(0), "mean": lambda lib, x: x.mean(-1),
    "mean of all": lambda lib, x: x.mean(), "prod": lambda lib, x: x.prod(-1),
    "var": lambda lib, x: x.var(-1), "var of columns": lambda lib, x: x.var(0), "var of all": lambda lib, x: x.var(),
    "std": lambda lib, x: x.std(-1), "std of columns": lambda lib, x: x.std(0),
    "std of the turned": lambda lib, x: x.t().std(0),
    "norm": lambda lib, x: x.norm(2, -1), "norm of columns": lambda lib, x: x.norm(2, 0),
    "norm 1": lambda lib, x: x.norm(1, -1), "norm 3": lambda lib, x: x.norm(3, -1),
    "norm inf": lambda lib, x: x.norm(float("inf"), -1),
    "logsumexp": lambda lib, x: lib.logsumexp(x, -1), "softmax": lambda lib, x: lib.softmax(x, -1),
    "softmax of columns": lambda lib, x: lib.softmax(x, 0), "log_softmax": lambda lib, x: lib.log_softmax(x, -1),
    "cumsum": lambda lib, x: lib.cumsum(x, -1),
    "layer_norm": lambda lib, x: f(lib).layer_norm(x, SHAPE[1:]),
    "rms_norm": lambda lib, x: f(lib).rms_norm(x, SHAPE[1:], eps=1e-5),
    "group_norm": lambda lib, x: f(lib).group_norm(x.reshape(3, 2, 40), 2),
    "instance_norm": lambda lib, x: f(lib).instance_norm(x.reshape(3, 2, 40)),
    "batch_norm": lambda lib, x: f(lib).batch_norm(x, None, None, training=True),
    "batch_norm of images": lambda lib, x: f(lib).batch_norm(x.reshape(3, 2, 40), None, None, training=True),
    "local_response_norm": lambda lib, x: f(lib).local_response_norm(x.reshape(1, 6, 40), 3),
    "normalize": lambda lib, x: f(lib).normalize(x, dim=-1),
    "normalize columns": lambda lib, x: f(lib).normalize(x, dim=0),
    "normalize 1": lambda lib, x: f(lib).normalize(x, p=1, dim=-1),
    "normalize 3": lambda lib, x: f(lib).normalize(x, p=3, dim=-1),
    "cosine_similarity": lambda lib, x: f(lib).cosine_similarity(x, -x, dim=-1),
    "cosine_similarity of columns": lambda lib, x: f(lib).cosine_similarity(x, x.flip(0), dim=0),
    "cosine_similarity of pairs": lambda lib, x: f(lib).cosine_similarity(x[:, None], x.abs()[None], dim=-1),
    "cosine_embedding_loss": lambda lib, x: f(lib).cosine_embedding_loss(x, -x, lib.ones(6).to(x.dtype)),
    "pairwise_distance": lambda lib, x: f(lib).pairwise_distance(x, -x),
    "triplet_margin_loss": lambda lib, x: f(lib).triplet_margin_loss(x, -x, x.flip(0)),
    "cross_entropy": lambda lib, x: f(lib).cross_entropy(x, lib.tensor(np.arange(6))),
    "mse_loss": lambda lib, x: f(lib).mse_loss(x, lib.zeros_like(x)),
    "mse_loss of one": lambda lib, x: f(lib).mse_loss(x * (x.abs() < 1) + 300.0, lib.full_like(x, 300.0)),
    "l1_loss": lambda lib, x: f(lib).l1_loss(x, -x), "huber_loss": lambda lib, x: f(lib).huber_loss(x, -x),
    "smooth_l1_loss": lambda lib, x: f(lib).smooth_l1_loss(x, -x),
    "avg_pool1d": lambda lib, x: f(lib).avg_pool1d(x.reshape(1, 6, 40), 4),
    "adaptive_avg_pool1d": lambda lib, x: f(lib).adaptive_avg_pool1d(x.reshape(1, 6, 40), 5),
    "matmul": lambda lib, x: lib.matmul(x, x.t()), "linear": lambda lib, x: f(lib).linear(x, x),
    "amax": lambda lib, x: x.amax(-1), "amin": lambda lib, x: x.amin(0),
}  # fmt: skip


def given(kind):
    """The rows as a tensor of PyTorch, and in f32, which both types are exact in."""
    x = torch.tensor(rows(kind)).to(getattr(torch, kind.split()[0]))
    return x, x.float().numpy()


def check(kind, name, got):
    x, _ = given(kind)
    want = FUNCTIONS[name](torch, x.double()).to(x.dtype).double().numpy()
    rtol, atol = TOLERANCE[kind.split()[0]]
    np.testing.assert_allclose(np.array(got.to(flow.float64).tolist()), want, rtol, atol, err_msg=f"{name} of {kind}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_extreme_values_in_eager_mode(name, kind):
    x = flow.tensor(given(kind)[1]).to(getattr(flow, kind.split()[0]))
    check(kind, name, FUNCTIONS[name](flow, x))


@pytest.mark.parametrize("name", ["norm", "var", "rms_norm", "layer_norm", "normalize", "mse_loss"])
@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_squares_of_bf16_beyond_the_range_of_f32_are_those_of_f32(name, scale):
    """bf16 has the range of f32 and is computed in f32: where f32 overflows or underflows, bf16 does so too."""
    x = flow.tensor(rows("zero") + scale).to(flow.bfloat16)
    got, want = (FUNCTIONS[name](flow, y).to(flow.float32).numpy() for y in (x, x.to(flow.float32)))
    np.testing.assert_allclose(got, want, 1e-2, 1e-30)


VARIANCES = ["var", "var of all", "std", "std of columns"]


def spread(dtype, scale):
    """Rows of the type `dtype` between -scale and scale: in f64 for PyTorch, and as a leaf."""
    x = torch.tensor(np.random.default_rng(1).uniform(-scale, scale, SHAPE)).to(getattr(torch, dtype)).double()
    return x.requires_grad_(), flow.tensor(x.detach().numpy()).to(getattr(flow, dtype)).requires_grad_()


@pytest.mark.parametrize(("dtype", "rtol"), [("bfloat16", 1.6e-2), ("float32", 1e-5)])
@pytest.mark.parametrize("scale", [1e-30, 1e20, 3e38])
def test_variances_are_computed_in_f64(dtype, rtol, scale):
    """A standard deviation and its gradient are in range where the elements are; squares may not be."""
    x, leaf = spread(dtype, scale)
    for name in VARIANCES:
        want, got = FUNCTIONS[name](torch, x), FUNCTIONS[name](flow, leaf)
        np.testing.assert_allclose(got.double().tolist(), want.float().tolist(), rtol, 1e-45, err_msg=name)
        leaf.grad = None
        got.sum().backward()
        slope = torch.autograd.grad(want.sum(), x)[0].float().numpy()
        np.testing.assert_allclose(leaf.grad.float().numpy(), slope, rtol, rtol * np.abs(slope).max(), err_msg=name)


def test_variances_are_computed_in_f64_in_programs():
    x, leaf = spread("float32", 1e30)
    results = flow.compile(lambda x: [FUNCTIONS[name](flow, x) for name in VARIANCES])(leaf.detach())
    for name, got in zip(VARIANCES, results, strict=True):
        np.testing.assert_allclose(got.tolist(), FUNCTIONS[name](torch, x).float().tolist(), 1e-5, err_msg=name)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", ["cosine_similarity", "cosine_similarity of columns", "batch_norm"])
def test_overflows_equal_those_of_pytorch(name, dtype):
    """A length or a variance that overflows divides to 0."""
    x = torch.tensor(rows("float16 zero") + np.linspace(1e20, 3e20, SHAPE[0])[:, None]).to(getattr(torch, dtype))
    got = FUNCTIONS[name](flow, flow.tensor(x.float().numpy()).to(getattr(flow, dtype)))
    want = FUNCTIONS[name](torch, x).double().numpy()
    assert not want.any()
    np.testing.assert_array_equal(got.double().numpy(), want)


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_values_on_a_device(kind, tmp_path, monkeypatch):
    """All functions in one program of kernels, which Triton's interpreter runs."""
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    with host_cuda():
        x = flow.tensor(given(kind)[1]).to(getattr(flow, kind.split()[0])).to("cuda")
        run = flow.compile(lambda x: [function(flow, x) for function in FUNCTIONS.values()])
        for name, got in zip(FUNCTIONS, run(x), strict=True):
            check(kind, name, got)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_epsilon_of_rms_norm_is_that_of_the_type_that_it_computes_in(dtype):
    x = rows("float16 tiny") * 10
    got = flow.nn.functional.rms_norm(flow.tensor(x).to(getattr(flow, dtype)), SHAPE[1:])
    want = torch.nn.functional.rms_norm(torch.tensor(x).to(getattr(torch, dtype)), SHAPE[1:])
    np.testing.assert_allclose(
        got.double().tolist(), want.double().tolist(), TOLERANCE.get(dtype, (1e-5, 0))[0], 1e-7
    )
