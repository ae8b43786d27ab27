"""Embeddings with bounded rows, compared with PyTorch's."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.core.errors import OneFlowError
from oneflow.runtime.failures import OutOfBoundsError

torch = pytest.importorskip("torch")

ROWS = np.random.default_rng(3).standard_normal((7, 4)).astype(np.float32)
#: Row 3 is never taken, others are several times.
AT = np.array([[0, 1, 1], [5, 6, 0]])


@pytest.mark.parametrize("options", [{"max_norm": 1.0}, {"max_norm": 2.0, "norm_type": 1.0},
                                     {"max_norm": 0.5, "norm_type": float("inf"), "padding_idx": 1}])  # fmt: skip
@pytest.mark.parametrize("compiled", [False, True])
def test_looked_up_rows_are_bounded_by_max_norm(options, compiled):
    def run(lib):
        layer = lib.nn.Embedding.from_pretrained(lib.tensor(ROWS), freeze=False, **options)
        optimizer = lib.optim.SGD(layer.parameters(), lr=0.5)

        def step(at):
            loss = (layer(at) ** 3).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        step = flow.compile(step) if compiled and lib is flow else step
        return [[step(lib.tensor(AT)).item(), layer.weight.detach().numpy().copy()] for _ in range(3)]

    for got, want in zip(run(flow), run(torch), strict=True):
        np.testing.assert_allclose(got[0], want[0], 1e-5)
        np.testing.assert_allclose(got[1], want[1], 1e-5, 1e-6)


@pytest.mark.parametrize(("kind", "unit"), [("bfloat16", 2**-8), ("float16", 2**-11), ("float64", 2**-50)])
def test_rows_of_other_types(kind, unit):
    """To half a unit in the last place of 16 bits; PyTorch rounds the norm first."""
    rows = flow.tensor(ROWS).to(getattr(flow, kind)) * 3
    layer = flow.nn.Embedding.from_pretrained(rows.clone(), max_norm=1.0)
    layer(flow.tensor(AT))
    before = rows.to(flow.float64).numpy()
    wanted, at = before.copy(), np.unique(AT)
    norms = np.linalg.norm(before[at], axis=1, keepdims=True)
    wanted[at] *= np.where(norms > 1, 1 / (norms + 1e-7), 1)
    np.testing.assert_allclose(layer.weight.detach().to(flow.float64).numpy(), wanted, unit * 1.01)


def test_rows_that_are_not_looked_up_keep_their_values():
    layer = flow.nn.Embedding(7, 4, max_norm=0.5)
    layer.eval()
    before = layer.weight.detach().numpy().copy()
    layer(flow.tensor(AT))
    after = layer.weight.detach().numpy()
    rows = sorted({*AT.ravel().tolist()})
    np.testing.assert_array_equal(np.delete(after, rows, 0), np.delete(before, rows, 0))
    np.testing.assert_allclose(np.linalg.norm(after[rows], axis=1), 0.5, 1e-5)


def test_an_index_that_is_no_row_is_an_error_at_the_user_s_line():
    layer = flow.nn.Embedding(7, 4, max_norm=0.5)
    with pytest.raises(
        OutOfBoundsError, match=r"expected an index in \[0, 7\), got 7 \(.*test_embedding_pytorch.py:"
    ):
        layer(flow.tensor([7]))


def test_unsupported_embedding_options_are_refused():
    for name in ("sparse", "scale_grad_by_freq"):
        with pytest.raises(ValueError, match="expected scale_grad_by_freq and sparse to be False"):
            flow.nn.Embedding(7, 4, **{name: True})  # type: ignore[arg-type]  # other parameters are no bools
        with pytest.raises(OneFlowError, match=f"expected {name}=False, got True"):
            flow.nn.functional.embedding(flow.tensor(AT), flow.tensor(ROWS), **{name: True})


def test_rows_of_an_argument_are_bounded_in_its_memory():
    rows = flow.tensor(ROWS)
    flow.compile(lambda w: flow.nn.functional.embedding(AT, w, max_norm=0.5))(rows)
    norms = np.linalg.norm(rows.numpy(), axis=1)
    np.testing.assert_allclose(norms[np.unique(AT)], 0.5, 1e-5)
    np.testing.assert_array_equal(rows.numpy()[3], ROWS[3])
