"""Gradients by plans: equal to the gradients by the rules, which the first gradient of each kernel follows."""

import weakref
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.eager import gradient_plans
from oneflow.frontend.eager.builder import EagerBuilder
from oneflow.frontend.eager.gradient_plans import GradientPlan
from oneflow.frontend.eager.kernel_cache import KernelCache
from oneflow.frontend.eager.tensor import BUILDER

rng = np.random.default_rng(0)


def leaf(*shape):
    return flow.tensor(rng.uniform(0.5, 2, shape).astype(np.float32), requires_grad=True)


@pytest.fixture
def runs(monkeypatch):
    """The names of the operators whose gradients plans compute."""
    names, run = [], GradientPlan.run

    def noted(self, builder, op, *rest):
        names.append(op.record.name)
        return run(self, builder, op, *rest)

    monkeypatch.setattr(gradient_plans.GradientPlan, "run", noted)
    return names


CALLS = {
    "broadcast": lambda x, y, w: x * y[0] / (1 + y * y),
    "number": lambda x, y, w: 3 * x**2 - y / 2,
    "product": lambda x, y, w: flow.gelu(x @ w) @ w,
    "several operands": lambda x, y, w: flow.cat([x, y, x * y], 1),
    "optional operand": lambda x, y, w: flow.nn.functional.linear(x, w, y[0]),
    "unused result": lambda x, y, w: flow.topk(x, 2)[0] * flow.max(y, 1)[0][:, None][:, :1],
    "positions": lambda x, y, w: flow.gather(x, 1, flow.tensor([[0], [2], [1], [1]])) * y,
    "windows": lambda x, y, w: flow.nn.functional.avg_pool1d(x[None], 2)[0] * y[:, :1],
    "identity": lambda x, y, w: x + y - x,
}


@pytest.mark.parametrize("kind", CALLS)
def test_later_gradients_equal_the_first(runs, kind):
    x, y, w = leaf(4, 3), leaf(4, 3), leaf(3, 3)
    first = flow.autograd.grad((CALLS[kind](x, y, w) ** 2).sum(), (x, y, w), allow_unused=True)
    runs.clear()
    for _ in range(2):
        again = flow.autograd.grad((CALLS[kind](x, y, w) ** 2).sum(), (x, y, w), allow_unused=True)
        for one, other in zip(first, again, strict=True):
            assert (one is None) == (other is None)
            assert one is None or one.numpy().tobytes() == other.numpy().tobytes()
    assert runs


def test_a_plan_of_a_square_serves_products_of_different_tensors(runs):
    x, y = leaf(5, 7), leaf(5, 7)
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * x.numpy())
    runs.clear()
    gx, gy = flow.autograd.grad((x * y).sum(), (x, y))
    assert "broadcast_mul" in runs
    np.testing.assert_array_equal(gx.numpy(), y.numpy())
    np.testing.assert_array_equal(gy.numpy(), x.numpy())


def test_only_wanted_gradients_are_computed():
    x, y = leaf(2, 9), leaf(2, 9)
    constant = flow.tensor(y.numpy())
    for _ in range(2):
        for a, b in ((x, constant), (constant, x), (x, y)):
            grads = flow.autograd.grad((a / b).sum(), [t for t in (a, b) if t.requires_grad])
            values = [1 / b.numpy(), -a.numpy() / b.numpy() ** 2]
            wanted = [v for v, t in zip(values, (a, b), strict=True) if t.requires_grad]
            for grad, value in zip(grads, wanted, strict=True):
                np.testing.assert_allclose(grad.numpy(), value, rtol=1e-6)


@pytest.mark.parametrize("rows", [3, 6], ids=["same size", "another size"])
def test_parts_of_a_concatenation_that_are_not_wanted_are_not_copied(monkeypatch, rows):
    monkeypatch.setattr(BUILDER, "kernels", KernelCache())
    x, constant, cotangent = leaf(3, 5), flow.ones(rows, 5), leaf(2 * rows + 3, 5).detach()
    for _ in range(2):
        (grad,) = flow.autograd.grad(flow.cat([constant, x, constant]), x, cotangent)
        np.testing.assert_array_equal(grad.numpy(), cotangent.numpy()[rows : rows + 3])
    calls = [kernel.op for _, kernel in BUILDER.kernels.items()]
    assert [op.start for op in calls if op.record.name == "narrow"] == [rows]
    assert "split_like" not in {op.record.name for op in calls}


def test_a_plan_drops_arrays_after_their_last_use(monkeypatch):
    x, cotangent = leaf(4, 7), leaf(4, 7).detach()
    (first,) = flow.autograd.grad(flow.acos(x / 3), x, cotangent)
    y, execute = flow.acos(x / 3), EagerBuilder.execute
    made: list[weakref.ref[Any]] = []
    counts: list[int] = []

    def counted(self, kernel, handles):
        counts.append(sum(reference() is not None for reference in made))
        results: Any = execute(self, kernel, handles)
        made.extend(map(weakref.ref, results))
        return results

    monkeypatch.setattr(EagerBuilder, "execute", counted)
    (again,) = flow.autograd.grad(y, x, cotangent)
    assert len(counts) > 5 and max(counts) == 2
    np.testing.assert_array_equal(again.numpy(), first.numpy())


def test_gradients_of_several_passes_have_separate_memory():
    x = leaf(3, 5)
    kept = []
    for _ in range(3):
        x.grad = None
        (flow.exp(x) + x).sum().backward()
        kept.append(x.grad)
    value = np.exp(x.numpy()) + 1
    kept[-1].add_(100.0)
    np.testing.assert_allclose(kept[0].numpy(), value, rtol=1e-6)
    np.testing.assert_allclose(kept[1].numpy(), value, rtol=1e-6)


def test_a_plan_refuses_values_that_were_updated_in_place(runs):
    x, y = leaf(6, 2), flow.tensor(np.ones((6, 2), np.float32))
    flow.autograd.grad((x * y).sum(), x)
    product = (x * y).sum()
    y.add_(1.0)
    with pytest.raises(RuntimeError, match=r"the gradient of oneflow.broadcast_mul needs .* but add_ has updated it"):
        product.backward()
    assert "broadcast_mul" in runs


def test_recorded_gradients_use_the_rules_of_operators(runs):
    x = leaf(3)
    flow.autograd.grad((x**3).sum(), x)
    runs.clear()
    (first,) = flow.autograd.grad((x**3).sum(), x, create_graph=True)
    assert not runs
    (second,) = flow.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), 6 * x.numpy(), rtol=1e-6)


def test_the_rule_of_a_users_operator_is_called_each_time():
    calls = []

    def gradient(ops, op, dy):
        calls.append(op)
        return {"x": dy * float(len(calls))}

    @flow.operator("plans_twice(x) -> y")
    class Twice:
        """2 x, with a gradient that counts its calls."""

        types = "x"
        decompose = lambda ops, op: op.x * 2.0  # noqa: E731
        grad = gradient

    x = leaf(2)
    values = [flow.autograd.grad(flow.ops.plans_twice(x).sum(), x)[0].tolist() for _ in range(3)]
    assert values == sorted(values) and len({value for value, _ in values}) == 3


def test_gradients_of_results_whose_sizes_depend_on_data():
    x = leaf(4)
    for count in (1, 3, 2):
        mask = flow.tensor(np.arange(4) < count)
        (grad,) = flow.autograd.grad((flow.masked_select(x, mask) ** 2).sum(), x)
        np.testing.assert_allclose(grad.numpy(), np.where(np.arange(4) < count, 2 * x.numpy(), 0), rtol=1e-6)


@pytest.mark.parametrize("order", [(True, False, True), (False, True, False)], ids=["global first", "local first"])
def test_cotangents_of_several_placements_have_separate_plans(runs, order):
    x = leaf(3, len(order) + order[0])
    for is_global in order:
        cotangent = flow.ones(*x.shape)
        if is_global:
            cotangent = cotangent.to_global(flow.placement("cpu", [0]), flow.sbp.broadcast)
        (grad,) = flow.autograd.grad(flow.sinh(x), x, cotangent)
        assert grad.is_global == is_global
        np.testing.assert_allclose(grad.numpy(), np.cosh(x.numpy()), rtol=1e-6)
    assert "sinh" in runs
