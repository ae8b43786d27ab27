"""Floats of 8 bits: conversions are right for every value, movement keeps bits, arithmetic is refused, files and
exchange.
"""

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import oneflow as flow
from oneflow.runtime.dlpack import ImportedTensor

#: The largest number of each type, and the least that becomes infinity.
FORMATS = {"float8_e4m3fn": (448.0, None), "float8_e5m2": (57344.0, 61440.0)}
WIDE = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
every_format = pytest.mark.parametrize("name", FORMATS)


def codes(name):
    """Every code."""
    return np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name))


def as_doubles(array):
    """An array as f64, without the warnings of signalling NaN."""
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def nearest(values, name):
    """The code of the nearest number, the even one of two; beyond the largest that, or infinity."""
    largest, infinite = FORMATS[name]
    finite = as_doubles(codes(name)[:128])
    numbers = finite[finite <= largest]
    size = np.abs(values)
    at = np.clip(np.searchsorted(numbers, size), 1, len(numbers) - 1)
    with np.errstate(invalid="ignore"):
        low, high = size - numbers[at - 1], numbers[at] - size
    code = np.where((high < low) | ((high == low) & (at % 2 == 0)), at, at - 1)
    code = code if infinite is None else np.where(size >= infinite, 0x7C, code)
    code = np.where(np.isnan(size), 0x7F, code)
    return (code | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)


def around_ties(name, dtype):
    """Numbers, the middle of each two, and the neighbours of the middle, of both signs."""
    numbers = as_doubles(codes(name)[:128])
    numbers = np.append(numbers[np.isfinite(numbers)], 4 * FORMATS[name][0])
    middle = ((numbers[1:] + numbers[:-1]) / 2).astype(dtype)
    near = [np.nextafter(middle, dtype(end)) for end in (0, np.inf)]
    rest = np.array([np.inf, np.nan, 3e38, 1e-38, 0, 464], dtype)
    values = np.concatenate([numbers.astype(dtype), middle, *near, rest])
    return np.concatenate([values, -values])


def assert_same_codes(got, want):
    """Compares codes; NaN, which is 0x7F, may have any sign."""
    np.testing.assert_array_equal(np.where(got == 0xFF, 0x7F, got), np.where(want == 0xFF, 0x7F, want))


def converted(values, name):
    """The codes of an array converted by a compiled program."""
    return flow.compile(lambda x: x.to(getattr(flow, name)))(values).view(np.uint8)


@every_format
@pytest.mark.parametrize("wide", WIDE)
def test_every_code_becomes_its_number(name, wide):
    got = flow.compile(lambda x: x.to(getattr(flow, wide)))(codes(name))
    want = as_doubles(codes(name)).astype(WIDE[wide])
    np.testing.assert_array_equal(as_doubles(got), as_doubles(want))
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@every_format
@pytest.mark.parametrize("wide", ["float16", "bfloat16"])
def test_every_number_of_16_bits_becomes_the_nearest(name, wide):
    every = np.arange(1 << 16, dtype=np.uint16).view(WIDE[wide])
    assert_same_codes(converted(every, name), nearest(as_doubles(every), name))


@every_format
@pytest.mark.parametrize("wide", ["float32", "float64"])
def test_numbers_around_ties_become_the_nearest(name, wide):
    random = np.random.default_rng(0).standard_normal(4096) * np.exp2(
        np.random.default_rng(1).integers(-20, 18, 4096)
    )
    values = np.concatenate([around_ties(name, WIDE[wide]), random.astype(WIDE[wide])])
    want = nearest(as_doubles(values), name)
    assert_same_codes(converted(values, name), want)
    assert_same_codes(flow.tensor(values, dtype=getattr(flow, name)).numpy().view(np.uint8), want)


@every_format
def test_conversions_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")
    values = around_ties(name, np.float32)
    want = torch.from_numpy(values).to(getattr(torch, name)).view(torch.uint8).numpy()
    assert_same_codes(converted(values, name), want)


@every_format
def test_movement_keeps_the_bits_of_nan(name):
    every = codes(name).reshape(16, 16)
    for move in (
        lambda x: x.T.flip(0),
        lambda x: flow.cat([x, x], 1)[:, 8:24],
        lambda x: flow.where(x.T.bool(), x, x),
    ):
        eager = move(flow.tensor(every)).numpy()
        np.testing.assert_array_equal(flow.compile(move)(every).view(np.uint8), eager.view(np.uint8))
        assert sorted(set(eager.view(np.uint8).ravel())) == list(range(256))
    flat = flow.tensor(every[0])
    assert flat.expand(2, 16).diagonal().numpy().view(np.uint8).tolist() == [0, 1]
    view = flow.tensor(every)
    view[1].copy_(view[2])
    assert view.numpy().view(np.uint8)[1].tolist() == list(range(32, 48))


@every_format
def test_types_do_not_promote(name):
    x = flow.zeros(2, dtype=getattr(flow, name))
    for function in (lambda: x + 1, lambda: x + x, lambda: flow.cat([x, x.float()]), lambda: -x, lambda: x.sort()):
        with pytest.raises(flow.OneFlowError, match=rf"f8E\w+|oneflow\.{name}"):
            function()
    with pytest.raises(
        flow.OneFlowError, match=r"not promoted, got oneflow.float8_\w+ and oneflow.float32; convert one with x.to\("
    ):
        flow.add(x, x.float())


@every_format
def test_layers_refuse_floats_of_8_bits(name):
    with pytest.raises(TypeError, match="expected a type of floats such as"):
        flow.set_default_dtype(getattr(flow, name))


@every_format
def test_files_and_exchange(name, tmp_path):
    x = flow.tensor([1.5, -0.25, 0.0], dtype=getattr(flow, name))
    assert repr(x) == f"tensor([ 1.5000, -0.2500,  0.0000], dtype=oneflow.{name})"
    assert x.is_floating_point() and x.element_size() == 1
    assert flow.finfo(x.dtype).max == FORMATS[name][0]
    save_file({"x": x.numpy()}, tmp_path / "a.safetensors")
    loaded = flow.load(tmp_path / "a.safetensors")["x"]
    flow.save({"x": loaded}, tmp_path / "b.safetensors")
    assert {"float8_e4m3fn": b'"F8_E4M3"', "float8_e5m2": b'"F8_E5M2"'}[name] in (
        tmp_path / "b.safetensors"
    ).read_bytes()
    assert flow.load(tmp_path / "b.safetensors")["x"].tolist() == x.tolist()
    assert loaded.dtype == x.dtype and loaded.tolist() == x.tolist()
    assert flow.from_numpy(x.numpy()).dtype == x.dtype
    assert ImportedTensor(x.__dlpack__()).dtype == x.dtype


@every_format
def test_exchange_with_pytorch(name):
    torch = pytest.importorskip("torch", reason="exchanges tensors with PyTorch")
    x = torch.tensor([1.5, -2.0]).to(getattr(torch, name))
    assert flow.as_tensor(x).dtype == getattr(flow, name)
    y = flow.tensor([1.5, -2.0], dtype=getattr(flow, name))
    assert torch.from_dlpack(y).tolist() == x.tolist() == y.tolist()


@every_format
def test_a_gradient_is_converted(name):
    x = flow.tensor([1.5, 3.0], requires_grad=True)
    (x.to(getattr(flow, name)).float() * flow.tensor([1.0, 2.0])).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]


def matrices():
    """Two matrices of 8 bits, as codes; their products and sums are exact in f32."""
    rng = np.random.default_rng(4)
    return [rng.integers(-8, 9, s).astype(ml_dtypes.float8_e4m3fn) for s in ((16, 32), (48, 32))]


SCALES = {"tensor": ((), ()), "rows": ((16, 1), (1, 48))}


@pytest.mark.parametrize("out", ["float32", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("kind", SCALES)
def test_scaled_products(kind, out):
    a, b = map(flow.tensor, matrices())
    rng = np.random.default_rng(5)
    scales = [np.exp2(rng.integers(-5, 0, s)).astype(np.float32) for s in SCALES[kind]]
    bias = np.linspace(-1, 1, 48, dtype=np.float32)
    want = as_doubles(a.numpy()) @ as_doubles(b.numpy()).T * scales[0] * scales[1] + bias
    dtype, scaling = getattr(flow, out), flow.nn.functional.ScalingType
    recipe = scaling.TensorWise if kind == "tensor" else scaling.RowWise
    left, right = map(flow.tensor, scales)
    direct = flow._scaled_mm(a, b.t(), left, right, flow.tensor(bias), out_dtype=dtype)
    named = flow.nn.functional.scaled_mm(
        a, b.t(), left, recipe, right, recipe, bias=flow.tensor(bias), output_dtype=dtype
    )
    assert direct.dtype == named.dtype == dtype
    expected = flow.tensor(want.astype(np.float32)).to(dtype).float().numpy()
    np.testing.assert_allclose(direct.float().numpy(), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(named.float().numpy(), direct.float().numpy())
    if kind == "tensor" and out.startswith("float8"):
        doubled = flow._scaled_mm(a, b.t(), left, right, scale_result=flow.tensor(2.0))
        assert (
            doubled.tolist()
            == (flow._scaled_mm(a, b.t(), left, right, out_dtype=flow.float32) * 2).to(dtype).tolist()
        )


def test_scaled_products_that_are_refused():
    a, b = map(flow.tensor, matrices())
    one, scaling = flow.tensor(1.0), flow.nn.functional.ScalingType
    with pytest.raises(flow.OneFlowError, match=r"expected ScalingType\.TensorWise twice or"):
        flow.nn.functional.scaled_mm(a, b.t(), one, scaling.BlockWise1x32, one, scaling.BlockWise1x32)
    with pytest.raises(flow.OneFlowError, match="expected mat_b of type f8E4M3FN, f8E5M2, got f32"):
        flow._scaled_mm(a, b.t().float(), one, one)
    bias = flow.zeros(48, requires_grad=True)
    with pytest.raises(Exception, match="gradients are converted to 8 bits too"):
        flow._scaled_mm(a, b.t(), one, one, bias, out_dtype=flow.float32).sum().backward()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", SCALES)
def test_scaled_products_of_imported_programs(kind):
    torch = pytest.importorskip("torch", reason="imports programs of PyTorch")
    a, b = (torch.from_numpy(m.view(np.uint8)).view(torch.float8_e4m3fn) for m in matrices())
    left, right = (torch.full(s, 0.25) for s in SCALES[kind])

    class Product(torch.nn.Module):  # type: ignore[name-defined]
        def forward(self, a, b, left, right):
            return torch._scaled_mm(a, b.t(), left, right, out_dtype=torch.bfloat16).to(torch.float8_e5m2)

    want = Product()(a, b, left, right)
    got = flow.from_torch(Product(), (a, b, left, right))(a, b, left, right)
    assert got.view(torch.uint8).tolist() == want.view(torch.uint8).tolist()
