"""Functions that run on the host, against PyTorch: values and gradients."""

import numpy as np
import pytest

import oneflow as flow
import oneflow.nn.functional as F  # noqa: N812

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

RNG = np.random.default_rng(3)
MATRICES = RNG.normal(size=(2, 3, 3))
SCORES = RNG.normal(size=(6, 3, 4)).astype(np.float32)
TARGETS, LENGTHS = (
    np.array([[1, 2, 2], [3, 1, 0], [2, 2, 2]], np.int64),
    (np.array([6, 5, 4], np.int64), np.array([3, 2, 3], np.int64)),
)


@pytest.mark.parametrize("name", ["inv", "det"])
def test_inverses_and_determinants(name):
    x, y = torch.tensor(MATRICES, requires_grad=True), flow.tensor(MATRICES, requires_grad=True)
    want, got = getattr(torch.linalg, name)(x), getattr(flow.ops, name)(y)
    (want * want).sum().backward()
    (got * got).sum().backward()
    np.testing.assert_allclose(got.numpy(), want.detach().numpy(), rtol=1e-9)
    np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), rtol=1e-9)


def test_lu_factors():
    got = flow.ops.lu_decomposition(flow.tensor(MATRICES))
    for ours, theirs in zip(got, torch.linalg.lu_factor(torch.tensor(MATRICES)), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ctc_loss(reduction):
    found = []
    for f, functional in ((torch, torch.nn.functional), (flow, F)):
        x = f.tensor(SCORES, requires_grad=True)
        targets, lengths = f.tensor(TARGETS), [f.tensor(n) for n in LENGTHS]
        loss = functional.ctc_loss(
            functional.log_softmax(x, -1), targets, *lengths, reduction=reduction, zero_infinity=True
        )
        (loss * loss).sum().backward()
        found.append((loss.detach(), x.grad))
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)


def test_concatenated_targets_of_ctc_loss():
    flat = np.concatenate([row[:n] for row, n in zip(TARGETS, LENGTHS[1], strict=True)])
    log_probs = F.log_softmax(flow.tensor(SCORES), -1)
    padded, joined = (F.ctc_loss(log_probs, t, *LENGTHS, reduction="none").numpy() for t in (TARGETS, flat))
    np.testing.assert_array_equal(padded, joined)


def test_lengths_beyond_the_operands_are_refused():
    with pytest.raises(RuntimeError, match=r"input_lengths: expected numbers in \[0, 7\)"):
        F.ctc_loss(SCORES, TARGETS, np.array([6, 7, 4], np.int64), LENGTHS[1])


def test_nms():
    boxes = np.array([[0, 0, 4, 4], [1, 0.5, 5, 4], [5, 5, 7, 8], [0, 0, 4, 3.9]], np.float32)
    assert flow.nms(boxes, np.array([0.2, 0.9, 0.1, 0.8], np.float32), 0.5).numpy().tolist() == [1, 2]


def test_greedy_decoder():
    log_probs = np.log(
        np.array([[[0.7, 0.2, 0.1]], [[0.6, 0.3, 0.1]], [[0.1, 0.1, 0.8]], [[0.2, 0.7, 0.1]]], np.float32)
    )
    decoded, total = flow.ctc_greedy_decoder(log_probs, [4])
    assert decoded.numpy().tolist() == [[0, 1, 0, 0]]
    np.testing.assert_allclose(total.numpy(), -np.log([[0.7 * 0.6 * 0.8 * 0.7]]), rtol=1e-6)
