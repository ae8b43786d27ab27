"""The fast path of compiled functions on arrays, and calls that need the full checks."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn
from oneflow.frontend.compile.guarded_call import tensor_of
from oneflow.frontend.core.errors import CallError
from oneflow.frontend.eager.tensor import from_program

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def unaligned(array: np.ndarray) -> np.ndarray:
    """A copy of an array at an address that is not aligned."""
    memory = np.zeros(array.nbytes + 1, np.uint8)[1:]
    memory[:] = np.frombuffer(array.tobytes(), np.uint8)
    return memory.view(array.dtype).reshape(array.shape)


def read_only(array: np.ndarray) -> np.ndarray:
    """A read-only copy of an array."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


@pytest.fixture
def double():
    """A compiled function that has been called, so that its next calls are quick."""
    compiled = flow.compile(lambda x: x * 2.0)
    compiled(X)
    return compiled


@pytest.mark.parametrize(
    "make",
    [unaligned, read_only, np.asfortranarray, lambda x: x.astype(">f4"), lambda x: np.stack([x, x])[1]],
    ids=["unaligned", "read-only", "columns", "big-endian", "view"],
)
def test_arrays_that_need_the_full_checks(double, make):
    np.testing.assert_array_equal(double(make(X)), X * 2)


def test_calls_with_arrays_alone_take_the_fast_path(double):
    np.testing.assert_array_equal(double._fast[1]((X,)), X * 2)


class Foreign:
    """An array of another library, in host memory or with the device of an accelerator."""

    def __init__(self, array: np.ndarray, device: int = 1) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        if self.device != 1:
            raise BufferError("not in host memory")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device, 0


def test_arrays_of_other_libraries_take_a_fast_path():
    add = flow.compile(lambda x, y: x * 2.0 + y)
    add(Foreign(X), Foreign(X))
    for given in ((Foreign(X), Foreign(X + 1)), (Foreign(X[:, ::2]), Foreign(X[:, ::2])), (Foreign(X), X), (X, X)):
        want = [np.asarray(x.array if isinstance(x, Foreign) else x) for x in given]
        np.testing.assert_array_equal(add(*given), want[0] * 2 + want[1])
    add(Foreign(X), Foreign(X))
    got = add._fast[1]((Foreign(X), Foreign(X + 1)))
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, X * 3 + 1)
    with pytest.raises(CallError, match="argument x: cannot read Foreign through DLPack: not in host memory"):
        add(Foreign(X, device=8), Foreign(X))


def test_arrays_of_other_libraries_in_tuples_and_updated():
    total = flow.compile(lambda pair: pair[0] + pair[1])
    for shift in range(3):
        np.testing.assert_array_equal(total((Foreign(X), Foreign(X + shift))), X * 2 + shift)
    fixed = flow.compile(lambda x, y=2.0: x * y)
    for _ in range(2):
        np.testing.assert_array_equal(fixed(Foreign(X)), X * 2)
        np.testing.assert_array_equal(fixed(Foreign(X), 3.0), X * 3)


class Step(nn.Graph):
    """A training step."""

    def __init__(self, model, optimizer):
        super().__init__()
        self.model = model
        self.add_optimizer(optimizer)

    def build(self, x):
        loss = self.model(x).sum()
        loss.backward()
        return loss


def model_and_optimizer():
    flow.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))
    return model, flow.optim.AdamW(model.parameters(), lr=1e-3)


def test_recorded_calls_have_the_gradients_of_eager_mode():
    def train(compiled):
        model, optimizer = model_and_optimizer()
        forward, losses = flow.compile(model) if compiled else model, []
        for number in range(4):
            loss = flow.softmax(forward(flow.tensor(X + number)), dim=1)[:, 0].sum()
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=number == 1)
        return losses, [p.detach().numpy() for p in model.parameters()]

    compiled, eager = train(True), train(False)
    np.testing.assert_allclose(compiled[0], eager[0], 1e-5)
    for one, other in zip(compiled[1], eager[1], strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-6)


def test_tensors_of_warm_calls_are_those_of_other_calls():
    """A warm call writes out the constructors of tensors: every slot has the same value."""
    desc = flow.tensor(X).handle.desc
    warm, other = tensor_of(X, desc), from_program(X, desc)
    for one, two in ((warm, other), (warm.handle, other.handle)):
        slots = {name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())} - {"__weakref__"}
        values = [{name: getattr(x, name, "missing") for name in slots - {"handle"}} for x in (one, two)]
        assert values[0] == values[1]
    assert warm.handle.handle is other.handle.handle is X


def test_an_argument_that_shares_memory_with_an_updated_tensor_is_refused():
    memory = np.zeros(8, np.float32)
    total = flow.from_numpy(memory[:4])

    @flow.compile
    def add(x):
        total.add_(x)
        return total * 1.0

    for _ in range(3):
        add(np.ones(4, np.float32))
    np.testing.assert_array_equal(memory, [3, 3, 3, 3, 0, 0, 0, 0])
    with pytest.raises(CallError, match="argument x not to share memory"):
        add(memory[2:6])
    np.testing.assert_array_equal(add(memory[4:]).numpy(), np.full(4, 3))
    with pytest.raises(CallError, match="argument x not to share memory"):
        add(total.detach())


def test_captured_tensors_that_share_memory_are_updated_as_in_eager_mode():
    def run(compiled):
        memory = np.arange(6, dtype=np.float32)
        whole, part = flow.from_numpy(memory), flow.from_numpy(memory[2:4])

        def step(x):
            part.add_(x)
            return whole * 1.0

        step = flow.compile(step) if compiled else step
        return [step(flow.tensor(X[0, :2] + n)).tolist() for n in range(4)], memory.tolist()

    assert run(True) == run(False)


def test_options_of_a_graph_are_guarded():
    model = nn.Linear(4, 2)
    graph = Step(model, flow.optim.SGD(model.parameters(), lr=0.0))
    for mode in (False, True, False):
        graph.config.enable_amp(mode, dtype=flow.bfloat16)
        for _ in range(3):
            graph(flow.tensor(X))
        assert ("bf16" in graph.ir()) == mode


def test_containers_and_their_leaves_are_told_apart():
    """Calls whose leaves are equal, in other containers and with other numbers."""
    compiled = flow.compile(lambda x, scale=1.0: x[0] * scale)
    zero = np.zeros(4, np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(X), X[0])
        np.testing.assert_array_equal(compiled([X]), X)
        np.testing.assert_array_equal(compiled([Foreign(X)]), X)
        np.testing.assert_array_equal(compiled(Foreign(X)), X[0])
        np.testing.assert_array_equal(compiled(x=(X,), scale=3.0), X * 3)
        assert not np.signbit(compiled([zero], 0.0)).any() and np.signbit(compiled([zero], -0.0)).all()
        assert np.isnan(compiled([zero], float("nan"))).all()
    compiled([X])
    assert "tensor<3x4xf32>" in compiled.ir()


def test_tensors_take_a_fast_path_with_views_and_gradients():
    x, leaf = flow.tensor(X), flow.tensor(X, requires_grad=True)
    compiled = flow.compile(lambda x, y: x * y)
    operands: list[Any] = [x, x[1:], leaf, leaf * 2, X]
    for y in operands:
        expected = x[: y.shape[0]].numpy() * (y if y is X else y.detach().numpy())
        for _ in range(2):
            result = compiled(x[: y.shape[0]] if y.shape[0] < 3 else x, y)
            assert isinstance(result, flow.Tensor)
            np.testing.assert_array_equal(result.detach().numpy(), expected)
        assert result.requires_grad == (y is not X and y.requires_grad)
    leaf_result = compiled(x, leaf)
    leaf_result.sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), X)
    assert compiled._fast[1]((x, leaf)).requires_grad
    assert compiled._fast[1]((x, x)) is NotImplemented
    assert compiled._fast[1]((x, X)) is NotImplemented


def test_a_fast_path_reads_updated_roots_of_views():
    """A view whose root has been updated has new elements, which are gathered from the root before the run."""
    root = flow.tensor(X.copy())
    row, double = root[1], flow.compile(lambda x: x * 2.0)
    for shift in range(4):
        np.testing.assert_array_equal(double(row).numpy(), (X[1] + shift) * 2)
        np.testing.assert_array_equal(double(row).numpy(), (X[1] + shift) * 2)
        root.add_(1.0)


def test_a_fast_path_reads_captured_views_of_updated_and_replaced_roots():
    root = flow.tensor(X.copy())
    row = root[1]
    add = flow.compile(lambda x: x + row)
    for shift in range(3):
        np.testing.assert_array_equal(add(X[0]).numpy(), X[0] + X[1] + shift)
        root.add_(1.0)
    for other in (X, X * 2):
        row.data = flow.tensor(other.copy())[2]
        for _ in range(2):
            np.testing.assert_array_equal(add(X[0]).numpy(), X[0] + other[2])


@pytest.mark.parametrize(
    "part", [lambda x: x, lambda x: x[1:], lambda x: x.reshape(4, 3)], ids=["whole", "part", "shape"]
)
def test_a_view_of_an_updated_tensor_is_refused_by_warm_calls(part):
    """The elements of a view are a copy; the check compares the memory of the view's root."""
    state, other = flow.zeros(3, 4), flow.ones(3, 4)
    step = flow.compile(lambda x: (state.add_(1.0), x.sum())[1])
    for _ in range(3):
        step(part(other))
    with pytest.raises(CallError, match="argument x not to share memory"):
        step(part(state))


def test_warm_calls_update_their_arguments():
    """Tensors, arrays, and two arguments in one memory, which are refused."""
    step = flow.compile(lambda x, y: (x.add_(y), y * 2.0)[1])
    for make in (lambda a: flow.tensor(a.copy()), np.copy):
        x, y = make(X), make(np.ones_like(X))
        for count in range(1, 5):
            np.testing.assert_array_equal(np.asarray(step(x, y)), 2 * np.ones_like(X))
            np.testing.assert_array_equal(np.asarray(x), X + count)
        with pytest.raises(CallError, match="not to share memory"):
            step(x, x)
        with pytest.raises(CallError, match="writable"):
            step(read_only(X), np.ones_like(X))


def test_a_warm_update_of_an_argument_is_a_new_version():
    """A gradient that needs the old elements of the argument is refused."""
    step = flow.compile(lambda x: (x.mul_(2.0), x.sum())[1])
    leaf, x = flow.ones(3, 4, requires_grad=True), flow.tensor(X.copy())
    with flow.no_grad():
        for _ in range(3):
            step(x)
    product = leaf * x
    with flow.no_grad():
        step(x)
    with pytest.raises(RuntimeError, match="updated it in place"):
        product.sum().backward()


def test_a_recorded_warm_call_keeps_the_values_of_its_run():
    """The gradient of a call reads the running statistics, and the parameters, that the call had."""
    norm = nn.BatchNorm1d(4)
    forward = flow.compile(norm)
    rows = [np.random.default_rng(n).standard_normal((6, 4)).astype(np.float32) for n in range(4)]
    for row in rows:
        forward(flow.tensor(row))
    x = flow.tensor(rows[0], requires_grad=True)
    y = forward(x)
    weight = norm.weight.detach().numpy().copy()
    (y * flow.tensor(rows[1])).sum().backward()
    got = x.grad.numpy()
    eager, own = nn.BatchNorm1d(4), flow.tensor(rows[0], requires_grad=True)
    (eager(own) * flow.tensor(rows[1])).sum().backward()
    np.testing.assert_allclose(got, own.grad.numpy(), 1e-4, 1e-5)
    np.testing.assert_allclose(norm.weight.grad.numpy(), eager.weight.grad.numpy(), 1e-4, 1e-5)
    assert (weight == norm.weight.detach().numpy()).all()
    y = forward(flow.tensor(rows[2]))
    with flow.no_grad():
        norm.weight.mul_(2.0)
    with pytest.raises(RuntimeError, match="updated it in place"):
        y.sum().backward()


def test_lists_are_not_converted_to_arrays(double):
    with pytest.raises(CallError, match="x"):
        double(X.tolist)


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (0, 4), (12,), ()])
def test_other_sizes_and_types_get_other_specializations(double, shape):
    for dtype in (np.float32, np.float64):
        x = np.ones(shape, dtype)
        got = double(x)
        assert (got.shape, got.dtype) == (shape, x.dtype)
        np.testing.assert_array_equal(got, x * 2)
        np.testing.assert_array_equal(double(X), X * 2)


def test_ir_is_that_of_the_latest_call(double):
    double(np.ones(5, np.float32))
    assert "tensor<5xf32>" in double.ir()
    double(X)
    assert "tensor<3x4xf32>" in double.ir()
    double(X)
    assert "tensor<3x4xf32>" in double.ir()


def test_results_keep_their_structure_and_other_values():
    compiled = flow.compile(lambda x, y: {"sum": x + y, "rest": [x - y, "text"]})
    for _ in range(3):
        got = compiled(X, X)
        np.testing.assert_array_equal(got["sum"], X + X)
        np.testing.assert_array_equal(got["rest"][0], X - X)
        assert got["rest"][1] == "text"
    assert compiled._fast[1]((X, X)) is not NotImplemented


def test_numbers_among_the_arguments_choose_the_program():
    compiled = flow.compile(lambda x, k=2.0: x * k)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(X), X * 2)
        np.testing.assert_array_equal(compiled(X, 3.0), X * 3)
        np.testing.assert_array_equal(compiled(X, k=5.0), X * 5)


def test_defaults_that_calls_do_not_pass_need_no_guards():
    compiled = flow.compile(lambda x, k=2.0, name="k": x * k)
    compiled(X)
    guarded = flow.compile(lambda x, y=X: x + y)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(X), X * 2)
        np.testing.assert_array_equal(guarded(X), X * 2)
    assert "unguarded" in compiled._fast[1].__qualname__
    assert compiled._fast[1]((X, 2.0)) is NotImplemented


def test_calls_within_a_trace_are_inlined(double):
    outer = flow.compile(lambda x: double(x) + double(X))
    for _ in range(2):
        np.testing.assert_array_equal(outer(X), X * 4)


def test_captured_tensors_and_state_are_guarded():
    weight = flow.tensor(np.ones(4, np.float32))
    compiled = flow.compile(lambda x: x * weight)
    np.testing.assert_array_equal(np.asarray(compiled(X)), X)
    weight.copy_(flow.tensor(np.full(4, 3, np.float32)))
    np.testing.assert_array_equal(np.asarray(compiled(X)), X * 3)


def test_failing_checks_name_the_position_and_leave_no_memory():
    take = flow.compile(lambda x, i: flow.gather(x, 0, i))
    good, bad = np.zeros((1, 4), np.int64), np.full((1, 4), 7)
    for _ in range(3):
        np.testing.assert_array_equal(take(X, good), X[:1])
        with pytest.raises(IndexError, match="7"):
            take(X, bad)


def test_results_own_their_memory(double):
    first = double(X)
    view = first[1:]
    del first
    gc.collect()
    second = double(X + 1)
    np.testing.assert_array_equal(view, X[1:] * 2)
    view[:] = 0
    np.testing.assert_array_equal(second, (X + 1) * 2)


def test_memory_is_freed_with_the_last_array(double):
    addresses = {double(X).ctypes.data for _ in range(50)}
    assert len(addresses) < 5


def test_threads_share_a_program(double):
    wrong: list[Any] = []

    def work(number: int) -> None:
        x = X + number
        wrong.extend(number for _ in range(200) if not np.array_equal(double(x), x * 2))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_program_of_dynamic_sizes_keeps_a_limited_number_of_signatures(monkeypatch):
    monkeypatch.setattr("oneflow.frontend.compile.compiled._MAX_SIGNATURES", 3)
    weight = flow.tensor(np.arange(2, dtype=np.float32))
    rows = flow.compile(lambda x: x * weight, flow.TensorSpec((None, 2)))
    for count in (1, 2, 3, 4, 5, 1, 4, 2):
        x = np.full((count, 2), count, np.float32)
        np.testing.assert_array_equal(rows(x).numpy(), x * weight.numpy())
        assert len(rows._by_signature) <= 3
    with pytest.raises(CallError, match="of type tensor"):
        rows(np.ones((2, 3), np.float32))
