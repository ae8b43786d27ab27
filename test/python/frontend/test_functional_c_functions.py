"""Functions of OneFlow's `_C` with other parameters than functions of `flow`."""

import numpy as np
import pytest

import oneflow as flow

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
LOGITS = np.array([[0.5, -1.0, 2.0], [1.0, 0.0, -0.5]], np.float32)
LOG_PROBABILITIES = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
LABEL = np.array([2, 0])
SOFT = np.array([[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]], np.float32)


def of(*arrays):
    return [flow.tensor(a) for a in arrays]


#: Calls of `_C`, and the results.
CALLS = {
    "softmax_cross_entropy": (lambda f: f(*of(LOGITS, SOFT)), -(SOFT * LOG_PROBABILITIES).sum(-1)),
    "sparse_softmax_cross_entropy": (lambda f: f(*of(LOGITS, LABEL)), -LOG_PROBABILITIES[[0, 1], LABEL]),
    "smooth_l1_loss": (
        lambda f: f(*of(np.array([0, 3], np.float32), np.array([1, 0], np.float32)), 2.0, "none"), [0.25, 2.0]
    ),
    "slice": (lambda f: f(*of(X[0]), [0, 1], [3, 4], [2, 1]), X[0, 0:3:2, 1:4]),
    "slice_update": (
        lambda f: f(*of(np.zeros((2, 2), np.float32), np.ones((2, 1), np.float32)), [0, 1], [2, 2], [1, 1]),
        [[0, 1], [0, 1]],
    ),
    "gather": (lambda f: f(*of(X, np.array([1, 0])), 2), X[:, :, [1, 0]]),
    "embedding": (lambda f: f(*of(X[0], np.array([2, 0]))), X[0, [2, 0]]),
    "matmul": (lambda f: f(*of(X[0], X[1]), False, True, 0.5), 0.5 * X[0] @ X[1].T),
    "pixel_shuffle": (lambda f: f(*of(X[:, :2, None]), 2, 1), np.stack([X[:, 0], X[:, 1]], 1)[:, None]),
    "fused_mlp": (lambda f: f(X[0], [-np.eye(4, dtype=np.float32)], of(np.full(4, 5, np.float32)), False),
                  np.maximum(5 - X[0], 0)),
    "reduce_sum_like": (lambda f: f(*of(X[0], X[0, :, :1]), [1]), X[0].sum(1, keepdims=True)),
    "isclose": (lambda f: f(*of(np.array([1.0], np.float32), np.array([1.5], np.float32)), 1.0, 0.0), [True]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_functions_take_arguments_in_the_order_of_oneflow(name):
    call, wanted = CALLS[name]
    np.testing.assert_allclose(call(getattr(flow._C, name)).numpy(), wanted, rtol=1e-6)


def test_arguments_by_oneflows_names():
    logits, label = of(LOGITS, LABEL)
    by_name = flow._C.sparse_softmax_cross_entropy(label=label, logits=logits)
    np.testing.assert_allclose(by_name.numpy(), -LOG_PROBABILITIES[[0, 1], LABEL], rtol=1e-6)
    loss = flow._C.softmax_cross_entropy(logits.requires_grad_(), flow.tensor(SOFT)).sum()
    loss.backward()
    np.testing.assert_allclose(logits.grad.numpy(), np.exp(LOG_PROBABILITIES) - SOFT, rtol=1e-5)


def test_too_many_arguments_are_refused():
    (x,) = of(X)
    with pytest.raises(RuntimeError, match="expected at most 3 arguments"):
        flow._C.pixel_shuffle(x, 1, 1, 1)
    with pytest.raises(RuntimeError, match="got 4 arguments"):
        flow._C.reduce_sum_like(x, x, [1], 1)


def test_roi_align_averages_regions_of_images():
    image = flow.tensor(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4))
    rois = flow.tensor(np.array([[0, 0, 0, 2, 2]], np.float32))
    whole = flow.roi_align(image, rois, 1.0, 1, 1, 2)
    np.testing.assert_allclose(whole.numpy(), [[[[5.0]]]])
    assert flow._C.roi_align(image, rois, 1.0, 2, 2, 1, True).shape == (1, 1, 2, 2)


def test_new_tensors_with_the_type_and_device_of_a_tensor():
    x = flow.ones(2, 3, dtype=flow.float64).to_global(flow.placement("cpu", [0, 1]), flow.sbp.split(0))
    for make, fill in ((flow.new_zeros, 0), (flow.new_ones, 1)):
        y = make(x)
        assert (y.shape, y.dtype, y.sbp, y.placement) == (x.shape, x.dtype, x.sbp, x.placement)
        np.testing.assert_array_equal(y.numpy(), np.full((2, 3), fill))
    local = flow.tensor(np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    moved = local.type_as(x)
    assert (moved.dtype, moved.sbp, moved.placement) == (x.dtype, x.sbp, x.placement)
    assert moved.numpy().tolist() == local.tolist()
    assert x.type_as(local).dtype == local.dtype and not x.type_as(local).is_global
    assert flow.new_full(flow.ones(2), (3,), 7.0).tolist() == [7, 7, 7]
    assert flow.new_empty(x, size=(4, 1)).shape == (4, 1)
