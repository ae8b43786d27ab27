"""The fast path of steps that capture tensors, on a device and on the host: changes between calls take effect.

The same steps on the host, without compiling, give the expected values.
"""

import threading
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.frontend.core.errors import CallError
from oneflow.runtime.cuda.array import CudaArray
from oneflow.testing.host_cuda import host_cuda


@pytest.fixture(autouse=True)
def cuda(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    with host_cuda() as made:
        yield made


def floats(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def on_device(array):
    return flow.tensor(array).to("cuda")


class Training:
    """A model and its steps; `slow_calls` counts calls that did not take the fast path."""

    def __init__(self, compiled, algorithm=flow.optim.SGD, device="cuda", **numbers):
        flow.manual_seed(3)
        self.device = device if compiled else "cpu"
        layers = flow.nn.Linear(4, 6, bias=False), flow.nn.BatchNorm1d(6), flow.nn.Linear(6, 3)
        self.net = flow.nn.Sequential(*layers).to(self.device)
        self.optimizer = algorithm(self.net.parameters(), lr=0.1, **numbers)
        self.slow_calls = 0
        compiled_step: Any = flow.compile(lambda x, y: self.train_step(x, y))
        self.step = compiled_step if compiled else self.train_step
        if compiled:
            run = compiled_step._run
            compiled_step._run = lambda *given: self.counted(run, *given)

    def counted(self, finish, *given):
        self.slow_calls += 1
        return finish(*given)

    def train_step(self, x, y):
        loss = flow.nn.functional.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def on_device(self, array):
        return flow.tensor(array).to(self.device)

    def run(self, *seeds):
        """The losses of steps, each with separate data."""
        labels = self.on_device(np.arange(5) % 3)
        return [self.step(self.on_device(floats(5, 4, seed=seed)), labels).item() for seed in seeds]

    @property
    def state(self):
        return [t.detach().cpu().numpy() for t in (*self.net.parameters(), *self.net.buffers())]


def equal(train_step, other):
    np.testing.assert_allclose(train_step[0], other[0], 1e-4)
    for a, b in zip(train_step[1], other[1], strict=True):
        np.testing.assert_allclose(a, b, 1e-3, 1e-5)


def set_rate(training):
    training.optimizer.param_groups[0]["lr"] = 0.01


def set_decay(training):
    training.optimizer.param_groups[0]["weight_decay"] = 0.5


def evaluate(training):
    training.net.eval()


def freeze(training):
    training.net[0].weight.requires_grad_(False)


def replace_parameter(training):
    training.net[2].bias = flow.nn.Parameter(training.on_device(floats(3)))


def replace_data(training):
    training.net[2].weight.data = training.on_device(floats(3, 6))


def replace_layer(training):
    training.net[1] = flow.nn.Identity()


def write_parameter(training):
    with flow.no_grad():
        training.net[2].weight.copy_(training.on_device(floats(3, 6)))


def hang_hook(training):
    training.net[0].register_forward_hook(lambda module, args, result: result * 0.5)


def hang_tensor_hook(training):
    training.net[0].weight.register_hook(lambda grad: grad * 0.5)


def leave_gradient(training):
    training.net[0].weight.grad = training.on_device(floats(6, 4))


def load_state(training):
    training.net.load_state_dict({k: v.cpu().numpy() * 0.5 for k, v in training.net.state_dict().items()})


def load_optimizer(training):
    state = training.optimizer.state_dict()
    halved = {n: {k: v * 0.5 for k, v in kept.items() if v.ndim} for n, kept in state["state"].items()}
    training.optimizer.load_state_dict({**state, "state": halved})


def share_memory(training):
    training.net[1].bias.data = training.net[1].weight.detach()


CHANGES = [
    set_rate, set_decay, evaluate, freeze, replace_parameter, replace_data, replace_layer, write_parameter, hang_hook,
    hang_tensor_hook, leave_gradient, load_state, load_optimizer, share_memory,
]  # fmt: skip


def changed(compiled, change, device):
    training = Training(compiled, device=device, momentum=0.9)
    losses = training.run(0, 1)
    assert training.slow_calls == (1 if compiled else 0)
    change(training)
    return losses + training.run(2, 3), training.state


both_devices = pytest.mark.parametrize("device", ["cuda", "cpu"])


@both_devices
@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_changes_between_steps_take_effect(change, device):
    equal(changed(True, change, device), changed(False, change, device))


@both_devices
def test_learning_rates_are_read_at_every_step(device):
    def run(compiled):
        training, losses = Training(compiled, flow.optim.Adam, device), []
        for number in range(4):
            training.optimizer.param_groups[0]["lr"] = 0.1 / (number + 1)
            losses += training.run(number)
        assert training.slow_calls == (1 if compiled else 0)
        return losses, training.state

    equal(run(True), run(False))


@pytest.fixture
def training():
    made = Training(True)
    made.run(0, 1, 2)
    assert made.slow_calls == 1
    return made


def test_other_arguments_get_other_specializations(training):
    other = Training(False)
    other.run(0, 1, 2)
    for each in (training, other):
        labels = each.on_device(np.arange(5) % 3)
        each.step(each.on_device(floats(5, 4)), labels.to(flow.int32))
        each.run(3)
        each.step(each.on_device(floats(7, 4)), each.on_device(np.arange(7) % 3))
        each.step(x=each.on_device(floats(5, 4)), y=labels)
        each.run(4)
    equal(([], training.state), ([], other.state))
    with pytest.raises(CallError, match="missing a required argument"):
        training.step(on_device(floats(5, 4)))


def test_views_are_refreshed(training):
    other = Training(False)
    other.run(0, 1, 2)
    for each in (training, other):
        whole = each.on_device(floats(5, 8))
        part, labels = whole[:, ::2], each.on_device(np.arange(5) % 3)
        for _ in range(2):
            whole.add_(0.5)
            each.step(part, labels)
    equal(([], training.state), ([], other.state))


def test_gradients_of_arguments_are_recorded(training):
    fixed = flow.compile(lambda x: flow.softmax(x @ training.net[0].weight.detach()) * 2.0)
    x = on_device(floats(5, 6))
    for _ in range(3):
        fixed(x)
    for leaf in (x.clone().requires_grad_(), (on_device(floats(5, 6)).requires_grad_() * 1.0)):
        assert fixed(leaf).requires_grad
    assert not fixed(x).requires_grad


@both_devices
def test_calls_are_recorded_where_captured_tensors_require_grad(device):
    weight = flow.tensor(floats(4, 4)).to(device).requires_grad_()
    double = flow.compile(lambda x: flow.softmax(x @ weight) * 2.0)
    x = flow.tensor(floats(5, 4)).to(device)
    for _ in range(2):
        assert all(double(x).requires_grad for _ in range(3))
        with flow.no_grad():
            assert not any(double(x).requires_grad for _ in range(3))


def test_arguments_must_not_alias_updated_tensors(training):
    weight = flow.tensor(floats(5, 4)).to("cuda")

    @flow.compile
    def grow(x):
        weight.add_(x)
        return flow.softmax(flow.softmax(flow.softmax(x @ x.transpose(0, 1)) @ x) @ x.transpose(0, 1))

    for seed in range(3):
        grow(on_device(floats(5, 4, seed=seed)))
    with pytest.raises(CallError, match="not to share memory with captured tensors"):
        grow(weight.detach())
    with pytest.raises(CallError, match="not to share memory with captured tensors"):
        grow(flow.from_numpy(_Alias(weight.storage)))
    grow(weight.clone())


class _Alias:
    """An array of another library in the memory of an array."""

    def __init__(self, array):
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def test_a_model_that_moves_to_the_host_runs_there(training, cuda):
    training.net.to("cpu")
    x, y = flow.tensor(floats(5, 4)), flow.tensor(np.arange(5) % 3)
    assert training.step(x, y).device == "cpu"


def test_a_captured_tensor_becomes_global():
    weight = on_device(floats(4, 4))
    soft = flow.compile(lambda x: flow.softmax(x @ weight))
    for _ in range(3):
        soft(on_device(floats(5, 4)))
    whole = flow.tensor(floats(4, 4))
    weight.data = whole.to_global(placement=flow.placement("cpu", ranks=[0]), sbp=flow.sbp.broadcast)
    assert soft(on_device(floats(5, 4))).is_global


@both_devices
def test_every_alias_is_guarded(device):
    first = flow.tensor(floats(4, 4)).to(device)
    second = first.detach()
    soft = flow.compile(lambda x: flow.softmax(flow.softmax(flow.softmax(x @ first) @ second) @ first))
    x = flow.tensor(floats(5, 4)).to(device)
    for change in (second, first):
        before = [soft(x).cpu().numpy() for _ in range(3)]
        change.data = flow.tensor(floats(4, 4, seed=9)).to(device)
        expected = flow.softmax(flow.softmax(flow.softmax(x @ first) @ second) @ first).cpu().numpy()
        np.testing.assert_allclose(soft(x).cpu().numpy(), expected, 1e-5)
        assert not np.allclose(before[-1], expected)


def test_calls_without_the_fast_path_draw_one_seed():
    weight = on_device(floats(4, 4))
    dropped = flow.compile(lambda x: flow.nn.functional.dropout(flow.softmax(x @ weight)))
    for _ in range(3):
        dropped(on_device(floats(5, 4)))
    whole = flow.tensor(floats(4, 4))
    weight.data = whole.to_global(placement=flow.placement("cpu", ranks=[0]), sbp=flow.sbp.broadcast)
    seed, draws = flow.get_rng_state()
    dropped(on_device(floats(5, 4)))
    assert flow.get_rng_state() == (seed, draws + 1)


def test_memory_of_a_moved_model_is_freed(training, cuda):
    before = len(cuda.live)
    training.net.to("cpu")
    assert len(cuda.live) <= before - 6


def test_steps_without_results_run_once():
    total = on_device(np.zeros(4, np.float32))

    @flow.compile
    def step(x):
        total.add_(x)

    for _ in range(5):
        assert step(on_device(np.ones(4, np.float32))) is None
    np.testing.assert_array_equal(total.cpu().numpy(), np.full(4, 5))


def test_arrays_in_arrays_out():
    weight = flow.compile(lambda a, b: (a @ b, {"sum": a + b}))
    a, b = (on_device(floats(4, 4, seed=n)).storage for n in (1, 2))
    for _ in range(3):
        product, rest = weight(a, b)
        assert isinstance(product, CudaArray)
        np.testing.assert_allclose(product.numpy(), floats(4, 4, seed=1) @ floats(4, 4, seed=2), 1e-5)
        np.testing.assert_allclose(rest["sum"].numpy(), floats(4, 4, seed=1) + floats(4, 4, seed=2), 1e-6)
    for _ in range(3):
        assert isinstance(weight(flow.from_numpy(a), flow.from_numpy(b))[0], flow.Tensor)
    assert isinstance(weight(a, b)[0], CudaArray)


def test_device_calls_within_a_trace_are_inlined():
    double = flow.compile(lambda x: x * 2.0)
    x = on_device(floats(4, 4))
    for _ in range(3):
        double(x)
    outer = flow.compile(lambda x: double(x) + double(x))
    np.testing.assert_allclose(outer(x).cpu().numpy(), floats(4, 4) * 4)


def test_concurrent_device_calls_of_threads(training):
    scale = on_device(floats(4, 4))
    chain = flow.compile(lambda x: flow.softmax(flow.softmax(flow.softmax(x @ scale) @ scale) @ scale))
    given = [on_device(floats(4, 4, seed=seed)) for seed in range(3)]
    wanted = [chain(x).cpu().numpy() for x in given]
    wrong: list[Any] = []

    def work(number):
        got = [chain(given[number]).cpu().numpy() for _ in range(5)]
        wrong.extend(number for g in got if not np.allclose(g, wanted[number], 1e-4))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
