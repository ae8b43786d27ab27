"""Mutated inputs: a compiled function updates the caller's tensors and arrays in place, as in eager mode."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.core.errors import CallError

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def rows(x, y):
    x[1] = y
    x.T[0] += 1
    return x * 2


def arithmetic(x, y):
    before = x + y
    x *= 2
    x -= y
    return before, x[0]


def nothing_returned(x, y):
    x.copy_(y)


def both(x, y):
    y.add_(1)
    x.mul_(y)
    return y.sum()


def masked(x, y):
    x[x > 5] = -1
    x[[2, 0], 1] = y[:2]
    return x


FUNCTIONS = [rows, arithmetic, nothing_returned, both, masked]


@pytest.fixture(params=["cpu", "cuda"])
def device(request, cuda):
    return request.param


def of_tensors(device):
    return flow.tensor(X).to(device), flow.tensor(X[2]).to(device)


def of_views(device):
    return flow.tensor(np.tile(X, (2, 2))).to(device)[1:4, ::2], flow.tensor(X).to(device)[2]


@pytest.mark.parametrize("given", [of_tensors, of_views])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_mutated_tensors(function, given, device):
    run = flow.compile(function)
    args, plain = given(device), given("cpu")
    roots = [x.view_meta.root if x.is_view() else x for x in (*args, *plain)]
    for _ in range(3):
        got, want = run(*args), function(*plain)
        found, wanted = (r if isinstance(r, tuple) else () if r is None else (r,) for r in (got, want))
        for a, b in zip((*found, *args, *roots[:2]), (*wanted, *plain, *roots[2:]), strict=True):
            np.testing.assert_allclose(a.cpu().numpy(), b.numpy())


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_mutated_arrays(cuda, function, target):
    args, plain = (X.copy(), X[2].copy()), of_tensors("cpu")
    run = flow.compile(function, device=target)
    for _ in range(2):
        run(*args)
        function(*plain)
        for a, b in zip(args, plain, strict=True):
            np.testing.assert_allclose(a, b.numpy())


@pytest.mark.parametrize("given", [of_tensors, of_views, lambda device: (X.copy(), X[2].copy())])
def test_a_returned_argument_is_the_tensor_of_the_caller(given, device):
    def update(x, y):
        x.add_(y)
        return {"kept": y, "both": (x, x * 2)}

    x, y = given(device)
    first, second = (a.copy() if isinstance(a, np.ndarray) else np.array(a.cpu().numpy()) for a in (x, y))
    got = flow.compile(update, device=device)(x, y)
    assert got["both"][0] is x and got["kept"] is not y
    for a, b in ((x, first + second), (got["both"][1], 2 * (first + second)), (got["kept"], second)):
        np.testing.assert_allclose(a if isinstance(a, np.ndarray) else a.cpu().numpy(), b)
    alone = flow.compile(lambda x: x.mul_(2), device=device)
    assert alone(x) is x and alone(x) is x
    np.testing.assert_allclose(x if isinstance(x, np.ndarray) else x.cpu().numpy(), 4 * (first + second))


def test_mutated_views_of_arrays_and_nested_arguments():
    array = np.zeros((4, 6), np.float32)
    flow.compile(lambda given: given["x"][0].add_(1))({"x": [array[:, 1:3]]})
    assert array.sum() == 8 and array[:, 1:3].min() == 1


def test_updates_are_written_into_the_memory_of_an_argument():
    cache = flow.zeros(1000, 8)
    memory = cache.numpy()
    put = flow.compile(lambda cache, at: cache.__setitem__(at, 1.0) or at + 1)
    for i in range(3):
        put(cache, flow.tensor(i))
    assert memory.sum() == 24 and put.memory.in_place == memory.nbytes and put.memory.workspace < 1024


def test_mutations_that_are_refused():
    add = flow.compile(lambda x, y: x.add_(y))
    x, w = flow.tensor(X), flow.tensor(X).requires_grad_()
    frozen = X.copy()
    frozen.flags.writeable = False
    with pytest.raises(CallError, match=r"test_mutated_inputs.py:\d+: .*to be writable"):
        add(frozen, X)
    for other in (x, x[1], x.detach().numpy()):
        with pytest.raises(
            CallError, match=r"test_mutated_inputs.py:\d+: .*which the function updates, not to share memory with"
        ):
            add(x, other)
    nested = flow.compile(lambda given, y: given["w"][0].add_(y))
    with pytest.raises(CallError, match=r'expected argument given\["w"\]\[0\] to be writable'):
        nested({"w": [frozen]}, X)
    with pytest.raises(
        CallError, match=r'argument given\["w"\]\[0\], which the function updates.* pass given\["w"\]\[0\].clone'
    ):
        nested({"w": [x]}, x)
    outside = flow.compile(lambda given: x.add_(given["w"][1]))
    with pytest.raises(
        CallError, match=r'expected argument given\["w"\]\[1\] not to share memory with captured tensors'
    ):
        outside({"w": [X, x[0]]})
    used = flow.compile(lambda y: y.add_(x))
    with pytest.raises(CallError, match="which the function updates, not to share memory with"):
        used(x)
    for args in ((w, X), (flow.tensor(X), w), (w * 1, X)):
        with pytest.raises(RuntimeError, match=r"updates arguments in place.*flow.no_grad\(\)"):
            add(*args)
    np.testing.assert_array_equal(x.numpy(), X)
    with flow.no_grad():
        add(w, X)
    np.testing.assert_array_equal(w.detach().numpy(), X * 2)
    assert w.is_leaf and w.requires_grad
    with pytest.raises(flow.TraceError, match=r"only flow\.compile updates arguments"):
        flow.trace(lambda x: x.add_(1), flow.TensorSpec((2,), flow.float32))
    with pytest.raises(flow.TraceError, match="would update a leaf that requires grad"):
        flow.compile(flow.grad(lambda x: x.add_(1).sum()))(X)


def test_a_training_step_updates_its_arguments():
    def run(wrapped):
        flow.manual_seed(0)
        layer, total = flow.nn.Linear(4, 1), flow.zeros(2)
        optimizer = flow.optim.SGD(layer.parameters(), lr=0.1)

        @wrapped
        def step(x, total):
            loss = layer(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total[0] += loss.detach()
            total[1] += 1

        for _ in range(3):
            step(flow.tensor(X), total)
        return total.tolist()

    np.testing.assert_allclose(run(flow.compile), run(lambda f: f), 1e-5)


def test_mutating_functions_are_specialized_by_shape():
    add = flow.compile(lambda x: x.add_(1))
    for size in (2, 3, 2):
        x = flow.zeros(size)
        assert add(x).tolist() == x.tolist() == [1] * size
