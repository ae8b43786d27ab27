"""Functions whose results have as many elements as values say, and `where` as a method."""

import numpy as np
import pytest

import oneflow as flow

ROWS = np.array([[2, 0, 1], [0, 0, 3], [2, 0, 1]])
DTYPES = ["float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool"]


def values(results):
    return [r.numpy().astype(np.int64).tolist() for r in results]


@pytest.mark.parametrize("name", DTYPES)
def test_positions(name):
    x = flow.tensor(ROWS).to(getattr(flow, name))
    rows = [[0, 0], [0, 2], [1, 2], [2, 0], [2, 2]]
    assert flow.nonzero(x).tolist() == x.argwhere().tolist() == rows
    assert [v.tolist() for v in x.nonzero(as_tuple=True)] == np.transpose(rows).tolist()
    assert [v.tolist() for v in flow.where(x)] == np.transpose(rows).tolist()
    assert x[x.nonzero(as_tuple=True)].numpy().astype(np.int64).tolist() == (
        [1] * 5 if name == "bool" else [2, 1, 3, 2, 1]
    )


def test_positions_of_scalars():
    assert flow.nonzero(flow.tensor(3.0)).shape == (1, 0)
    assert flow.nonzero(flow.tensor(0.0)).shape == (0, 0)
    assert flow.nonzero(flow.tensor(3.0), as_tuple=True)[0].tolist() == [0]


@pytest.mark.parametrize("name", DTYPES[:-1])
def test_unique(name):
    x = flow.tensor(ROWS).to(getattr(flow, name))
    assert x.unique().dtype == x.dtype
    found = flow.unique(x, return_inverse=True, return_counts=True)
    assert values(found) == [[0, 1, 2, 3], [[2, 0, 1], [0, 0, 3], [2, 0, 1]], [4, 2, 2, 1]]
    assert values(flow.unique(x, return_counts=True)) == [[0, 1, 2, 3], [4, 2, 2, 1]]
    found = x.unique(dim=0, return_inverse=True, return_counts=True)
    assert values(found) == [[[0, 0, 3], [2, 0, 1]], [1, 0, 1], [1, 2]]
    assert values(flow.unique(x, dim=-1, return_inverse=True)) == [[[0, 1, 2], [0, 3, 0], [0, 1, 2]], [2, 0, 1]]


def test_unique_in_the_order_of_occurrences():
    x = flow.tensor([3, 1, 2, 0, 2])
    found = flow.unique(x, sorted=False, return_inverse=True, return_counts=True)
    assert values(found) == [[3, 1, 2, 0], [0, 1, 2, 3, 2], [1, 1, 2, 1]]
    assert [part.dtype for part in found] == [flow.int64, flow.int32, flow.int32]
    assert flow.unique(x, return_counts=True, dtype=flow.int64)[1].dtype == flow.int64
    rows = flow.tensor([[2, 2], [1, 1], [2, 2]])
    assert values(flow.unique(rows, sorted=False, dim=0, return_inverse=True)) == [[[2, 2], [1, 1]], [0, 1, 0]]
    assert values(flow.unique(rows, False, dim=1)) == [[2], [1], [2]]


def test_unique_of_special_values():
    found, inverse, counts = flow.unique(flow.tensor([np.nan, 1.0, np.nan, -0.0, 0.0]), True, True, True)
    np.testing.assert_array_equal(found.numpy(), [0, 1, np.nan, np.nan])
    assert (inverse.tolist(), counts.tolist()) == ([2, 1, 3, 0, 0], [2, 1, 1, 1])
    found, inverse = flow.unique(flow.tensor(3.0), return_inverse=True)
    assert (found.tolist(), inverse.tolist(), inverse.shape) == ([3.0], 0, ())
    assert flow.unique(flow.tensor(np.zeros((0, 3), np.float32))).shape == (0,)


def test_masked_select_and_its_gradient():
    x = flow.tensor([1.0, 2.0, 3.0], requires_grad=True)
    found = x.masked_select(flow.tensor([[True, False, True], [True, True, False]]))
    assert found.tolist() == [1.0, 3.0, 1.0, 2.0]
    (found * found).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0, 6.0]
    assert flow.masked_select(flow.tensor([[1], [2]]), flow.tensor([True, False])).tolist() == [1, 2]


@pytest.mark.parametrize("name", ["nonzero", "unique", "masked_select", "argwhere", "where"])
def test_shapes_by_values_are_refused_in_traces(name):
    more = (lambda x: [x > 0]) if name == "masked_select" else lambda x: []
    with pytest.raises(flow.TraceError, match="depends on values, which are not known while a function is traced"):
        flow.compile(lambda x: getattr(flow, name)(x, *more(x)))(np.ones(3, np.float32))


def test_masks_that_do_not_fit():
    x = flow.tensor([[1.0, 2.0, 3.0]])
    with pytest.raises(flow.OneFlowError, match="a mask of bools for masked_select, got int64; write mask != 0"):
        flow.masked_select(x, flow.tensor([1, 0, 1]))
    with pytest.raises(flow.OneFlowError, match=r"mask that broadcasts to tensor<1x3xf32>, got one of shape \(2,\)"):
        flow.masked_select(x, flow.tensor([True, False]))


@pytest.mark.parametrize("condition", [np.array([1, 0]), np.array([True, False])])
def test_where_with_a_condition_alone(condition):
    x, y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    assert flow.tensor(condition).where(flow.tensor(x), flow.tensor(y)).tolist() == [1.0, 4.0]
    assert flow.compile(lambda c, x, y: c.where(x, y))(condition, x, y).tolist() == [1.0, 4.0]
    assert [v.tolist() for v in flow.tensor(condition).where()] == [[0]]


@pytest.mark.parametrize(("x", "first"), [([1.0, 2.0], [1.0, 0.0]), ([1, 2], [True, False])])
def test_where_with_an_invalid_condition(x, first):
    """A tensor of integers may be the condition, and may be `x` in PyTorch's form."""
    with pytest.raises(flow.OneFlowError, match=r"condition.where\(x, y\).*is flow.where\(condition, x, y\)"):
        flow.tensor(x).where(flow.tensor(first), 0)
