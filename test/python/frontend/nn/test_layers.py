"""Layers against NumPy: values, statistics, initial distributions, gradients."""

import math
import re

import numpy as np
import pytest
from scipy import special

import oneflow as flow
from oneflow import nn

RNG = np.random.default_rng(2)


def drawn(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def call(layer, *arrays):
    """The result of a layer, eager, which the compiled one has to equal."""
    result = layer(*map(flow.tensor, arrays)).detach().numpy()
    np.testing.assert_allclose(flow.compile(layer)(*arrays).detach().numpy(), result, 1e-5, 1e-6)
    return result


def value(parameter):
    return parameter.detach().numpy().astype(np.float64)


def randomized(layer):
    for p in layer.parameters():
        p.overwrite(drawn(*p.shape), "test")
    return layer


def close(got, want):
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)


def test_linear():
    layer = nn.Linear(3, 4)
    assert layer.weight.shape == (4, 3) and layer.bias.shape == (4,)
    x = drawn(2, 5, 3)
    close(call(layer, x), x @ value(layer.weight).T + value(layer.bias))
    assert nn.Linear(3, 4, bias=False).bias is None


def test_convolutions():
    x = drawn(2, 4, 7, 6)
    layer = nn.Conv2d(4, 6, (3, 2), stride=2, padding=1, groups=2)
    w, padded = value(layer.weight), np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), (2, 3))[:, :, ::2, ::2]
    parts = [np.einsum("nchwij,ocij->nohw", windows[:, 2 * g : 2 * g + 2], w[3 * g : 3 * g + 3]) for g in range(2)]
    close(call(layer, x), np.concatenate(parts, 1) + value(layer.bias)[:, None, None])
    assert layer.weight.shape == (6, 2, 3, 2)
    line = nn.Conv1d(4, 2, 3)
    windows = np.lib.stride_tricks.sliding_window_view(x[:, :, 0], 3, 2)
    close(call(line, x[:, :, 0]), np.einsum("ncli,oci->nol", windows, value(line.weight)) + value(line.bias)[:, None])
    for groups in (2, 0):
        with pytest.raises(ValueError, match="expected channels that groups divides"):
            nn.Conv2d(3, 4, 1, groups=groups)
    for kernel in (0, (3,)):
        with pytest.raises(ValueError, match="expected kernel_size of 2 numbers of at least 1"):
            nn.Conv2d(3, 4, kernel)
    with pytest.raises(ValueError, match="expected num_groups to divide 4 channels, got 0"):
        nn.GroupNorm(0, 4)


def test_embedding():
    layer = nn.Embedding(6, 3, padding_idx=-1)
    index = np.array([[0, 5], [2, 2]])
    close(call(layer, index), value(layer.weight)[index])
    assert not value(layer.weight)[5].any()
    layer(flow.tensor(index)).sum().backward()
    assert layer.weight.grad.tolist() == [[1] * 3, [0] * 3, [2] * 3, [0] * 3, [0] * 3, [0] * 3]
    rows = flow.tensor(drawn(2, 3))
    assert nn.Embedding(2, 3, _weight=rows).weight.tolist() == rows.tolist()
    with pytest.raises(ValueError, match=r"expected _weight of shape \(3, 3\), got tensor<2x3xf32>"):
        nn.Embedding(3, 3, _weight=rows)


def normalized(x, axes, eps=1e-5):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_layer_and_group_norm():
    x = drawn(2, 6, 4)
    layer = randomized(nn.LayerNorm(4))
    close(call(layer, x), normalized(x, -1) * value(layer.weight) + value(layer.bias))
    group = randomized(nn.GroupNorm(3, 6))
    want = normalized(x.reshape(2, 3, 8), -1).reshape(x.shape)
    close(call(group, x), want * value(group.weight)[:, None] + value(group.bias)[:, None])
    rms = randomized(nn.RMSNorm(4))
    close(call(rms, x), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * value(rms.weight))


@pytest.mark.parametrize("momentum", [0.3, None])
def test_batch_norm(momentum):
    layer = randomized(nn.BatchNorm2d(3, momentum=momentum))
    mean, var = np.zeros(3), np.ones(3)
    w, b = (value(p)[:, None, None] for p in (layer.weight, layer.bias))
    compiled = flow.compile(layer)
    for count in range(1, 4):
        x = drawn(4, 3, 2, 2) + count
        got = (layer(flow.tensor(x)) if count < 3 else compiled(x)).detach().numpy()
        close(got, normalized(x, (0, 2, 3)) * w + b)
        share = 1 / count if momentum is None else momentum
        mean += share * (x.mean((0, 2, 3)) - mean)
        var += share * (x.var((0, 2, 3), ddof=1) - var)
    close(layer.running_mean.numpy(), mean)
    close(layer.running_var.numpy(), var)
    assert layer.num_batches_tracked.item() == 3
    layer.eval()
    mean, var = mean[:, None, None], var[:, None, None]
    close(call(layer, x), (x - mean) / np.sqrt(var + 1e-5) * w + b)
    assert layer.num_batches_tracked.item() == 3


@pytest.mark.parametrize("dtype", [flow.float16, flow.bfloat16])
def test_batch_norm_of_half_precision_has_statistics_of_its_type(dtype):
    layer, wide = nn.BatchNorm2d(3).to(dtype), nn.BatchNorm2d(3)
    x = flow.tensor(drawn(4, 3, 5, 5) + 1, dtype=dtype)
    for _ in range(2):
        (got, want) = layer(x), wide(x.float())
    (got * got).sum().backward()
    (want * want).sum().backward()
    layer.eval(), wide.eval()
    pairs = [(got, want), (layer(x), wide(x.float())), (layer.weight.grad, wide.weight.grad)]
    pairs += [(layer.running_mean, wide.running_mean), (layer.running_var, wide.running_var)]
    for mine, theirs in pairs:
        assert mine.dtype == dtype
        np.testing.assert_allclose(mine.detach().float().numpy(), theirs.detach().numpy(), rtol=2e-2, atol=2e-2)


def test_training_of_batch_norm_is_one_operator_each_way_and_keeps_no_operand_of_relu():
    layer = randomized(nn.BatchNorm2d(3)).to(flow.bfloat16)
    leaf = flow.tensor(drawn(4, 3, 5, 5), dtype=flow.bfloat16)

    def step(x):
        layer.zero_grad()
        y = flow.relu(layer(x))
        (y * y).sum().backward()
        return layer.weight.grad

    compiled = flow.compile(step)
    close(compiled(leaf).float().numpy(), step(leaf).float().numpy())
    text = compiled.ir("oneflow")
    assert text.count('"oneflow.normalization"') == text.count('"oneflow.normalization_grad"') == 1
    (normalized,) = re.findall(r'= "oneflow.relu"\((%.*)\) :', text)
    assert len(re.findall(rf"{normalized}\b", text)) == 1


@pytest.mark.parametrize(
    "name,rank", [("BatchNorm1d", 4), ("BatchNorm2d", 2), ("BatchNorm2d", 3), ("BatchNorm3d", 4)]
)
def test_batch_norm_of_other_dimensions_is_refused(name, rank):
    layer = getattr(nn, name)(2)
    with pytest.raises(flow.OneFlowError, match=rf"{name}: expected a tensor of .* dimensions, got {rank}"):
        layer(flow.ones(*[2] * rank))
    assert layer.num_batches_tracked.item() == 0


def test_gradient_of_batch_norm():
    x = RNG.uniform(-1, 1, (4, 2, 2, 2))
    probe = RNG.uniform(-1, 1, x.shape)
    leaf = flow.tensor(x, requires_grad=True)
    nn.BatchNorm2d(2, dtype=flow.float64)(leaf).backward(flow.tensor(probe))
    slopes = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        ends = []
        for step in (1e-6, -1e-6):
            moved = x.copy()
            moved[at] += step
            ends.append((normalized(moved, (0, 2, 3)) * probe).sum())
        slopes[at] = (ends[0] - ends[1]) / 2e-6
    np.testing.assert_allclose(leaf.grad.numpy(), slopes, 1e-4, 1e-6)


def test_dropout():
    x = np.ones((50, 40), np.float32)
    layer = nn.Dropout(0.25)
    flow.manual_seed(5)
    first, second = (layer(flow.tensor(x)).numpy() for _ in range(2))
    assert set(np.unique(first)) == {0, np.float32(1 / 0.75)} and (first != second).any()
    flow.manual_seed(5)
    np.testing.assert_array_equal(layer(flow.tensor(x)).numpy(), first)
    flow.manual_seed(5)
    compiled = flow.compile(layer)
    np.testing.assert_array_equal(compiled(x), first)
    np.testing.assert_array_equal(compiled(x), second)
    state = flow.get_rng_state()
    third = compiled(x)
    flow.set_rng_state(state)
    np.testing.assert_array_equal(layer(flow.tensor(x)).numpy(), third)
    assert layer.eval()(flow.tensor(x)).numpy().all()


ACTIVATIONS = [
    (nn.ReLU(inplace=True), lambda x: np.maximum(x, 0)),
    (nn.LeakyReLU(0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    (nn.GELU(), lambda x: x * special.ndtr(x)),
    (nn.SiLU(), lambda x: x * special.expit(x)),
    (nn.Softmax(dim=0), lambda x: special.softmax(x, 0)),
    (nn.Softplus(beta=2.0), lambda x: np.log1p(np.exp(2 * x)) / 2),
    (nn.Hardtanh(-0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5)),
    (nn.Flatten(), lambda x: x.reshape(len(x), -1)),
    (nn.Identity(), lambda x: x),
]


@pytest.mark.parametrize("layer,numpy", ACTIVATIONS, ids=lambda v: type(v).__name__)
def test_activations(layer, numpy):
    x = drawn(3, 4, 2)
    close(layer(flow.tensor(x)).numpy(), numpy(x.astype(np.float64)))


def test_options_are_shown():
    assert repr(nn.LeakyReLU(negative_slope=0.5)) == "LeakyReLU(negative_slope=0.5)"
    assert repr(nn.RMSNorm(8, 1e-6)) == "RMSNorm((8,), eps=1e-06)"
    assert repr(nn.ConstantPad1d(1, 7.0)) == "ConstantPad1d(padding=(1, 1), value=7.0)"
    assert repr(nn.ReflectionPad1d(1)) == "ReflectionPad1d((1, 1))"


def test_options_of_functions():
    with pytest.raises(TypeError, match="at most 2 arguments for LeakyReLU"):
        nn.LeakyReLU(1, True, 2)
    with pytest.raises(TypeError, match=r"unexpected arguments \['slope'\] for LeakyReLU"):
        nn.LeakyReLU(slope=1)


def test_losses():
    scores, labels = drawn(4, 3), np.array([0, 2, 1, 2])
    logs = scores - special.logsumexp(scores, 1, keepdims=True)
    close(nn.CrossEntropyLoss()(flow.tensor(scores), flow.tensor(labels)).numpy(), -logs[range(4), labels].mean())
    other = drawn(4, 3)
    close(nn.MSELoss(reduction="sum")(flow.tensor(scores), flow.tensor(other)).numpy(), ((scores - other) ** 2).sum())
    close(nn.L1Loss()(flow.tensor(scores), flow.tensor(other)).numpy(), np.abs(scores - other).mean())


def attention(layer, q, k, v, hidden):
    """The attention of one batch in NumPy: inputs (l, features), `hidden` bool (queries, keys)."""
    w, b, e = value(layer.in_proj_weight), value(layer.in_proj_bias), layer.embed_dim
    q, k, v = (x @ w[i * e : (i + 1) * e].T + b[i * e : (i + 1) * e] for i, x in enumerate((q, k, v)))
    width, results, weights = e // layer.num_heads, [], []
    for head in range(layer.num_heads):
        part = slice(head * width, (head + 1) * width)
        scores = np.where(hidden, -np.inf, q[:, part] @ k[:, part].T / math.sqrt(width))
        weights.append(special.softmax(scores, -1))
        results.append(weights[-1] @ v[:, part])
    mixed = np.concatenate(results, -1)
    return mixed @ value(layer.out_proj.weight).T + value(layer.out_proj.bias), np.mean(weights, 0)


@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention(batch_first):
    layer = nn.MultiheadAttention(6, 2, batch_first=batch_first)
    layer.in_proj_bias.overwrite(drawn(18), "test")
    x, other = drawn(2, 3, 6), drawn(2, 4, 6)
    padding = np.array([[False] * 4, [False, False, True, True]])
    given = [a if batch_first else a.swapaxes(0, 1) for a in (x, other, other)]
    result, weights = layer(*map(flow.tensor, given), key_padding_mask=flow.tensor(padding))
    result = result.detach().numpy() if batch_first else result.detach().numpy().swapaxes(0, 1)
    for i in range(2):
        want, shares = attention(layer, x[i], other[i], other[i], padding[i])
        close(result[i], want)
        close(weights[i].detach().numpy(), shares)
    hidden = np.triu(np.ones((3, 3), bool), 1)
    single, none = layer(*[flow.tensor(x[0])] * 3, attn_mask=flow.tensor(hidden), need_weights=False)
    close(single.detach().numpy(), attention(layer, x[0], x[0], x[0], hidden)[0])
    assert none is None


def test_scaled_dot_product_attention():
    q = drawn(2, 3, 4)
    scores = np.where(np.tril(np.ones((3, 3), bool)), q @ q.swapaxes(1, 2) / 2, -np.inf)
    x = flow.tensor(q)
    got = nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    close(got.numpy(), special.softmax(scores, -1) @ q)


@pytest.mark.parametrize("options", [{}, {"need_weights": False}, {"is_causal": True}], ids=str)
@pytest.mark.parametrize("made", [{}, {"add_bias_kv": True, "add_zero_attn": True}], ids=str)
def test_multihead_attention_of_dynamic_sizes(made, options):
    """The program serves every batch and length; other tests compare eager results with NumPy and PyTorch."""
    layer = nn.MultiheadAttention(6, 2, batch_first=True, **made)

    def function(x, padding):
        return layer(x, x, x, key_padding_mask=padding, **options)[0]

    run = flow.compile(function, flow.TensorSpec((None, None, 6)), flow.TensorSpec((None, None), flow.bool))
    for batch, length in ((2, 3), (1, 5)):
        x, padding = drawn(batch, length, 6), np.arange(length)[None] > np.full((batch, 1), length - 2)
        want = function(flow.tensor(x), flow.tensor(padding)).detach().numpy()
        close(run(x, padding).detach().numpy(), want)


def test_causal_attention_of_dynamic_sizes_drops_weights():
    def function(q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.5, is_causal=True)

    run = flow.compile(function, *[flow.TensorSpec((None, 2, None, 4))] * 3)
    for batch, length in ((2, 3), (8, 5)):
        q, k, v = (drawn(batch, 2, length, 4) for _ in range(3))
        got = np.asarray(run(q, k, v))
        first = got[:, :, 0] / v[:, :, 0]
        assert np.isclose(first, np.where(first > 1, 2.0, 0.0), atol=1e-5).all()
        scores = np.where(np.tri(length, dtype=bool), q @ k.swapaxes(2, 3) / 2, -np.inf)
        assert (np.abs(got) <= 2 * special.softmax(scores, -1) @ np.abs(v) + 1e-5).all()


def test_initial_values():
    flow.manual_seed(1)
    weight = value(nn.Linear(400, 300).weight)
    assert abs(weight).max() <= 1 / 20 and abs(weight).max() > 0.049 and abs(weight.mean()) < 1e-3
    p = nn.Parameter(np.zeros((200, 300), np.float32))
    for fill, deviation in (
        (lambda t: nn.init.normal_(t, std=0.5), 0.5),
        (lambda t: nn.init.uniform_(t, -1, 1), 1 / math.sqrt(3)),
        (nn.init.xavier_normal_, math.sqrt(2 / 500)),
        (nn.init.xavier_uniform_, math.sqrt(2 / 500)),
        (lambda t: nn.init.kaiming_normal_(t, nonlinearity="relu"), math.sqrt(2 / 300)),
        (lambda t: nn.init.kaiming_uniform_(t, mode="fan_out"), math.sqrt(2 / 200)),
    ):
        assert abs(value(fill(p)).std() / deviation - 1) < 0.02
    assert abs(value(nn.init.trunc_normal_(p, std=2.0))).max() <= 2
    flow.manual_seed(1)
    np.testing.assert_array_equal(value(nn.Linear(400, 300).weight), weight)
    with pytest.raises(ValueError, match="expected nonlinearity to be one of"):
        nn.init.calculate_gain("swish")
    with pytest.raises(ValueError, match="at least two dimensions"):
        nn.init.xavier_normal_(nn.Parameter(np.zeros(3, np.float32)))


def in_a_function(build):
    return flow.compile(build)


def in_a_graph(build):
    return type("Graph", (nn.Graph,), {"build": lambda self, x: build(x)})()


TRACES = pytest.mark.parametrize("traced", [in_a_function, in_a_graph])


@TRACES
@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (nn.init.zeros_, np.zeros((3, 4))),
        (nn.init.ones_, np.ones((3, 4))),
        (lambda t: nn.init.constant_(t, 2.5), np.full((3, 4), 2.5)),
        (nn.init.eye_, np.eye(3, 4)),
        (lambda t: nn.init.uniform_(t, 2.0, 2.0), np.full((3, 4), 2.0)),
        (lambda t: nn.init.normal_(t, 3.0, 0.0), np.full((3, 4), 3.0)),
    ],
)
def test_initial_values_are_written_by_traced_functions(traced, fill, expected):
    """Both a tensor of the function and a parameter from outside, at each call."""
    p = nn.Parameter(np.full((3, 4), 7, np.float32))

    def build(x):
        made = x * 1
        fill(made)
        return made, fill(p) + x

    run = traced(build)
    for _ in range(2):
        made, total = run(flow.ones(3, 4))
        np.testing.assert_array_equal(made.numpy(), expected)
        np.testing.assert_array_equal(total.numpy(), expected + 1)
        np.testing.assert_array_equal(value(p), expected)
        nn.init.constant_(p, 7)


@TRACES
@pytest.mark.parametrize(
    ("name", "deviation"),
    [
        ("xavier_normal_", math.sqrt(2 / 500)),
        ("xavier_uniform_", math.sqrt(2 / 500)),
        ("kaiming_normal_", math.sqrt(2 / 300)),
        ("kaiming_uniform_", math.sqrt(2 / 300)),
    ],
)
def test_random_initial_values_of_traced_functions(traced, name, deviation):
    run = traced(lambda x: getattr(nn.init, name)(x * 1))
    first, second = run(flow.zeros(200, 300)).numpy(), run(flow.zeros(200, 300)).numpy()
    assert (first != second).mean() > 0.99
    for drawn_values in (first, second):
        assert abs(drawn_values.std() / deviation - 1) < 0.02 and abs(drawn_values.mean()) < deviation / 50


@TRACES
@pytest.mark.parametrize("name", ["trunc_normal_", "orthogonal_"])
def test_initial_values_of_the_host_are_refused_in_traced_functions(traced, name):
    run = traced(lambda x: getattr(nn.init, name)(x * 1))
    with pytest.raises(flow.OneFlowError, match=rf"test_layers.py:\d+: expected nn.init.{name} outside of traced"):
        run(flow.zeros(3, 4))
    with pytest.raises(flow.OneFlowError, match=r"test_layers.py:\d+: expected a tensor of static sizes"):
        flow.trace(lambda x: nn.init.xavier_normal_(x * 1), flow.TensorSpec((None, 3), flow.float32))


def test_clipping():
    a, b = (flow.tensor(v, requires_grad=True) for v in ([3.0, 0.0], [4.0]))
    for p, g in ((a, [3.0, 0.0]), (b, [-4.0])):
        p.grad = flow.tensor(g)
    assert nn.utils.clip_grad_norm_([a, b], 10.0).item() == 5
    close(a.grad.numpy(), [3, 0])
    nn.utils.clip_grad_norm_([a, b], 1.0)
    close(a.grad.numpy(), [0.6, 0])
    close(b.grad.numpy(), [-0.8])
    assert nn.utils.clip_grad_norm_([a, b], 9.0, float("inf")).item() == pytest.approx(0.8)
    assert nn.utils.clip_grad_norm_([a, b], 9.0, 1).item() == pytest.approx(1.4)
    nn.utils.clip_grad_value_([a, b], 0.5)
    close(np.concatenate([a.grad.numpy(), b.grad.numpy()]), [0.5, 0, -0.5])


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_fully_masked_queries_give_zeros(rank, rate):
    """Rows of attention without visible keys, with and without dropout, have zero gradients; others are finite."""
    mask = np.ones((3, 4), bool)
    mask[1] = False
    arrays = [
        np.random.default_rng(i).standard_normal((2, 1, 2)[: rank - 2] + s) for i, s in enumerate([(3, 8), (4, 8)])
    ]
    query, key = (flow.tensor(a.astype(np.float32), requires_grad=True) for a in arrays)
    y = nn.functional.scaled_dot_product_attention(query, key, key, flow.tensor(mask), rate)
    (y * y).sum().backward()
    for found in (y.detach().numpy(), query.grad.numpy()):
        assert not found[..., 1, :].any() and found[..., 0, :].any() and np.isfinite(found).all()
    assert key.grad.numpy().any() and np.isfinite(key.grad.numpy()).all()
