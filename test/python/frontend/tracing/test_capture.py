"""Captures: tensors that compiled functions take from outside and that change between calls, as in eager mode."""

from typing import Any

import numpy as np
import pytest
from call_counts import recorded

import oneflow as flow
from oneflow import nn
from oneflow.frontend.core.dispatch import current_builder

X = np.array([[1.0, 2.0]], np.float32)


def leaf(*values):
    return flow.tensor(np.array(values, np.float32), requires_grad=True)


def trained(model, compiled):
    optimizer = flow.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    return flow.compile(step) if compiled else step


class Step(nn.Graph):
    """The step above as a graph."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.add_optimizer(flow.optim.SGD(model.parameters(), lr=0.1))

    def build(self, x):
        loss = self.model(x).square().sum()
        loss.backward()
        return loss


FORMS = {"eager": lambda m: trained(m, False), "compiled": lambda m: trained(m, True), "graph": Step}


def test_parameters_are_frozen_and_trained_again():
    def history(form):
        flow.manual_seed(3)
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        step, seen = FORMS[form](model), list[Any]()
        for frozen in (True, False, True, False):
            model[0].weight.requires_grad_(not frozen)
            model[1].bias.requires_grad_(frozen)
            seen += [step(flow.tensor(X)).item() for _ in range(2)]
            for p in model.parameters():
                seen += p.detach().numpy().ravel().tolist()
        return seen

    expected = history("eager")
    for form in ("compiled", "graph"):
        np.testing.assert_allclose(history(form), expected, 1e-5)


def test_specializations_for_freed_tensors_are_dropped():
    w = leaf(1.0, 2.0)
    step = flow.compile(lambda x: (x * w).sum())
    for kind in (np.float32, np.float64) * 5:
        w.data = flow.tensor(np.array([1.0, 2.0], kind))
        assert step(X.astype(kind)).item() == (X * [1, 2]).sum()
    assert "2 programs>" in repr(step)


def test_frozen_and_unfrozen_tensors_have_two_programs():
    w, v, traces = leaf(1.0, 2.0), leaf(1.0, 1.0), []

    @flow.compile
    def step(x):
        traces.append(w.requires_grad)
        (x * w * v).sum().backward()

    for turn in range(6):
        w.requires_grad_(turn % 2 == 0)
        step(np.array([3.0, 4.0], np.float32))
        assert w.grad.tolist() == [3.0 * (turn // 2 + 1), 4.0 * (turn // 2 + 1)]
        assert v.grad.tolist() == [3.0 * (turn + 1), 8.0 * (turn + 1)]
    assert traces == [True, False, True]


F32 = np.float32
CHANGES = {
    "type": (np.array([1, 2], F32), np.array([3, 4], F32), np.array([[5.0], [6.0]]), np.array([[1.0], [2.0]])),
    "tied": (np.array([1, 2], F32), np.array([3, 4], F32), *[np.array([5, 6], F32)] * 2),
    "untied": (*[np.array([1, 2], F32)] * 2, np.array([3, 4], F32), np.array([5, 6], F32)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_captured_tensors_change_type_and_memory(change):
    arrays = [np.copy(a) for a in CHANGES[change]]
    arrays[1] = arrays[0] if change == "untied" else arrays[1]
    arrays[3] = arrays[2] if change == "tied" else arrays[3]
    tensors = [flow.tensor(a) for a in arrays]
    tensors = [tensors[0] if arrays[n] is arrays[0] else t for n, t in enumerate(tensors)]
    a, b = flow.tensor(0), flow.tensor(0)

    @flow.compile
    def f(x):
        a.add_(1)
        return x.sum() * a + b

    for first in (0, 2):
        a.data, b.data = (tensors[first], tensors[first + 1]) if change != "tied" or not first else [tensors[2]] * 2
        for _ in range(2):
            arrays[first] += 1
            expected = X.sum() * arrays[first] + arrays[first + 1]
            got = f(X)
            assert got.dtype.numpy == expected.dtype
            np.testing.assert_allclose(got.numpy(), expected, 1e-6)


def test_a_module_is_converted():
    model = nn.Linear(2, 2)
    f = flow.compile(lambda x: model(x.to(model.weight.dtype)))
    first = f(X)
    model.to(flow.float64)
    again = f(X)
    assert again.dtype == flow.float64
    np.testing.assert_allclose(again.detach().numpy(), first.detach().numpy(), 1e-6)
    model.to(flow.float32)
    np.testing.assert_allclose(f(X).detach().numpy(), first.detach().numpy(), 1e-6)


@pytest.mark.parametrize("order", ["alias first", "leaf first", "updated"])
def test_each_leaf_in_shared_memory_has_its_gradient(order):
    def found(compiled):
        w = leaf(2.0, 3.0)
        other, d, total = nn.Parameter(w.detach()), w.detach(), flow.tensor(0.0)

        def run(x):
            parts = [(d * d).sum(), (w * x).sum(), (other * other * x).sum()]
            if order == "updated":
                with flow.no_grad():
                    total.add_(d.sum())
                parts.append((w * total).sum())
            loss = sum(parts if order != "leaf first" else parts[::-1])
            loss.backward()
            return loss

        loss = (flow.compile(run) if compiled else run)(flow.tensor(X[0]))
        return [t.detach().numpy() for t in (loss, w.grad, other.grad, total)]

    for got, expected in zip(found(True), found(False), strict=True):
        np.testing.assert_allclose(got, expected, 1e-6)


def test_a_leaf_updated_through_its_alias_has_its_gradient():
    w = leaf(2.0, 3.0)
    d = w.detach()

    @flow.compile
    def run(x):
        first = (w * w).sum()
        with flow.no_grad():
            d.mul_(2)
        loss = first + (w * w * x).sum() + d.sum()
        loss.backward()
        return loss

    assert run(X[0]).item() == 13 + (16 + 72) + 10
    np.testing.assert_array_equal(w.grad.numpy(), [4 + 8, 6 + 24])
    np.testing.assert_array_equal(w.detach().numpy(), [4, 6])


def test_gradients_are_accumulated_and_cleared():
    def history(compiled):
        w, seen = leaf(1.0, 2.0), []

        def accumulate(x):
            loss = (w * w * x).sum()
            loss.backward()
            return loss

        f = flow.compile(accumulate) if compiled else accumulate
        for _ in range(3):
            for _ in range(3):
                f(flow.tensor(X[0]))
                seen.append(w.grad.numpy().copy())
            w.grad = None
        return seen

    np.testing.assert_allclose(history(True), history(False), 1e-6)


def test_comparisons_with_none():
    t: Any = flow.ones(2)
    assert (t == None) is False and (t != None) is True  # noqa: E711
    assert None not in [t] and [t].count(None) == 0
    assert flow.compile(lambda x: x + 1 if x != None else x)(X).tolist() == (X + 1).tolist()  # noqa: E711
    with pytest.raises(TypeError, match="'<' not supported"):
        t < None  # noqa: B015


def test_captured_tensors_are_returned_with_their_final_values():
    w, p = flow.tensor([1.0, 2.0]), nn.Parameter(flow.tensor([3.0, 4.0]))
    returns = {
        "itself": (lambda x: w, lambda w, p: w),
        "parameter": (lambda x: (p, x + 1), lambda w, p: p),
        "updated": (lambda x: w.add_(x[0]), lambda w, p: w + X[0]),
        "twice": (lambda x: [w.mul_(2), w, {"again": w}], lambda w, p: w * 2),
    }
    got: Any = None
    for f, expected in returns.values():
        compiled = flow.compile(f)
        for _ in range(3):
            want = expected(w.numpy().copy(), p.detach().numpy().copy())
            got = compiled(X)
            first = got[0] if isinstance(got, (tuple, list)) else got
            np.testing.assert_array_equal(first.detach().numpy(), want)
    np.testing.assert_array_equal(got[1].numpy(), w.numpy())
    np.testing.assert_array_equal(got[2]["again"].numpy(), w.numpy())
    first = np.array(got[0].numpy())
    w.zero_()
    np.testing.assert_array_equal(got[0].numpy(), first)
    assert "dense<[3.000000e+00, 4.000000e+00]>" in str(flow.trace(lambda x: p, flow.TensorSpec((1, 2))))


def test_tensors_of_another_trace_are_not_returned():
    kept: list[Any] = []
    flow.compile(recorded(lambda x: x + 1, kept, lambda x: x))(X)
    with pytest.raises(flow.TraceError, match="another trace"):
        flow.compile(lambda x: (kept[0], x + 1))(X)


class Scaled(nn.Module):
    """Settings of the class and of the instance, a parameter, a buffer and modules in a list."""

    scale = 1.0

    def __init__(self):
        super().__init__()
        self.shift, self.calls = 2.0, 0
        self.weight = nn.Parameter(flow.tensor([1.0, 2.0]))
        self.register_buffer("mean", flow.tensor([0.5, 0.5]))
        self.rest = nn.ModuleList([nn.Linear(2, 2)])

    def forward(self, x):
        self.calls += 1
        for layer in self.rest:
            x = layer(x)
        return x * self.weight * self.scale + self.shift - self.mean


CHANGES_OF_MODULES = {
    "class's default": lambda m: setattr(m, "scale", 5.0),
    "own setting": lambda m: setattr(m, "shift", 7.0),
    "parameter": lambda m: setattr(m, "weight", nn.Parameter(flow.tensor([3.0, 4.0]))),
    "buffer": lambda m: setattr(m, "mean", flow.tensor([9.0, 9.0])),
    "appended": lambda m: m.rest.append(nn.Linear(2, 2)),
    "part of a part": lambda m: setattr(m.rest[0], "bias", None),
    "module": lambda m: setattr(m, "rest", nn.ModuleList([nn.Linear(2, 2)])),
}


@pytest.mark.parametrize("change", CHANGES_OF_MODULES)
def test_changed_modules_are_traced_again(change):
    model = Scaled()
    forms = [flow.compile(lambda x: model(x)), flow.compile(model), flow.compile(model.forward)]
    for f in forms:
        f(X), f(X)
        CHANGES_OF_MODULES[change](model)
        np.testing.assert_allclose(f(X).detach().numpy(), model(flow.tensor(X)).detach().numpy(), 1e-6)
        traces = model.calls
        f(X)
        assert model.calls == traces


def test_a_parameter_that_is_used_without_its_module_may_be_replaced():
    model = nn.Linear(2, 2, bias=False)
    f = flow.compile(lambda x: x @ model.weight)
    f(X)
    model.weight = nn.Parameter(flow.ones(2, 2))
    np.testing.assert_array_equal(f(X).detach().numpy(), [[3, 3]])


def test_changed_class_attributes_are_traced_again():
    class Plain:
        factor = 2.0

        @flow.compile
        def times(self, x):
            return x * self.factor

    plain = Plain()
    assert plain.times(X).tolist() == (X * 2).tolist()
    plain.factor = 3.0
    assert plain.times(X).tolist() == (X * 3).tolist()
    del plain.factor
    Plain.factor = 4.0
    assert plain.times(X).tolist() == (X * 4).tolist()


def test_updates_of_computed_tensors_leave_arguments_unchanged():
    def local(x):
        y = x * 2
        y += 1
        y *= x
        return y

    x = flow.tensor(X)
    np.testing.assert_array_equal(flow.compile(local)(x).numpy(), (X * 2 + 1) * X)
    np.testing.assert_array_equal(x.numpy(), X)


def test_arguments_must_not_alias_updated_tensors():
    a = flow.tensor([1.0, 1.0])

    @flow.compile
    def run(x):
        y = x + 1
        a.zero_()
        return y + x

    for given in (a, a.detach()):
        with pytest.raises(flow.CallError, match=r"run: expected argument x not to share memory .* pass x.clone()"):
            run(given)
        np.testing.assert_array_equal(a.numpy(), [1, 1])
    np.testing.assert_array_equal(run(a.clone()).numpy(), [3, 3])
    np.testing.assert_array_equal(a.numpy(), [0, 0])
    only_read = flow.compile(lambda x: x * a)
    a.fill_(3.0)
    np.testing.assert_array_equal(only_read(a).numpy(), [9, 9])


def test_accumulation_is_traced_once_for_each_state():
    """The presence of a gradient selects the program; the identity of the tensor does not."""

    def trained(wrap):
        flow.manual_seed(2)
        model, traces = nn.Linear(2, 1), []
        optimizer = flow.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def accumulate(x):
            traces.append("backward")
            loss = model(x).square().sum()
            loss.backward()
            return loss

        def update():
            traces.append("step")
            norm = model.weight.grad.norm()
            optimizer.step()
            optimizer.zero_grad()
            return norm

        run, finish, seen = wrap(accumulate), wrap(update), []
        for number in range(4):
            seen += [run(flow.tensor(X * (number + i + 1) / 9)).item() for i in range(3)]
            seen.append(finish().item())
            assert model.weight.grad is None
        model.weight.grad = flow.ones(1, 2)
        given = model.weight.grad
        seen += [run(flow.tensor(X)).item(), *given.numpy().ravel().tolist()]
        return seen, traces

    expected, _ = trained(lambda f: f)
    got, traces = trained(flow.compile)
    np.testing.assert_allclose(got, expected, 1e-5)
    assert traces == ["backward", "backward", "step", "backward"]


def test_gradients_that_are_set_first_are_set_at_every_run():
    v, w = leaf(1.0, 2.0), leaf(3.0, 4.0)

    def cleared(x):
        w.grad = None
        return x * 2

    def passed_on(x):
        w.grad = v.grad
        return x * 2

    cleared, passed_on = flow.compile(cleared), flow.compile(passed_on)
    for factor in (1.0, 2.0):
        cleared(X)
        assert w.grad is None
        v.grad = None
        (v * w * factor).sum().backward()
        passed_on(X)
        assert w.grad is v.grad and w.grad.tolist() == [3 * factor, 4 * factor]


def test_a_captured_scalar_that_is_updated_in_place_is_read_again():
    p = flow.nn.Parameter(flow.tensor([1.0, 2.0]))
    optimizer = flow.optim.SGD([p], lr=0.5)
    rate = optimizer.param_groups[0]["lr"] = np.array(0.5)

    @flow.compile
    def step(x):
        (p * x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    x = flow.tensor([1.0, 1.0])
    for number in (0.5, 0.25, 0.125):
        rate[()] = number
        step(x)
    optimizer.param_groups[0]["lr"] = 1.0
    step(x)
    np.testing.assert_allclose(p.detach().numpy(), np.array([1.0, 2.0]) - 1.875)


def test_a_leaf_that_is_computed_twice_has_its_value_again():
    weight = leaf(1)

    @flow.compile
    def values():
        builder: Any = current_builder()
        twice = [(weight, weight * 2), (weight, weight * 3)]
        with builder.captures.computed(twice):
            inside = weight + 0
        return inside, weight + 0

    assert [v.tolist() for v in values()] == [[3], [1]]
