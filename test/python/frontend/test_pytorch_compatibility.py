"""Calls that PyTorch and OneFlow take: equal values and gradients, in eager mode and compiled."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn
from oneflow.frontend.tracing.callables import bind
from oneflow.frontend.tracing.trace import trace_call

F = nn.functional
WAYS = pytest.mark.parametrize("wrapped", [lambda f: f, flow.compile], ids=["eager", "compiled"])


def test_arrays_of_tensors_with_gradients():
    x = flow.tensor([1.0, 2.0], requires_grad=True)
    assert x.numpy().tolist() == np.asarray(x).tolist() == [1, 2]
    assert (x * 2).numpy().tolist() == [2, 4]
    assert np.shares_memory(x.numpy(), x.detach().numpy())
    assert x.requires_grad


@WAYS
def test_gradients_of_other_types(wrapped):
    w = nn.Parameter(np.ones(2, np.float32))

    def step(x, weight):
        (w * x).backward(weight)
        return w.grad

    found = wrapped(step)(flow.tensor([2.0, 3.0]), flow.tensor(np.array([10.0, 1.0])))
    assert found.dtype == w.grad.dtype == flow.float32 and w.grad.tolist() == [20, 3]
    wrapped(step)(flow.tensor([2.0, 3.0]), flow.tensor([1, 2]))
    assert w.grad.tolist() == [22, 9]
    for wrong in (flow.ones(2, dtype=flow.complex64), flow.ones(3)):
        with pytest.raises(RuntimeError, match=r"expected a gradient of type tensor<2xf32>, got tensor<"):
            wrapped(step)(flow.tensor([2.0, 3.0]), wrong)


def test_cotangents_of_other_float_types():
    x = flow.tensor([1.0, 2.0], requires_grad=True)
    weight = flow.tensor([1.0, 10.0]).to(flow.float16)
    assert flow.vjp(lambda x: x * 2, x)[1](weight).tolist() == [2, 20]
    (found,) = flow.autograd.grad(x * 2, x, weight)
    assert found.dtype == flow.float32 and found.tolist() == [2, 20]


#: Functions whose gradients read no values, or constants alone.
REPEATED = {
    "add": lambda a: a + 1, "sub": lambda a: 1 - a, "neg": lambda a: -a, "sum": lambda a: a.sum(),
    "view": lambda a: a.view(3, 1), "permute": lambda a: a.view(3, 1).permute(1, 0), "clone": lambda a: a.clone(),
    "cat": lambda a: flow.cat([a, a]), "pad": lambda a: F.pad(a, (1, 1)), "cumsum": lambda a: a.cumsum(0),
    "expand": lambda a: a.expand(2, 3), "mean": lambda a: a.mean(), "slice": lambda a: a[1:],
    "select": lambda a: a[0], "fmod": lambda a: flow.fmod(a, 2.0), "multiple": lambda a: a * 2,
    "interpolate": lambda a: F.interpolate(a.view(1, 1, 3), scale_factor=2),
    "constant operand": lambda a: a * flow.ones(3),
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATED)
def test_backward_again_where_no_values_are_kept(name):
    a = flow.ones(3, requires_grad=True)
    b = REPEATED[name](a)
    b.sum().backward()
    once = a.grad.numpy().copy()
    b.sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), 2 * once)
    assert once.any()


def test_backward_again_where_values_are_kept():
    a = flow.ones(3, requires_grad=True)
    b = (a * a) + 1
    b.sum().backward()
    with pytest.raises(RuntimeError, match=r"backward through oneflow\.broadcast_mul a second time"):
        b.sum().backward()


def test_tensors_by_their_class():
    assert flow.Tensor([1, 2], device="cpu").tolist() == [1.0, 2.0]
    assert flow.Tensor(2, 3, device="cpu").shape == (2, 3)
    x = flow.tensor([1, 2])
    copied = flow.Tensor(x, device="cpu")
    x.fill_(7)
    assert copied.tolist() == [1.0, 2.0] and copied.dtype == flow.float32
    assert flow.Tensor([1.0], requires_grad=True).requires_grad


@WAYS
def test_cat_leaves_out_empty_vectors(wrapped):
    joined = wrapped(lambda *xs: flow.cat(list(xs), -1))
    nothing, x = np.zeros(0, np.float64), np.ones((2, 3), np.float32)
    found = joined(flow.tensor(nothing), flow.tensor(x), flow.tensor(x))
    assert found.shape == (2, 6) and found.dtype == flow.float64
    assert joined(flow.tensor(nothing), flow.tensor(nothing)).shape == (0,)
    with pytest.raises(flow.OneFlowError, match="expected axis 0 of in 1 to be 0, got 2"):
        joined(flow.tensor(np.zeros((0, 1))), flow.tensor(x))


#: Operands, and the quotients rounded down and towards 0.
QUOTIENTS = [
    (np.array([7, -7, 5]), np.array([2, 2, -2]), [3, -4, -3], [3, -3, -2]),
    (np.array([7, -7, 5.5], np.float32), np.array([2, 2, -2]), [3, -4, -3], [3, -3, -2]),
    (np.array([7, -7]), 2, [3, -4], [3, -3]),
    (np.array([7, -7]), 2.5, [2, -3], [2, -2]),
    (7, np.array([2, -2]), [3, -4], [3, -3]),
    (np.array([7, -7], np.float32), 0.0, [np.inf, -np.inf], [np.inf, -np.inf]),
    (np.array([2**30 + 1], np.int32), np.array([1], np.int32), [2**30 + 1], [2**30 + 1]),
]


@WAYS
@pytest.mark.parametrize("x,y,down,to_zero", QUOTIENTS)
def test_rounded_quotients(x, y, down, to_zero, wrapped):
    given = [flow.tensor(v) for v in (x, y) if isinstance(v, np.ndarray)]

    def quotient(*tensors, mode):
        left = iter(tensors)
        a, b = (next(left) if isinstance(v, np.ndarray) else v for v in (x, y))
        return flow.div(a, b, rounding_mode=mode)

    floats = any(np.asarray(v).dtype.kind == "f" for v in (x, y))
    for mode, want in (("floor", down), ("trunc", to_zero)):
        found = wrapped(lambda *t, mode=mode: quotient(*t, mode=mode))(*given)
        np.testing.assert_array_equal(found.numpy(), want)
        assert found.dtype.is_float == floats
    with np.errstate(divide="ignore"):
        want = np.divide(x, y)
    np.testing.assert_allclose(wrapped(lambda *t: quotient(*t, mode=None))(*given).numpy(), want, 1e-6)


def test_gradients_and_errors_of_rounded_quotients():
    x = flow.tensor([7.0, -7.0], requires_grad=True)
    for mode in ("floor", "trunc"):
        assert flow.autograd.grad(x.div(2.0, rounding_mode=mode).sum(), x)[0].tolist() == [0, 0]
    with pytest.raises(flow.OneFlowError, match='rounding_mode to be None, "floor" or "trunc", got \'ceil\''):
        flow.div(x, 2, rounding_mode="ceil")
    n = flow.tensor([7, -7])
    assert n.div_(2, rounding_mode="trunc") is n and n.tolist() == [3, -3]


@pytest.mark.parametrize("shape", [(20, 30), (20, 30, 4), (20, 30, 2, 2), (20, 30, 2, 1, 2)])
def test_dropout_of_channels(shape):
    found = nn.Dropout2d(0.5)(flow.ones(*shape)).numpy().reshape(20, 30, -1)
    assert (found == found[:, :, :1]).all()
    assert {0.0, 2.0} == set(found.ravel()) and 0.4 < found.mean() / 2 < 0.6


def test_dropout_of_tensors_without_channels():
    with pytest.raises(flow.OneFlowError, match="expected a tensor of 2 or 3 or 4 or 5 dimensions for dropout2d"):
        F.dropout2d(flow.ones(3))


#: Options, [[1, 2, 4], [8, 16, 32]] in another size, and the gradient of that weighted by 1, 2, 3, ..: PyTorch's.
IMAGES: dict[str, Any] = {
    "bicubic": (
        {"size": (3, 2), "mode": "bicubic"},
        [0.45366746, 1.4054497, 5.203125, 16.11914, 9.952581, 30.83283],
        [1.5366223, 1.5194236, 2.7495134, 5.0024414, 3.9766705, 6.2153316],
    ),
    "bicubic, corners": (
        {"size": (3, 2), "mode": "bicubic", "align_corners": True}, [1, 4, 4.5, 18, 8, 32], [2.5, 0, 4, 6.5, 0, 8],
    ),
    "nearest-exact": (
        {"scale_factor": 1.5, "mode": "nearest-exact"}, [1, 2, 2, 4, 8, 16, 16, 32, 8, 16, 16, 32],
        [1, 5, 4, 14, 34, 20],
    ),
}  # fmt: skip


@WAYS
@pytest.mark.parametrize("name", IMAGES)
def test_interpolation(name, wrapped):
    options, want, grad = IMAGES[name]
    x = nn.Parameter(np.array([[[[1, 2, 4], [8, 16, 32]]]], np.float32))

    def step():
        y = F.interpolate(x, **options)
        y.backward(flow.arange(1, y.numel() + 1).float().reshape(y.shape))
        return y

    np.testing.assert_allclose(wrapped(step)().numpy().ravel(), want, 1e-5)
    np.testing.assert_allclose(x.grad.numpy().ravel(), grad, 1e-5, 1e-6)
    np.testing.assert_allclose(nn.Upsample(**options)(x).numpy().ravel(), want, 1e-5)


@pytest.mark.parametrize("mode", ["bicubic", "nearest-exact"])
@pytest.mark.parametrize("scale", [0.5, 0.7, 1.3, 2, 3])
def test_interpolation_like_pytorch(mode, scale):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")
    x = np.random.default_rng(3).normal(size=(2, 2, 5, 7)).astype(np.float32)
    theirs = torch.tensor(x, requires_grad=True)
    want = torch.nn.functional.interpolate(theirs, scale_factor=scale, mode=mode)
    (want * want).sum().backward()
    ours = flow.tensor(x, requires_grad=True)
    found = F.interpolate(ours, scale_factor=scale, mode=mode)
    (found * found).sum().backward()
    np.testing.assert_allclose(found.numpy(), want.detach().numpy(), 1e-4, 1e-4)
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), 1e-4, 1e-4)


def test_modes_of_interpolation():
    with pytest.raises(flow.OneFlowError, match="expected mode nearest, nearest-exact, area or linear"):
        F.interpolate(flow.ones(1, 1, 3), 2, mode="bicubic")
    with pytest.raises(
        flow.OneFlowError, match="no align_corners for mode 'nearest-exact': align_corners is for bilinear and bi"
    ):
        F.interpolate(flow.ones(1, 1, 3, 3), 2, mode="nearest-exact", align_corners=True)


@WAYS
def test_view_does_not_copy(wrapped):
    x = flow.tensor(np.arange(24.0).reshape(2, 3, 4))

    def written(x):
        x.transpose(0, 1).view(3, 2, 2, 2)[0, 1, 1, 0] = 100
        return x

    assert wrapped(written)(x).numpy()[1, 0, 2] == 100
    for shape in ((24,), (-1, 4), (6, 4)):
        with pytest.raises(flow.OneFlowError, match=r"in memory too.*write reshape"):
            wrapped(lambda x, shape=shape: x.transpose(0, 1).view(shape))(x)
    assert wrapped(lambda x: x.transpose(0, 1).reshape(6, 4))(x).numpy()[0, 3] == 3
    assert wrapped(lambda x: x[:0].transpose(0, 1).view(-1))(x).shape == (0,)
    assert wrapped(lambda x: x.transpose(0, 1).contiguous().view(6, 4))(x).numpy()[1, 0] == 12


def test_view_of_dynamic_sizes():
    cut = flow.compile(lambda x: x.transpose(0, 1).view(3, -1), specs=[flow.TensorSpec((None, 3), flow.float32)])
    assert cut(np.arange(6, dtype=np.float32).reshape(2, 3)).tolist() == [[0, 3], [1, 4], [2, 5]]


@WAYS
def test_device_of_a_tensor(wrapped):
    x, like = flow.tensor([1.0, 2.0]), flow.tensor([1, 2])
    assert wrapped(lambda x: x.to("cpu") + x.cpu() + flow.ones(2, device=x.device))(x).tolist() == [3, 5]
    for to in (
        lambda x: x.to("cpu", flow.int64),
        lambda x: x.to(device=flow.device("cpu"), dtype=flow.int64),
        lambda x: x.to(like),
    ):
        assert wrapped(to)(x).dtype == flow.int64
    with pytest.raises(flow.OneFlowError, match=r"element type such as flow\.float32, or a device, got 3"):
        wrapped(lambda x: x.to(3))(x)


def test_devices_in_traced_functions(monkeypatch):
    with pytest.raises(flow.OneFlowError, match=r"expected the device cpu, on which the function runs, got cuda:1"):
        flow.compile(lambda x: x.to("cuda:1"))(np.ones(2, np.float32))
    spec, cuda = flow.TensorSpec((2,), flow.float32), flow.device("cuda")
    captured = flow.ones(2)
    assert trace_call(lambda x: x.cuda() + 1, bind(lambda x: x, [spec], {}), "f", 0, None, cuda).device == cuda
    monkeypatch.setattr("oneflow.frontend.tracing.capture.device_of_captures", lambda of: "cuda" if of else None)
    assert trace_call(lambda x: (x + captured).cuda(), bind(lambda x: x, [spec], {}), "f", 0).device == cuda
    with pytest.raises(flow.OneFlowError, match="asked for its device before it read a tensor on cuda:0"):
        trace_call(lambda x: x.cpu() + captured, bind(lambda x: x, [spec], {}), "f", 0)


@WAYS
@pytest.mark.parametrize("need_weights", [False, True])
def test_attention_of_a_masked_batch(wrapped, need_weights):
    """Keys that are all padding: the attention result is 0 before the projection, and has no gradient."""
    layer = nn.MultiheadAttention(4, 2, bias=False, batch_first=True)
    x = nn.Parameter(np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32))
    padding = flow.tensor([[False, False, True], [True, True, True]])

    def step():
        y, weights = layer(x, x, x, key_padding_mask=padding, need_weights=need_weights)
        (y * y).sum().backward()
        return (y,) if weights is None else (y, weights)

    for found in (*wrapped(step)(), x.grad):
        assert found.numpy()[0].any() and not found.numpy()[1].any()
    assert all(np.isfinite(p.grad.numpy()).all() for p in layer.parameters())


#: Calls with numbers that PyTorch refuses.
OUT_OF_RANGE = {
    "beta": lambda x: F.smooth_l1_loss(x, -x, beta=-1.0), "delta": lambda x: F.huber_loss(x, -x, delta=0.0),
    "margin": lambda x: F.triplet_margin_loss(x, x, x, margin=0.0), "alpha": lambda x: F.celu(x, 0.0),
    "min_val": lambda x: F.hardtanh(x, 1.0, 0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_numbers_out_of_range(name):
    with pytest.raises(flow.OneFlowError, match=f"expected {name} "):
        OUT_OF_RANGE[name](flow.ones(2, 3))


def test_settings_of_optimizers_out_of_range():
    with pytest.raises(ValueError, match="expected alpha of at least 0, got -1"):
        flow.optim.RMSprop([nn.Parameter(np.ones(2, np.float32))], alpha=-1.0)


#: Views of a cube that are neither slices nor reshapes, as NumPy functions.
WINDOWS = np.lib.stride_tricks.sliding_window_view
STRIDED = {
    "diagonal": (lambda x: x.diagonal(), lambda a: np.einsum("iij->ji", a)),
    "upper": (lambda x: flow.diagonal(x, 1, 2, 0), lambda a: np.einsum("iji->ji", a[1:, :, :-1])),
    "of the turned": (lambda x: x.transpose(0, 1)[1:].diagonal(-1), lambda a: np.einsum("iij->ji", a[:1, 2:])),
    "windows": (lambda x: x.unfold(2, 2, 2), lambda a: WINDOWS(a, 2, 2, writeable=True)[:, :, ::2]),
}  # fmt: skip


@WAYS
@pytest.mark.parametrize("name", STRIDED)
def test_updates_of_strided_views(name, wrapped):
    taken, of_numpy = STRIDED[name]
    x, want = flow.tensor(np.arange(27.0).reshape(3, 3, 3)), np.arange(27.0).reshape(3, 3, 3)

    def updated(x):
        part = taken(x)
        x.add_(1)
        part.mul_(-2)
        return part * 1

    found = wrapped(updated)(x)
    want += 1
    of_numpy(want)[...] *= -2
    np.testing.assert_array_equal(x.numpy(), want)
    np.testing.assert_array_equal(found.numpy(), of_numpy(want))
    with pytest.raises((RuntimeError, flow.OneFlowError), match="several elements are one in memory"):
        wrapped(lambda x: x.unfold(0, 2, 1).mul_(2))(x)
