"""Every layer against PyTorch's: names and layouts, state loaded both ways, values, gradients, statistics."""

from itertools import chain

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

RNG = np.random.default_rng(7)


def drawn(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


IMAGES, LINES, ROWS, VOLUMES = (2, 4, 7, 6), (2, 4, 9), (3, 4), (2, 4, 3, 3, 4)
LONG, SHORT = (5, 2, 8), (3, 2, 8)
#: The layer's class and arguments, and its inputs: shapes, or arrays.
LAYERS = [
    ("Linear", (4, 3), {}, [(2, 5, 4)]),
    ("Linear", (4, 3), {"bias": False}, [ROWS]),
    ("Conv1d", (4, 6, 3), {}, [LINES]),
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1, "dilation": 2, "groups": 2, "bias": False}, [LINES]),
    ("Conv2d", (4, 6, 3), {"padding": "same"}, [IMAGES]),
    ("Conv2d", (4, 6, (3, 2)), {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}, [IMAGES]),
    ("Conv3d", (4, 2, 2), {"stride": (1, 2, 2), "padding": 1}, [VOLUMES]),
    *[("Conv2d", (4, 2, (3, 2)), {"padding": padding, "padding_mode": mode, "dilation": (1, 2)}, [IMAGES])
      for padding, mode in (((1, 2), "reflect"), ("same", "replicate"), (1, "circular"), ("valid", "circular"))],
    ("ConvTranspose1d", (4, 6, 3), {}, [LINES]),
    ("ConvTranspose1d", (4, 6, 3, 3, 2, 2, 2), {"bias": False, "dilation": 2}, [LINES]),
    ("ConvTranspose2d", (4, 6, (3, 2)), {"stride": (2, 1), "padding": (1, 0), "output_padding": (1, 0)}, [IMAGES]),
    ("ConvTranspose2d", (4, 6, 2, 2), {"groups": 2, "dilation": (1, 2)}, [IMAGES[1:]]),
    ("ConvTranspose3d", (4, 2, 2), {"stride": (1, 2, 2), "padding": 1}, [VOLUMES]),
    ("Embedding", (6, 3), {"padding_idx": 2}, [np.array([[0, 2, 5], [5, 5, 1]])]),
    ("LayerNorm", (6,), {}, [(2, 5, 6)]),
    ("LayerNorm", ([7, 6],), {"eps": 1e-3, "bias": False}, [IMAGES]),
    ("LayerNorm", (6,), {"elementwise_affine": False}, [(2, 6)]),
    ("RMSNorm", (6,), {"eps": 1e-5}, [(2, 5, 6)]),
    ("GroupNorm", (2, 4), {}, [IMAGES]),
    ("GroupNorm", (4, 4), {"affine": False, "eps": 1e-3}, [LINES]),
    ("BatchNorm1d", (4,), {}, [ROWS]),
    ("BatchNorm1d", (4,), {"momentum": 0.3}, [LINES]),
    ("BatchNorm2d", (4,), {"momentum": None}, [IMAGES]),
    ("BatchNorm2d", (4,), {"affine": False, "eps": 1e-3}, [IMAGES]),
    ("BatchNorm2d", (4,), {"track_running_stats": False}, [IMAGES]),
    ("BatchNorm3d", (4,), {}, [VOLUMES]),
    ("InstanceNorm1d", (4,), {}, [LINES]),
    ("InstanceNorm2d", (4,), {"affine": True, "track_running_stats": True, "momentum": 0.3}, [IMAGES]),
    ("InstanceNorm2d", (4,), {"track_running_stats": True, "eps": 1e-3}, [IMAGES]),
    ("InstanceNorm2d", (4,), {"affine": True}, [IMAGES[1:]]),
    ("InstanceNorm3d", (4,), {"affine": True}, [VOLUMES]),
    ("LocalResponseNorm", (3,), {"alpha": 0.5, "k": 2.0}, [IMAGES]),
    ("LocalResponseNorm", (2,), {}, [LINES]),
    ("Softmax2d", (), {}, [IMAGES]),
    ("MultiheadAttention", (8, 2), {}, [LONG, LONG, LONG]),
    ("MultiheadAttention", (8, 4), {"bias": False, "batch_first": True}, [LONG, LONG, LONG]),
    ("MultiheadAttention", (8, 2), {"kdim": 3, "vdim": 5}, [LONG, (4, 2, 3), (4, 2, 5)]),
    ("MultiheadAttention", (8, 2), {"add_bias_kv": True, "add_zero_attn": True}, [LONG, SHORT, SHORT]),
    ("MultiheadAttention", (8, 2), {}, [(5, 8), (3, 8), (3, 8)]),
    ("MaxPool1d", (3,), {"stride": 2, "padding": 1}, [LINES]),
    ("MaxPool2d", (2,), {"ceil_mode": True}, [IMAGES]),
    ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}, [IMAGES]),
    ("AdaptiveAvgPool2d", ((3, 2),), {}, [IMAGES]),
    ("AdaptiveAvgPool2d", ((None, 2),), {}, [IMAGES]),
    ("AdaptiveMaxPool1d", (4,), {}, [LINES]),
    ("AdaptiveMaxPool2d", ((3, None),), {"return_indices": True}, [IMAGES]),
    ("AdaptiveMaxPool2d", (2,), {"return_indices": True}, [np.ones(IMAGES, np.float32)]),
    ("AdaptiveMaxPool3d", (2,), {"return_indices": True}, [VOLUMES]),
    *[(f"{kind}Pad{n}d", (2, *value), {}, [shape])
      for kind, *value in (("Constant", 1.5), ("Zero",), ("Reflection",), ("Replication",), ("Circular",))
      for n, shape in enumerate((LINES, IMAGES, VOLUMES), 1)],
    ("ReflectionPad2d", ((-1, 2, 1, -1),), {}, [IMAGES]),
    ("ReflectionPad3d", ((1, 2, 0, 2, 1, 2),), {}, [VOLUMES[1:]]),
    ("CircularPad2d", ((0, 3, 1, 2),), {}, [IMAGES[1:]]),
    *[("Upsample", (), {"scale_factor": factor, "mode": mode}, [shape])
      for factor in (2, 1.5, 0.6)
      for mode, shape in (("nearest", IMAGES), ("linear", LINES), ("bilinear", IMAGES), ("trilinear", VOLUMES))],
    ("Upsample", ((9, 5),), {"mode": "bilinear", "align_corners": True}, [IMAGES]),
    ("Upsample", (), {"scale_factor": (1.3, 2.0), "mode": "bilinear", "recompute_scale_factor": True}, [IMAGES]),
    ("Upsample", ((3, 4),), {"mode": "area"}, [IMAGES]),
    ("UpsamplingNearest2d", (5,), {}, [IMAGES]),
    ("UpsamplingBilinear2d", (), {"scale_factor": 2}, [IMAGES]),
    ("Unfold", (3,), {"dilation": (1, 2), "padding": (0, 1), "stride": (2, 1)}, [IMAGES]),
    ("Unfold", ((2, 3),), {}, [IMAGES[1:]]),
    ("Fold", ((7, 6), 3), {"dilation": (1, 2), "padding": (0, 1), "stride": (2, 1)}, [(2, 36, 12)]),
    ("Fold", (4, 2), {"stride": 2}, [(8, 4)]),
    ("PixelShuffle", (2,), {}, [IMAGES]),
    ("PixelUnshuffle", (2,), {}, [(2, 3, 6, 4)]),
    ("ChannelShuffle", (2,), {}, [IMAGES]),
    ("Flatten", (), {}, [IMAGES]),
    ("Unflatten", (1, (2, 2)), {}, [ROWS]),
    ("Softmax", (1,), {}, [IMAGES]),
    ("Softmin", (1,), {}, [ROWS]),
    ("LogSoftmax", (-1,), {}, [IMAGES]),
    ("GLU", (1,), {}, [IMAGES]),
    ("PReLU", (), {}, [IMAGES]),
    ("PReLU", (4,), {"init": 0.1}, [IMAGES]),
    ("GELU", (), {"approximate": "tanh"}, [ROWS]),
    ("LeakyReLU", (0.2,), {}, [ROWS]),
    ("Threshold", (0.1, 0.5), {}, [ROWS]),
    *[(name, (), {}, [ROWS]) for name in """
        ReLU ReLU6 ELU CELU SELU GELU SiLU Mish Sigmoid LogSigmoid Tanh Tanhshrink Softplus Softsign Hardtanh
        Hardswish Hardsigmoid Hardshrink Softshrink Identity
    """.split()],
]  # fmt: skip


def both(name, args, options):
    """The layer in both frameworks, with the same random state."""
    ours, theirs = (getattr(lib.nn, name)(*args, **options) for lib in (flow, torch))
    assert {n: tuple(t.shape) for n, t in ours.state_dict().items()} == {
        n: tuple(t.shape) for n, t in theirs.state_dict().items()
    }
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    for p in theirs.parameters():
        p.data = torch.tensor(drawn(*p.shape))
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def outcome(lib, layer, arrays, options):
    """Results, gradients of inputs and parameters, and the state after the call."""
    inputs = [lib.tensor(a, requires_grad=a.dtype == np.float32) for a in arrays]
    results = layer(*inputs, **options)
    results = [r for r in results if r is not None] if isinstance(results, tuple) else [results]
    sum((r * r).sum() + r.sum() for r in results).backward()
    grads = [t.grad.numpy() for t in (*inputs, *layer.parameters()) if t.requires_grad]
    return [r.detach().numpy() for r in results], grads, [t.numpy() for t in layer.state_dict().values()]


def check(ours, theirs, arrays, options=lambda lib: {}):
    got, want = (outcome(lib, x, arrays, options(lib)) for lib, x in ((flow, ours), (torch, theirs)))
    for x, y in zip(chain(*got), chain(*want), strict=True):
        np.testing.assert_allclose(x, y, 1e-4, 1e-5 * (1 + np.abs(y).max()))


@pytest.mark.parametrize("name,args,options,inputs", LAYERS, ids=[row[0] for row in LAYERS])
def test_layers_equal_pytorch(name, args, options, inputs):
    ours, theirs = both(name, args, options)
    arrays = [i if isinstance(i, np.ndarray) else drawn(*i) for i in inputs]
    check(ours, theirs, arrays)
    check(ours.eval(), theirs.eval(), arrays)
    theirs.load_state_dict({n: torch.tensor(t.numpy()) for n, t in ours.state_dict().items()})


def attention_masks(lib):
    hidden = np.array([[False, False, True], [False, True, True]])
    later = np.triu(np.ones((5, 3), bool), 1)
    each = np.repeat(later[None], 4, 0) & ~np.eye(5, 3, dtype=bool)
    floats = np.where(later, -2.0, 0.5).astype(np.float32)
    return [
        {"key_padding_mask": lib.tensor(hidden)},
        {"attn_mask": lib.tensor(later)},
        {"attn_mask": lib.tensor(floats), "need_weights": False},
        {"attn_mask": lib.tensor(each), "key_padding_mask": lib.tensor(hidden), "average_attn_weights": False},
    ]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True, "add_zero_attn": True}])
def test_masks_of_attention(number, options):
    ours, theirs = both("MultiheadAttention", (8, 2), options)
    arrays = [drawn(5, 2, 8), drawn(3, 2, 8), drawn(3, 2, 8)]
    check(ours, theirs, arrays, lambda lib: attention_masks(lib)[number])


def test_causal_attention():
    ours, theirs = both("MultiheadAttention", (8, 2), {"batch_first": True})
    x = drawn(2, 5, 8)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5)
    want = theirs(*[torch.tensor(x)] * 3, attn_mask=mask, is_causal=True, need_weights=False)[0]
    got = ours(*[flow.tensor(x)] * 3, is_causal=True, need_weights=False)[0]
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), 1e-4, 1e-5)
    q, k, v = (drawn(2, 3, n, 4) for n in (5, 7, 7))
    for options in ({"is_causal": True}, {"scale": 0.3}, {}):
        ours, theirs = (
            lib.nn.functional.scaled_dot_product_attention(*map(lib.tensor, (q, k, v)), **options).numpy()
            for lib in (flow, torch)
        )
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


LOSSES = [
    ("MSELoss", {}, [ROWS, ROWS]),
    ("L1Loss", {}, [ROWS, ROWS]),
    ("SmoothL1Loss", {"beta": 0.3}, [ROWS, ROWS]),
    ("HuberLoss", {"delta": 0.3}, [ROWS, ROWS]),
    ("KLDivLoss", {"log_target": True}, [ROWS, ROWS]),
    ("KLDivLoss", {}, [ROWS, np.float32(np.abs(drawn(*ROWS)))]),
    ("BCEWithLogitsLoss", {}, [ROWS, ROWS]),
    ("CrossEntropyLoss", {"ignore_index": 1}, [ROWS, np.array([0, 3, 1])]),
    ("CrossEntropyLoss", {"label_smoothing": 0.2}, [ROWS, np.array([0, 3, 1])]),
    ("CrossEntropyLoss", {}, [(2, 4, 3), np.array([[0, 3, 1], [2, 2, 0]])]),
    ("CrossEntropyLoss", {}, [ROWS, ROWS]),
    ("NLLLoss", {}, [ROWS, np.array([0, 3, 1])]),
]


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name,options,inputs", LOSSES, ids=[row[0] for row in LOSSES])
def test_losses(name, options, inputs, reduction):
    arrays = [i if isinstance(i, np.ndarray) else drawn(*i) for i in inputs]
    ours, theirs = (getattr(lib.nn, name)(reduction=reduction, **options) for lib in (flow, torch))
    check(ours, theirs, arrays)


def test_sizes_of_transposed_convolutions():
    ours, theirs = both("ConvTranspose2d", (4, 2, 3), {"stride": 2, "padding": 1})
    for size in ([13, 12], (2, 2, 14, 11)):
        check(ours, theirs, [drawn(*IMAGES)], lambda lib: {"output_size": size})  # noqa: B023
    with pytest.raises(ValueError, match=r"an output_size of \[13, 11\] and less than \(2, 2\) more, got \[15"):
        ours(flow.tensor(drawn(*IMAGES)), [15, 11])
    assert (ours.stride, ours.padding, ours.output_padding, ours.groups) == ((2, 2), (1, 1), (0, 0), 1)


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_channels_are_dropped_whole(spatial):
    flow.manual_seed(1)
    layer = getattr(flow.nn, f"Dropout{spatial}d")(0.25)
    x = flow.tensor(np.ones((20, 50, *[2] * spatial), np.float32), requires_grad=True)
    y = layer(x)
    y.sum().backward()
    first = y.detach().numpy().reshape(20, 50, -1)[..., :1]
    np.testing.assert_array_equal(y.detach().numpy().reshape(20, 50, -1), first.repeat(2**spatial, 2))
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    assert set(np.unique(first)) == {np.float32(0), np.float32(1 / 0.75)} and 0.7 < (first > 0).mean() < 0.8
    np.testing.assert_array_equal(layer.eval()(x[0]).detach().numpy(), np.ones((50, *[2] * spatial)))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("shape,target", [
    (ROWS, np.array([0, 3, 1])), ((2, 4, 3), np.array([[0, 3, 1], [2, 1, 0]])), ((4,), np.array(2)),
    (ROWS, np.abs(drawn(*ROWS))), ((2, 4, 3), np.abs(drawn(2, 4, 3))), ((4,), np.abs(drawn(4))),
])  # fmt: skip
def test_weights_of_classes(shape, target, smoothing, reduction):
    weight, x, grads = np.array([0.5, 2, 0, 1], np.float32), drawn(*shape), []
    ignored = {} if target.dtype == np.float32 else {"ignore_index": 1}
    options = {"label_smoothing": smoothing, "reduction": reduction, **ignored}
    for lib in (flow, torch):
        logits = lib.tensor(x, requires_grad=True)
        loss = lib.nn.CrossEntropyLoss(lib.tensor(weight), **options)(logits, lib.tensor(target))
        (loss * loss).sum().backward()
        grads.append((loss.detach().numpy(), logits.grad.numpy()))
    for a, b in zip(*grads, strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)


@pytest.mark.parametrize("freeze", [True, False])
def test_embeddings_from_rows(freeze):
    rows, at, found = drawn(5, 3), np.array([0, 4, 0]), []
    for lib in (flow, torch):
        layer = lib.nn.Embedding.from_pretrained(lib.tensor(rows), freeze=freeze, padding_idx=4)
        scale = lib.tensor(rows[:3], requires_grad=True)
        y = layer(lib.tensor(at)) * scale
        (y * y).sum().backward()
        grad = layer.weight.grad
        found.append([y.detach().numpy(), scale.grad.numpy(), np.zeros(0) if grad is None else grad.numpy()])
        assert layer.weight.requires_grad is not freeze and layer.padding_idx == 4
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, 1e-5)
    with pytest.raises(ValueError, match="expected embeddings of 2 dimensions, got tensor<5xf32>"):
        flow.nn.Embedding.from_pretrained(flow.ones(5))
