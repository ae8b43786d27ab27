"""Transformers against PyTorch's: names and order of the state, values and gradients, with masks of all kinds."""

import numpy as np
import pytest

import oneflow as flow

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

RNG = np.random.default_rng(5)
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:Support for mismatched")


def drawn(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def both(make):
    """The module in both frameworks, with the same parameters."""
    ours, theirs = make(flow.nn), make(torch.nn)
    assert [(n, tuple(t.shape)) for n, t in ours.state_dict().items()] == [
        (n, tuple(t.shape)) for n, t in theirs.state_dict().items()
    ]
    ours.load_state_dict({n: torch.tensor(drawn(*t.shape)) for n, t in theirs.state_dict().items()})
    theirs.load_state_dict({n: torch.tensor(t.numpy()) for n, t in ours.state_dict().items()})
    return ours, theirs


def check(modules, arrays, options=None):
    found = []
    for lib, module in zip((flow, torch), modules, strict=True):
        inputs = [lib.tensor(a, requires_grad=True) for a in arrays]
        masks = {n: lib.tensor(m) if isinstance(m, np.ndarray) else m for n, m in (options or {}).items()}
        y = module(*inputs, **masks)
        (y * y + y).sum().backward()
        found.append([y.detach().numpy(), *(t.grad.numpy() for t in (*inputs, *module.parameters()))])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, 1e-3, 1e-5 * (1 + np.abs(b).max()))


LATER, HIDDEN = np.triu(np.ones((4, 4), bool), 1), np.array([[False] * 4, [False, False, True, True]])
SIZES = {"d_model": 8, "nhead": 2, "dim_feedforward": 6, "dropout": 0.0}


@pytest.mark.parametrize(
    "options", [{}, {"norm_first": True, "activation": "gelu", "batch_first": True, "bias": False}]
)
def test_transformer_layers(options):
    first, second = ((2, 4, 8), (2, 3, 8)) if "batch_first" in options else ((4, 2, 8), (3, 2, 8))
    encoder = both(lambda nn: nn.TransformerEncoderLayer(**SIZES, **options))
    check(encoder, [drawn(*first)])
    check(encoder, [drawn(*first)], {"src_mask": LATER, "src_key_padding_mask": HIDDEN})
    decoder = both(lambda nn: nn.TransformerDecoderLayer(**SIZES, **options))
    check(decoder, [drawn(*first), drawn(*second)], {"tgt_mask": LATER, "memory_mask": LATER[:, :3] * False})
    check(decoder, [drawn(*second), drawn(*first)], {"memory_key_padding_mask": HIDDEN})


def test_transformer_stacks():
    nets = both(lambda nn: nn.TransformerEncoder(nn.TransformerEncoderLayer(**SIZES), 2, nn.LayerNorm(8)))
    check(nets, [drawn(4, 2, 8)], {"mask": LATER})
    check(both(lambda nn: nn.TransformerDecoder(nn.TransformerDecoderLayer(**SIZES), 2)), [drawn(4, 2, 8)] * 2)
    assert nets[0].layers[0].linear1.weight is not nets[0].layers[1].linear1.weight


def test_whole_transformer():
    nets = both(lambda nn: nn.Transformer(8, 2, 1, 1, 6, 0.0))
    masks = [lib.nn.Transformer.generate_square_subsequent_mask(4).numpy() for lib in (flow, torch)]
    np.testing.assert_array_equal(*masks)
    check(nets, [drawn(3, 2, 8), drawn(4, 2, 8)], {"tgt_mask": masks[0]})
    with pytest.raises(ValueError, match='expected activation "relu", "gelu" or a function, got \'tanh\''):
        flow.nn.TransformerEncoderLayer(8, 2, activation="tanh")
