"""Updates of a tensor show in the views of the tensor, and the reverse; compared with PyTorch."""

from typing import Any

import numpy as np
import pytest
from call_counts import recorded

import oneflow as flow

torch = pytest.importorskip("torch")

TAKEN = {
    "row": lambda x: x[1], "column": lambda x: x[:, -1], "step": lambda x: x[::2, None, 1:], "one": lambda x: x[0][1],
    "view": lambda x: x.view(-1), "reshape": lambda x: x.reshape(2, 6), "T": lambda x: x.T, "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(0, 1), "permute": lambda x: x.permute(1, 0),
    "select": lambda x: x.select(1, 2), "narrow": lambda x: x.narrow(1, -2, 2), "unbind": lambda x: x.unbind(1)[2],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "split": lambda x: x.split([1, 2])[1], "unsqueeze": lambda x: x.unsqueeze(1), "flatten": lambda x: x.flatten(),
    "squeeze": lambda x: x[:1].squeeze(0), "of a view": lambda x: x.T[1:].T[0], "detach": lambda x: x[1].detach(),
    "data": lambda x: x.T.data, "movedim": lambda x: x.movedim(0, 1), "copied": lambda x: x.T.reshape(-1),
    "view of a copy": lambda x: x.T.reshape(-1)[2:5], "repeat": lambda x: x.repeat(1, 2), "list": lambda x: x[[0, 2]],
}  # fmt: skip
#: Views to which PyTorch gives no gradient when the view is updated.
WITHOUT_GRADIENT = ("detach", "data", "unbind", "chunk", "split")
UPDATES = {
    "add_": lambda v: v.add_(1), "fill_": lambda v: v.fill_(7), "copy_": lambda v: v.copy_(v * 3),
    "setitem": lambda v: v.__setitem__(Ellipsis, 5), "zero_": lambda v: v.zero_(),
}  # fmt: skip


def elements(lib):
    return lib.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("taken", TAKEN)
def test_an_update_of_a_view_is_one_of_the_tensor(taken, update):
    def run(lib):
        x = elements(lib)
        whole, v, again = x.view(4, 3), TAKEN[taken](x), TAKEN[taken](x)
        UPDATES[update](v)
        return [np.array(t.tolist()) for t in (x, whole, v, again)]

    for got, want in zip(run(flow), run(torch), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("taken", TAKEN)
def test_an_update_of_the_tensor_shows_in_views(taken):
    def run(lib):
        x = elements(lib)
        v = TAKEN[taken](x)
        x.mul_(2)
        x[1] = -1
        return np.array((v + 0).tolist())

    np.testing.assert_array_equal(run(flow), run(torch))


@pytest.mark.parametrize("taken", [n for n in TAKEN if n not in WITHOUT_GRADIENT])
@pytest.mark.parametrize("weight", [False, True])
def test_gradients_flow_through_updates_of_views(taken, weight):
    def run(lib):
        leaf, w = elements(lib).requires_grad_(), lib.tensor(3.0, requires_grad=weight)
        x = leaf * 2
        v = TAKEN[taken](x)
        v.mul_(w)
        x[2] *= 2
        ((x * x).sum() + (v * 5).sum()).backward()
        return leaf.grad.numpy(), w.grad.numpy() if weight else 0

    for got, want in zip(run(flow), run(torch), strict=True):
        np.testing.assert_allclose(got, want)


def test_tensors_tell_whether_they_are_views():
    def answers(x):
        return [y.is_view() for y in (x + 1, x.T, x.reshape(-1)[2:], x.T.contiguous())]

    wanted = [False, True, True, False]
    assert answers(elements(flow)) == wanted
    traced: list[Any] = []
    flow.compile(recorded(lambda x: x, traced, answers))(elements(flow))
    assert traced == [wanted]


def test_views_of_leaves_are_updated_within_no_grad():
    leaf = flow.zeros(2, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="would update a leaf that requires grad"):
        leaf[0].add_(1)
    with flow.no_grad():
        leaf[0].add_(1)
        row = leaf[1]
        row[2] = 5
    flow.nn.init.constant_(leaf[1][:1], 4)
    assert leaf.tolist() == [[1, 1, 1], [4, 0, 5]] and leaf.is_leaf
    (leaf[1] * leaf).sum().backward()
    assert leaf.grad.tolist() == [[4, 0, 5], [9, 1, 11]]


def test_updates_that_would_be_lost_are_refused():
    with pytest.raises(RuntimeError, match=r"add_ would update an expanded tensor.*write x.clone\(\)"):
        flow.ones(1, 3).expand(2, 3).add_(1)
    x, w = flow.ones(2, 2), flow.ones(2).requires_grad_()
    with pytest.raises(RuntimeError, match=r"gradient to a view that was made by detach\(\)"):
        x[0].detach().mul_(w)
    with pytest.raises(RuntimeError, match="does not fit into"):
        x[0].add_(flow.ones(2, 2))
    assert x.tolist() == [[1, 1], [1, 1]]


def test_a_tensor_with_replaced_memory_is_not_a_view():
    x = flow.zeros(2, 2)
    row = x[0]
    row.data = flow.ones(3)
    row.add_(1)
    assert row.tolist() == [2, 2, 2] and x.tolist() == [[0, 0], [0, 0]]
    column = x.T[0]
    x.data = flow.ones(3)
    column.add_(1)
    assert column.tolist() == [1, 1] and x.tolist() == [1, 1, 1]


@pytest.mark.parametrize("compiled", [False, True])
def test_views_stay_in_the_memory_that_a_tensor_had(compiled):
    """Views see writes from before `data` was set, and updates of one another, as in PyTorch."""

    def run(lib):
        x, other = lib.tensor(np.arange(4, dtype=np.float32)), lib.tensor(np.full(4, 9, np.float32))
        v, copied = x[1:], x.detach()
        part = v[1:]
        update = lambda y: v.add_(y) * 1  # noqa: E731
        update = flow.compile(update) if compiled and lib is flow else update
        update(lib.ones(3))
        x.add_(10)
        x.data = other
        found = [update(lib.ones(3) * 5).tolist(), v.tolist(), part.tolist(), copied.tolist()]
        part.mul_(2)
        copied[3] = -1
        return [*found, v.tolist(), part.tolist(), copied.tolist(), x.tolist(), x[1:].tolist(), other.tolist()]

    assert run(flow) == run(torch)


def test_views_of_a_leaf_whose_memory_is_replaced():
    def run(lib):
        w = lib.nn.Parameter(lib.tensor(np.arange(4, dtype=np.float32)))
        v = w[1:]
        w.data = lib.tensor(np.full(4, 9, np.float32))
        (v * 2).sum().backward()
        (w * w).sum().backward()
        return v.tolist(), w.tolist(), w.grad.tolist()

    assert run(flow) == run(torch)


def test_views_of_a_leaf_in_the_memory_of_an_array():
    """The tensors show writes into the array, and gradients use the written values."""

    def run(lib):
        array = np.arange(6, dtype=np.float32)
        w = lib.from_numpy(array).requires_grad_()
        v, turned, copied = w[1:4], w.reshape(2, 3).T, w.detach()[2:]
        array[2] = 50
        found = [(v * 1).tolist(), turned.tolist(), copied.tolist()]
        (v * v).sum().backward()
        (turned * turned).sum().backward()
        array[3] = -1
        (v * v * v).sum().backward()
        return [*found, v.tolist(), w.grad.tolist()]

    assert run(flow) == run(torch)


def test_a_compiled_function_updates_views():
    x = flow.zeros(2, 3)
    row = x[1]
    add = flow.compile(lambda y: row.add_(y).sum())
    for _ in range(2):
        add(flow.ones(3))
    assert x.tolist() == [[0, 0, 0], [2, 2, 2]] and row.tolist() == [2, 2, 2]
    x.fill_(1)
    assert float(add(flow.ones(3))) == 6


EXPOSED = {
    "row": lambda x: x[1],
    "column": lambda x: x[:, 1],
    "element": lambda x: x[0, 1],
    "turned": lambda x: x.T,
    "flat": lambda x: x.view(-1),
    "part of a part": lambda x: x[1][1:],
    "detached": lambda x: x[0].detach(),
    "the whole": lambda x: x,
}


@pytest.mark.parametrize("name", EXPOSED)
def test_arrays_of_views_are_in_the_memory_of_the_tensor(name):
    """As in PyTorch: writes into an array show in the tensor and its views, and updates show in the array."""

    def run(lib):
        x = lib.zeros(2, 3)
        first, view = x[0], EXPOSED[name](x)
        array = view.numpy()
        array[...] = 7
        seen = [x.tolist(), view.tolist(), first.tolist(), (view + 1).tolist()]
        x.add_(1)
        return [*seen, array.tolist(), np.from_dlpack(view).tolist(), view.tolist(), (x * 2).tolist()]

    assert run(flow) == run(torch)


def test_arrays_of_expanded_views_and_results_are_their_own():
    x = flow.ones(2, 1)
    x.expand(2, 3).numpy()[0, 0] = 5
    assert x.tolist() == [[1], [1]]


def test_writes_to_the_array_of_a_detached_tensor_reach_gradients():
    w = flow.tensor([1.0, 1.0, 1.0], requires_grad=True)
    w.detach()[1:].numpy()[0] = 3
    part = w[:2]
    (part * part).sum().backward()
    assert w.tolist() == [1, 3, 1] and w.grad.tolist() == [2, 6, 0]


def test_views_of_an_array_show_what_is_written_into_it():
    def run(lib):
        array = np.arange(6, dtype=np.float32)
        x, other = lib.from_numpy(array), lib.from_numpy(array[2:])
        v, turned = x[1:], x.reshape(2, 3).T
        other.add_(10)
        found = [(v + 0).tolist(), (turned * 1).tolist()]
        array[:3] = -1
        v.mul_(2)
        return [*found, v.tolist(), turned.tolist(), x.tolist(), array.tolist(), other.tolist()]

    assert run(flow) == run(torch)


@pytest.mark.parametrize("compiled", [False, True])
def test_parameters_lie_in_one_buffer(compiled):
    """The `data` of each parameter is set to a part of the buffer."""

    def run(lib):
        flat = lib.tensor(np.arange(10, dtype=np.float32) / 10)
        w, b = lib.nn.Parameter(lib.ones(2, 3)), lib.nn.Parameter(lib.ones(3))
        w.data, b.data = flat[0:6].view(2, 3), flat[6:9]
        optimizer, found = lib.optim.SGD([w, b], lr=0.1), []

        def step(x):
            loss = ((x @ w + b) ** 2).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            with lib.no_grad():
                flat.mul_(0.5)
            return loss.detach()

        step = flow.compile(step) if compiled and lib is flow else step
        for _ in range(3):
            found += [step(lib.ones(1, 2)).item(), flat.tolist(), w.detach().tolist(), b.tolist()]
        assert w.is_leaf and w.requires_grad and w.shape == (2, 3)
        b.data = lib.ones(3)
        flat.zero_()
        return [*found, w.tolist(), b.tolist()]

    for got, want in zip(run(flow), run(torch), strict=True):
        np.testing.assert_allclose(got, want, 1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_are_added_up_in_one_buffer(compiled):
    """The `grad` of each parameter is set to a part of the buffer."""

    def run(lib):
        sums, found = lib.zeros(6), []
        p, q = (lib.nn.Parameter(lib.ones(3)) for _ in range(2))
        p.grad, q.grad = sums[:3], sums[3:]

        def step(x):
            (p * p * x + q * x).sum().backward()
            with lib.no_grad():
                total = sums * 1
                sums.mul_(0.5)
            return total

        step = flow.compile(step) if compiled and lib is flow else step
        for number in range(3):
            found += [
                step(lib.tensor(np.float32(number + 1))).tolist(),
                sums.tolist(),
                p.grad.tolist(),
                q.grad.tolist(),
            ]
        return found

    assert run(flow) == run(torch)


def test_gradients_flow_through_updates_of_no_elements():
    w = flow.ones(3).requires_grad_()
    y = w * 2
    none = y[1:1]
    none.add_(1)
    none[...] = y[:0] * 3
    none.copy_(w[3:])
    (y * y).sum().backward()
    assert y.tolist() == [2, 2, 2] and none.tolist() == [] and w.grad.tolist() == [8, 8, 8]
