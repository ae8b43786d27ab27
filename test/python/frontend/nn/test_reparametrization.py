"""Weights computed by hooks, packed sequences, and layers made of other layers."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn
from oneflow.nn.utils import rnn


def test_weight_norm_keeps_the_weight_and_learns_length_and_direction():
    layer = nn.Linear(3, 2)
    before, x = layer.weight.numpy().copy(), flow.ones(1, 3)
    assert nn.utils.weight_norm(layer) is layer
    assert sorted(n for n, _ in layer.named_parameters()) == ["bias", "weight_g", "weight_v"]
    np.testing.assert_allclose(layer.weight_g.numpy()[:, 0], np.linalg.norm(before, axis=1), rtol=1e-6)
    with flow.no_grad():
        layer.weight_g.mul_(2)
    result = layer(x)
    np.testing.assert_allclose(layer.weight.numpy(), 2 * before, rtol=1e-5)
    result.sum().backward()
    assert layer.weight_g.grad is not None and layer.weight_v.grad is not None
    nn.utils.remove_weight_norm(layer)
    assert sorted(n for n, _ in layer.named_parameters()) == ["bias", "weight"]
    np.testing.assert_allclose(layer.weight.numpy(), 2 * before, rtol=1e-5)
    with pytest.raises(ValueError, match="there is none"):
        nn.utils.remove_weight_norm(layer)
    with pytest.raises(RuntimeError, match="expected a parameter"):
        nn.utils.weight_norm(layer, "wait")


@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm])
def test_a_compiled_function_leaves_the_weight_of_eager_mode(norm):
    layer = norm(nn.Linear(3, 2)).eval()
    x, before = flow.ones(1, 3), layer.weight.numpy().copy()
    wanted = layer(layer(x)[:, :1].expand(1, 3)).numpy()
    found = flow.compile(lambda x: layer(layer(x)[:, :1].expand(1, 3)))(x)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose((layer.weight + 1).detach().numpy(), before + 1, rtol=1e-5)


def test_spectral_norm_divides_by_the_largest_singular_value():
    flow.manual_seed(0)
    layer = nn.utils.spectral_norm(nn.Linear(4, 3), n_power_iterations=30)
    layer(flow.ones(1, 4))
    largest = np.linalg.svd(layer.weight_orig.numpy())[1][0]
    np.testing.assert_allclose(layer.weight.numpy(), layer.weight_orig.numpy() / largest, rtol=1e-3)
    nn.utils.remove_spectral_norm(layer.eval())
    assert "weight" in dict(layer.named_parameters())


def sequences():
    rng = np.random.default_rng(0)
    return [flow.tensor(rng.normal(size=(n, 3)).astype(np.float32)) for n in (2, 4, 1)]


def test_packed_sequences_and_back():
    padded = rnn.pad_sequence(sequences(), batch_first=True, padding_value=9.0)
    assert padded.shape == (3, 4, 3) and padded[2, 1, 0].item() == 9
    packed = rnn.pack_padded_sequence(padded, [2, 4, 1], batch_first=True, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 1, 1] and packed.sorted_indices.tolist() == [1, 0, 2]
    np.testing.assert_array_equal(packed.data[0].numpy(), padded[1, 0].numpy())
    again, lengths = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=9.0, total_length=5)
    np.testing.assert_array_equal(again[:, :4].numpy(), padded.numpy())
    assert lengths.tolist() == [2, 4, 1] and again.shape == (3, 5, 3)
    found = rnn.unpad_sequence(padded, lengths, batch_first=True)
    assert [x.shape[0] for x in found] == [2, 4, 1] == [x.shape[0] for x in rnn.unpack_sequence(packed)]
    with pytest.raises(ValueError, match="lengths that fall"):
        rnn.pack_sequence(sequences())


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_packed_batch_gives_what_each_sequence_gives(kind):
    layer = kind(3, 2, num_layers=2, bidirectional=True)
    packed, last = layer(rnn.pack_sequence(sequences(), enforce_sorted=False))
    results, _ = rnn.pad_packed_sequence(packed)
    for index, x in enumerate(sequences()):
        wanted, ends = layer(x)
        np.testing.assert_allclose(results[: len(x), index].numpy(), wanted.numpy(), atol=1e-6)
        for found, end in zip(last if kind is nn.LSTM else [last], ends if kind is nn.LSTM else [ends], strict=True):
            np.testing.assert_allclose(found[:, index].numpy(), end.numpy(), atol=1e-6)


def test_layers_that_equal_functions():
    x = flow.tensor(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))
    fused, plain = nn.FusedBatchNorm1d(3), nn.BatchNorm1d(3)
    np.testing.assert_allclose(fused(x, x).numpy(), np.maximum(plain(x).numpy() + x.numpy(), 0), atol=1e-6)
    norm = nn.RMSLayerNorm(3)
    rms = np.sqrt((x.numpy() ** 2).mean(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(norm(x).numpy(), x.numpy() / rms, rtol=1e-5)
    assert list(nn.ModuleDict([("a", fused), ("b", norm)])) == [*nn.ParameterDict([("a", norm.weight)]), "b"]
    net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    assert type(net[1]) is nn.SyncBatchNorm and list(net.state_dict())[2] == "1.weight"
    weight = nn.init.orthogonal_(flow.empty(3, 5), gain=2.0).numpy()
    np.testing.assert_allclose(weight @ weight.T, 4 * np.eye(3), atol=1e-5)


def test_hooks_before_the_state_is_read():
    layer, seen = nn.Linear(1, 1), []
    handle = layer.register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append(prefix))
    nn.Sequential(layer).state_dict()
    handle.remove()
    layer.state_dict()
    assert seen == ["0."]


def test_quantization_layers():
    x = flow.tensor([[-2.0, 0.5], [1.27, 0.02]], requires_grad=True)
    scale, zero = nn.MinMaxObserver()(x)
    np.testing.assert_allclose([scale.item(), zero.item()], [2 / 127, 0], rtol=1e-6)
    np.testing.assert_array_equal(nn.Quantization()(x, scale, zero).detach().numpy(), [[-127, 32], [81, 1]])
    kept = nn.FakeQuantization()(x, scale, zero)
    np.testing.assert_allclose(
        kept.detach().numpy(), np.array([[-127, 32], [81, 1]], np.float32) * 2 / 127, rtol=1e-6
    )
    kept.sum().backward()
    assert x.grad.tolist() == [[1, 1], [1, 1]]
    assert nn.MinMaxObserver(per_layer_quantization=False)(x)[0].shape == (2,)


def test_layers_take_a_device():
    linear: Any = nn.Linear
    lstm: Any = nn.LSTM
    assert linear(2, 3, device="cpu", dtype=flow.float64).weight.device == "cpu"
    with pytest.raises(ValueError, match="expected a device"):
        lstm(2, 3, device="tpu")
