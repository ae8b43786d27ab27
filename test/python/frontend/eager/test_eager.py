"""Eager mode: values, gradients against finite differences, rules of leaves, updates in place."""

import copy

import numpy as np
import pytest
from compositions import differences

import oneflow as flow
import oneflow.nn.functional as F  # noqa: N812
from oneflow.frontend.eager.tensor import BUILDER

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.uniform(-1, 1, shape)


def check_gradients(function, *arrays):
    """The gradients by `backward` equal finite differences."""
    leaves = [flow.tensor(a, requires_grad=True) for a in arrays]
    function(*leaves).backward()
    wanted = differences(lambda *xs: function(*map(flow.tensor, xs)).item(), arrays)
    for leaf, want in zip(leaves, wanted, strict=True):
        got = np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy()
        np.testing.assert_allclose(got, want, 1e-5, 1e-7)


def test_tensor_from_data():
    assert flow.tensor([1.5, 2]).dtype == flow.float32
    assert flow.tensor([1, 2]).dtype == flow.int64
    assert flow.tensor(True).dtype == flow.bool
    assert flow.tensor(np.ones(2)).dtype == flow.float64
    assert flow.tensor([1, 2], dtype=flow.float64).dtype == flow.float64
    with pytest.raises(TypeError, match="datetime64"):
        flow.tensor(np.ones(2, "M8[s]"))
    with pytest.raises(RuntimeError, match="expected floats or complex numbers to require a gradient"):
        flow.tensor([1], requires_grad=True)


def test_memory_is_shared_or_copied():
    array = np.zeros(3, np.float32)
    shared, copied = flow.from_numpy(array), flow.tensor(array)
    array[0] = 1
    assert shared.tolist() == [1, 0, 0] and copied.tolist() == [0, 0, 0]
    shared.add_(1)
    assert array.tolist() == [2, 1, 1]


def test_values_of_a_tensor():
    x = flow.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert float(x.sum()) == 10 and int(x[1, 1]) == 4 and bool(x[0, 0] == 1) and x.max().item() == 4
    assert len(x) == 2 and [r.tolist() for r in x] == [[1, 2], [3, 4]]
    assert 3.0 in x and 5.0 not in x
    assert [10, 20, 30][flow.tensor(1)] == 20
    assert np.asarray(x).dtype == np.float32
    assert repr(x) == "tensor([[1., 2.],\n        [3., 4.]], dtype=oneflow.float32)"
    with pytest.raises(ValueError, match="expected one element"):
        x.item()
    with pytest.raises(TypeError, match="one integer as an index"):
        [1, 2][flow.tensor(1.0)]


FUNCTIONS = [
    (lambda x, y: x + y * 2.5 - 1, ((3, 4), (4,))),
    (lambda x, y: (x @ y).relu(), ((3, 4), (4, 2))),
    (lambda x, y: flow.where(x > 0, x, y).exp(), ((3, 4), (3, 1))),
    (lambda x, y: F.softmax(x, 0) * F.layer_norm(y, 4), ((3, 4), (3, 4))),
    (lambda x: x[1:, ::2].square() * x[0, 1], ((3, 4),)),
    (lambda x: flow.cat([x, x.t()], 1).tanh(), ((3, 3),)),
    (lambda x: (x * x).sum(0) / x.abs().mean(), ((3, 4),)),
    (lambda x: x[flow.tensor([0, 2, 0])].pow(3), ((3, 4),)),
    (lambda x: x[flow.tensor([True, False, True])].sigmoid(), ((3, 4),)),
    (lambda x, w: F.conv2d(x, w, padding=1).square(), ((1, 2, 4, 4), (3, 2, 3, 3))),
    (lambda x: sum(part.square() * i for i, part in enumerate(x)), ((3, 4),)),
]


@pytest.mark.parametrize("function,shapes", FUNCTIONS)
def test_gradients_are_finite_differences(function, shapes):
    check_gradients(lambda *xs: function(*xs).sum(), *[drawn(*s) for s in shapes])


def test_gradients_equal_those_of_the_compiled_program():
    x = drawn(4, 3)

    def loss(v):
        return (F.gelu(v) * v.sin()).mean()

    leaf = flow.tensor(x, requires_grad=True)
    loss(leaf).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), flow.compile(flow.grad(loss))(x), 1e-12)


def test_gradients_accumulate():
    x = flow.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(2):
        (x * x).sum().backward()
    held = x.grad
    assert held.tolist() == [4, 8]
    x.sum().backward()
    assert x.grad is held and held.tolist() == [5, 9]
    x.grad = None
    (x + x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_gradients_have_memory_of_their_own():
    x, y = (flow.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    seed = flow.tensor([1.0, 1.0])
    (x + y).backward(seed)
    x.grad.zero_()
    assert y.grad.tolist() == [1, 1] and seed.tolist() == [1, 1]


def test_cotangents_of_results():
    x = flow.tensor([1.0, 2.0], requires_grad=True)
    (x * x).backward(flow.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2, 40]
    with pytest.raises(RuntimeError, match="expected one real element to call backward"):
        (x * x).backward()
    with pytest.raises(RuntimeError, match=r"expected a gradient of type tensor<2xf32>"):
        (x * x).backward(flow.tensor([1.0]))


def test_graph_is_freed():
    x = flow.tensor([1.0], requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4]
    with pytest.raises(RuntimeError, match=r"backward through oneflow\.\w+ a second time.*retain_graph=True"):
        y.backward()


def test_leaves():
    x = flow.tensor([1.0], requires_grad=True)
    y = x * 2
    assert x.is_leaf and not y.is_leaf and y.requires_grad and y.grad_fn == "oneflow.broadcast_mul"
    assert not (x > 0).requires_grad and not x.detach().requires_grad
    with pytest.raises(RuntimeError, match="use detach"):
        y.requires_grad_(False)
    y.retain_grad()
    y.sum().backward()
    assert y.grad.tolist() == [1] and x.grad.tolist() == [2]
    x.requires_grad_(False)
    assert not (x * 2).requires_grad and x.grad.tolist() == [2]
    with pytest.raises(RuntimeError, match="does not require grad"):
        (x * 2).sum().backward()
    x.requires_grad_(True)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5]
    x.requires_grad_(False)
    x.grad = None
    assert x.requires_grad_().grad is None


def test_no_grad():
    x = flow.tensor([1.0], requires_grad=True)
    with flow.no_grad():
        assert not (x * 2).requires_grad and not flow.is_grad_enabled()
        with flow.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad

    @flow.no_grad()
    def function(v, depth=2):
        return function(v, depth - 1) if depth else v * 2

    assert not function(x).requires_grad and flow.is_grad_enabled()
    with flow.set_grad_enabled(False):
        assert not (x * 2).requires_grad


def test_no_grad_of_a_generator_covers_its_steps_alone():
    seen = []

    @flow.no_grad()
    def steps():
        try:
            sent = yield flow.is_grad_enabled()
            with pytest.raises(KeyError):
                yield sent, flow.is_grad_enabled()
            yield flow.is_grad_enabled()
        finally:
            seen.append(flow.is_grad_enabled())

    made = steps()
    assert next(made) is False and flow.is_grad_enabled()
    assert made.send(3) == (3, False) and made.throw(KeyError) is False and flow.is_grad_enabled()
    made.close()
    assert seen == [False] and flow.is_grad_enabled()


def test_set_grad_enabled_as_a_statement_and_a_decorator():
    flow.set_grad_enabled(False)
    try:
        assert not flow.is_grad_enabled()
    finally:
        flow.set_grad_enabled(True)
    without = flow.set_grad_enabled(mode=False)(flow.is_grad_enabled)
    assert flow.is_grad_enabled() and without() is False and flow.is_grad_enabled()
    with flow.no_grad(), flow.set_grad_enabled(True):
        assert without() is False and flow.is_grad_enabled()
    assert flow.is_grad_enabled()


@pytest.mark.parametrize("wrong", [2.0, -0.5, float("nan")])
@pytest.mark.parametrize(
    "draw",
    [
        lambda p: flow.bernoulli(flow.tensor([0.5, p])),
        lambda p: flow.bernoulli(flow.ones(2), p),
        lambda p: flow.zeros(2).bernoulli_(p),
        lambda p: flow.zeros(2).bernoulli_(flow.tensor(p)),
        lambda p: flow.compile(lambda x: x.bernoulli_(p))(flow.zeros(2)),
    ],
)
def test_probabilities_are_between_0_and_1(draw, wrong):
    with pytest.raises(flow.OneFlowError, match=f"expected (a probability|probabilities) of 0 to 1.*got {wrong}"):
        draw(wrong)


def test_a_path_without_a_gradient_is_named():
    x = flow.tensor([0.5], requires_grad=True)
    y = (flow.bernoulli(x * 0.5) + x).sum()
    with pytest.raises(ValueError, match=r"oneflow.bernoulli has no gradient: .*broadcast_mul -> oneflow.bernoulli"):
        y.backward()


def test_gradient_of_a_gradient():
    x = flow.tensor([1.0, 2.0], dtype=flow.float64, requires_grad=True)
    (dx,) = flow.autograd.grad((x**3).sum(), x, create_graph=True)
    np.testing.assert_allclose(dx.detach().numpy(), [3, 12])
    dx.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [6, 12])


def test_autograd_grad():
    x, y = (flow.tensor([v], requires_grad=True) for v in (2.0, 3.0))
    z = x * y
    by_x, by_y = flow.autograd.grad(z, (x, y), retain_graph=True)
    assert by_x.tolist() == [3] and by_y.tolist() == [2] and x.grad is None
    (by_z,) = flow.autograd.grad((z * z).sum(), z)
    assert by_z.tolist() == [12]
    assert flow.autograd.grad(x * 2, (x, y), allow_unused=True)[1] is None
    with pytest.raises(RuntimeError, match="do not depend on input 1"):
        flow.autograd.grad(x * 2, (x, y))


def test_operators_are_compiled_once():
    x = flow.tensor(drawn(5, 7))
    x + x * 0.125
    before = len(BUILDER.kernels.items())
    for factor in range(10):
        x + x * (factor / 7)
    assert len(BUILDER.kernels.items()) == before


def test_deepcopy_is_a_leaf_of_its_own():
    x = flow.tensor([1.0], requires_grad=True)
    y = copy.deepcopy(x)
    y.sum().backward()
    assert x.grad is None and y.grad.tolist() == [1]


MADE = {
    "zeros": lambda f, x, **k: f.zeros(2, 3, **k), "ones": lambda f, x, **k: f.ones((2, 3), **k),
    "full": lambda f, x, **k: f.full((2,), 3.0, **k), "arange": lambda f, x, **k: f.arange(3.0, **k),
    "linspace": lambda f, x, **k: f.linspace(0, 1, 3, **k), "eye": lambda f, x, **k: f.eye(2, **k),
    "zeros_like": lambda f, x, **k: f.zeros_like(x, **k), "full_like": lambda f, x, **k: f.full_like(x, 2.0, **k),
    "randn": lambda f, x, **k: f.randn(2, **k), "tensor": lambda f, x, **k: f.tensor([1.0, 2.0], **k),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_created_tensors_may_be_leaves(name):
    x = flow.tensor([1.0, 2.0], requires_grad=True)
    made = MADE[name](flow, x, requires_grad=True)
    assert made.is_leaf and made.requires_grad
    (made * 2).sum().backward()
    assert made.grad.tolist() == (flow.ones(*made.shape) * 2).tolist() and x.grad is None
    assert not MADE[name](flow, x.detach()).requires_grad
