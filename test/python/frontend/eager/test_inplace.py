"""Updates in place: values, gradients through updates, and stale values that gradients read."""

import numpy as np
import pytest
from test_eager import check_gradients, drawn

import oneflow as flow


def test_values_of_inplace_updates():
    x = flow.tensor([1.0, -2.0])
    same = x
    x += 1
    x *= 2
    x.sub_(flow.tensor([1.0, 0.0])).abs_()
    assert same is x and x.tolist() == [3, 2]
    x.fill_(7)
    assert x.tolist() == [7, 7]
    x.copy_(flow.tensor(3))
    assert x.tolist() == [3, 3] and x.dtype == flow.float32
    x.zero_()
    assert x.tolist() == [0, 0]
    n = flow.tensor([5, 7])
    n //= 2
    assert n.tolist() == [2, 3] and n.dtype == flow.int64
    n += True
    with pytest.raises(RuntimeError, match=r"add_ gives tensor<2xf32>, which does not fit into tensor<2xi64>"):
        n += 0.5
    with pytest.raises(RuntimeError, match="does not fit into"):
        x.add_(flow.ones(3, 2))


def test_assignment_to_slices():
    x = flow.zeros(3, 4)
    x[1] = 1
    x[:, 2] = flow.tensor([5.0, 6.0, 7.0])
    x[flow.tensor([0, 2]), 0] = -1
    want = np.zeros((3, 4))
    want[1], want[:, 2], want[[0, 2], 0] = 1, [5, 6, 7], -1
    np.testing.assert_array_equal(x.numpy(), want)
    x[x < 0] = 9
    assert x[0, 0].item() == 9


def test_copies_share_no_memory():
    x = flow.tensor([1.0, 2.0])
    y = x.clone()
    z = flow.zeros(2).copy_(x)
    part, picked = x[:1], x[[0]]
    x.zero_()
    assert y.tolist() == z.tolist() == [1, 2] and picked.tolist() == [1] and part.tolist() == [0]
    shared = x.detach()
    x.add_(1)
    assert shared.tolist() == [1, 1]


def test_the_gradient_of_relu_reads_its_result_alone():
    x = flow.tensor([1.0, -2.0, 3.0], requires_grad=True)
    held = x * 1
    y = flow.relu(held)
    held.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [1, 0, 1]
    y = flow.relu(x * 1)
    with pytest.raises(RuntimeError, match="add_"):
        y.add_(1).sum().backward()


def updated(x, y):
    z = x * 2
    z += y
    z.mul_(x)
    z[1:, 0] = y[0, 0].exp()
    z[0] = 3.0
    return (z * z).sum()


def test_gradients_flow_through_updates():
    check_gradients(updated, drawn(3, 4), drawn(3, 4))


def test_gradients_of_copies():
    def function(x, y):
        z = x.sin()
        z.copy_(y)
        return (z * x + y.clone()).sum()

    check_gradients(function, drawn(3), drawn(3))


@pytest.mark.parametrize("update", [lambda y: y.fill_(3), lambda y: y.zero_(), lambda y: y.copy_(flow.ones(2)),
                                    lambda y: y.copy_(flow.ones(2).requires_grad_() * 3)])  # fmt: skip
def test_the_gradient_by_overwritten_values_is_zero(update):
    """An overwritten tensor still requires grad, also through its views, as in PyTorch."""
    x = flow.tensor([1.0, -2.0], requires_grad=True)
    y = x * 2
    view = y.view(2, 1)
    update(y)
    assert y.requires_grad and view.requires_grad
    ((y * y).sum() + view.sum()).backward()
    assert x.grad.tolist() == [0, 0]


def test_a_leaf_is_updated_within_no_grad():
    w = flow.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"mul_ would update a leaf that requires grad.*no_grad"):
        w *= 2
    with flow.no_grad():
        w *= 2
    (w * 3).sum().backward()
    assert w.is_leaf and w.tolist() == [2] and w.grad.tolist() == [3]


def test_both_uses_of_a_leaf_count():
    w = flow.tensor([1.0], requires_grad=True)
    before = w.sum()
    with flow.no_grad():
        w += 1
    (before + (w * 5).sum()).backward()
    assert w.grad.tolist() == [6]


def test_an_update_that_is_not_recorded_keeps_the_graph():
    x = flow.tensor([1.0, -1.0], requires_grad=True)
    y = x * 2
    with flow.no_grad():
        y.clamp_(0)
    y.sum().backward()
    assert y.tolist() == [2, 0] and x.grad.tolist() == [2, 2]


SPOILED = [
    (lambda x: x.exp(), "exp", "exp"),
    (lambda x: x * x.detach(), "broadcast_mul", "broadcast_mul"),
    (lambda x: flow.softmax(x), "softmax", "softmax"),
]


@pytest.mark.parametrize("function,operator,_", SPOILED)
def test_stale_values_are_errors(function, operator, _):
    x = flow.tensor(drawn(3), requires_grad=True)
    y = x * 2
    z = function(y)
    kept = z if operator != "broadcast_mul" else y
    kept.data.add_(1) if operator == "broadcast_mul" else kept.add_(1)
    with pytest.raises(RuntimeError, match=rf"the gradient of oneflow\.{operator} needs .* but add_ has updated it"):
        z.sum().backward()


def test_values_that_no_gradient_reads_may_be_updated():
    x, b = (flow.tensor(drawn(*s), requires_grad=True) for s in ((2, 3), (3,)))
    y = x + b
    y.add_(1)
    z = y.sum()
    with flow.no_grad():
        b.zero_()
        x.zero_()
    y.zero_()
    z.backward()
    assert b.grad.tolist() == [2, 2, 2] and x.grad.tolist() == [[1, 1, 1], [1, 1, 1]]


GATHERS = {
    "gather": (lambda rows, at: flow.gather(rows, 0, at), [[1, 1]]),
    "embedding": (lambda rows, at: flow.nn.functional.embedding(at, rows), [1, 1]),
    "index_select": (lambda rows, at: flow.index_select(rows, 0, at), [1, 1]),
}


@pytest.mark.parametrize("gathered,positions", GATHERS.values(), ids=GATHERS)
def test_the_table_that_a_gather_reads_may_be_updated_but_not_its_positions(gathered, positions):
    table, at = flow.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), flow.tensor(positions)
    rows = table * 1
    total = gathered(rows, at).sum()
    (want,) = flow.autograd.grad(total, [table], retain_graph=True)
    rows.zero_()
    total.backward(retain_graph=True)
    assert table.grad.tolist() == want.tolist() and table.grad[1, 0].item() > 0
    at.zero_()
    with pytest.raises(RuntimeError, match=r"needs tensor<.*xi64> as it was, but zero_ has updated it"):
        total.backward()


def test_a_stale_unused_result_is_an_error():
    x = flow.tensor([1.0], requires_grad=True)
    y = x.exp()
    z = y.sum()
    with flow.no_grad():
        y.zero_()
    with pytest.raises(RuntimeError, match=r"the gradient of oneflow\.exp needs .* but zero_ has updated"):
        z.backward()


UPDATES = [
    lambda t: t.data.fill_(3.0), lambda t: t.data.copy_(flow.tensor([5.0, 6.0])), lambda t: t.detach().clamp_(2, 3),
    lambda t: t.data.__setitem__(0, 7.0), lambda t: t.detach().mul_(2),
]  # fmt: skip


@pytest.mark.parametrize("update", UPDATES)
def test_updates_through_an_alias_take_effect(update):
    leaf = flow.nn.Parameter(flow.tensor([1.0, 4.0]))
    want = flow.tensor([1.0, 4.0])
    update(leaf)
    update(want)
    assert leaf.tolist() == want.tolist() and leaf.is_leaf
    (leaf * leaf).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), 2 * want.numpy())
    made = (leaf * 2).detach().requires_grad_() * 1
    update(made)
    assert made.requires_grad and (made + 0).tolist() == made.detach().tolist()


def test_a_stale_value_through_an_alias_is_an_error():
    leaf = flow.ones(2).requires_grad_()
    loss = (leaf * leaf).sum()
    leaf.data.fill_(2.0)
    with pytest.raises(RuntimeError, match="as it was, but fill_ has updated it"):
        loss.backward()


def test_states_gradients_and_buffers_may_be_updated_through_aliases():
    layer = flow.nn.Linear(2, 2)
    layer.state_dict()["weight"].fill_(0.5)
    layer.state_dict()["bias"].fill_(1.0)
    x = flow.ones(1, 2)
    layer(x).sum().backward()
    layer.weight.grad.data.zero_()
    layer(x).sum().backward()
    assert layer(x).tolist() == [[2, 2]] and layer.weight.grad.tolist() == [[1, 1], [1, 1]]
    norm = flow.nn.BatchNorm1d(2).eval()
    norm.running_mean.detach().fill_(1.0)
    np.testing.assert_allclose(norm(flow.ones(3, 2)).detach().numpy(), np.zeros((3, 2)), atol=1e-6)


def test_gradients_of_a_leaf_that_was_updated_after_the_call():
    leaf = flow.ones(2).requires_grad_()
    before = (leaf * 3).sum()
    leaf.data.fill_(2.0)
    (grad,) = flow.autograd.grad(before + (leaf * leaf).sum(), [leaf])
    assert grad.tolist() == [7, 7]


@pytest.mark.parametrize(
    "update",
    [
        lambda x: x.add_(1),
        lambda x: x.fill_(1),
        lambda x: x.copy_(flow.ones(3)),
        lambda x: x.__setitem__(0, 1.0),
        lambda x: x[1:].mul_(2),
        lambda x: x[1:].__setitem__(0, 1.0),
    ],
)
def test_an_update_of_a_read_only_array_is_an_error_at_the_users_line(update):
    array = np.array([1, 2, 3], "f")
    array.flags.writeable = False
    x = flow.from_numpy(array)
    y = x.detach().clone().requires_grad_()
    loss = (x * y).sum()
    with pytest.raises(flow.OneFlowError, match=r"test_inplace.py:\d+: expected a tensor in writable memory"):
        update(x)
    # The values that the gradient reads are unchanged.
    loss.backward()
    assert x.tolist() == y.grad.tolist() == [1, 2, 3]
