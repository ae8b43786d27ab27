"""Arithmetic on shapes against NumPy, with dimensions made unknown: the known results have to be right."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneflow.dialect import dtypes, ops  # noqa: F401
from oneflow.dialect.record import REGISTRY, Call, OperatorError
from oneflow.dialect.shapes import broadcast_shapes, is_identity, paired_axes, solve_like, solve_reshape
from oneflow.dialect.tensor_desc import TensorDesc

OP = Call(REGISTRY["reshape"], {}, {})
SIZES = st.sampled_from([0, 1, 1, 2, 3, 4, 6])
SHAPES = st.lists(SIZES, max_size=4).map(tuple)


def refines(static, loose):
    return TensorDesc(static, dtypes.float32).refines(TensorDesc(loose, dtypes.float32))


def loosen(data, shape):
    """`shape` with dimensions made unknown at random."""
    return tuple(None if data.draw(st.booleans()) else d for d in shape)


def or_error(function, *errors):
    try:
        return function()
    except errors:
        return None


@st.composite
def reshapes(draw):
    """A shape, and another of the same count or nearly so."""
    source = draw(SHAPES)
    rest, target = math.prod(source), list[Any]()
    while rest > 1 and len(target) < 4:
        target.append(draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0])))
        rest //= target[-1]
    target += [rest] if rest != 1 else []
    if target and draw(st.booleans()):
        target[draw(st.integers(0, len(target) - 1))] = draw(st.sampled_from([-1, -1, 1, 5, 0]))
    return source, tuple(target)


@given(st.lists(SHAPES, max_size=4), st.data())
def test_broadcast_shapes(shapes, data):
    want = or_error(lambda: np.broadcast_shapes(*shapes), ValueError)
    got = or_error(lambda: broadcast_shapes(OP, shapes), OperatorError)
    assert got == want
    if want is not None:
        assert refines(want, broadcast_shapes(OP, [loosen(data, s) for s in shapes]))


@given(reshapes(), st.data())
def test_solve_reshape(case, data):
    source, target = case
    want = or_error(lambda: np.zeros(source).reshape(target).shape, ValueError)
    assert or_error(lambda: solve_reshape(OP, source, target), OperatorError) == want
    if want is not None:
        assert refines(want, solve_reshape(OP, loosen(data, source), target))


@given(reshapes(), st.data())
def test_solve_like(case, data):
    source, target = case
    if -1 in target:
        return
    loose = [loosen(data, source), loosen(data, target)]
    if math.prod(source) == math.prod(target):
        assert refines(target, solve_like(OP, *loose))
    else:
        assert or_error(lambda: solve_like(OP, source, target), OperatorError) is None


@given(reshapes(), st.data())
def test_paired_axes_are_split_alike(case, data):
    """Cutting both sides of a reshape along a pair gives the reshape of the parts."""
    source, target = case
    if -1 in target or math.prod(source) != math.prod(target):
        return
    x = np.arange(math.prod(source)).reshape(source)
    for i, j in paired_axes(loosen(data, source), loosen(data, target)):
        assert source[i] == target[j]
        for k in range(source[i]):
            part = np.take(x, [k], i)
            np.testing.assert_array_equal(part.reshape(-1), np.take(x.reshape(target), [k], j).reshape(-1))


@pytest.mark.parametrize(
    "source,target,pairs",
    [
        ((4, 6), (4, 2, 3), [(0, 0)]),
        ((4, 6), (2, 2, 6), [(1, 2)]),
        ((None, 4), (None, 2, 2), [(0, 0)]),
        ((None, 4, 6), (None, 4, 6), [(0, 0), (1, 1), (2, 2)]),
        ((4, 6), (6, 4), []),
        ((1, 5), (5, 1), [(1, 0)]),
    ],
)
def test_pairs_of_axes_of_a_reshape(source, target, pairs):
    assert paired_axes(source, target) == pairs


@pytest.mark.parametrize(
    "source,target,solved",
    [
        ((None, 4), (-1, 4), (None, 4)),
        ((None, 4), (-1, 2), (None, 2)),
        ((None, 0), (-1, 2), (0, 2)),
        ((None, None), (6, 2), (6, 2)),
    ],
)
def test_reshape_of_unknown_sizes(source, target, solved):
    assert solve_reshape(OP, source, target) == solved


@pytest.mark.parametrize("source,target", [((None, 4), (3, 5)), ((None, 0), (3,)), ((None,), (-1, 0))])
def test_reshape_that_no_size_allows(source, target):
    with pytest.raises(OperatorError):
        solve_reshape(OP, source, target)


def test_reshape_like_is_solved():
    assert solve_like(OP, (6, 4), (None, 8)) == (3, 8)
    assert solve_like(OP, (None, 4), (None, 8)) == (None, 8)


def test_huge_sizes_do_not_overflow():
    with pytest.raises(OperatorError, match="expected a shape of 85070591730234615847396907784232501249 elements"):
        solve_reshape(OP, (2**63 - 1, 2**63 - 1), (1,))


def test_identities_of_unknown_sizes():
    assert is_identity((None, 4), (None, 4))
    assert not is_identity((None, None), (None, None))
    assert not is_identity((None, 0), (None, 0))


def test_ranks_that_numpy_does_not_support():
    assert solve_reshape(OP, (1,) * 100, (-1,)) == (1,)
    assert broadcast_shapes(OP, [(1,) * 100, (3,)]) == (*[1] * 99, 3)
