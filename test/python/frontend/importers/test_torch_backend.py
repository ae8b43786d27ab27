"""`torch.compile(.., backend="oneflow")`: inference, training, dynamic sizes, mutation, fallbacks."""

import copy
import math
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
from torch import nn  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402

import oneflow as flow  # noqa: E402
from oneflow.frontend.importers.torch.backend import backend  # noqa: E402
from oneflow.frontend.importers.torch.exchange import to_array, to_tensor  # noqa: E402
from oneflow.frontend.importers.torch.table import ATEN, Row  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def check(wanted, found):
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def step(function, model, x):
    """The loss of a step, all gradients, and the buffers after the step."""
    x = x.clone().requires_grad_()
    loss = function(x).square().mean()
    loss.backward()
    return [loss.detach(), x.grad, *(p.grad for p in model.parameters()), *(b.clone() for b in model.buffers())]


def test_training_steps_of_every_batch_size_need_two_programs_at_most():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    eager = copy.deepcopy(model)
    counters.clear()
    compiled = torch.compile(model, backend=backend)
    for count in (2, 3, 5):
        x = torch.randn(count, 3, 6, 6)
        check(step(eager, eager, x), step(compiled, model, x))
    assert counters["stats"]["unique_graphs"] == 2


def test_sequences_of_every_length_need_two_programs_at_most():
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    eager = copy.deepcopy(model)
    counters.clear()
    compiled = torch.compile(model, backend=backend)
    for length in (4, 6, 9, 3, 12):
        x = torch.randn(2, length, 8)
        with torch.no_grad():
            check(eager(x), compiled(x))
    assert counters["stats"]["unique_graphs"] <= 2


@pytest.mark.parametrize("norm_first, activation", [(True, "gelu"), (False, "relu")])
def test_fused_transformer_encoder_layer(norm_first, activation):
    """PyTorch's shortcut in evaluation mode, with masks of keys and of pairs."""
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, activation=activation, batch_first=True, norm_first=norm_first
    ).eval()
    x, hidden = torch.randn(2, 4, 8), torch.tensor([[False] * 4, [False, False, True, True]])
    causal = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
    compiled = torch.compile(layer, backend="oneflow", options={"fallback": False})
    with torch.no_grad():
        for masks in ({}, {"src_mask": causal}, {"src_key_padding_mask": hidden}):
            check(layer(x, **masks)[:, :2], compiled(x, **masks)[:, :2])


def test_chunks_and_windows_of_any_size():
    def chunks_and_windows(x):
        halves = x.chunk(2, 1)
        return halves[1] - halves[0], x.unfold(0, 2, 1).amax(-1), x.flatten().topk(3)[0]

    compiled = torch.compile(chunks_and_windows, backend="oneflow", dynamic=True, options={"fallback": False})
    for shape in ((3, 4), (5, 6)):
        x = torch.randn(shape)
        check(compiled(x), chunks_and_windows(x))


def test_padding_up_to_a_multiple_of_any_length():
    def padded(x):
        return nn.functional.pad(x, (0, 0, 1, -x.shape[0] % 4), value=2.0).exp()

    compiled = torch.compile(padded, backend="oneflow", dynamic=True, options={"fallback": False})
    for length in (5, 6, 8):
        x = torch.randn(length, 2)
        check(padded(x), compiled(x))


@pytest.mark.parametrize("mode, weighted, padding", [("sum", True, None), ("mean", False, 2), ("sum", False, 0)])
def test_embedding_bags_with_offsets(mode, weighted, padding):
    """Bags without rows, weights of rows, and a row that is left out; with the gradients of both."""
    layer = nn.EmbeddingBag(6, 3, mode=mode, padding_idx=padding)
    eager = copy.deepcopy(layer)
    compiled = torch.compile(layer, backend="oneflow", options={"fallback": False})
    at, offsets = torch.tensor([1, 2, 5, 0, 2, 4]), torch.tensor([0, 2, 2, 5])

    def results(function, model):
        weights = torch.linspace(-1, 2, 6).requires_grad_() if weighted else None
        y = function(at, offsets, weights)
        y.square().sum().backward()
        return [y.detach(), model.weight.grad, *([] if weights is None else [weights.grad])]

    check(results(eager, eager), results(compiled, layer))


def test_embedding_bags_of_any_number_of_rows():
    """Rows of two positions each, of any number."""
    layer = nn.EmbeddingBag(6, 3, mode="mean")
    compiled = torch.compile(layer, backend="oneflow", dynamic=True, options={"fallback": False})
    for count in (2, 4):
        at = torch.arange(2 * count).reshape(count, 2) % 6
        check(layer(at), compiled(at))


def test_maxima_of_embedding_bags_and_triangle_indices():
    layer = nn.EmbeddingBag(6, 3, mode="max")

    def pairs(at, offsets):
        y = layer(at, offsets)
        rows, columns = torch.tril_indices(3, 3, -1)
        return (y @ y.T)[rows, columns], torch.triu_indices(2, 3, 1)

    compiled = torch.compile(pairs, backend="oneflow", options={"fallback": False})
    with torch.no_grad():
        arguments = torch.tensor([1, 2, 5, 0]), torch.tensor([0, 2, 3])
        check(pairs(*arguments), compiled(*arguments))


def test_weight_norm():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2), dim=0)
    eager = copy.deepcopy(layer)
    compiled = torch.compile(layer, backend="oneflow", options={"fallback": False})
    x = torch.randn(4, 3)
    check(step(eager, eager, x), step(compiled, layer, x))


def test_the_last_element_of_a_dynamic_dimension_is_broadcast():
    def decays(x):
        sums = x.cumsum(-1)
        return (sums[..., -1:] - sums).exp()

    compiled = torch.compile(decays, backend="oneflow", dynamic=True, options={"fallback": False})
    for length in (4, 7):
        x = torch.randn(2, length)
        check(decays(x), compiled(x))


def test_arguments_that_a_builder_does_not_take_run_in_eager_pytorch(monkeypatch):
    monkeypatch.setitem(ATEN, "sinh.default", Row(lambda x, missing: x, False))
    with pytest.warns(UserWarning, match=r"sinh\.default: TypeError"):
        check(torch.ones(3).sinh(), torch.compile(torch.sinh, backend="oneflow")(torch.ones(3)))


def test_constants_of_the_graph():
    """A tensor that the function makes is a constant of the graph, whose elements are read while PyTorch traces."""

    def scaled(x):
        return x / torch.sqrt(torch.tensor(8.0, dtype=torch.float) * 2)

    compiled = torch.compile(scaled, backend="oneflow", options={"fallback": False})
    check(scaled(torch.ones(3)), compiled(torch.ones(3)))


def test_mutation_and_aliasing_are_those_of_pytorch():
    def function(x, y):
        x.add_(y)
        return x[1:], (x * 2).T, x

    compiled, y = torch.compile(function, backend=backend), torch.randn(3, 4)
    first = torch.randn(3, 4)
    second = first.clone()
    wanted, found = function(first, y), compiled(second, y)
    check(first, second)
    check(wanted, found)
    assert found[2] is second and found[0]._base is second
    assert [x.stride() for x in found] == [x.stride() for x in wanted]


def test_results_that_are_views_of_one_tensor_share_memory():
    def views(x):
        y, z, w = x.sin(), x.cos(), x.exp()
        first, second = y.split(2, 1)
        return y[0], y.t(), first, second, z[1:], w, w.view(-1), x + 1

    compiled = torch.compile(views, backend="oneflow", options={"fallback": False})
    x = torch.linspace(-1, 1, 16).reshape(4, 4)
    for _ in range(2):
        expected, results = views(x), compiled(x)
        for index, pair in enumerate(zip(expected, results, strict=True)):
            torch.testing.assert_close(*pair, msg=str(index))
            for tensor in (expected, results):
                tensor[index].mul_(2)
        for pair in zip(expected, results, strict=True):
            torch.testing.assert_close(*pair)


def test_results_that_are_views_of_an_input_of_any_size():
    def views(x):
        rows, columns = x.shape
        return (
            x[rows // 2 :, columns // 3 :],
            x.t()[1:],
            x.narrow(0, math.trunc(rows * 0.7), 2).sum(),
            x.sin()[rows // 2 :],
        )

    compiled = torch.compile(views, backend="oneflow", dynamic=True, options={"fallback": False})
    for shape in ((10, 7), (9, 12)):
        x = torch.randn(shape)
        expected, results = views(x), compiled(x)
        check(expected, results)
        assert [r.data_ptr() - x.data_ptr() for r in results[:2]] == [
            e.data_ptr() - x.data_ptr() for e in expected[:2]
        ]


def test_results_share_memory_with_nothing_and_16_bits_are_exchanged_without_a_copy():
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool):
        for tensor in (torch.ones(2, 3).to(dtype), torch.ones(()).to(dtype)):
            array = to_array(tensor)
            assert array.shape == tuple(tensor.shape)
            back = to_tensor(array)
            assert back.dtype == dtype and back.data_ptr() == tensor.data_ptr()
    x = torch.randn(4, 4, dtype=torch.bfloat16)
    check(torch.relu(x), torch.compile(torch.relu, backend=backend)(x))


def test_a_graph_without_counterpart_runs_in_pytorch_and_is_named():
    def function(x):
        return torch.special.i0(x) + 1

    x = torch.ones(3)
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        check(function(x), torch.compile(function, backend=backend)(x))
    assert any("runs in eager PyTorch" in str(w.message) and "i0.default" in str(w.message) for w in noted)
    torch._dynamo.reset()
    strict = torch.compile(function, backend=backend, options={"fallback": False})
    with pytest.raises(Exception, match=r"no counterpart in the dialect: .*i0\.default"):
        strict(x)
    with pytest.raises(Exception, match=r"expected options among \['fallback'\], got \['fast'\]"):
        torch.compile(lambda x: x * 3, backend=backend, options={"fast": True})(x)


def test_graph_breaks_and_results_that_are_not_tensors():
    def function(x):
        y = x * 2
        if y.sum() > 0:
            return y + 1, x.shape[0], None
        return y - 1, 0, "negative"

    compiled = torch.compile(function, backend=backend, dynamic=True)
    for x in (torch.ones(3), -torch.ones(4)):
        wanted, found = function(x), compiled(x)
        check(wanted[0], found[0])
        assert wanted[1:] == found[1:]


def test_dropout_keeps_the_expected_share():
    compiled = torch.compile(nn.Dropout(0.25), backend=backend)
    x = torch.ones(64, 64, requires_grad=True)
    y = compiled(x)
    kept = float((y != 0).float().mean())
    assert 0.7 < kept < 0.8 and not torch.equal(y, compiled(x))
    y.sum().backward()
    check(y.detach(), x.grad)
    assert np.isclose(float(y.max()), 4 / 3)


def test_heads_that_share_keys_of_any_number():
    def attend(q, k, v):
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
        return nn.functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)

    compiled = torch.compile(attend, backend=backend, options={"fallback": False})
    for batch, rows in ((2, 5), (3, 7), (4, 6)):
        inputs = [torch.randn(batch, heads, rows, 8) for heads in (4, 2, 2)]
        leaves = [[x.clone().requires_grad_() for x in inputs] for _ in range(2)]
        for function, given in zip((attend, compiled), leaves, strict=True):
            function(*given).square().sum().backward()
        check(attend(*inputs), compiled(*inputs))
        for wanted, found in zip(*leaves, strict=True):
            check(wanted.grad, found.grad)


#: Indices of a tensor (3, n, 4) with a mask, and the shapes of values for 5 true elements of 12 or 6 of 15.
MASKED = {
    "a number": (lambda m: m, lambda _: ()),
    "a row": (lambda m: m, lambda _: (4,)),
    "one row": (lambda m: m, lambda _: (1, 4)),
    "rows": (lambda m: m, lambda count: (count, 4)),
    "columns": (lambda m: m, lambda count: (count, 1)),
    "elements": (lambda m: m[..., None].expand(3, m.shape[1], 4), lambda count: (4 * count,)),
    "other dimensions before": (lambda m: (slice(None), m.any(0)), lambda _: (3, 1, 4)),
    "each row of each image": (lambda m: (slice(None), m[1]), lambda _: (3, 3, 4)),
    "no values": (lambda m: m & ~m, lambda _: (0, 4)),
}


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("name", MASKED)
def test_values_are_written_where_a_mask_is_true(name, accumulate):
    index, shape = MASKED[name]

    def write(x, mask, values):
        at = index(mask)
        at = tuple(None if isinstance(i, slice) else i for i in at) if isinstance(at, tuple) else (at,)
        return torch.ops.aten.index_put(x, at, values, accumulate)

    compiled = torch.compile(write, backend=backend, dynamic=True, options={"fallback": False})
    for columns, count in ((4, 5), (5, 6)):
        mask = torch.zeros(3, columns, dtype=torch.bool)
        mask[0, 1] = mask[1, :3] = True
        mask[2, : count - 4] = True
        x, values = torch.randn(3, columns, 4), torch.randn(shape(count))
        check(write(x, mask, values), compiled(x, mask, values))


#: Random tensors with the number of rows of `x`, or in the shape of `x`.
RANDOM = {
    "rand": lambda x: torch.rand(x.shape),
    "randn": lambda x: torch.randn(x.shape[0], 3),
    "rand_like": torch.rand_like,
    "randn_like": torch.randn_like,
    "randint": lambda x: torch.randint(10, x.shape),
    "randint from": lambda x: torch.randint(3, 10, x.shape, dtype=torch.float32),
    "randint below a size": lambda x: torch.randint(2, x.shape[1] + 2, x.shape),
    "randint_like": lambda x: torch.randint_like(x, 4),
    "randint_like from": lambda x: torch.randint_like(x, -2, 4, dtype=torch.int32),
    "randperm": lambda x: torch.randperm(2000),
    "randperm of a size": lambda x: torch.randperm(x.shape[0]),
    "normal": lambda x: torch.normal(-1.0, 2.0, (x.shape[0], 3)),
    "normal of means": lambda x: torch.normal(x, 0.5),
    "normal of deviations": lambda x: torch.normal(1.0, x.abs()),
    "normal of both": lambda x: torch.normal(x, x.abs()),
    "normal_": lambda x: torch.empty_like(x).normal_(2.0, 0.5),
    "log_normal_": lambda x: torch.empty_like(x).log_normal_(0.5, 1.5),
    "uniform_": lambda x: torch.empty_like(x).uniform_(1.0, 3.0),
    "exponential_": lambda x: torch.empty_like(x).exponential_(2.0),
    "geometric_": lambda x: torch.empty_like(x).geometric_(0.3),
    "cauchy_": lambda x: torch.empty_like(x).cauchy_(0.5, 2.0),
    "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(torch.sigmoid(x)),
    "multinomial": lambda x: torch.multinomial(torch.tensor([[0.1, 0.6, 0.3]]), 2000, replacement=True),
    "gumbel_softmax": nn.functional.gumbel_softmax,
    "rrelu": lambda x: nn.functional.rrelu(x, training=True),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_tensors_have_the_distribution_of_pytorch(name):
    """The mean of a bounded function of all elements, for two sizes of one program."""
    flow.manual_seed(1)
    compiled = torch.compile(RANDOM[name], backend=backend, dynamic=True, options={"fallback": False})
    for rows in (2000, 3000):
        x = torch.linspace(-1, 2, rows * 3).reshape(rows, 3)
        wanted, found = RANDOM[name](x), compiled(x)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        means = [float(torch.cos(drawn.double()).mean()) for drawn in (wanted, found)]
        assert abs(means[0] - means[1]) < 0.08
        assert not torch.equal(found, compiled(x))


def test_the_gradient_of_a_random_slope_is_the_slope():
    x = torch.linspace(-1, 1, 10).requires_grad_()
    y = torch.compile(lambda v: nn.functional.rrelu(v, 0.1, 0.4, training=True), backend=backend)(x)
    y.sum().backward()
    check(y.detach(), x.detach() * x.grad)
    slopes = x.grad[:5]
    assert slopes.min() >= 0.1 and slopes.max() <= 0.4 and len(slopes.unique()) == 5
    check(torch.ones(5), x.grad[5:])


def test_the_backend_is_found_by_name():
    assert "oneflow" in torch._dynamo.list_backends()
    x = torch.ones(2)
    check(torch.compile(lambda v: v + 1, backend="oneflow")(x), x + 1)


def _spectra(x, y):
    z = torch.fft.rfft(x, norm="ortho") * torch.view_as_complex(y)
    real = torch.fft.irfft(z.conj() + 1j, n=8, norm="forward")
    return real, torch.fft.fft2(z), z.real, torch.stft(x[0], 4, window=y[0, :4, 0], return_complex=True)


def test_complex_numbers_and_fourier_transforms():
    """Values, and the gradient through complex numbers; no graph runs in eager PyTorch."""
    x, y = torch.randn(3, 8), torch.randn(3, 5, 2)
    leaves = [x.clone().requires_grad_() for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        check(_spectra(x, y), torch.compile(_spectra, backend=backend)(x, y))
        for leaf, function in zip(leaves, (_spectra, torch.compile(_spectra, backend=backend)), strict=True):
            sum(r.abs().sum() for r in function(leaf, y)).backward()
    check(leaves[0].grad, leaves[1].grad)
