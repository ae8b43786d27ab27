"""Donated arguments of results that change some elements: only these elements are written, on every device."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.core.dispatch import dispatch
from oneflow.testing.host_cuda import host_cuda

AT = np.array([[5], [2], [5]])
ROWS = -1 - np.arange(12, dtype=np.float32).reshape(3, 4)
SIZE = 40


def table():
    return np.arange(SIZE * 4, dtype=np.float32).reshape(SIZE, 4)


def set_rows(w, rows):
    w.copy_(dispatch("tensor_scatter_nd_update", w, rows, AT))
    return rows * 2


def set_after_reading(w, rows):
    read = flow.index_select(w, 0, AT[:, 0])
    w[AT[:, 0]] = read * rows
    return read + 1


def added(w, rows):
    w.copy_(dispatch("dim_scatter_add", w, np.broadcast_to(AT, (3, 4)), rows, dim=0))
    return rows + 1


def set_slices(w, rows):
    w[3:6] = rows
    w[::7, 1:3] = 0.5
    w[-1] = rows[0]
    return rows + 1


def moved_along(w, rows):
    w[1:] = w[:-1]
    return w[2]


def a_column(w, rows):
    w[:, 2] *= 2
    return rows.sum()


def read_again(w, rows):
    w[AT[:, 0]] = rows
    return w.sum(0)


def needed_as_it_was(w, rows):
    before = w * 1
    w[AT[:, 0]] = rows
    return before - w


def of_a_view(w, rows):
    w.T[:, AT[:, 0]] = rows.T
    return w[5]


FUNCTIONS = [
    set_rows, set_after_reading, added, read_again, needed_as_it_was, of_a_view, set_slices, moved_along, a_column,
]  # fmt: skip
#: Those in which nothing else needs the rows, and whose loops make no checks.
ALONE = [set_rows, set_after_reading, read_again, set_slices, a_column]


@pytest.fixture(params=["cpu", "cuda"])
def device(request, tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    with host_cuda():
        yield request.param


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_are_those_of_eager_mode(function, device):
    plain, w = flow.tensor(table()), flow.tensor(table()).to(device)
    run, rows = flow.compile(lambda rows: function(w, rows)), flow.tensor(ROWS)
    for _ in range(3):
        got, want = run(rows.to(device)), function(plain, rows)
        np.testing.assert_allclose(got.cpu().numpy(), want.numpy())
        np.testing.assert_allclose(w.cpu().numpy(), plain.numpy())


@pytest.mark.parametrize("function", ALONE, ids=lambda f: f.__name__)
def test_donated_loops_copy_nothing(function, device):
    w = flow.tensor(table()).to(device)
    run = flow.compile(lambda rows: function(w, rows))
    run(flow.tensor(ROWS).to(device))
    if device == "cpu":
        assert run.memory.in_place == SIZE * 16 and run.memory.workspace < SIZE * 16
    else:
        assert "run.copy" not in run.ir("triton")
