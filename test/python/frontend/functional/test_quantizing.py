"""Quantization by observed ranges."""

import numpy as np
import pytest

import oneflow as flow

FORMULAS = [("google", "symmetric"), ("google", "affine"), ("cambricon", "symmetric")]


@pytest.mark.parametrize(("formula", "scheme"), FORMULAS)
@pytest.mark.parametrize("dtype", [flow.float32, flow.float16])
def test_constant_zero_tensors_quantize_to_zeros(formula, scheme, dtype):
    x = flow.zeros(4, dtype=dtype)
    scale, zero = flow.min_max_observer(x, formula, 8, scheme)
    for restored in (flow.fake_quantization, flow.quantization):
        np.testing.assert_array_equal(restored(x, scale, zero, formula, 8, scheme).numpy(), np.zeros(4))


def test_constant_tensors_keep_their_number_in_the_affine_scheme():
    x = flow.full((4,), 3.0)
    scale, zero = flow.min_max_observer(x, quantization_scheme="affine")
    np.testing.assert_allclose(
        flow.fake_quantization(x, scale, zero, quantization_scheme="affine").numpy(), 3.0, 1e-6
    )


def test_running_averages_of_a_range():
    """Observers move in training up to a step, also in compiled functions, and are constant otherwise."""
    observer, x = flow.nn.MovingAverageMinMaxObserver(5, momentum=0.75), flow.tensor([1.0, -4.0])
    first, later = (flow.tensor([step], dtype=flow.int64) for step in (5, 6))
    compiled = flow.compile(lambda x, step: observer(x, step))

    for call, values, step, average in (
        (observer, x, first, 4.0), (observer, 2 * x, later, 4.0), (compiled, 2 * x, first, 5.0),
        (observer.eval(), 3 * x, first, 5.0),
    ):  # fmt: skip
        observer.train(call is compiled or average == 4.0)
        scale, zero = call(values, step)
        np.testing.assert_allclose([scale.item() * 127, zero.item()], [average, 0.0], 1e-6)
        assert observer.moving_max.item() == observer.moving_min.item() == average
    observer.reset_running_stats()
    assert observer.moving_max.item() == 0


def test_quantization_aware_convolutions_round_images_and_weight():
    """The scale of the images is 1, of the weight 2 / 127; gradients are as in the convolution."""
    x = flow.tensor([[[127.0, 1.4, -2.6]]], requires_grad=True)
    layer = flow.nn.QatConv1d(1, 1, 1, bias=False)
    flow.nn.init.constant_(layer.weight, 2.0)
    y = layer(x)
    np.testing.assert_allclose(y.numpy(), [[[254.0, 2.0, -6.0]]], 1e-6)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[[2.0, 2.0, 2.0]]], 1e-6)
    np.testing.assert_allclose(layer.weight.grad.numpy(), [[[125.0]]], 1e-6)


def test_weights_are_quantized_per_tensor_or_per_filter():
    x = flow.tensor([[[127.0]]])
    for is_whole, small in ((True, 0.0), (False, 0.25)):
        layer = flow.nn.QatConv1d(1, 2, 1, bias=False, weight_quant_per_layer=is_whole)
        layer.weight.data.copy_(flow.tensor([[[127.0]], [[0.25]]]))
        np.testing.assert_allclose(layer(x).numpy(), [[[127.0**2], [small * 127.0]]], 1e-6)
