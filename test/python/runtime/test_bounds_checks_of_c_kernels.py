"""C kernels in debug mode: writes out of bounds and to inputs are errors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

import oneflow as flow
from oneflow.runtime.user_ops.bounds_checks import check_bounds

NUMBERS = itertools.count()
X = np.arange(6, dtype=np.float32)


@pytest.fixture(autouse=True)
def debug_mode() -> Iterator[None]:
    check_bounds(True)
    yield
    check_bounds(False)


def operator(source: str) -> str:
    name = f"guarded_c_{next(NUMBERS)}"
    flow.operator(f"{name}(x) -> y")(type("Guarded", (), {"types": "x", "kernel": flow.c_kernel(source)}))
    return name


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("y[-1] = 1;", "4 bytes before the start of y, which has 24 bytes"),
        ("for (int64_t i = 0; i < 8; ++i) y[i] = 1;", "0 bytes after the end of y, which has 24 bytes"),
        ("y[600000] = 1;", "2399976 bytes after the end of y"),
        ("", "did not write all of y: not 24 of its 24 bytes, the first of them at byte 0"),
        ("for (int i = 2; i < 6; ++i) y[i] = 1;", "not 8 of its 24 bytes, the first of them at byte 0"),
        ("((float *)x)[2] = 7;", "wrote its input x; declare the written tensor as an output"),
    ],
)
def test_writes_out_of_bounds_are_errors(source: str, message: str, compiled: bool) -> None:
    function = getattr(flow.ops, operator(source))
    given = X.copy()
    with pytest.raises(RuntimeError, match=message):
        flow.compile(function)(given) if compiled else function(flow.tensor(given))
    np.testing.assert_array_equal(given, X)


def test_correct_kernels_give_the_same_results() -> None:
    name = operator("for (int64_t i = 0; i < x_size; ++i) y[i] = 2 * x[i];")
    np.testing.assert_array_equal(flow.compile(getattr(flow.ops, name))(X), 2 * X)
    np.testing.assert_array_equal(getattr(flow.ops, name)(flow.tensor(X)).numpy(), 2 * X)


def test_failures_keep_their_text() -> None:
    name = operator('return "no luck";')
    with pytest.raises(RuntimeError, match="no luck"):
        getattr(flow.ops, name)(flow.tensor(X))
